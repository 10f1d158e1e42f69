"""Makes docs/benchmark.md from the records in results/: `make docs-tables`."""

import statistics

import numpy as np

from anchorwalk.benchmark import Variant, open_case
from anchorwalk.benchmark.anchors import Worth
from anchorwalk.benchmark.anchors import markdown as anchors_markdown
from anchorwalk.benchmark.cost import Cost, readable
from anchorwalk.benchmark.cost import markdown as cost_markdown
from anchorwalk.benchmark.paper import BUDGETS, FIGURES
from anchorwalk.benchmark.tables import Table, markdown
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from anchorwalk.posterior import metrics
from pages import METHODS, ROOT, benchmark, filled, load, middle, shown, table


def references():
    return {split: load("reference-uci_gap", f"uci_gap-split{split}") for split in REFERENCED}


def reference_table():
    heads = ["split", "chains", "draws", "R-hat of means: median", "90% of rows below", "rows below 1.05"]
    heads += ["R-hat of log-sds: median", "ESS of means: median", "half against half: W1", "W2"]
    rows = []
    for split, record in references().items():
        evidence, floor = record["evidence"], record["floor"]
        mean, log_sd = evidence["mean"], evidence["log_sd"]
        cells = [
            f"{split}",
            f"{evidence['chains']}",
            f"{evidence['draws']}",
            f"{mean['r_hat_median']:.3f}",
            f"{mean['r_hat_90']:.3f}",
            f"{mean['share_below_1.05']:.0%}",
            f"{log_sd['r_hat_median']:.3f}",
            f"{mean['ess_median']:.0f}",
            f"{floor['w1']:.4f}",
            f"{floor['w2']:.4f}",
        ]
        rows.append(cells)
    return table(heads, rows)


def gap(found, split, method, budget, score="w1"):
    return found.values("uci_gap", method, budget, score, Variant(split=split))


def reference_row(split):
    """What the reference itself predicts, scored on the truth; its density, and so its NLL, is not kept."""
    case = open_case("uci_gap", Variant(split=split))
    values = case.reference.values
    y = np.ravel(case.y_test)
    low, high = np.quantile(values, (0.05, 0.95), axis=1)
    scores = [values.std(1).mean(), None, metrics.rmse(values.mean(1), y), metrics.crps(values.T, y)]
    covered = f"{metrics.coverage(low, high, y):.0%}"
    return [f"{split}", "", "HMC, the reference", "", "", *map(shown, scores), covered]


def truth_table(found):
    rows = []
    for split in REFERENCED:
        rows.append(reference_row(split))
        for budget in BUDGETS:
            for method, title in METHODS.items():
                scores = ("w1", "spread", "nll", "rmse", "crps", "coverage_90")
                cells = {s: gap(found, split, method, budget, s) for s in scores}
                if not cells["w1"]:
                    continue
                medians = {s: statistics.median(cell) for s, cell in cells.items()}
                numbers = [f"{medians[s]:.3f}" for s in ("w1", "spread", "nll", "rmse", "crps")]
                covered = f"{medians['coverage_90']:.0%}"
                rows.append([f"{split}", f"{budget:,}", title, f"{len(cells['w1'])}", *numbers, covered])
    heads = ["split", "budget", "method", "runs", "W1", "spread", "NLL", "RMSE", "CRPS", "in 90% interval"]
    return table(heads, rows)


def verdict(found):
    """How often the median W1 of SAE is below that of AE."""
    ahead, cells, by_split = 0, 0, {}
    for split in REFERENCED:
        for budget in BUDGETS:
            ae, sae = (gap(found, split, method, budget) for method in ("ae", "sae"))
            if ae and sae:
                cells += 1
                won = statistics.median(sae) < statistics.median(ae)
                ahead += won
                by_split[split] = by_split.get(split, 0) + won
    parts = ", ".join(f"{won} of {len(BUDGETS)} on split {split}" for split, won in by_split.items())
    return f"SAE has the lower median W1 in {ahead} of {cells} cells ({parts})."


def undecided(found):
    """Splits whose floor is not well below the scores."""
    parts = []
    for split, record in references().items():
        floor = record["floor"]["w1"]
        medians = [statistics.median(gap(found, split, method, 10_000)) for method in ("ae", "sae")]
        share = floor / min(medians)
        verdict = "no ranking can be read from it" if share > 0.5 else "rankings can be read from it"
        parts.append(
            f"  - split {split}: the floor, {floor:.3f}, is {share:.0%} of the better W1 at 10,000 epochs; {verdict}."
        )
    return "\n".join(parts)


