"""Writes docs/sequential.md from results/sequential.jsonl. Command: `make docs-tables`."""

from statistics import median

from pages import ROOT, every, filled, shown, table

LABELS = {"uci_gap-split5": "split 5", "uci_gap-split6": "split 6", "uci_gap-split0": "split 0"}

PIXELS = {"-pixelsraw": "0 to 255", "": "divided by 255"}


def cells(label):
    """The runs of every plan of a case, by the plan's name."""
    return {one["place"]: one for one in every("sequential").values() if one["label"] == label}


def middle(one, name):
    """The median over runs; None for a plan that has no such number."""
    values = [run[name] for run in one["runs"] if run[name] is not None and run[name] == run[name]]
    return median(values) if values else None


def is_sequential(one):
    return one["members"] > one["chains"]


def gap_table():
    found = {label: plans for label in LABELS if (plans := cells(label))}
    heads = ["plan", "members", *(f"W1, {LABELS[label]}" for label in found)]
    heads += ["split 5: loss, first", "later", "fit, first", "later", "spread within", "between"]
    rows = []
    for place, one in found["uci_gap-split5"].items():
        row = [place, f"{one['members']}"]
        row += [shown(middle(plans[place], "w1"), 4) if place in plans else "" for plans in found.values()]
        row += [shown(middle(one, name), 2) for name in ("loss_first", "loss_later", "fit_first", "fit_later")]
        row += [shown(middle(one, name)) for name in ("spread_within", "spread_between")]
        rows.append(row)
    return table(heads, rows)


def verdict():
    """For each split: the best plan of either kind."""
    parts = []
    for label, short in LABELS.items():
        plans = cells(label)
        best = {}
        for kind in (True, False):
            of_kind = {place: middle(one, "w1") for place, one in plans.items() if is_sequential(one) == kind}
            if of_kind:
                place = min(of_kind, key=of_kind.get)
                best[kind] = f"{of_kind[place]:.4f} ({place}; {len(of_kind)} tried)"
        if len(best) == 2:
            parts.append(f"- {short}: sequential {best[True]}, one member a chain {best[False]}.")
    return "\n".join(parts)


def derma_table():
    names = ("agreement", "total_variation", "accuracy", "nll", "confidence")
    rows = []
    for pixels, words in PIXELS.items():
        for place, one in cells(f"dermamnist-test_rows1000{pixels}").items():
            scores = [shown(middle(one, name)) for name in names]
            rows.append([words, place, f"{one['epochs']:g}", f"{one['members']}", *scores])
    return table(
        ["pixels", "plan", "epochs", "members", "agreement", "TV", "accuracy", "NLL", "mean top probability"], rows
    )


def render():
    first = next(iter(cells("uci_gap-split5").values()))
    parts = {"GAP": gap_table(), "VERDICT": verdict(), "RUNS": f"{len(first['runs'])}", "DERMA": derma_table()}
    return filled("sequential.md", parts)


if __name__ == "__main__":
    (ROOT / "docs" / "sequential.md").write_text(render())
