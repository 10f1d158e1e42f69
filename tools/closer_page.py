"""Writes docs/closer.md and the README's table from the records. Command: `make docs-tables`."""

import functools
from statistics import median

from anchorwalk.benchmark import records
from anchorwalk.benchmark.paper import BUDGETS, FIGURES
from anchorwalk.benchmark.tables import Table
from anchorwalk.benchmark.tasks import Variant
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from pages import METHODS, RESULTS, ROOT, benchmark, error_of_median, every, filled, load, middle, shown, table, wrapped

BEGIN, END = "<!-- made by tools/closer_page.py -->", "<!-- end -->"
SCORED = ("agreement", "total_variation")
PIXELS = {"0 to 255": Variant(pixels="raw"), "divided by 255": Variant()}
GOOD = (5, 6)
"""Splits whose reference can rank."""


@functools.cache
def former():
    """The records of the planner of version 0.1."""
    return Table(records.read_all(RESULTS / "planner-lion"))


def w1(found, split, method, budget):
    """Every run's."""
    return found.values("uci_gap", method, budget, "w1", Variant(split=split))


def floor(split):
    return load("reference-uci_gap", f"uci_gap-split{split}")["floor"]["w1"]


def plan_of(found, task, budget, variant):
    """A plan in words: chains x (first training + later ones), and the walk's step."""
    for record in found.runs(task, "planned", budget, variant):
        plan = record["plan"]
        first, then = (plan[name].split("epochs=")[1].split(",")[0] for name in ("first", "then"))
        later = plan["members"] // plan["chains"] - 1
        step = float(record["walk"].split("step_size=")[1].rstrip(")"))
        return f"{plan['chains']} x ({first} + {later} x {then}), step {step:.2g}"
    return ""


def gap_table(found):
    rows = []
    for split in REFERENCED:
        for budget in BUDGETS:
            values = [w1(found, split, "ae", budget), w1(found, split, "sae", budget)]
            values += [w1(former(), split, "planned", budget), w1(found, split, "planned", budget)]
            medians = [middle(one) for one in values]
            best = min(value for value in medians if value is not None) if split in GOOD else None
            cells = [f"**{shown(value)}**" if value == best else shown(value) for value in medians]
            error = shown(error_of_median(values[-1]), 4) if values[-1] else ""
            plan = plan_of(found, "uci_gap", budget, Variant(split=split))
            rows.append([f"{split}", f"{budget:,}", *cells, error, plan, f"{floor(split):.3f}"])
    heads = ["split", "epochs", "AE, paper's plan", "SAE, paper's plan", "planner of version 0.1", "`plan_for`"]
    return table([*heads, "its standard error", "its plan", "halves of the reference"], rows)


def derma_table(found):
    rows = []
    for title, variant in PIXELS.items():
        for budget in BUDGETS:
            names = (*SCORED, "accuracy", "nll")
            ours = [found.values("dermamnist", "planned", budget, name, variant) for name in names]
            if not ours[0]:
                continue
            before = [middle(former().values("dermamnist", "planned", budget, name, variant)) for name in SCORED]
            paper = [FIGURES["dermamnist", "sae", budget, name].median if variant.pixels else None for name in SCORED]
            cells = [" ".join(map(shown, one)) if one[0] is not None else "" for one in (paper, before)]
            plan = plan_of(found, "dermamnist", budget, variant)
            scores = [shown(median(value)) for value in ours]
            rows.append([title, f"{budget:,}", *cells, " ".join(scores[:2]), *scores[2:], str(len(ours[0])), plan])
    heads = ["pixels", "epochs", "SAE in the paper", "planner of version 0.1", "`plan_for`", "accuracy", "NLL", "runs"]
    return table([*heads, "its plan"], rows)


def optimizer_cells(section, label):
    found = every("optimizers").values()
    return {one["place"]: one for one in found if one["section"] == section and one["label"] == label}


def seconds_table():
    rows = []
    for split in (5, 6, 0):
        for place, one in optimizer_cells("seconds", f"uci_gap-split{split}").items():
            name, of = place.split(", ")
            plan = f"{one['chains']} x {one['members'] // one['chains']} members"
            score = f"{median(run['w1'] for run in one['runs']):.4f}"
            rows.append([f"{split}", f"{int(of):,}", name, f"{one['budget']:,}", f"{one['seconds']:.2f}", plan, score])
    heads = ["split", "SOAP's epochs", "optimiser", "its epochs", "processor seconds of a run", "plan", "W1"]
    return table(heads, rows)


