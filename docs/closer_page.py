"""Writes docs/closer.md from the records of the benchmark and of the study. Command: `make docs-tables`."""

import itertools
import json
import math
from statistics import median, stdev

from pages import METHODS, ROOT, filled, load, middle, shown, table

from anchorwalk.benchmarks import records
from anchorwalk.benchmarks.paper import BUDGETS, FIGURES
from anchorwalk.benchmarks.tables import Table
from anchorwalk.benchmarks.tasks import Variant
from anchorwalk.benchmarks.tasks.uci_gap import REFERENCED

WALKS = ("guided", "autoregressive", "rotation", "independent")
PROTOCOLS = ("argmin", "authors")
BEGIN, END = "<!-- made by docs/closer_page.py -->", "<!-- end -->"
SCORED = ("agreement", "total_variation")
PARTS = ("loss_first", "loss_later", "spread_within", "spread_between")
SHARED = (1000, 10_000)
STANDARDISED, RAW = Variant(pixels="standardised"), Variant(pixels="raw")
DERMA = (
    ("", "argmin", Variant()),
    (", authors' protocol", "authors", Variant()),
    (", images standardised", "argmin", STANDARDISED),
    (", pixels 0 to 255", "argmin", RAW),
    (", pixels 0 to 255, authors' protocol", "authors", RAW),
)
"""Ways to run dermamnist: words, protocol, variant."""


def studies():
    """The study's records by split, as far as they go."""
    found = {}
    for split in REFERENCED:
        path = ROOT / f"results/study-uci_gap-split{split}.json"
        if path.exists():
            found[split] = json.loads(path.read_text())
    return found


def w1(found, split, method, budget):
    """Every run's."""
    return found.values("uci_gap", method, budget, "w1", Variant(split=split))


def floor(split):
    return load(f"reference-uci_gap-{split}.json")["floor"]["w1"]


def plan_of(found, task, budget, variant=None, method="planned"):
    """A planned ensemble's plan in words."""
    for record in found.records:
        at = (record["task"], record["method"], record["budget"], record["variant"])
        if at == (task, method, budget, variant or {}):
            plan = record["plan"]
            rate, epochs = (plan["first"].split(f"{name}=")[1].split(",")[0] for name in ("(rate", "epochs"))
            each = plan["members"] // plan["chains"]
            return (
                f"{plan['chains']} x {epochs}{f', {each} members a chain' if each > 1 else ''}, rate {float(rate):.1g}"
            )
    return ""


def gap_table(found):
    rows = []
    for split in REFERENCED:
        for budget in BUDGETS:
            medians = [middle(w1(found, split, method, budget)) for method in METHODS]
            best = min((value for value in medians if value is not None), default=None)
            cells = [f"**{shown(value)}**" if value == best else shown(value) for value in medians]
            plans = [
                plan_of(found, "uci_gap", budget, {"split": split}, method) for method in ("planned", "planned_at")
            ]
            told = shown(middle(w1(found, split, "planned_at", budget)))
            rows.append([f"{split}", f"{budget:,}", *cells, plans[0], told, plans[1], f"{floor(split):.3f}"])
    heads = ["split", "budget", "AE, paper's plan", "SAE, paper's plan", "planned", "its chains x epochs"]
    heads += ["planned, inputs given", "its chains x epochs", "floor"]
    return table(heads, rows)


def goal(found, method, budget=1000):
    """Whether an ensemble of so many epochs is nearer than the paper's sequential plan at 10,000."""
    parts = []
    for split in REFERENCED:
        ours = middle(w1(found, split, method, budget))
        paper = middle(w1(found, split, "sae", 10_000))
        if ours is not None and paper is not None:
            verdict = "yes" if ours < paper else "no"
            parts.append(f"split {split}: {verdict} ({ours:.3f} against {paper:.3f})")
    return "; ".join(parts)


