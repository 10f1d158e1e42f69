"""Writes docs/speed.md from the newest records in results/bench.jsonl. Command: `make bench docs-tables`."""

from itertools import pairwise

from pages import ROOT, bench, every, lines, table

HEAD = """# Speed

Made by `make bench docs-tables` from [bench.jsonl](../results/bench.jsonl), the newest record of each section, the last of {date}, on {cores} cores, JAX {jax}. Everything is a ratio within one run: repetitions of all variants are interleaved, medians
are shown, and the spread beside them tells how shared the machine was (`--only` measures a section again). "Plain loop" is a loop in Python over a training step that is compiled once, with XLA's own
convolution; PyTorch is 2.13 eager, fused Adam, in the better of its two memory formats. Each trains one network. "Of peak" is the share of the best rate that a large float32 matrix product reached.

"""
STARTING = """

## The first answer

Processor seconds beyond the imports, medians over fresh processes. In the first process nothing is compiled yet; the other finds programs that `aw.cache_programs()` kept on disk.
The rows of `fit` follow one another in one process: tables of a like size share programs, which have room for more rows and features.

"""
TARGETS = {
    ("mlp", "own"): ("MLP, 10 chains, an order of rows for each", "ratio_loop", 8, "x plain loop"),
    ("mlp", "shared"): ("MLP, 10 chains, one order of rows for all", "ratio_loop", 15, "x plain loop"),
    ("lenet5", "own"): ("LeNet-5, batch 56", "ratio_torch", 1.3, "x PyTorch"),
    ("alexnet", "own"): ("AlexNet-like, batch 86", "ratio_torch", 0.6, "x PyTorch"),
    ("resnet20", "own"): ("ResNet-20, batch 155", "ratio_torch", 0.7, "x PyTorch"),
    ("cnn_lstm", "own"): ("CNN-LSTM, batch 141", "ratio_torch", 1.0, "x PyTorch"),
}


def best(rows, network, kind):
    """The fastest of our variants of a network, with one order of rows for all chains or with their own."""
    ours = [row for row in rows if row["network"] == network and "chain" in row["variant"]]
    ours = [row for row in ours if ("one order" in row["variant"]) == (kind == "shared")]
    return max(ours, key=lambda row: row["rows_per_second"])


def targets(record):
    lines = ["| work | target | reached | by |", "|---|---|---|---|"]
    for (network, kind), (work, ratio, wanted, unit) in TARGETS.items():
        row = best(record["rows"], network, kind)
        got = row[ratio]
        mark = "" if got >= wanted else " (missed)"
        lines.append(f"| {work} | {wanted:g} {unit} | {got:.2f}{mark} | {row['variant']} |")
    short, growth, chains = (record[n] for n in ("short_trainings", "growth", "member_epochs_per_second_by_chains"))
    rates = list(chains.values())
    rest = [
        ("walk, optimiser reset, bookkeeping and host round trips of two epochs of LeNet", "under 2%",
         f"{short['share_of_walk_and_bookkeeping']:.1%}", short["share_of_walk_and_bookkeeping"] < 0.02),
        ("writing members, of a two-epoch round of LeNet", "under 3%",
         f"{short['share_of_the_store']:.1%}", short["share_of_the_store"] < 0.03),
        ("seconds of a round late in a run of 1,000 members against those of a run of 100", "within 10%",
         f"{growth['ratio_of_seconds'] - 1:+.1%}", growth["ratio_of_seconds"] < 1.1),
        ("peak memory, 1,000 members against 100, stored on disk", "flat",
         f"{growth['ratio_of_memory'] - 1:+.1%}", growth["ratio_of_memory"] < 1.1),
        ("member-epochs/s of the MLP, 1 to 64 chains", "not falling",
         ", ".join(f"{n}: {rate:,.0f}" for n, rate in chains.items()),
         all(b > 0.9 * a for a, b in pairwise(rates))),
        (f"prediction, {record['prediction']['members']:,} LeNet members on {record['prediction']['rows']:,} rows",
         "0.9 of the forward pass", f"{record['prediction']['ratio_to_forward']:.2f}",
         record["prediction"]["ratio_to_forward"] >= 0.9),
        ("`import anchorwalk` against `import jax, optax`; names are imported when they are used", "under 1.1", f"{record['start_up']['ratio_of_imports']:.2f}",
         record["start_up"]["ratio_of_imports"] < 1.1),
    ]  # fmt: skip
    for work, wanted, got, met in rest:
        lines.append(f"| {work} | {wanted} | {got}{'' if met else ' (missed)'} | |")
    return "\n".join(lines)