def endings_table():
    rows = []
    cells = {split: optimizer_cells("endings", f"uci_gap-split{split}") for split in GOOD}
    for place in cells[GOOD[0]]:
        row = [place]
        for split in GOOD:
            runs = cells[split][place]["runs"] if place in cells[split] else []
            row += [shown(middle([run["loss"] for run in runs]), 2), shown(middle([run["w1"] for run in runs]), 4)]
        rows.append(row)
    return table(["ending", *(f"split {split}: {what}" for split in GOOD for what in ("loss", "W1"))], rows)


def hmc_words(found):
    """What Hamiltonian Monte Carlo reaches from trained starts, beside `plan_for`."""
    parts = []
    for split in GOOD:
        for place, one in optimizer_cells("hmc", f"uci_gap-split{split}").items():
            score, ours = median(run["w1"] for run in one["runs"]), middle(w1(found, split, "planned", 10_000))
            parts.append(f"{score:.4f} on split {split} ({place}), where `plan_for` has {ours:.4f}")
    return "; ".join(parts)


def sequential_cells(label):
    return {one["place"]: one for one in every("sequential").values() if one["label"] == label}


def best_of(cells, score, epochs, sequential, largest=False):
    """The best plan of a kind: its score, its name, and how many were tried."""
    found = {
        place: median(run[score] for run in one["runs"])
        for place, one in cells.items()
        if (one["members"] > one["chains"]) == sequential and one["epochs"] > 0.9 * epochs and one["epochs"] <= epochs
    }
    if not found:
        return None
    place = (max if largest else min)(found, key=found.get)
    return found[place], place, len(found)


def kinds_table():
    """The best plan of chains of short trainings beside the best of single trainings."""
    rows = []
    for split in (5, 6, 0):
        cells = sequential_cells(f"uci_gap-split{split}")
        pair = [best_of(cells, "w1", 1000, kind) for kind in (True, False)]
        rows.append([f"UCI-Gap, split {split}", "1,000", "W1", *_both(pair, 4)])
    for title, pixels in (("pixels 0 to 255", "-pixelsraw"), ("pixels / 255", "")):
        cells = sequential_cells(f"dermamnist-test_rows1000{pixels}")
        for epochs in (200, 1000):
            pair = [best_of(cells, "total_variation", epochs, kind) for kind in (True, False)]
            if all(pair):
                rows.append([f"DermaMNIST, {title}", f"{epochs:,}", "TV", *_both(pair, 3)])
    return table(["task", "epochs", "score", "best sequential plan", "best plan of single trainings"], rows)


def _both(pair, digits):
    return [f"{value:.{digits}f}: {place} ({tried} tried)" for value, place, tried in pair]


def lengths_table():
    """W1 of single trainings by their length, at equal epochs, each with the best of the rates that were tried."""
    rows = []
    for split in GOOD:
        found = {}
        for place, one in sequential_cells(f"uci_gap-split{split}").items():
            if one["members"] == one["chains"]:
                epochs = int(place.split(" x ")[1].split(",")[0])
                found.setdefault(epochs, []).append(median(run["w1"] for run in one["runs"]))
        rows.append([f"{split}", *(f"{min(found[epochs]):.3f}" for epochs in sorted(found))])
    return table(["split", *(f"{1000 // epochs} x {epochs} epochs" for epochs in sorted(found))], rows)


def share(found, split):
    """W1 of `plan_for` at 1000 epochs as a share of the paper's sequential plan's at 10,000."""
    ours, paper = (middle(w1(found, split, *cell)) for cell in (("planned", 1000), ("sae", 10_000)))
    return f"{ours:.3f} against {paper:.3f}"


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
    found = Table(benchmark())
    parts = {
        "GAP": gap_table(found),
        "DERMA": derma_table(found),
        "SHARE_5": share(found, 5),
        "SHARE_6": share(found, 6),
        "SECONDS": seconds_table(),
        "ENDINGS": endings_table(),
        "KINDS": kinds_table(),
        "LENGTHS": lengths_table(),
        "HMC": hmc_words(found),
    }
    return wrapped(filled("closer.md", parts))


if __name__ == "__main__":
    (ROOT / "docs" / "closer.md").write_text(render())
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(), Table(benchmark())))