def timing():
    record = load("timing-uci_gap", "timing")
    return (
        f"`{record['command']}`, {record['records']:,} runs of AE and SAE, took {record['seconds'] / 60:.1f} minutes on "
        f"{record['cores']} cores; `anchorwalk benchmark run` added the others."
    )


CLASS_SCORES = ("agreement", "total_variation", "accuracy", "nll", "ece", "confidence")


def classes_table(found, task, variant=None):
    """Scores of a task of classes, in the order of budgets and methods."""
    rows = []
    for budget in BUDGETS:
        for method, title in METHODS.items():
            cells = [found.values(task, method, budget, name, variant) for name in CLASS_SCORES]
            if not cells[0]:
                continue
            members = found.runs(task, method, budget, variant)[0]["members"]
            numbers = [shown(middle(cell)) for cell in cells]
            rows.append([f"{budget:,}", title, f"{members}", f"{len(cells[0])}", *numbers])
    heads = ["budget", "method", "members", "runs", "agreement", "TV", "accuracy", "NLL", "ECE", "mean top probability"]
    return table(heads, rows)


PRIORS = ("1", "0.025")
HALVES = {"choosing": "the rows that choose", "scoring": "the other rows"}


def imdb_priors():
    """One member with each prior, by halves of the reference's rows, and which of them is nearer."""
    members = [load("prior-imdb", prior) for prior in PRIORS]
    rows = []
    for record in members:
        halves = [f"{record['halves'][half][name]:.3f}" for half in HALVES for name in ("agreement", "total_variation")]
        others = [f"{record['scores'][name]:.3f}" for name in ("accuracy", "nll", "confidence")]
        rows.append([f"{record['prior_variance']:g}", *halves, *others])
    heads = ["prior variance", *(f"{name}, {half}" for half in HALVES.values() for name in ("agreement", "TV"))]
    best = min(members, key=lambda record: record["halves"]["choosing"]["total_variation"])
    return table([*heads, "accuracy", "NLL", "mean top probability"], rows), f"{best['prior_variance']:g}"


def imdb_halves():
    """AE and SAE on the rows that did not choose the prior, beside the paper's figures."""
    record = load("halves-imdb", "halves")
    rows = []
    for method, halves in record["halves"].items():
        numbers = [f"{halves[half][name]:.3f}" for half in HALVES for name in ("agreement", "total_variation")]
        names = ("agreement", "total_variation")
        papers = [f"{FIGURES['imdb', method, record['budget'], name].median:.3f}" for name in names]
        rows.append([f"{record['budget']:,}", METHODS[method], *numbers, *papers])
    heads = ["budget", "method", *(f"{name}, {half}" for half in HALVES.values() for name in ("agreement", "TV"))]
    return table([*heads, "paper's agreement", "paper's TV"], rows)


def render():
    found = Table(benchmark())
    anchors = anchors_markdown([Worth(**row) for row in load("anchors", "anchors")["rows"]]).rstrip()
    cost = load("cost", "cost")
    costs = [Cost(**row) for row in cost["rows"]]
    slowest = max(costs, key=lambda c: c.epoch_seconds)
    tables = markdown(found).replace("## Table", "### Table").replace("### Agree", "#### Agree")
    tables = tables.replace("### Total", "#### Total").replace("### W", "#### W").rstrip()
    parts = {
        "TIMING": timing(),
        "REFERENCES": reference_table(),
        "TRUTH": truth_table(found),
        "VERDICT": verdict(found),
        "UNDECIDED": undecided(found),
        "DERMAMNIST": classes_table(found, "dermamnist"),
        "IMDB": classes_table(found, "imdb"),
        "IMDB_PRIORS": imdb_priors()[0],
        "IMDB_PRIOR": imdb_priors()[1],
        "IMDB_HALVES": imdb_halves(),
        "TABLES": tables,
        "ANCHORS": anchors,
        "COST": cost_markdown(costs, BUDGETS).rstrip(),
        "SLOWEST": f"{slowest.task} at 10,000 epochs: {readable(10_000 * slowest.epoch_seconds)}",
        "CORES": str(cost["cores"]),
    }
    return filled("benchmark.md", parts)


if __name__ == "__main__":
    (ROOT / "docs" / "benchmark.md").write_text(render())
