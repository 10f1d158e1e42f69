"""Figures of the training and of the anchors' walk."""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk.app.report import style
from anchorwalk.app.report.formatting import count, number, percent, spread_out
from anchorwalk.app.report.run import Run
from anchorwalk.app.report.style import BAND, BLUE, CHAINS, GREEN, GRID, MUTED, ORANGE, Picture
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.types import Array, HostArray, Key
from anchorwalk.walks import diagnostics
from anchorwalk.walks.base import Walk, WalkState

LINES = 4
"""Chains that are drawn as lines; of more, their middle and spread."""
CHAINS_READ = 20
"""Chains whose losses are read, at the most."""
LAST = 6
"""Later members whose losses are drawn epoch by epoch."""
POINTS = 400
"""Points of a line, at the most."""
TRACES = 3


def losses(posterior: Posterior, run: Run) -> Picture | None:
    """Losses along epochs: of the first training, and of the last members of each chain; None where none are known."""
    if not run.first:
        return None
    there = {(info.chain, info.index) for info in posterior.infos}
    chains = sorted({chain for chain, _ in there})
    chosen = [chains[i] for i in spread_out(len(chains), LINES if len(chains) <= LINES else CHAINS_READ)]
    last = sorted({index for _, index in there if index})[-LAST:]
    first = _rectangle(posterior, there, chosen, [0], run.first)
    later = _rectangle(posterior, there, chosen, last, run.then) if last else None

    def body(figure: Any) -> None:
        ratios = {"width_ratios": (1, 1.35)} if later is not None else {}
        axes = figure.subplots(1, 1 if later is None else 2, squeeze=False, **ratios)[0]
        _curves(axes[0], first, np.arange(1, run.first + 1), chosen)
        low, high = _limits(first)
        axes[0].set(xlabel="epoch of the first training", ylabel="loss (nats a row)", ylim=(low, high))
        if later is not None:
            epochs = np.arange(1, later.shape[1] + 1)
            for start in range(0, len(epochs), run.then):
                axes[1].axvline(start + 0.5, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))
            _curves(axes[1], later, epochs, chosen)
            axes[1].grid(axis="x", visible=False)
            middle = [run.then * (i + 0.5) + 0.5 for i in range(len(last))]
            axes[1].set_xticks(middle, [f"{index:,}" for index in last])
            axes[1].tick_params(axis="x", length=0)
            axes[1].set(xlabel=f"the last {count(len(last), 'member')} of a chain")
        style.legend(figure, axes[0])

    return style.draw("losses", "Losses along training", _losses_words(run, chosen, first, later, last), body)


def _losses_words(run: Run, chosen: list[int], first: HostArray, later: HostArray | None, last: list[int]) -> str:
    start, end = _middle(first[:, 0]), _middle(first[:, -1])
    words = f"The mean minibatch loss of each epoch, anchor's pull included, {_of_chains(run, chosen)}. "
    if run.first == 1:
        words += f"The first training is one epoch, in which it is {end} in the median, which is too few to settle."
    else:
        words += f"The first training takes it from {start} to {end}"
        words += f" over {count(run.first, 'epoch')}; a line that still falls at its end wants more of them."
    if later is not None and run.then == 1:
        words += f" Right, the one epoch that each new anchor (dotted) gets: {_middle(later)} in the median."
    elif later is not None:
        peaks, valleys = _middle(later[:, :: run.then]), _middle(later[:, run.then - 1 :: run.then])
        words += " Right, every new anchor (dotted) lifts the loss and a short training takes it down again"
        words += f": in the median from {peaks} in its first epoch to {valleys} in its last."
    return words


def _middle(values: HostArray) -> str:
    """The median of what is finite, in words."""
    finite = values[np.isfinite(values)]
    return number(float(np.median(finite))) if finite.size else "nothing finite"