def told(found):
    """In how many cells the planned ensemble that was told the inputs has the lower median."""
    both = [
        [middle(w1(found, split, method, budget)) for method in ("planned_at", "planned")]
        for split in REFERENCED
        for budget in SHARED
    ]
    return f"{sum(one < other for one, other in both)} of {len(both)}"


def scatter(found):
    """Of the median W1 of the planned ensemble at 1000 epochs on split 0, were runs normal around it."""
    values = w1(found, 0, "planned", 1000)
    return f"{math.sqrt(math.pi / 2) * stdev(values) / math.sqrt(len(values)):.2f}"


def same(found):
    """In how many cells the planned ensemble has the lower median."""
    won = dict.fromkeys(("ae", "sae"), 0)
    cells = 0
    for split in REFERENCED:
        for budget in BUDGETS:
            medians = {method: middle(w1(found, split, method, budget)) for method in METHODS}
            cells += 1
            for method in won:
                won[method] += medians["planned"] < medians[method]
    return " and ".join(f"{count} of {cells} medians below {METHODS[m]}'s" for m, count in won.items())


def by_chains(split, budget):
    """Median W1 by number of chains that share a budget, one member each."""
    cells = studies()[split]["cells"]
    numbers = sorted(int(place.split()[0]) for place in cells if place.endswith(f" chains, {budget}"))
    return {number: median(one["w1"] for one in cells[f"{number} chains, {budget}"]) for number in numbers}


def chains_table(found):
    numbers = sorted({number for split in studies() for budget in SHARED for number in by_chains(split, budget)})
    rows = []
    for split in studies():
        for budget in SHARED:
            medians = by_chains(split, budget)
            best = min(medians.values(), default=None)
            cells = [
                f"**{shown(medians[n])}**" if n in medians and medians[n] == best else shown(medians.get(n))
                for n in numbers
            ]
            planned = f"{shown(middle(w1(found, split, 'planned', budget)))} ({plan_of(found, 'uci_gap', budget, {'split': split})})"
            rows.append([f"{split}", f"{budget:,}", *cells, planned])
    return table(["split", "budget", *(f"{number}" for number in numbers), "planned"], rows)


def chains_words(found):
    """Whether any number of chains reaches the goal at 1000 epochs."""
    parts = []
    for split in studies():
        medians, paper = by_chains(split, 1000), middle(w1(found, split, "sae", 10_000))
        reach = [number for number, value in medians.items() if value < paper]
        parts.append(f"split {split}: {', '.join(map(str, reach)) or 'none'}")
    return "; ".join(parts)


def derma(found, method, budget, variant=None):
    """Median agreement and total variation, or None."""
    values = [middle(found.values("dermamnist", method, budget, name, variant)) for name in SCORED]
    return None if values[0] is None else values


def beside_the_paper(found):
    """Where our medians are as good as the paper's."""
    ahead, behind = [], []
    for method in ("ae", "sae"):
        for budget in BUDGETS:
            ours = derma(found, method, budget)
            if ours:
                paper = in_the_paper(method, budget)
                good = ours[0] >= paper[0] and ours[1] <= paper[1]
                (ahead if good else behind).append(f"{METHODS[method]} at {budget:,}")
    return (
        f"At least as good as the paper in both scores: {', '.join(ahead) or 'nowhere'}. "
        f"Behind it in one or both: {', '.join(behind) or 'nowhere'}."
    )


def pairs(one, other):
    """Two ways to run AE and SAE, where both were run; each is a function of method and budget."""
    parts = []
    for method in ("ae", "sae"):
        for budget in BUDGETS:
            points = [way(method, budget) for way in (one, other)]
            if all(points):
                both = (f"{agreement:.3f}/{variation:.3f}" for agreement, variation in points)
                parts.append(f"{METHODS[method]} at {budget:,} {' against '.join(both)}")
    return "; ".join(parts)


def in_the_paper(method, budget):
    return [FIGURES["dermamnist", method, budget, name].median for name in SCORED]


