"""What the scripts that make pages from records have in common.

Pages are made from the lines of results/ that `made_from.json` counts, so that a new record makes no page wrong. As a
script, this counts anew: `make docs-tables` does that first.
"""

import functools
import json
import re
import textwrap
from pathlib import Path
from statistics import median

import numpy as np

from anchorwalk.benchmark import records
from anchorwalk.benchmark.tables import TITLES

ROOT = Path(__file__).parent.parent
RESULTS, MADE_FROM = ROOT / "results", ROOT / "tools" / "made_from.json"
METHODS = {name: TITLES[name] for name in ("ae", "sae", "planned")}
WIDTH = 100
PARTS = ("loss_first", "loss_later", "spread_within", "spread_between")


@functools.cache
def lines():
    """How many lines of each file of results/ pages are made from."""
    return json.loads(MADE_FROM.read_text())


@functools.cache
def every(file):
    """The records of a file of results/, by name."""
    return records.read(RESULTS / f"{file}.jsonl", lines()[file])


@functools.cache
def benchmark():
    """The records of the benchmark."""
    return records.read_all(RESULTS, lines())


def load(file, name):
    """A record of a file of results/."""
    return every(file)[name]


def study_of(label):
    """The cells of a study by section and place, and what they share; nothing where there are none."""
    found = {}
    for record in every(f"study-{label.split('-')[0]}").values():
        if record["label"] == label:
            found |= {name: value for name, value in record.items() if name not in ("name", "runs")}
            found.setdefault(record["section"], {})[record["place"]] = record["runs"]
    return found


def bench(date=None):
    """The newest measurement of each section of speed, or those of a date."""
    found = {}
    for record in sorted(every("bench").values(), key=lambda record: record["date"]):
        if date in (None, record["date"]):
            found |= {name: value for name, value in record.items() if name not in ("name", "found")}
            found[record["section"]] = record["found"]
    return found


def middle(values):
    return median(values) if values else None


def shown(value, digits=3):
    """A number, or nothing where there is none."""
    return "" if value is None or value != value else f"{value:.{digits}f}"


def table(heads, rows):
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def error_of_median(values):
    """Its standard error: how medians of runs drawn from these runs scatter."""
    drawn = np.random.default_rng(0).choice(values, (2000, len(values)))
    return float(np.median(drawn, axis=1).std())


def filled(template, parts):
    """A template with its {{PARTS}}."""
    text = (ROOT / "tools" / "templates" / template).read_text()
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def wrapped(page):
    """A page with its paragraphs and lists in short lines; tables, headings, figures and code stay as they are."""
    blocks = []
    for block in page.split("\n\n"):
        if not block.lstrip().startswith(("|", "#", "!", "```")):
            items = re.split(r"\n(?=- |\d\. )", block.rstrip("\n"))
            indents = [" " * (re.match(r"(- |\d\. )?", item).end()) for item in items]
            block = "\n".join(
                textwrap.fill(
                    " ".join(item.split()),
                    WIDTH,
                    subsequent_indent=indent,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                for item, indent in zip(items, indents, strict=True)
            )
        blocks.append(block)
    return "\n\n".join(blocks).rstrip("\n") + "\n"


if __name__ == "__main__":
    counted = {path.stem: path.read_bytes().count(b"\n") for path in sorted(RESULTS.glob("*.jsonl"))}
    MADE_FROM.write_text(json.dumps(counted, indent=1) + "\n")
