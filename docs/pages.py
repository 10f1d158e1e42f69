"""What the scripts that make pages from records have in common."""

import json
from pathlib import Path
from statistics import median

import numpy as np

from anchorwalk.benchmark.tables import TITLES

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
    """A planned ensemble's plan in words; nothing where there is no run."""
    for record in found.runs(task, method, budget, variant):
        plan = record["plan"]
        rate, epochs = (plan["first"].split(f"{name}=")[1].split(",")[0] for name in ("(rate", "epochs"))
        each = plan["members"] // plan["chains"]
        return f"{plan['chains']} x {epochs}{f', {each} members a chain' if each > 1 else ''}, rate {float(rate):.1g}"
    return ""


def error_of_median(values):
    """Its standard error: how medians of runs drawn from these runs scatter."""
    drawn = np.random.default_rng(0).choice(values, (2000, len(values)))
    return float(np.median(drawn, axis=1).std())


def filled(template, parts):
    """A template of docs/ with its {{PARTS}}."""
    text = (ROOT / "docs" / template).read_text()
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text
