"""What the scripts that make pages from records have in common."""

import json
from pathlib import Path
from statistics import median

from anchorwalk.benchmarks.tables import TITLES

ROOT = Path(__file__).parent.parent
METHODS = {name: TITLES[name] for name in ("ae", "sae", "planned")}
PARTS = ("loss_first", "loss_later", "spread_within", "spread_between")


def load(name):
    """A record of results/."""
    return json.loads((ROOT / "results" / name).read_text())


def middle(values):
    return median(values) if values else None


def shown(value, digits=3):
    """A number, or nothing where there is none."""
    return "" if value is None or value != value else f"{value:.{digits}f}"


def table(heads, rows):
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


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


def filled(template, parts):
    """A template of docs/ with its {{PARTS}}."""
    text = (ROOT / "docs" / template).read_text()
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text
