"""Compares results/ with its state at a commit that had one JSON file for each record: every number must be there.

Command: `python tools/compare_results.py COMMIT`, such as 48ec7c6, the last commit with such files.
"""

import json
import subprocess
import sys

from pages import ROOT, bench, load, study_of

SECTIONS = ("cells", "inside", "pixels", "optimizers")


def former(commit):
    """The records at a commit, by the names of their files."""

    def git(*arguments, **options):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True, **options).stdout

    names = git("ls-tree", "--name-only", commit, "results/").decode().split()
    names = [name for name in names if name.endswith(".json")]
    content = git("cat-file", "--batch", input="".join(f"{commit}:{name}\n" for name in names).encode())
    for name in names:
        size = int(content[: content.index(b"\n")].split()[2])
        start = content.index(b"\n") + 1
        yield name.removeprefix("results/").removesuffix(".json"), json.loads(content[start : start + size])
        content = content[start + size + 1 :]


def present(name, record):
    """What stands in results/ now in the place of a former file."""
    kind = record.get("kind")
    if kind == "benchmark":
        return load(f"{record['task']}-{record['method']}", name)
    if kind == "study":
        return study_of(name.removeprefix("study-"))
    if kind == "bench":
        return bench(name.removeprefix("bench-"))
    if name.startswith("energy-"):
        return load("energy", record["gap"])
    places = {
        "comparison": lambda: load("comparison", record["data"]),
        "reference": lambda: load("reference-uci_gap", record["label"]),
        "prior": lambda: load("prior-imdb", f"{record['prior_variance']:g}"),
    }
    return places[kind]() if kind in places else load(name, kind)


def main():
    compared = numbers = 0
    for name, record in former(sys.argv[1]):
        found = {key: value for key, value in present(name, record).items() if key in record}
        if json.dumps(found, sort_keys=True) != json.dumps(record, sort_keys=True):
            sys.exit(f"{name} is not what it was")
        compared += 1
        numbers += count(record)
    print(f"{compared:,} records with {numbers:,} numbers and texts are all there, unchanged")


def count(value):
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    return sum(map(count, value)) if isinstance(value, list) else 1


if __name__ == "__main__":
    main()