def within_the_paper(way):
    """How many scores of a way lie between the least and the greatest of the paper's runs, and how far others are."""
    parts = []
    for place, score in enumerate(SCORED):
        beyond = []
        for method in ("ae", "sae"):
            for budget in BUDGETS:
                if point := way(method, budget):
                    figure = FIGURES["dermamnist", method, budget, score]
                    low, high = figure.median - figure.below, figure.median + figure.above
                    beyond.append(max(low - point[place], point[place] - high, 0.0))
        inside = sum(value < 5e-4 for value in beyond)
        name = score.replace("_", " ")
        parts.append(
            f"{name} in {inside} of {len(beyond)}"
            + (f" (others off by {max(beyond):.3f} at most)" if inside < len(beyond) else "")
        )
    return " and ".join(parts)


def derma_ways(tables):
    """What the page says of scalings and protocols."""

    def way(protocol, variant=None):
        return lambda method, budget: derma(tables[protocol], method, budget, variant)

    return {
        "DERMA_RAW": pairs(way("authors", RAW), in_the_paper),
        "DERMA_WITHIN": within_the_paper(way("authors", RAW)),
        "DERMA_KEPT": f"The epoch that was best against the last: {pairs(way('authors', RAW), way('argmin', RAW))}.",
        "DERMA_AUTHORS": "With pixels divided by 255, the authors' protocol against ours: "
        f"{pairs(way('authors'), way('argmin'))}.",
        "DERMA_SCALING": "With our protocol, images standardised by channel against the paper: "
        f"{pairs(way('argmin', STANDARDISED), in_the_paper)}.",
    }


def optimizers_table():
    """Median W1 and loss by optimiser, rate and batch, splits in columns."""
    tried = {split: study.get("optimizers", {}) for split, study in studies().items()}
    rows = []
    for place in next(iter(tried.values())):
        cells = []
        for split in tried:
            runs = tried[split].get(place, [])
            w1s, losses = (
                shown(middle([one[part] for one in runs]), digits) for part, digits in (("w1", 3), ("loss", 2))
            )
            cells.append(f"{w1s} ({losses})" if runs else "")
        optimizer, batch = place.split(", ")
        kind, rate = optimizer.split()
        rows.append([kind, rate, batch, *cells])
    return table(["optimiser", "rate", "rows in a batch", *(f"split {split}: W1 (loss)" for split in tried)], rows)


def optimizers_words():
    """The best of each optimiser on split 5, where it was chosen, by its loss."""
    tried = studies()[5]["optimizers"]
    parts = []
    for kind in ("Adam", "Lion"):
        losses = {place: median(one["loss"] for one in runs) for place, runs in tried.items() if place.startswith(kind)}
        best = min(losses, key=losses.get)
        w1s = median(one["w1"] for one in tried[best])
        rate, batch = best.removeprefix(f"{kind} ").split(", ")
        parts.append(
            f"{kind}'s lowest loss is {losses[best]:.2f}, with a rate of {rate} and batches of {batch}, and W1 {w1s:.3f} there"
        )
    return f"On split 5 {'; '.join(parts)}."


def beside_both_plans(found):
    """The planned ensemble and the better of the paper's two plans."""
    parts = []
    for budget in BUDGETS:
        planned, *others = (derma(found, method, budget) for method in ("planned", "ae", "sae"))
        if planned and all(others):
            agreement, variation = max(one[0] for one in others), min(one[1] for one in others)
            verdicts = (
                "worse" if planned[0] < agreement else "no worse",
                "worse" if planned[1] > variation else "no worse",
            )
            parts.append(f"at {budget:,} epochs {verdicts[0]} in agreement and {verdicts[1]} in total variation")
    return f"The planned ensemble against the better of the paper's two plans: {'; '.join(parts)}."


