"""The paper's Tables 1 and 2 from the records: ours beside the paper's, in Markdown and in LaTeX."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from anchorwalk.benchmark.paper import BUDGETS, FIGURES, Figure
from anchorwalk.benchmark.tasks import TASKS, Variant

SCORES = {"agreement": "Agreement", "total_variation": "Total variation", "w1": "W1", "w2": "W2"}
"""Scores of the tables, by their names in records."""
TITLES = {
    "ae": "AE",
    "sae": "SAE",
    "planned": "planned",
    "map": "MAP",
    "deep_ensemble": "deep ensemble",
    "snapshot": "snapshot ensemble",
    "fge": "fast geometric ensemble",
    "swa": "SWA",
    "swag": "SWAG",
    "swalp": "SWALP",
    "spro": "SPRO",
    "sgld": "SGLD",
    "sghmc": "SGHMC",
    "csghmc": "cyclical SGHMC",
    "mclmc": "MCLMC",
    "ivon": "IVON",
    "laplace": "Laplace",
    "hmc": "HMC",
    "sae_simplex": "SAE, simplexes",
    "sae_low_precision": "SAE, low precision",
}
"""Methods as pages and figures call them, by their names in records."""
HIGHER_IS_BETTER = {"agreement"}
NOT_COMPARABLE = (
    "UCI-Gap is not comparable with the paper's figures: the reference posterior is our own, and the paper does not "
    "say which gap it used. The paper calls its distance W2; the script that made it computes W1."
)


@dataclass(frozen=True)
class Row:
    """A task, or a variant of it.

    Attributes:
        task: Its name.
        variant: What was chosen.
        title: As in the paper, with what was chosen.
    """

    task: str
    variant: Variant
    title: str


@dataclass(frozen=True)
class Cell:
    """Runs of one method on one row at one budget, of one score."""

    values: tuple[float, ...]

    @property
    def figure(self) -> Figure:
        """Median, and how far maximum and minimum are from it."""
        median = statistics.median(self.values)
        return Figure(median, max(self.values) - median, median - min(self.values))


def rows_of(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Every task in the paper's order, with each variant that has a record."""
    rows = []
    for task in TASKS.values():
        seen = [Variant(**record["variant"]) for record in records if record["task"] == task.name]
        variants = sorted(set(seen), key=lambda variant: sorted(variant.chosen.items())) or [Variant()]
        for variant in variants:
            chosen = ", ".join(variant.words)
            rows.append(Row(task.name, variant, f"{task.title} ({chosen})" if chosen else task.title))
    return rows


class Table:
    """Cells by row, method, budget and score, for one protocol."""

    def __init__(self, records: Sequence[dict[str, Any]], protocol: str = "argmin") -> None:
        self.records = [record for record in records if record["protocol"] == protocol]
        self.protocol = protocol
        self.rows = rows_of(self.records)
        self._runs: dict[tuple[str, Variant, str, int], list[dict[str, Any]]] = {}
        self.floors: dict[tuple[str, Variant, str], float] = {}
        for record in self.records:
            variant = Variant(**record["variant"])
            self._runs.setdefault((record["task"], variant, record["method"], record["budget"]), []).append(record)
            for score, value in ((record["reference"] or {}).get("floor") or {}).items():
                self.floors[record["task"], variant, score] = value

    def cell(self, row: Row, method: str, budget: int, score: str) -> Cell | None:
        """The runs of a cell; None where there are none."""
        values = self.values(row.task, method, budget, score, row.variant)
        return Cell(values) if values else None

    def values(
        self, task: str, method: str, budget: int, score: str, variant: Variant | None = None
    ) -> tuple[float, ...]:
        """A score of every run of a cell, in the order of the runs; none where there are none."""
        runs = self.runs(task, method, budget, variant)
        return tuple(run["scores"][score] for run in runs if score in run["scores"])

    def runs(self, task: str, method: str, budget: int, variant: Variant | None = None) -> Sequence[dict[str, Any]]:
        """The records of a cell, in the order of the runs."""
        return self._runs.get((task, variant or Variant(), method, budget), ())

    def methods(self, row: Row) -> list[str]:
        """AE and SAE, and what else has runs on this row."""
        others = {method for task, variant, method, _ in self._runs if (task, variant) == (row.task, row.variant)}
        return ["ae", "sae", *sorted(others - {"ae", "sae"})]

    @property
    def first_methods(self) -> tuple[str, ...]:
        """The methods of Table 1: the paper's, and the planned ensemble where it has runs."""
        planned = any(record["method"] == "planned" for record in self.records)
        return ("ae", "sae", "planned") if planned else ("ae", "sae")

    def better(self, row: Row, budget: int, score: str) -> str | None:
        """Which of AE and SAE has the better median of ours; None where one of them is missing or they are equal."""
        cells = {method: self.cell(row, method, budget, score) for method in ("ae", "sae")}
        medians = {method: cell.figure.median for method, cell in cells.items() if cell is not None}
        return _better(medians, score)

    def scores(self, row: Row) -> tuple[str, ...]:
        """The scores of a row: the paper's, and W2 beside W1."""
        scores = TASKS[row.task].scores
        return (*scores, "w2") if "w1" in scores else scores


