"""Writes docs/paper_plans.md from the records of the benchmark and of the study. Command: `make docs-tables`."""

import functools
import math
from statistics import median

import numpy as np

import anchorwalk as aw
import paper_plans_classes as classes
from anchorwalk.benchmark import open_case
from anchorwalk.benchmark.paper import BUDGETS
from anchorwalk.benchmark.tables import Table
from anchorwalk.benchmark.tasks import Variant
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from anchorwalk.walks.diagnostics import summarize
from pages import PARTS, ROOT, benchmark, error_of_median, filled, load, middle, shown, study_of, table, wrapped
from paper_plans_classes import PAPER

WALKS = ("guided", "autoregressive", "rotation", "independent")
STEPS = (0.05, 0.5)
"""The shortest and the longest step of the study."""
PROTOCOLS = ("argmin", "authors")
SHARED = (1000, 10_000)
FITS = ("fit_first", "fit_later")
KINDS = ("Adam", "Lion")
FAR, NEAR = (0, 1), (5, 6)
"""Splits whose reference is far from settled, and splits whose reference is good."""


@functools.cache
def studies():
    """The study's records by split, as far as they go."""
    found = {split: study_of(f"uci_gap-split{split}") for split in REFERENCED}
    return {split: one for split, one in found.items() if one}


def w1(found, split, method, budget):
    """Every run's."""
    return found.values("uci_gap", method, budget, "w1", Variant(split=split))


def floor(*splits):
    """Between halves of the references."""
    found = {shown(load("reference-uci_gap", f"uci_gap-split{split}")["floor"]["w1"]) for split in splits}
    return " to ".join(sorted(found))


def named(splits):
    """Splits in words."""
    return f"split{'s' if len(splits) > 1 else ''} {' and '.join(map(str, splits))}"


def ahead(found, *splits):
    """In how many cells SAE has a lower median W1 than AE."""
    less = [
        median(w1(found, split, "sae", budget)) < median(w1(found, split, "ae", budget))
        for split in splits
        for budget in BUDGETS
    ]
    return f"{sum(less)} of {len(less)}"


def lower(one, other):
    """By how much one median is below another, and the standard error of that."""
    return median(other) - median(one), math.hypot(error_of_median(one), error_of_median(other))


def by_chains(split, budget):
    """W1 of every run by number of chains that share a budget, one member each."""
    cells = studies()[split]["cells"]
    numbers = sorted(int(place.split()[0]) for place in cells if place.endswith(f" chains, {budget}"))
    return {number: [one["w1"] for one in cells[f"{number} chains, {budget}"]] for number in numbers}


def chains_table():
    numbers = sorted({number for split in studies() for budget in SHARED for number in by_chains(split, budget)})
    rows = []
    for split in studies():
        for budget in SHARED:
            medians = {number: median(values) for number, values in by_chains(split, budget).items()}
            best = min(medians.values(), default=None)
            cells = [
                f"**{shown(medians[n])}**" if n in medians and medians[n] == best else shown(medians.get(n))
                for n in numbers
            ]
            rows.append([f"{split}", f"{budget:,}", *cells])
    return table(["split", "budget", *(f"{number}" for number in numbers)], rows)


def chains_error(*splits):
    """The greatest standard error of a median of the table of chains."""
    errors = [
        error_of_median(values) for split in splits for budget in SHARED for values in by_chains(split, budget).values()
    ]
    return f"{max(errors):.3f}"


def chains_words(found):
    """Which numbers of chains bring 1000 epochs below SAE's plan of 10,000."""
    reach = {}
    for split in studies():
        paper = middle(w1(found, split, "sae", 10_000))
        numbers = [f"{number}" for number, values in by_chains(split, 1000).items() if median(values) < paper]
        reach.setdefault(", ".join(numbers) or "none", []).append(split)
    return " ".join(f"{named(splits)}: {numbers}.".capitalize() for numbers, splits in reach.items())


def one_chain(found):
    """One member that has all of 1000 epochs beside AE's plan, where the reference is good."""
    parts = [
        f"{median(by_chains(split, 1000)[1]):.3f} against {median(w1(found, split, 'ae', 1000)):.3f} on split {split}"
        for split in NEAR
    ]
    return " and ".join(parts)