def inside_words():
    """Whether later members are better trained than first ones in SAE, and how far planned ones are ahead."""
    lower, higher, gain = [], [], []
    for study in studies().values():
        for budget in BUDGETS:
            sae = study.get("inside", {}).get(f"sae, {budget}")
            planned = study.get("inside", {}).get(f"planned, {budget}")
            if not sae:
                continue
            first, later = (median(one[part] for one in sae) for part in ("loss_first", "loss_later"))
            (higher if budget == 10_000 else lower).append(later > first if budget == 10_000 else later < first)
            if planned and budget == 10_000:
                gain.append(first - median(one["loss_first"] for one in planned))
    return (
        f"Up to 1000 epochs SAE's later members have a lower loss than its first ones in {sum(lower)} of {len(lower)} cells: "
        f"the first trainings were not finished. At 10,000 it is higher in {sum(higher)} of {len(higher)}: anchors have "
        "walked far, and ten epochs do not follow them. Planned members end "
        f"{min(gain):.2f} to {max(gain):.2f} nats a row lower than SAE's first ones there."
    )


def between(*splits):
    """Standard deviation of predicted means between the members of AE, at 10,000 epochs."""
    found = [median(one["spread_between"] for one in studies()[split]["inside"]["ae, 10000"]) for split in splits]
    return f"{min(found):.2f} to {max(found):.2f}"


def perturbed_words(found):
    worse, cells = 0, 0
    for split, study in studies().items():
        for budget in BUDGETS:
            for method in ("ae", "sae"):
                moved = study["cells"].get(f"{method} perturbed, {budget}")
                plain = w1(found, split, method, budget)
                if moved and plain:
                    cells += 1
                    worse += median(one["w1"] for one in moved) > median(plain)
    return f"Worse in {worse} of {cells} cells."


def equal_words(rows):
    differences = [float(row[-1]) for row in rows if row[-1]]
    lower = sum(value < 0 for value in differences)
    ours = [row for row in rows if row[0].endswith("ours") and row[-1]]
    text = (
        f"Of {len(differences)} points that can be compared, SAE's total variation is lower in {lower}, by "
        f"{-median(differences):.3f} in the median: the remark holds in the paper's figures, by little but for CIFAR-10."
    )
    if not ours:
        text += " Our own runs on DermaMNIST cannot test it: SAE's agreement is below all of AE's there."
    return text


def derma_table(tables):
    rows = []
    for budget in BUDGETS:
        for method, title in METHODS.items():
            for words, protocol, variant in DERMA:
                found = tables[protocol]
                names = (*SCORED, "accuracy", "nll", "confidence")
                cells = [found.values("dermamnist", method, budget, name, variant) for name in names]
                if not cells[0]:
                    continue
                papers = [FIGURES.get(("dermamnist", method, budget, name)) for name in SCORED]
                medians = [shown(middle(cell)) for cell in cells]
                rows.append(
                    [
                        f"{budget:,}",
                        title + words,
                        f"{len(cells[0])}",
                        *medians[:2],
                        *("" if figure is None else shown(figure.median) for figure in papers),
                        *medians[2:],
                        plan_of(found, "dermamnist", budget) if method == "planned" else "",
                    ]
                )
    heads = ["budget", "method", "runs", "agreement", "TV", "paper's agreement", "paper's TV", "accuracy", "NLL"]
    return table([*heads, "mean top probability", "chains x epochs"], rows)


def derma_study():
    """SAE's steps and AE at 200 epochs, scores and what is inside a run."""
    record = load("study-dermamnist.json")
    rows = []
    for place, runs in record["cells"].items():
        name = place.split(",")[0]
        scores = [shown(middle([one[part] for one in runs])) for part in (*SCORED, "nll", "confidence")]
        parts = [shown(middle([one[part] for one in record["inside"][place]])) for part in PARTS]
        rows.append(["AE" if name == "ae" else f"SAE, step {name.split()[1]}", *scores, *parts])
    heads = ["200 epochs", "agreement", "TV", "NLL", "mean top probability", "loss, first", "loss, later"]
    return table([*heads, "spread within chains", "between"], rows)