def _of_chains(run: Run, chosen: list[int]) -> str:
    if run.chains <= LINES:
        return f"of {count(run.chains, 'chain')}"
    which = f"all {run.chains:,} chains" if len(chosen) == run.chains else f"{len(chosen)} of {run.chains:,} chains"
    return f"as the median and the 10% to 90% band of {which}"


def _rectangle(
    posterior: Posterior, there: set[tuple[int, int]], chains: list[int], indices: list[int], epochs: int
) -> HostArray:
    """Losses of some members, (chains, epochs of all of them in a row); NaN where there is no member or no number."""
    result = np.full((len(chains), len(indices) * epochs), np.nan)
    for line, chain in enumerate(chains):
        for place, index in enumerate(indices):
            if (chain, index) in there:
                values = np.asarray(posterior[chain, index].trace, float)[:epochs]
                if values.ndim == 1:
                    result[line, place * epochs : place * epochs + len(values)] = values
    result[~np.isfinite(result)] = np.nan
    return result


def _curves(axis: Any, table: HostArray, epochs: HostArray, chains: list[int]) -> None:
    if len(table) > LINES:
        points = spread_out(table.shape[1], POINTS)
        seen = table[:, points]
        seen = seen[:, ~np.isnan(seen).all(axis=0)]
        points = points[~np.isnan(table[:, points]).all(axis=0)]
        low, middle, high = np.nanquantile(seen, [0.1, 0.5, 0.9], axis=0)
        axis.fill_between(epochs[points], low, high, color=BAND, linewidth=0, alpha=0.7, label="10% to 90% of chains")
        axis.plot(epochs[points], middle, color=BLUE, label="median")
        return
    for line, (chain, ink) in enumerate(zip(chains, CHAINS, strict=False)):
        points = _with_peaks(table[line])
        marker = "o" if len(points) <= 60 else None
        axis.plot(epochs[points], table[line][points], color=ink, label=f"chain {chain}", marker=marker, markersize=2.2)


def _with_peaks(values: HostArray) -> HostArray:
    """Places of at most POINTS values, the least and the greatest of each stretch: peaks are not left out."""
    if len(values) <= POINTS:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), POINTS // 2 + 1).astype(int)
    filled = np.where(np.isnan(values), -np.inf, values)
    ends = [(a + int(np.argmax(filled[a:b])), a + int(np.argmin(filled[a:b]))) for a, b in pairwise(edges)]
    return np.unique(np.asarray(ends))