def _title(method: str) -> str:
    return TITLES.get(method, method)


def _better(medians: dict[str, float], score: str) -> str | None:
    rounded = {method: round(median, 3) for method, median in medians.items()}
    if len(rounded) < 2 or len(set(rounded.values())) == 1:
        return None
    pick = max if score in HIGHER_IS_BETTER else min
    return pick(rounded, key=lambda method: rounded[method])


def paper_better(task: str, budget: int, score: str) -> str | None:
    """Which of AE and SAE has the better median in the paper."""
    figures = {method: FIGURES.get((task, method, budget, score)) for method in ("ae", "sae")}
    return _better({method: figure.median for method, figure in figures.items() if figure}, score)


def markdown(table: Table) -> str:
    """Tables 1 and 2 in Markdown."""
    lines = ["## Table 1: 1000 and 10,000 epochs", "", *_first_markdown(table), ""]
    about = "Median, and where there are several runs the distance of the maximum and the minimum from it."
    lines += ["## Table 2: all budgets", "", about, ""]
    for score in SCORES:
        rows = [row for row in table.rows if score in table.scores(row)]
        lines += [f"### {SCORES[score]}", "", *_second_markdown(table, score, rows), ""]
    lines += [NOT_COMPARABLE, "", _legend(table)]
    return "\n".join(lines) + "\n"


def _legend(table: Table) -> str:
    return (
        f"From {len(table.records):,} records, protocol `{table.protocol}`. "
        "Bold: the better median of AE and SAE, ours and the paper's each among themselves. "
        "n is the number of runs; a cell without a run is empty. "
        "The floor is the distance between two halves of the reference posterior's own chains."
    )


def _ours(cell: Cell | None, bold: bool) -> str:
    if cell is None:
        return ""
    text = f"{cell.figure.median:.3f}"
    return f"**{text}**" if bold else text


def _first_markdown(table: Table) -> Iterable[str]:
    methods = table.first_methods
    heads = ["task", "score", "budget", *map(_title, methods), "runs", "AE, paper", "SAE, paper", "floor"]
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in table.rows:
        for score in table.scores(row):
            for budget in (1000, 10_000):
                cells = {method: table.cell(row, method, budget, score) for method in methods}
                best = table.better(row, budget, score)
                ours = [_ours(cell, best == method) for method, cell in cells.items()]
                counts = [str(len(cell.values)) if cell else "0" for cell in cells.values()]
                papers = [_paper_median(row.task, method, budget, score) for method in ("ae", "sae")]
                floor = table.floors.get((row.task, row.variant, score))
                tail = "" if floor is None else f"{floor:.3f}"
                runs = " / ".join(counts) if any(cells.values()) else ""
                yield f"| {' | '.join([row.title, SCORES[score], f'{budget:,}', *ours, runs, *papers, tail])} |"


def _paper_median(task: str, method: str, budget: int, score: str) -> str:
    figure = FIGURES.get((task, method, budget, score))
    if figure is None:
        return ""
    text = f"{figure.median:.3f}"
    return f"**{text}**" if paper_better(task, budget, score) == method else text


def _second_markdown(table: Table, score: str, rows: Sequence[Row]) -> Iterable[str]:
    yield f"| task | method | {' | '.join(f'{budget:,}' for budget in BUDGETS)} | floor |"
    yield "|---|---|" + "---|" * (len(BUDGETS) + 1)
    for row in rows:
        floor = table.floors.get((row.task, row.variant, score))
        for method in table.methods(row):
            cells = [_full(table, row, method, budget, score) for budget in BUDGETS]
            tail = "" if floor is None else f"{floor:.3f}"
            yield f"| {row.title} | {_title(method)} | {' | '.join(cells)} | {tail} |"
        for method in ("ae", "sae"):
            figures = [FIGURES.get((row.task, method, budget, score)) for budget in BUDGETS]
            if any(figures):
                best = [paper_better(row.task, budget, score) == method for budget in BUDGETS]
                cells = [_spread(figure, bold) for figure, bold in zip(figures, best, strict=True)]
                yield f"| {row.title} | {_title(method)}, paper | {' | '.join(cells)} | |"


def _full(table: Table, row: Row, method: str, budget: int, score: str) -> str:
    cell = table.cell(row, method, budget, score)
    if cell is None:
        return ""
    best = table.better(row, budget, score) == method
    if len(cell.values) == 1:
        return f"{_ours(cell, best)} (n=1)"
    return f"{_spread(cell.figure, best)} (n={len(cell.values)})"