def tried(split):
    """Median loss and W1 by optimiser, rate and batch."""
    return {
        place: [median(one[part] for one in runs) for part in ("loss", "w1")]
        for place, runs in studies()[split]["optimizers"].items()
    }


def optimizers_table():
    """Splits in columns."""
    found = {split: tried(split) for split in studies()}
    rows = []
    for place in next(iter(found.values())):
        optimizer, batch = place.split(", ")
        cells = [f"{one[place][1]:.3f} ({one[place][0]:.2f})" if place in one else "" for one in found.values()]
        rows.append([*optimizer.split(), batch, *cells])
    return table(["optimiser", "rate", "rows in a batch", *(f"split {split}: W1 (loss)" for split in found)], rows)


def optimizers_words():
    """Each optimiser's lowest loss on split 5, and how they compare on all splits."""
    best = {
        split: [min((value, place) for place, value in tried(split).items() if kind in place) for kind in KINDS]
        for split in studies()
    }
    parts = []
    for kind, ((loss, distance), place) in zip(KINDS, best[5], strict=True):
        rate, batch = place.removeprefix(f"{kind} ").split(", ")
        parts.append(
            f"{kind}'s lowest loss on split 5 is {loss:.2f}, with a rate of {rate} and batches of {batch}. "
            f"W1 is {distance:.3f} there."
        )
    less = [sum(lion[0][part] < adam[0][part] for adam, lion in best.values()) for part in (0, 1)]
    parts.append(
        f"At the settings of lowest loss, Lion has the lower loss on {less[0]} of {len(best)} splits "
        f"and the lower W1 on {less[1]}."
    )
    return " ".join(parts)


def unfinished(found):
    """How far AE's members are above the lowest loss that the same epochs reach, and where W1 is lower there."""
    above, nearer = [], []
    for split, study in studies().items():
        loss, distance = min(tried(split).values())
        above.append(median(one["loss_first"] for one in study["inside"]["ae, 1000"]) - loss)
        nearer.append(distance < median(w1(found, split, "ae", 1000)))
    return {"ABOVE": f"{min(above):.2f} to {max(above):.2f}", "NEARER": f"{sum(nearer)} of {len(nearer)}"}


def inside_words():
    """Whether later members are better trained than first ones in SAE."""
    fallen, risen = [], []
    fitted = {True: [], False: []}
    for study in studies().values():
        for budget in BUDGETS:
            first, later, *fits = (
                median(one[part] for one in study["inside"][f"sae, {budget}"]) for part in (*PARTS[:2], *FITS)
            )
            long = budget == 10_000
            (risen if long else fallen).append(later > first if long else later < first)
            fitted[long].append(fits[1] < fits[0])
    return {
        "FALLEN": f"{sum(fallen)} of {len(fallen)}",
        "FALLEN_FIT": f"{sum(fitted[False])} of {len(fitted[False])}",
        "RISEN": f"{sum(risen)} of {len(risen)}",
        "RISEN_FIT": f"{sum(fitted[True])} of {len(fitted[True])}",
    }


def spread(found):
    """AE's and SAE's predictive standard deviation as a multiple of the reference's, where that is good."""
    ratios = []
    for split in NEAR:
        variant = Variant(split=split)
        own = open_case("uci_gap", variant).reference.values.std(1).mean()
        for method in PAPER:
            for budget in BUDGETS:
                ratios.append(median(found.values("uci_gap", method, budget, "spread", variant)) / own)
    return f"{min(ratios):.1f} to {max(ratios):.1f}"


def worth(found):
    """What the anchors of SAE's plan of 1000 epochs are worth, over walks and steps."""
    plan = found.runs("uci_gap", "sae", 1000, Variant(split=5))[0]["plan"]
    walks = [kind(step_size=step) for kind in (aw.GuidedWalk, aw.Autoregressive, aw.Rotation) for step in STEPS]
    each = plan["members"] // plan["chains"]
    sizes = [summarize(walk, each, plan["chains"]).effective_anchors for walk in (*walks, aw.Independent())]
    return f"{min(sizes):.0f} to {max(sizes):.0f}"