def _limits(table: HostArray) -> tuple[float, float]:
    """Limits that leave out the first epochs' height, beside which all else is flat."""
    values = table[~np.isnan(table)]
    if not values.size:
        return 0.0, 1.0
    later = table[:, table.shape[1] // 20 :]
    high = float(np.nanmax(later)) if not np.isnan(later).all() else float(values.max())
    low = float(values.min())
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + 2 * margin


def members(posterior: Posterior, run: Run) -> Picture | None:
    """Loss of each member on all rows before and after its training; None where it was not evaluated."""
    good = [info for info in posterior.infos if info.good]
    index = np.asarray([info.index for info in good], int)
    before, after = (np.asarray([i.value(name) for i in good], float) for name in ("loss_start", "loss_end"))
    kept = (index > 0) & np.isfinite(before) & np.isfinite(after)
    if run.longest < 3 or not kept.any():
        return None
    index, before, after = index[kept], before[kept], after[kept]
    places = np.unique(index)
    places = places[spread_out(len(places), POINTS)]
    bands = {
        name: np.array([np.quantile(values[index == place], [0.1, 0.5, 0.9]) for place in places]).T
        for name, values in (("before training", before), ("after training", after))
    }

    def body(figure: Any) -> None:
        axis = figure.subplots()
        for (name, (low, middle, high)), ink in zip(bands.items(), (ORANGE, BLUE), strict=True):
            axis.fill_between(places, low, high, color=ink, alpha=0.22, linewidth=0)
            marker = "o" if len(places) <= 40 else None
            axis.plot(places, middle, color=ink, label=name, marker=marker, markersize=2.5)
        axis.set(xlabel="member of a chain, from 0", ylabel="loss on all rows (nats a row)")
        axis.xaxis.get_major_locator().set_params(integer=True)
        style.legend(figure, axis)

    return style.draw("members", "Each member before and after its training", _members_words(bands), body)


def _members_words(bands: dict[str, HostArray]) -> str:
    after = bands["after training"][1]
    tenth = max(1, len(after) // 10)
    start, end = float(np.median(after[:tenth])), float(np.median(after[-tenth:]))
    noise = float(np.std(np.diff(after))) if len(after) > 2 else 0.0
    words = "Loss under a member's new anchor, before and after its training: the median over chains, and 10% to 90%. "
    words += f"After training it is {number(start)} for the first later members and {number(end)} for the last. "
    if end - start > max(3 * noise, 0.02 * abs(start)):
        return words + "It rises along the chains: later trainings may be too short, or the walk's steps too long."
    if start - end > max(3 * noise, 0.02 * abs(start)):
        return words + "It still falls along the chains: the first training was not at its end."
    return words + "It stays level, as it should: later members are trained as well as the first ones."


def anchors(run: Run) -> Picture | None:
    """Example traces of the walk, and what its anchors are worth; None where there is no walk to show."""
    if run.walk is None or run.longest < 2:
        return None
    paths = traces(run.walk, run.longest)
    summary = diagnostics.summarize(run.walk, run.longest, run.chains)
    points = spread_out(run.longest, POINTS)

    def body(figure: Any) -> None:
        axis = figure.subplots()
        axis.axhspan(-1.96, 1.96, color=GRID, alpha=0.5, linewidth=0, label="95% of the prior")
        for path, ink in zip(paths.T, (BLUE, ORANGE, GREEN), strict=True):
            marker = "o" if run.longest <= 60 else None
            axis.plot(points, path[points], color=ink, linewidth=1.2, marker=marker, markersize=2.2)
        high = max(3.0, float(np.abs(paths).max()) * 1.05)
        axis.set(xlabel="member of a chain, from 0", ylabel="anchor (prior standard deviations)", ylim=(-high, high))
        axis.margins(x=0.01)
        axis.xaxis.get_major_locator().set_params(integer=True)
        style.legend(figure, axis)

    worth = f"{summary.effective_anchors:,.0f}"
    total = run.chains * run.longest
    words = (
        f"How anchors of {TRACES} parameters walk along one chain: examples drawn anew from the run's walk, whose own "
        f"anchors are not stored. The run's {count(total, 'anchor')} are worth about {worth} independent draws from "
        f"the prior, and one chain reaches over {percent(summary.span)} of it; {percent(summary.acceptance)} of the "
        "proposed steps are taken."
    )
    if summary.effective_anchors < 2 * run.chains and run.longest >= 10:
        words += " That is little more than its chains alone are: more members or more chains help, and a longer step"
        words += " where later trainings can follow it."
    return style.draw("walk", "The anchors' walk", words, body)


def traces(walk: Walk, members: int) -> HostArray:
    """Positions of a few parameters along one chain, shape (members, TRACES)."""
    steps = -(-members // 64) * 64  # so that few lengths have to be compiled
    start, path = _walked(walk, jax.random.split(jax.random.key(0), steps))
    return np.concatenate([np.asarray(start)[None], np.asarray(path)])[:members]


@jax.jit
def _walked(walk: Walk, keys: Key) -> tuple[Array, Array]:
    state = walk.init(keys[0], jnp.zeros(TRACES))

    def step(state: WalkState, key: Key) -> tuple[WalkState, Array]:
        state, _ = walk.step(key, state)
        return state, state.position

    return state.position, jax.lax.scan(step, state, keys[1:])[1]
