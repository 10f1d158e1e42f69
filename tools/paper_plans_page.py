"""Writes docs/closer.md from the records of the benchmark and of the study. Command: `make docs-tables`."""

import functools
import math
from statistics import median

import numpy as np

import closer_classes as classes
from anchorwalk.benchmark.paper import BUDGETS
from anchorwalk.benchmark.tables import Table
from anchorwalk.benchmark.tasks import Variant
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from pages import (
    METHODS,
    PARTS,
    ROOT,
    benchmark,
    error_of_median,
    filled,
    load,
    middle,
    plan_of,
    shown,
    study_of,
    table,
)

WALKS = ("guided", "autoregressive", "rotation", "independent")
PROTOCOLS = ("argmin", "authors")
BEGIN, END = "<!-- made by tools/closer_page.py -->", "<!-- end -->"
SHARED = (1000, 10_000)
FITS = ("fit_first", "fit_later")


@functools.cache
def studies():
    """The study's records by split, as far as they go."""
    found = {split: study_of(f"uci_gap-split{split}") for split in REFERENCED}
    return {split: one for split, one in found.items() if one}


def w1(found, split, method, budget):
    """Every run's."""
    return found.values("uci_gap", method, budget, "w1", Variant(split=split))


def floor(split):
    return load("reference-uci_gap", f"uci_gap-split{split}")["floor"]["w1"]


def gap_table(found):
    rows = []
    for split in REFERENCED:
        for budget in BUDGETS:
            medians = [middle(w1(found, split, method, budget)) for method in METHODS]
            best = min((value for value in medians if value is not None), default=None)
            cells = [f"**{shown(value)}**" if value == best else shown(value) for value in medians]
            plans = [
                plan_of(found, "uci_gap", budget, Variant(split=split), method) for method in ("planned", "planned_at")
            ]
            given_inputs = shown(middle(w1(found, split, "planned_at", budget)))
            rows.append([f"{split}", f"{budget:,}", *cells, plans[0], given_inputs, plans[1], f"{floor(split):.3f}"])
    heads = ["split", "budget", "AE, paper's plan", "SAE, paper's plan", "planned", "its chains x epochs"]
    heads += ["planned, inputs given", "its chains x epochs", "floor"]
    return table(heads, rows)


def goal(found, method, budget=1000):
    """Whether an ensemble of so many epochs is nearer than the paper's sequential plan at 10,000."""
    parts = []
    for split in REFERENCED:
        ours, paper = w1(found, split, method, budget), w1(found, split, "sae", 10_000)
        if ours and paper:
            less, error = lower(ours, paper)
            verdict = ("yes" if less > 0 else "no") + ("" if abs(less) > 2 * error else ", but not surely")
            parts.append(
                f"split {split}: {verdict} ({median(ours):.3f} against {median(paper):.3f}, standard error {error:.3f})"
            )
    return "; ".join(parts)


def lower(ours, other):
    """By how much our median is below another, and the standard error of that."""
    return median(other) - median(ours), math.hypot(error_of_median(ours), error_of_median(other))


def with_inputs_given(found):
    """In how many cells the planned ensemble that was told the inputs has the lower median."""
    both = [
        [middle(w1(found, split, method, budget)) for method in ("planned_at", "planned")]
        for split in REFERENCED
        for budget in SHARED
    ]
    return f"{sum(one < other for one, other in both)} of {len(both)}"


def scatter(found, *splits):
    """The greatest standard error of a median of the page's first table."""
    errors = [
        error_of_median(values)
        for split in splits
        for method in (*METHODS, "planned_at")
        for budget in BUDGETS
        if (values := w1(found, split, method, budget))
    ]
    return f"{max(errors):.3f}"


def same(found):
    """In how many cells the planned ensemble has the lower median, and where by more than two standard errors."""
    parts = []
    for method in ("ae", "sae"):
        differences = [
            lower(w1(found, split, "planned", budget), w1(found, split, method, budget))
            for split in REFERENCED
            for budget in BUDGETS
        ]
        won, sure = sum(less > 0 for less, _ in differences), sum(less > 2 * error for less, error in differences)
        parts.append(
            f"{won} of {len(differences)} medians below {METHODS[method]}'s ({sure} by more than two standard errors)"
        )
    return " and ".join(parts)


def truth(found):
    """Where the planned ensemble's NLL on the gap's own targets is lower than those of the paper's plans."""

    def nll(split, method, budget):
        return median(found.values("uci_gap", method, budget, "nll", Variant(split=split)))

    parts = []
    for splits in ((5, 6), (0, 1)):
        cells = [(split, budget) for split in splits for budget in BUDGETS]
        won = [
            f"{METHODS[method]}'s in {sum(nll(s, 'planned', b) < nll(s, method, b) for s, b in cells)}"
            for method in ("ae", "sae")
        ]
        parts.append(f"on splits {splits[0]} and {splits[1]} below {' and '.join(won)} of {len(cells)} cells")
    return "; ".join(parts)


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
            plan = plan_of(found, "uci_gap", budget, Variant(split=split))
            planned = f"{shown(middle(w1(found, split, 'planned', budget)))} ({plan})"
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


