"""A run's log: what happened to workers, a line of JSON for each event. No member hangs on it: it has no checksum."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from anchorwalk import files
from anchorwalk.files import Damaged, Missing
from anchorwalk.run.store.manifest import check_counts

LOG = "log.jsonl"


class Losses(NamedTuple):
    """What a log tells."""

    workers: int = 0  # that were lost
    given_up: tuple[int, ...] = ()  # chains that have no more calls than when they were given up
    damaged: str = ""  # why it cannot be read, if so


def note(folder: Path, event: Mapping[str, Any]) -> None:
    """Add an event; no run is worth losing for it."""
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    with suppress(OSError, Damaged):
        files.append(folder / LOG, json.dumps({"time": now, **event}).encode())


def losses(folder: Path, calls: Mapping[int, int]) -> Losses:
    """What the log of a run tells, if it has one, for chains with so many calls behind them."""
    try:
        lines = files.read(folder / LOG).splitlines()
    except Missing:
        return Losses()
    except Damaged as reason:
        return Losses(damaged=str(reason))
    workers, given_up = 0, set[int]()
    for line in lines:
        with suppress(ValueError, TypeError, KeyError):  # a kill may have cut it
            event = files.from_json(line)
            workers += len(event["losses"])
            if event["event"] == "given up":
                check_counts(event["chains"])
                given_up |= {chain for chain in event["chains"] if calls.get(chain, 0) <= event["call"]}
    return Losses(workers, tuple(sorted(given_up)))