def _spread(figure: Figure | None, bold: bool) -> str:
    if figure is None:
        return ""
    text = f"**{figure.median:.3f}**" if bold else f"{figure.median:.3f}"
    return f"{text} +{figure.above:.3f} -{figure.below:.3f}"


def latex(table: Table) -> str:
    """Tables 1 and 2 in LaTeX, in the paper's own form; the paper's figures in grey lines below ours."""
    return "\n".join([*_first_latex(table), "", *_second_latex(table)]) + "\n"


def _first_latex(table: Table) -> Iterable[str]:
    columns = [(row, score) for row in table.rows for score in table.scores(row)]
    short = {"agreement": "Ag.", "total_variation": "TV", "w1": "$W_1$", "w2": "$W_2$"}
    yield "% Needs \\usepackage{multirow,xcolor,graphicx}"
    yield f"\\begin{{tabular}}{{|c|c|{'c|' * len(columns)}}}"
    heads = [f"\\multicolumn{{{len(table.scores(row))}}}{{c|}}{{{_marked(row)}}}" for row in table.rows]
    yield f"\\cline{{3-{2 + len(columns)}}}"
    yield f"\\multicolumn{{2}}{{c|}}{{}} & {' & '.join(heads)} \\\\"
    yield f"\\multicolumn{{2}}{{c|}}{{}} & {' & '.join(short[score] for _, score in columns)} \\\\"
    for budget in (1000, 10_000):
        yield "\\hline"
        for place, method in enumerate(table.first_methods):
            lines = 2 + len(table.first_methods)
            head = f"\\multirow{{{lines}}}*{{${budget:,}$ epochs}}" if place == 0 else ""
            cells = []
            for row, score in columns:
                cell = table.cell(row, method, budget, score)
                best = table.better(row, budget, score) == method
                cells.append("" if cell is None else _math(cell.figure.median, best))
            yield f"{head} & {_title(method)} & {' & '.join(cells)} \\\\"
            if method not in ("ae", "sae"):
                continue
            papers = []
            for row, score in columns:
                figure = FIGURES.get((row.task, method, budget, score))
                best = paper_better(row.task, budget, score) == method
                papers.append("" if figure is None else f"\\textcolor{{gray}}{{{_math(figure.median, best)}}}")
            yield f" & \\textcolor{{gray}}{{{_title(method)}, paper}} & {' & '.join(papers)} \\\\"
    yield "\\hline"
    yield "\\end{tabular}"


def _second_latex(table: Table) -> Iterable[str]:
    yield "\\begin{tabular}{|c|c|c|c|c|c|c|}"
    for score in SCORES:
        yield "\\hline"
        yield f"{SCORES[score]} & budget & {' & '.join(f'${budget:,}$' for budget in BUDGETS)} & floor \\\\"
        for row in table.rows:
            if score not in table.scores(row):
                continue
            yield "\\hline"
            for method in table.methods(row):
                cells = []
                for budget in BUDGETS:
                    cell = table.cell(row, method, budget, score)
                    best = table.better(row, budget, score) == method
                    cells.append("" if cell is None else f"{_of_runs(cell, best)} ({len(cell.values)})")
                floor = table.floors.get((row.task, row.variant, score))
                tail = "" if floor is None else f"${floor:.3f}$"
                yield f"{_marked(row)} & {_escape(_title(method))} & {' & '.join(cells)} & {tail} \\\\"
            for method in ("ae", "sae"):
                figures = [FIGURES.get((row.task, method, budget, score)) for budget in BUDGETS]
                best_of = [paper_better(row.task, budget, score) == method for budget in BUDGETS]
                if any(figures):
                    texts = [_deviations(f, b) if f else "" for f, b in zip(figures, best_of, strict=True)]
                    greys = [f"\\textcolor{{gray}}{{{text}}}" if text else "" for text in texts]
                    yield f" & \\textcolor{{gray}}{{{_title(method)}, paper}} & {' & '.join(greys)} & \\\\"
    yield "\\hline"
    yield "\\end{tabular}"
    yield ""
    yield f"$^\\dagger$ {NOT_COMPARABLE} {_legend(table).replace('`', '')}"


def _marked(row: Row) -> str:
    return _escape(row.title) + ("$^\\dagger$" if row.task == "uci_gap" else "")


def _math(value: float, bold: bool) -> str:
    return f"$\\mathbf{{{value:.3f}}}$" if bold else f"${value:.3f}$"


def _of_runs(cell: Cell, bold: bool) -> str:
    return _math(cell.figure.median, bold) if len(cell.values) == 1 else _deviations(cell.figure, bold)


def _deviations(figure: Figure, bold: bool) -> str:
    median = f"\\mathbf{{{figure.median:.3f}}}" if bold else f"{figure.median:.3f}"
    return f"${median}^{{+{figure.above:.3f}}}_{{-{figure.below:.3f}}}$"


def _escape(text: str) -> str:
    return text.replace("_", "\\_").replace("%", "\\%")