def derma_pixels():
    """What images that are a little off would change for AE."""
    record = load("study-dermamnist.json")
    if "ae, 200" not in record["cells"]:
        return ""
    plain, levels = record["cells"]["ae, 200"][0], record["pixels"]["ae, 200"][0]
    parts = [
        f"{scores['agreement']:.3f}/{scores['total_variation']:.3f} at {level}" for level, scores in levels.items()
    ]
    return (
        "Our images are rebuilt from the originals and may differ from the published ones by a little. With noise on "
        f"the test images of so many levels of 255, AE at 200 epochs would have {', '.join(parts)}, against "
        f"{plain['agreement']:.3f}/{plain['total_variation']:.3f} without."
    )


def inside_table(found):
    rows = []
    for split, study in studies().items():
        for budget in BUDGETS:
            for method, title in METHODS.items():
                runs = study.get("inside", {}).get(f"{method}, {budget}")
                if not runs:
                    continue
                parts = [shown(median(one[part] for one in runs)) for part in PARTS]
                rows.append([f"{split}", f"{budget:,}", title, *parts, shown(middle(w1(found, split, method, budget)))])
    heads = ["split", "budget", "method", "loss, first", "loss, later", "spread within chains", "between", "W1"]
    return table(heads, rows)


def walk_table():
    rows = []
    for split, study in studies().items():
        for budget in BUDGETS:
            cells = []
            for walk in WALKS:
                medians = [
                    median(one["w1"] for one in runs)
                    for place, runs in study["cells"].items()
                    if place.startswith(walk) and place.endswith(f", {budget}")
                ]
                low, high = (min(medians), max(medians)) if medians else (None, None)
                same = shown(low) == shown(high)
                cells.append(shown(low) if same else f"{shown(low)} to {shown(high)}")
            rows.append([f"{split}", f"{budget:,}", *cells])
    return table(["split", "budget", *(f"{walk}" for walk in WALKS)], rows)


def widest_walk():
    """The greatest ratio of W1 medians over walks and steps in one cell of split and budget, where references are good."""
    ratios = []
    for study in studies().values():
        if study["floor"]["w1"] > 0.05:
            continue
        for budget in BUDGETS:
            medians = [
                median(one["w1"] for one in runs)
                for place, runs in study["cells"].items()
                if place.startswith(WALKS) and place.endswith(f", {budget}")
            ]
            if medians:
                ratios.append(max(medians) / min(medians))
    return f"{max(ratios) - 1:.0%}"


def perturbed_table(found):
    rows = []
    for split, study in studies().items():
        for budget in BUDGETS:
            cells = []
            for method in ("ae", "sae"):
                plain = middle(w1(found, split, method, budget))
                moved = middle([one["w1"] for one in study["cells"].get(f"{method} perturbed, {budget}", [])])
                cells += [shown(plain), shown(moved)]
            rows.append([f"{split}", f"{budget:,}", *cells])
    return table(["split", "budget", "AE", "AE, targets moved", "SAE", "SAE, targets moved"], rows)


EQUAL_HEADS = ["task", "budget", "SAE's agreement", "SAE's TV", "AE's TV at that agreement", "difference"]


def equal_agreement(found):
    """Rows of the table: SAE's total variation less that of AE at the same agreement, read between AE's own points."""
    rows = []
    for task in ("cifar10", "cifar10c", "imdb", "dermamnist"):
        line = sorted(tuple(FIGURES[task, "ae", b, name].median for name in SCORED) for b in BUDGETS)
        rows += _differences(f"{task}, paper", line, {b: _paper(task, b) for b in BUDGETS})
    ae, sae = ({budget: derma(found, method, budget) for budget in BUDGETS} for method in ("ae", "sae"))
    line = sorted(tuple(point) for point in ae.values() if point)
    return rows + _differences("dermamnist, ours", line, {budget: point for budget, point in sae.items() if point})