def perturbed_words(found):
    """How often moved targets are worse, where the reference is good and where it is not."""
    parts = []
    for splits in (NEAR, FAR):
        differences = [
            lower(w1(found, split, method, budget), [one["w1"] for one in moved])
            for split in splits
            for budget in BUDGETS
            for method in PAPER
            if (moved := studies()[split]["cells"].get(f"{method} perturbed, {budget}"))
        ]
        worse = sum(less > 0 for less, _ in differences)
        sure = sum(abs(less) > 2 * error for less, error in differences)
        parts.append(
            f"On {named(splits)} moved targets have the higher W1 in {worse} of {len(differences)} cells. "
            f"There {sure or 'none'} of the differences are greater than two standard errors."
        )
    return " ".join(parts)


def inside_table(found):
    rows = []
    for split, study in studies().items():
        for budget in BUDGETS:
            for method, title in PAPER.items():
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
    for split in NEAR:
        for budget in BUDGETS:
            medians = [
                median(one["w1"] for one in runs)
                for place, runs in studies()[split]["cells"].items()
                if place.startswith(WALKS) and place.endswith(f", {budget}")
            ]
            ratios.append(max(medians) / min(medians))
    return f"{max(ratios) - 1:.0%}"


def same_starts():
    """Correlation over runs of W1 on splits 0 and 1, between walks that share their first anchors and others."""

    def correlations(ways):
        found = [
            np.corrcoef(*([one["w1"] for one in studies()[split]["cells"][f"{way}, {budget}"]] for way in pair))[0, 1]
            for pair in ways
            for split in FAR
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
            for method in PAPER:
                plain = middle(w1(found, split, method, budget))
                moved = middle([one["w1"] for one in study["cells"].get(f"{method} perturbed, {budget}", [])])
                cells += [shown(plain), shown(moved)]
            rows.append([f"{split}", f"{budget:,}", *cells])
    return table(["split", "budget", "AE", "AE, targets moved", "SAE", "SAE, targets moved"], rows)


def runs_of_paper(found, *splits):
    """How many runs AE and SAE have in a cell of the benchmark, at least."""
    return f"{min(len(w1(found, split, method, budget)) for split in splits for method in PAPER for budget in BUDGETS)}"


def runs_of(section, places=""):
    """How many runs a cell of the study has."""
    counts = {
        len(runs) for study in studies().values() for place, runs in study[section].items() if place.startswith(places)
    }
    return " to ".join(f"{count}" for count in sorted({min(counts), max(counts)}))


def render():
    tables = {protocol: Table(benchmark(), protocol) for protocol in PROTOCOLS}
    found = tables["argmin"]
    parts = {
        "FLOOR_FAR": floor(*FAR),
        "FLOOR_NEAR": floor(*NEAR),
        "AHEAD_FAR": ahead(found, *FAR),
        "AHEAD_NEAR": ahead(found, *NEAR),
        "RUNS_FAR": runs_of_paper(found, *FAR),
        "RUNS_NEAR": runs_of_paper(found, *NEAR),
        "RUNS": runs_of("cells"),
        "RUNS_INSIDE": runs_of("inside", tuple(PAPER)),
        **unfinished(found),
        "INSIDE": inside_table(found),
        **inside_words(),
        "OPTIMIZERS": optimizers_table(),
        "OPTIMIZERS_WORDS": optimizers_words(),
        "CHAINS": chains_table(),
        "CHAINS_WORDS": chains_words(found),
        "ONE_CHAIN": one_chain(found),
        "ERROR_FAR": chains_error(*FAR),
        "ERROR_NEAR": chains_error(*NEAR),
        **classes.parts(tables),
        "WALKS": walk_table(),
        "WIDEST": widest_walk(),
        "WORTH": worth(found),
        **dict(zip(("SAME_STARTS", "OTHER_STARTS"), same_starts(), strict=True)),
        "PERTURBED": perturbed_table(found),
        "PERTURBED_WORDS": perturbed_words(found),
        "SPREAD": spread(found),
    }
    return wrapped(filled("paper_plans.md", parts))


if __name__ == "__main__":
    (ROOT / "docs" / "paper_plans.md").write_text(render())
