"""Makes docs/benchmark.md from the records in results/: `make docs-tables`."""

import json
import statistics
from pathlib import Path

from anchorwalk.benchmarks import records
from anchorwalk.benchmarks.anchors import Worth
from anchorwalk.benchmarks.anchors import markdown as anchors_markdown
from anchorwalk.benchmarks.cost import Cost, readable
from anchorwalk.benchmarks.cost import markdown as cost_markdown
from anchorwalk.benchmarks.tables import Table, markdown
from anchorwalk.benchmarks.tasks.uci_gap import REFERENCED
from anchorwalk.reference import packaged

ROOT = Path(__file__).parent.parent
BUDGETS = (200, 500, 1000, 10_000)
METHODS = {"ae": "AE", "sae": "SAE", "planned": "planned"}


def load(name):
    return json.loads((ROOT / "results" / name).read_text())


def references():
    return {split: load(f"reference-uci_gap-{split}.json") for split in REFERENCED}


def reference_table():
    heads = ["split", "chains", "draws", "R-hat of means: median", "90% of rows below", "rows below 1.05"]
    heads += ["R-hat of log-sds: median", "ESS of means: median", "half against half: W1", "W2", "spread"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
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
            f"{packaged(f'uci_gap-{split}').values.std(1).mean():.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def values(found, task, variant, method, budget, score):
    return [
        record["scores"][score]
        for record in found
        if (record["task"], record["variant"], record["method"], record["budget"]) == (task, variant, method, budget)
        and record["protocol"] == "argmin"
        and score in record["scores"]
    ]


def truth_table(found):
    lines = ["| split | budget | method | runs | W1 | spread | NLL | RMSE | CRPS | in 90% interval |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for split in REFERENCED:
        for budget in BUDGETS:
            for method, title in METHODS.items():
                scores = ("w1", "spread", "nll", "rmse", "crps", "coverage_90")
                cells = {s: values(found, "uci_gap", {"split": split}, method, budget, s) for s in scores}
                if not cells["w1"]:
                    continue
                medians = {s: statistics.median(cell) for s, cell in cells.items()}
                numbers = [f"{medians[s]:.3f}" for s in ("w1", "spread", "nll", "rmse", "crps")]
                covered = f"{medians['coverage_90']:.0%}"
                row = [f"{split}", f"{budget:,}", title, f"{len(cells['w1'])}", *numbers, covered]
                lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def verdict(found):
    """How often the median W1 of SAE is below that of AE."""
    ahead, cells, by_split = 0, 0, {}
    for split in REFERENCED:
        for budget in BUDGETS:
            ae, sae = (values(found, "uci_gap", {"split": split}, m, budget, "w1") for m in ("ae", "sae"))
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
        medians = [
            statistics.median(values(found, "uci_gap", {"split": split}, method, 10_000, "w1"))
            for method in ("ae", "sae")
        ]
        share = floor / min(medians)
        verdict = "no ranking can be read from it" if share > 0.5 else "rankings can be read from it"
        parts.append(
            f"  - split {split}: the floor, {floor:.3f}, is {share:.0%} of the better W1 at 10,000 epochs; {verdict}."
        )
    return "\n".join(parts)


def timing():
    record = load("timing-uci_gap.json")
    return (
        f"All of it, {record['records']:,} runs, took {record['seconds'] / 60:.1f} minutes on {record['cores']} cores "
        f"(`{record['command']}`)."
    )


def dermamnist_table(found):
    names = ("agreement", "total_variation", "accuracy", "nll", "ece", "confidence")
    lines = ["| budget | method | members | runs | agreement | TV | accuracy | NLL | ECE | mean top probability |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for budget in BUDGETS:
        for method, title in METHODS.items():
            cells = {name: values(found, "dermamnist", {}, method, budget, name) for name in names}
            if not cells["agreement"]:
                continue
            at = ("dermamnist", method, budget)
            members = next(r["members"] for r in found if (r["task"], r["method"], r["budget"]) == at)
            numbers = " | ".join(f"{statistics.median(cells[name]):.3f}" for name in names)
            lines.append(f"| {budget:,} | {title} | {members} | {len(cells['agreement'])} | {numbers} |")
    return "\n".join(lines)


def render():
    found = records.read_all(ROOT / "results")
    anchors = anchors_markdown([Worth(**row) for row in load("anchors.json")["rows"]]).rstrip()
    cost = load("cost.json")
    costs = [Cost(**row) for row in cost["rows"]]
    slowest = max(costs, key=lambda c: c.epoch_seconds)
    tables = markdown(Table(found)).replace("## Table", "### Table").replace("### Agree", "#### Agree")
    tables = tables.replace("### Total", "#### Total").replace("### W", "#### W").rstrip()
    template = (ROOT / "docs" / "benchmark.template.md").read_text()
    parts = {
        "TIMING": timing(),
        "REFERENCES": reference_table(),
        "TRUTH": truth_table(found),
        "VERDICT": verdict(found),
        "UNDECIDED": undecided(found),
        "DERMAMNIST": dermamnist_table(found),
        "TABLES": tables,
        "ANCHORS": anchors,
        "COST": cost_markdown(costs, BUDGETS).rstrip(),
        "SLOWEST": f"{slowest.task} at 10,000 epochs: {readable(10_000 * slowest.epoch_seconds)}",
        "CORES": str(cost["cores"]),
    }
    for name, text in parts.items():
        template = template.replace("{{" + name + "}}", text)
    return template


if __name__ == "__main__":
    (ROOT / "docs" / "benchmark.md").write_text(render())