def inside_words():
    """Whether later members are better trained than first ones in SAE, and how far planned ones are ahead."""
    fallen, risen, gain = [], [], []
    fitted = {True: [], False: []}
    for study in studies().values():
        for budget in BUDGETS:
            sae, planned = (study["inside"][f"{method}, {budget}"] for method in ("sae", "planned"))
            first, later, *fits = (median(one[part] for one in sae) for part in (*PARTS[:2], *FITS))
            long = budget == 10_000
            (risen if long else fallen).append(later > first if long else later < first)
            fitted[long].append(fits[1] < fits[0])
            if long:
                gain.append(first - median(one["loss_first"] for one in planned))
    return (
        f"Up to 1000 epochs SAE's later members have a lower loss than its first ones in {sum(fallen)} of {len(fallen)} cells "
        f"(the data's part: {sum(fitted[False])} of {len(fitted[False])}): "
        f"the first trainings were not finished. At 10,000 it is higher in {sum(risen)} of {len(risen)}: anchors have "
        f"walked far, and ten epochs do not follow them; the data's part alone is lower in {sum(fitted[True])} of "
        f"{len(fitted[True])}. Planned members end "
        f"{min(gain):.2f} to {max(gain):.2f} nats a row lower than SAE's first ones there."
    )


def between(*splits):
    """Standard deviation of predicted means between the members of AE, at 10,000 epochs."""
    found = [median(one["spread_between"] for one in studies()[split]["inside"]["ae, 10000"]) for split in splits]
    return f"{min(found):.2f} to {max(found):.2f}"


def perturbed_words(found):
    """How often moved targets are worse, where the reference is good and where it is not."""
    parts = []
    for splits in ((5, 6), (0, 1)):
        differences = [
            lower(w1(found, split, method, budget), [one["w1"] for one in moved])
            for split in splits
            for budget in BUDGETS
            for method in ("ae", "sae")
            if (moved := studies()[split]["cells"].get(f"{method} perturbed, {budget}"))
        ]
        worse, sure = (
            sum(less > 0 for less, _ in differences),
            sum(abs(less) > 2 * error for less, error in differences),
        )
        parts.append(
            f"on splits {splits[0]} and {splits[1]} moved targets are worse in {worse} of {len(differences)} cells, "
            f"and {sure} of the differences are greater than two standard errors"
        )
    return f"{'; '.join(parts)}.".capitalize()


def inside_table(found):
    rows = []
    for split, study in studies().items():
        for budget in BUDGETS:
            for method, title in METHODS.items():
                runs = study.get("inside", {}).get(f"{method}, {budget}")
                if not runs:
                    continue
                parts = [shown(median(one[part] for one in runs)) for part in (*PARTS[:2], *FITS, *PARTS[2:])]
                rows.append([f"{split}", f"{budget:,}", title, *parts, shown(middle(w1(found, split, method, budget)))])
    heads = ["split", "budget", "method", "loss, first", "loss, later", "of it the data's, first", "later"]
    return table([*heads, "spread within chains", "between", "W1"], rows)


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


def same_starts():
    """Correlation over runs of W1 on splits 0 and 1, between walks that share their first anchors and others."""

    def correlations(ways):
        found = [
            np.corrcoef(*([one["w1"] for one in studies()[split]["cells"][f"{way}, {budget}"]] for way in pair))[0, 1]
            for pair in ways
            for split in (0, 1)
            for budget in BUDGETS
        ]
        return f"{min(found):.2f} to {max(found):.2f}"

    shared = correlations(
        [("guided 0.1", "guided 0.5"), ("guided 0.1", "rotation 0.1"), ("autoregressive 0.1", "independent")]
    )
    return shared, correlations([("guided 0.1", "autoregressive 0.1"), ("rotation 0.1", "independent")])


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
    tables = {protocol: Table(benchmark(), protocol) for protocol in PROTOCOLS}
    found = tables["argmin"]
    parts = {
        "GAP": gap_table(found),
        "GOAL": goal(found, "planned"),
        "GOAL_200": goal(found, "planned", 200),
        "GOAL_TOLD": goal(found, "planned_at"),
        "SAME": same(found),
        "INPUTS_GIVEN": with_inputs_given(found),
        "TRUTH": truth(found),
        "SCATTER": scatter(found, 0, 1),
        "SCATTER_GOOD": scatter(found, 5, 6),
        "FAR": between(0, 1),
        "NEAR": between(5, 6),
        "CHAINS": chains_table(found),
        "CHAINS_WORDS": chains_words(found),
        **classes.parts(tables),
        "OPTIMIZERS": optimizers_table(),
        "OPTIMIZERS_WORDS": optimizers_words(),
        "INSIDE": inside_table(found),
        "INSIDE_WORDS": inside_words(),
        "WALKS": walk_table(),
        "WIDEST": widest_walk(),
        **dict(zip(("SAME_STARTS", "OTHER_STARTS"), same_starts(), strict=True)),
        "PERTURBED": perturbed_table(found),
        "PERTURBED_WORDS": perturbed_words(found),
    }
    return filled("closer.md", parts)


if __name__ == "__main__":
    (ROOT / "docs" / "closer.md").write_text(render())
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(), Table(benchmark())))