def imdb_words(found):
    """Our AE and SAE on imdb, where a single budget was run."""
    ae, sae = ([middle(found.values("imdb", method, 200, name)) for name in SCORED] for method in ("ae", "sae"))
    paper = [FIGURES["imdb", "ae", 200, name].median - FIGURES["imdb", "sae", 200, name].median for name in SCORED]
    return (
        f"On IMDB at 200 epochs, one run each, ours can: SAE has {sae[0]:.3f}/{sae[1]:.3f}, AE {ae[0]:.3f}/{ae[1]:.3f}, "
        f"a total variation {ae[1] - sae[1]:.3f} lower at an agreement {sae[0] - ae[0]:.3f} higher; "
        f"the paper's differ by {paper[1]:.3f} and {-paper[0]:.3f} there."
    )


def _paper(task, budget):
    return tuple(FIGURES[task, "sae", budget, name].median for name in SCORED)


def _differences(title, line, points):
    """Linear between AE's points; nothing is said beyond them."""
    rows = []
    for budget, (agreement, variation) in points.items():
        there = None
        for (a, ta), (b, tb) in itertools.pairwise(line):
            if a <= agreement <= b and b > a:
                there = ta + (tb - ta) * (agreement - a) / (b - a)
        shown_there = "beyond AE's points" if there is None else shown(there)
        difference = "" if there is None else f"{variation - there:+.3f}"
        rows.append([title, f"{budget:,}", shown(agreement), shown(variation), shown_there, difference])
    return rows


def readme_table(found):
    """What a newcomer should see: the paper's plans and ours."""
    columns = [("ae", 1000), ("sae", 1000), ("ae", 10_000), ("sae", 10_000)]
    columns += [("planned", budget) for budget in (200, 1000, 10_000)]
    rows = []
    for split in REFERENCED:
        cells = [shown(middle(w1(found, split, *column))) for column in columns]
        rows.append([f"{split}", *cells, f"{floor(split):.3f}"])
    heads = [f"{METHODS[method]}, {budget:,}" for method, budget in columns]
    return table(["split", *heads, "floor"], rows)


def with_table(page, found):
    """The README with its table."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + readme_table(found) + "\n" + END + rest.split(END)[1]


def render():
    tables = {protocol: Table(records.read_all(ROOT / "results"), protocol) for protocol in PROTOCOLS}
    found = tables["argmin"]
    parts = {
        "GAP": gap_table(found),
        "GOAL": goal(found, "planned"),
        "GOAL_200": goal(found, "planned", 200),
        "GOAL_TOLD": goal(found, "planned_at"),
        "SAME": same(found),
        "TOLD": told(found),
        "SCATTER": scatter(found),
        "FAR": between(0, 1),
        "NEAR": between(5, 6),
        "CHAINS": chains_table(found),
        "CHAINS_WORDS": chains_words(found),
        "DERMA": derma_table(tables),
        "DERMA_WORDS": f"{beside_the_paper(found)} {beside_both_plans(found)}",
        **derma_ways(tables),
        "OPTIMIZERS": optimizers_table(),
        "OPTIMIZERS_WORDS": optimizers_words(),
        "DERMA_STUDY": derma_study(),
        "DERMA_PIXELS": derma_pixels(),
        "INSIDE": inside_table(found),
        "INSIDE_WORDS": inside_words(),
        "WALKS": walk_table(),
        "WIDEST": widest_walk(),
        "PERTURBED": perturbed_table(found),
        "PERTURBED_WORDS": perturbed_words(found),
        "EQUAL": table(EQUAL_HEADS, equal_agreement(found)),
        "EQUAL_WORDS": f"{equal_words(equal_agreement(found))} {imdb_words(found)}",
    }
    return filled("closer.template.md", parts)


if __name__ == "__main__":
    (ROOT / "docs" / "closer.md").write_text(render())
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(), Table(records.read_all(ROOT / "results"))))