def throughput(rows):
    heads = ["network", "variant", "rows/s", "lowest to highest", "x plain loop", "x PyTorch", "of peak"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        torch = "" if row["ratio_torch"] is None else f"{row['ratio_torch']:.2f}"
        lines.append(
            f"| {row['network']} | {row['variant']} | {row['rows_per_second']:,.0f} | {row['lowest']:,.0f} to {row['highest']:,.0f} | "
            f"{row['ratio_loop']:.2f} | {torch} | {row['share_of_peak']:.1%} |"
        )
    return "\n".join(lines)


STARTS = {
    "fit": ("`SAERegressor().fit` on diabetes, 401 rows", 5, 1.5),
    "predict": ("the first prediction after it", 1, 1),
    "fit again": ("the same fit again", None, None),
    "fit, 400 rows": ("with 400 rows", None, None),
    "fit, 9 features": ("with 9 features in place of 10", None, None),
    "readme": ("the ten lines of the README", 5, 2),
    "plan_for": ("`plan_for` on a small MLP, trials included", 4, None),
    "MLPRegressor": ("scikit-learn's `MLPRegressor().fit`, 401 rows", None, None),
}
"""What a process does first, and the seconds that are wanted, without and with programs on disk."""


def starts(found):
    lines = ["| work | first process | programs on disk | programs compiled |", "|---|---|---|---|"]
    for name, (work, *wanted) in STARTS.items():
        cells = []
        for kind, limit in zip(("cold", "warm"), wanted, strict=True):
            seconds = found[f"{name}, {kind}"]["processor"]
            aim = "" if limit is None else f" (wanted: {limit}{'' if seconds <= limit else ', missed'})"
            cells.append(f"{seconds:.2f} s{aim}")
        lines.append(f"| {work} | {' | '.join(cells)} | {found[f'{name}, cold']['programs']:.0f} |")
    return "\n".join(lines)


def notes(record):
    reading = record["store_reading"]
    memory, imports = record["prediction_memory"], record["start_up"]["ratio_with_all_names_used"]
    narrow = ", ".join(f"{n}: {gain:.1f}" for n, gain in record["narrow_outputs"].items())
    profile = "; ".join(
        f"of a step of {name}, one chain in a loop, {parts['forward']:.0%} is the forward pass, {parts['backward']:.0%} the backward pass, {parts['adam']:.0%} Adam's state"
        for name, parts in record["profile"].items()
    )
    profile = profile[0].upper() + profile[1:] + "."
    calls = record["rows_of_a_call"]
    by_rows = ", ".join(f"{n}: {micro:,.0f}" for n, micro in calls["microseconds_of_a_row"].items())
    soap = ", ".join(
        f"{name}: {kinds['SOAP']:.1f} ({kinds['SOAP, bases every 32 steps']:.1f})"
        for name, kinds in record["optimizers"].items()
    )
    return f"""
- An epoch with SOAP takes this many times the processor time of one with Adam, in brackets with bases renewed every 32 steps, as `plan_for` has it for small networks: {soap}. What SOAP adds to a step of an MLP is products of small matrices.
- With every public name used, importing takes {imports:.2f} of the time of `import jax, optax`.
- Gradients of a dense layer with so many outputs are faster output by output than as one product by a factor of {narrow}. Two and three are computed so on a CPU.
- {profile}
- A row of LeNet's forward pass takes, in microseconds by the rows of a call, {by_rows}: what a call makes should stay in the caches. `predict` picks {calls["picked"]} rows here.
- Members are read from disk at {reading["ratio"]:.2f} of the rate at which the same files are read at once, checksums included.
- Peak memory grew by {memory["peak_grew_by_bytes"] / 1e6:,.0f} MB while {memory["members"]:,} members of LeNet predicted, which are {memory["bytes_of_members"] / 1e6:,.0f} MB on disk, after ten of them had.
- Of a step of the CNN-LSTM, {record["embedding"]["share_of_the_dense_update"]:.0%} is the dense update of its 20,000 words: anchor and Adam move every word in every step.
"""


def sizes(found):
    """Time and memory by rows and columns; nothing where they are not measured yet."""
    if not found:
        return ""
    newest = {
        (one["found"]["rows"], one["found"]["columns"]): one for one in sorted(found, key=lambda one: one["date"])
    }
    rows = []
    for (count, columns), one in sorted(newest.items()):
        work = one["found"]
        gigabytes = (f"{work[name] / 1e9:.2f}" for name in ("bytes_before", "fit_bytes", "predict_bytes"))
        seconds = (f"{work[f'{name}_seconds']:,.1f}" for name in ("fit", "predict"))
        rows.append([f"{count:,}", f"{columns}", *seconds, *gigabytes])
    budget, cores = one["found"]["budget"], one["cores"]
    words = f"""## Tables by size

Seconds of `SAERegressor(budget={budget})`, {budget} epochs over all chains, and of predicting all of its rows with standard deviations, compilation included; and the peak of the process's memory in GB, with the
table alone, after the fit and after the prediction. Made by `make sizes docs-tables` from [sizes.jsonl](../results/sizes.jsonl), on {cores} cores. Other budgets take proportionally longer.

"""
    heads = ["rows", "columns", "fit, s", "predict, s", "table, GB", "fit, GB", "predict, GB"]
    return words + table(heads, rows) + "\n\n"


def render():
    record = bench()
    head = HEAD.format(date=record["date"], cores=record["cores"], jax=record["jax"])
    tail = (ROOT / "tools" / "templates" / "speed_tail.md").read_text()
    return (
        head
        + targets(record)
        + STARTING
        + starts(record["start"])
        + "\n\n"
        + sizes(every("sizes").values() if "sizes" in lines() else [])
        + "## Throughput\n\n"
        + throughput(record["rows"])
        + "\n"
        + notes(record)
        + "\n"
        + tail
    )


if __name__ == "__main__":
    (ROOT / "docs" / "speed.md").write_text(render())
