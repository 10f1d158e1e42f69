"""Writes docs/methods.md from results/methods.jsonl. Command: `make docs-tables`."""

from statistics import median

from anchorwalk.benchmark.tables import TITLES
from pages import ROOT, error_of_median, every, filled, lines, shown, table

FILE, FIGURE = "methods", "figures/methods.png"
GAPS = {f"uci_gap-split{split}": f"split {split}" for split in (5, 6, 0, 1)}
DERMA = "dermamnist-test_rows1000-pixelsraw"
BUDGETS = (200, 1000, 10_000)
SIZE = 8
"""Settings of a search."""
FEWEST = 5
"""Runs from which on a median has a standard error."""
NUMBERS = (("w1", "W1", 4), ("nll", "NLL", 3), ("coverage_90", "coverage of 90%", 3), ("crps", "CRPS", 4))
CLASSES = (
    *(("agreement", "agreement", 3), ("total_variation", "TV", 3)),
    *(("nll", "NLL", 3), ("ece", "calibration error", 3), ("accuracy", "accuracy", 3)),
)
NONE = "No runs of this table are recorded yet: `make methods` makes them, and `make docs-tables` this page."


def recorded():
    """All records; none before the first `make methods`."""
    return list(every(FILE).values()) if FILE in lines() else []


def cells(found, label, budget):
    """The cells of the table by method; those without runs too."""
    rows = {one["method"]: one for one in found if one["section"] == "table"
            and (one["label"], one["budget"]) == (label, budget)}  # fmt: skip
    return {name: rows[name] for name in TITLES if name in rows}


def middle(one, score):
    """The median over runs."""
    values = [run[score] for run in one["runs"] if run.get(score) is not None]
    return median(values) if values else None


def results(found, labels, budgets, scores):
    """A table for each budget: rows are methods, the best first; and what is not there."""
    parts, nothing = [], []
    for budget in budgets:
        for label, title in labels.items():
            ranked = cells(found, label, budget)
            have = {name: one for name, one in ranked.items() if one["runs"]}
            rows = []
            for name, one in sorted(have.items(), key=lambda item: _rank(item[1], scores)):
                numbers = [shown(middle(one, score), digits) for score, _, digits in scores]
                numbers[0] += _error(one, *scores[0])
                cost = [f"{one['passes']:,g}", f"{one['seconds']:,.1f}", _runs(one, scores[0][0])]
                rows.append([TITLES[name], *numbers, f"{one['chains']} x {one['members'] // one['chains']}", *cost])
            if not ranked:
                nothing.append(f"{budget:,} epochs{title}")
                continue
            floor = next((one["floor"].get(scores[0][0]) for one in have.values()), None)
            known = "" if floor is None else f" (halves of the reference {floor:.3f} apart)"
            heads = ["method", *(head for _, head, _ in scores), "chains x draws", "passes", "seconds", "runs"]
            without = [TITLES[name] for name in ranked if name not in have]
            missing = [TITLES[name] for name in TITLES if name not in ranked]
            notes = [
                *(
                    [f"No result, as the budget is too small or all chains ran away: {'; '.join(without)}."]
                    * bool(without)
                ),
                *([f"Not recorded yet: {'; '.join(missing)}."] * bool(missing)),
            ]
            parts.append("\n\n".join([f"### {budget:,} epochs{title}{known}", table(heads, rows), *notes]))
    if parts and nothing:
        parts.append(f"Not recorded yet: {'; '.join(nothing)}.")
    return "\n\n".join(parts) or NONE


def _error(one, score, head, digits):
    """The standard error of a median, where there are runs enough to tell."""
    values = [run[score] for run in one["runs"] if run.get(score) is not None]
    return f" ± {error_of_median(values):.{digits}f}" if len(values) >= FEWEST else ""


def _runs(one, score):
    """How many runs there are, and how many of them have a posterior."""
    good = sum(run.get(score) is not None for run in one["runs"])
    return f"{good}" if good == len(one["runs"]) else f"{good} of {len(one['runs'])}"


def _rank(one, scores):
    score = scores[0][0]
    value = middle(one, score)
    if value is None or value != value:
        return float("inf")
    return -value if score == "agreement" else value


def settings(found):
    """What each search has chosen, and how well it did on the rows held back."""
    tried = {}
    for one in found:
        if one["section"] == "search":
            tried.setdefault((one["label"], one["budget"], one["method"]), []).append(one)
    rows = []
    for (label, budget, name), all_of in tried.items():
        good = [one for one in all_of if one["nll"] is not None]
        if good:
            best = min(good, key=lambda one: one["nll"])
            words = ", ".join(f"{key} {value}" for key, value in best["settings"].items())
            scores = [f"{best['nll']:.3f}", f"{max(one['nll'] for one in good):.3f}"]
            under_way = "" if len(all_of) >= SIZE else f", {SIZE - len(all_of)} to come"
            rows.append(
                [label, f"{budget:,}", TITLES[name], words, *scores, f"{len(good)} of {len(all_of)}{under_way}"]
            )
    return table(["case", "epochs", "method", "chosen", "NLL", "NLL of the worst", "ran"], rows) if rows else NONE


def render(found=None):
    found = recorded() if found is None else found
    drawn = any(one["section"] == "table" for one in found) and (ROOT / "docs" / FIGURE).exists()
    parts = {
        "GAP": results(found, {label: f", {short}" for label, short in GAPS.items()}, BUDGETS, NUMBERS),
        "DERMA": results(found, {DERMA: ""}, BUDGETS[:2], CLASSES),
        "SETTINGS": settings(found),
        "FIGURE": f"![Distance to the reference against cost]({FIGURE})" if drawn else "",
    }
    return filled("methods.md", parts).replace("\n\n\n", "\n\n")


if __name__ == "__main__":
    (ROOT / "docs" / "methods.md").write_text(render())
