"""Writes docs/scale.md from the newest record of results/scale.jsonl. Command: `make scale docs-tables`."""

from typing import NamedTuple

import numpy as np

from anchorwalk.benchmark.cost import readable
from anchorwalk.run.store.writer import MERGED
from pages import RESULTS, ROOT, every, filled, lines, table, wrapped

NOT_YET = "**Not measured yet**: `make scale` writes the record that this part is made from."
MACHINES = ((10, 1), (10, 10), (10, 100), (1000, 100), (1000, 1000))  # chains, machines


class Line(NamedTuple):
    """Seconds of something of so many bytes: fixed + bytes / rate."""

    fixed: float
    rate: float

    def __call__(self, size):
        """Seconds of so many bytes."""
        return self.fixed + size / self.rate


def fitted(points):
    """The line through measured (bytes, seconds), each weighted by its relative error; neither part is negative."""
    sizes, seconds = np.asarray(points, float).T
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    fixed, slope = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)[0]
    if fixed <= 0:
        fixed, slope = 0.0, np.linalg.lstsq(columns[:, 1:], np.ones(len(sizes)), rcond=None)[0][0]
    if slope <= 0:
        fixed, slope = np.linalg.lstsq(columns[:, :1], np.ones(len(sizes)), rcond=None)[0][0], 1e-15
    return Line(float(fixed), float(1 / slope))


def files(chains, members):
    """Files of a run of single chains, on average while it goes on: of each chain a state and members, MERGED by MERGED."""
    return chains * (1 + min(members, MERGED) / 2 + members / MERGED / 2)


class Model(NamedTuple):
    """What a run takes: workers train, the driver takes rounds in and commits them, one after the other."""

    way: Line  # of a round to the driver
    commit: Line  # to a run without files
    a_file: float  # seconds more of each commit for a file that the run has

    @classmethod
    def of(cls, record):
        """What was measured."""
        return cls(fitted(record["rounds"]), fitted(record["commits"]), 1 / fitted(record["files"]).rate)

    def driver(self, size, chains, members):
        """Seconds that the driver spends on a round of some run; a member is written twice, a quarter of the bytes."""
        return self.way(size) + self.commit(size * 5 / 4) + self.a_file * files(chains, members)

    def limit(self, size, seconds, chains, members):
        """Machines from which on the driver is the limit, for rounds of so many seconds."""
        return (seconds + self.way(size)) / self.driver(size, chains, members)

    def seconds(self, chains, machines, size, first, later, members):
        """Wall time of a plan, each machine training a chain at a time: whichever of three limits is the last."""
        chain = first + (members - 1) * later + members * self.way(size)
        work = chains * chain / min(machines, chains)
        rounds = -(-chains // machines) * chain  # chains do not divide
        return max(work, rounds, chains * members * self.driver(size, chains, members))


def newest():
    if "scale" not in lines() or not (RESULTS / "scale.jsonl").exists():
        return None
    found = sorted(every("scale").values(), key=lambda record: record["name"])
    return found[-1] if found else None


def measured(record):
    model, (_, least), (_, most) = Model.of(record), *record["peaks"]
    rows = [
        (f"{size / 1e6:.3g} MB", readable(seconds), readable(model.way(size))) for size, seconds in record["rounds"]
    ]
    commits = [
        (f"{size / 1e6:.3g} MB", readable(seconds), readable(model.commit(size))) for size, seconds in record["commits"]
    ]
    many = [(f"{count:,}", readable(seconds)) for count, seconds in record["files"]]
    over = [
        (
            readable(one["round_seconds"]),
            f"{one['local'] / one['ray']:.2f}",
            f"{one['local'] / one['ray, each call by itself']:.2f}",
        )
        for one in record["overhead"].values()
    ]
    return "\n\n".join(
        [
            f"On {record['cores']} cores, with {record['workers']} workers, by `{record['command']}`.",
            "Rounds that cost nothing, each a task of its own, as the driver gets them:",
            table(["bytes of a round", "seconds between rounds", "the model's"], rows),
            "Commits to a folder:",
            table(["bytes of a round", "seconds", "the model's"], commits),
            "And small ones to a run of many files, since each commit writes the list of them anew:",
            table(["files of the run", "seconds"], many),
            f"So the driver takes {1 / model.way.fixed if model.way.fixed else float('inf'):,.0f} rounds/s at the most, "
            f"{model.way.rate / 1e6:,.0f} MB/s of them, and commits {1 / model.commit.fixed if model.commit.fixed else float('inf'):,.0f} "
            f"rounds/s and {model.commit.rate / 1e6:,.0f} MB/s. Each thousand files of a run add "
            f"{readable(1e3 * model.a_file)} to each commit.",
            f"An epoch of LeNet on [rows of memory maps](howto/large_data.md) runs at "
            f"{record['streaming']['memory'] / record['streaming']['map']:.2f} of its speed on rows in memory. "
            f"On maps of {' and '.join(f'{size / 1e6:,.0f} MB' for size, _ in record['peaks'])} the process needs "
            f"{least / 1e6:,.0f} and {most / 1e6:,.0f} MB of memory of its own at the most.",
            "LeNet on the cluster, in the speed of the same number of threads in one process:",
            table(["seconds of a round", "as it is", "each call a task of its own"], over),
        ]
    )


def predicted(record):
    model, net = Model.of(record), record["resnet20"]
    size, members, (first, later) = net["bytes_of_round"], net["long"], net["epochs"]
    epoch = net["epoch_seconds"]
    rows = []
    for chains, machines in MACHINES:
        seconds = model.seconds(chains, machines, size, first * epoch, later * epoch, members)
        share = chains * members * model.driver(size, chains, members) / seconds
        rows.append((f"{chains:,}", f"{machines:,}", readable(seconds), f"{share:.1%}"))
    limits = [model.limit(size, later * epoch / fast, chains, members) for chains in (10, 1000) for fast in (1, 10)]
    return "\n\n".join(
        [
            f"ResNet-20, an epoch in {readable(epoch)} on one of these machines, rounds of {size / 1e6:.2g} MB, chains "
            f"of {members} members: a first training of {first} epochs and later ones of {later}.",
            table(["chains", "machines", "wall time", "share of it that the driver is busy"], rows),
            "Machines, each with a chain at a time, from which on the driver is the limit. The second figure is for those "
            "that are ten times as fast, as one with a GPU is:",
            table(
                ["chains", "machines that help", "the driver's limit", "where each is faster"],
                [
                    ("10", "10", *(f"{one:,.0f}" for one in limits[:2])),
                    ("1,000", "1,000", *(f"{one:,.0f}" for one in limits[2:])),
                ],
            ),
            f"A run of 10 chains has {files(10, members):,.0f} files on average, one of 1,000 chains "
            f"{files(1000, members):,.0f}.",
        ]
    )


def render(record):
    parts = {"MEASURED": NOT_YET, "PREDICTED": NOT_YET} if record is None else {
        "MEASURED": measured(record), "PREDICTED": predicted(record)}  # fmt: skip
    return wrapped(filled("scale.md", parts))


if __name__ == "__main__":
    (ROOT / "docs" / "scale.md").write_text(render(newest()))
