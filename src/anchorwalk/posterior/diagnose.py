"""How far the chains of a posterior agree on predictions, and how many independent members they are worth."""

import html
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from anchorwalk.likelihoods import Likelihood, NormalLikelihood
from anchorwalk.methods.base import MemberInfo
from anchorwalk.posterior.metrics import convergence
from anchorwalk.posterior.passes import moments
from anchorwalk.types import Array, HostArray

LEAST = convergence.LEAST  # members of a chain from which on R-hat and effective sizes are given
ENOUGH = 20  # effective members from which on none are asked for: 20 tell a standard deviation to a sixth
DISAGREE = 1.1  # R-hat above which chains are said to disagree, unless so short chains pass it by chance
TOLERATED = 0.1  # share of predictions that may disagree: twice that of independent members at the limit by chance
NEARLY_INDEPENDENT = 0.5  # effective share of the members from which on a longer step cannot help much
MANY = 8  # chains from which on short ones are not said to need more members: their first ones are independent
DIVERGED = 0.01  # share of diverged members from which on a lower rate is advised


class Quantity(NamedTuple):
    """What was found for one kind of prediction, each array in its shape: (rows, ...).

    Rank-normalised split R-hat, NaN where predictions do not vary or are not finite; effective number of independent
    members for averages; the same for squared deviations from the average.
    """

    r_hat: HostArray
    effective: HostArray
    effective_spread: HostArray


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What `posterior.diagnose` finds; it prints as sentences, with advice where the numbers call for it.

    It is on `members` of so many `chains`, and on `rows` of inputs. R-hat and effective members are NaN for chains of
    fewer than ten members. Members that are one a chain are independent by construction, so all of them are effective.

    `r_hat_median` and `r_hat_worst` are the median and the greatest R-hat over predictions. In chains of this length
    one in twenty predictions of independent members would pass `r_hat_by_chance`. `share_above_1_05`, `share_above_1_1`
    and `share_above_chance`, which is 1.1 or `r_hat_by_chance`, whichever is more, are shares of predictions.

    `effective` and `effective_spread` are effective members for averages and for variances, medians over predictions;
    nine tenths of the predictions have at least `effective_tenth` and `effective_spread_tenth`. `spread_within` and
    `spread_between` are standard deviations of the predictive mean within chains and between the chains' averages (NaN
    for one chain), averaged over predictions.

    `loss_first` and `loss_later` are mean full-data losses after training of first and of later members, in nats per
    row, NaN if not evaluated; `loss_noise` is the standard error of their difference were all trained equally well.
    `gradient_first` and `gradient_later` are mean norms of the gradient then.

    `diverged` members are left out, and `unused` good ones: those beyond the chains' common length, or in chains of
    less than half the longest one's. `still` predictions do not vary or are not finite, and are not judged.
    `quantities` has arrays for "mean" (of classes, probabilities) and, where normal noise varies by member, "log_std".
    """

    chains: int
    members: int
    rows: int
    r_hat_median: float
    r_hat_worst: float
    r_hat_by_chance: float
    share_above_1_05: float
    share_above_1_1: float
    share_above_chance: float
    effective: float
    effective_tenth: float
    effective_spread: float
    effective_spread_tenth: float
    spread_within: float
    spread_between: float
    loss_first: float
    loss_later: float
    loss_noise: float
    gradient_first: float
    gradient_later: float
    diverged: int
    unused: int
    still: int
    quantities: Mapping[str, Quantity] = field(repr=False)

    @property
    def judged(self) -> bool:
        """Whether chains are long enough for R-hat, and any prediction varies."""
        return not math.isnan(self.r_hat_median)

    @property
    def agree(self) -> bool | None:
        """Whether chains agree on predictions, up to one in ten; None where that is not known."""
        return self.share_above_chance <= TOLERATED if self.judged and self.chains > 1 else None

    @property
    def advice(self) -> tuple[str, ...]:
        """What to change, where the numbers call for it."""
        return tuple(_advice(self))

    def __str__(self) -> str:
        advice = [("advice", one) for one in self.advice or ["nothing to change"]]
        return "\n".join(f"{name:<8} {words}" for name, words in [*_lines(self), *advice])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


class Rectangle(NamedTuple):
    """Members that make chains of equal length."""

    chains: list[list[MemberInfo]]  # the used members of each chain, in their order
    diverged: int
    unused: int  # good members that are left out


def rectangle(infos: Sequence[MemberInfo]) -> Rectangle:
    """The first n good members of each chain, n being the common length; those after diverged members move up.

    Chains of less than half the longest one's members are left out: a short one would cost all others their members.
    """
    by_chain: dict[int, list[MemberInfo]] = defaultdict(list)
    for info in infos:
        if info.good:
            by_chain[info.chain].append(info)
    longest = max(map(len, by_chain.values()), default=0)
    long = [chain for _, chain in sorted(by_chain.items()) if 2 * len(chain) >= longest]
    common = min(map(len, long), default=0)
    good = sum(map(len, by_chain.values()))
    return Rectangle([chain[:common] for chain in long], len(infos) - good, good - common * len(long))


def examine(
    infos: Sequence[MemberInfo], used: Rectangle, likelihood: Likelihood, outputs: Iterable[Array]
) -> Diagnosis:
    """The diagnosis of all members, given the outputs of the used ones, one after the other."""
    chains, members = len(used.chains), len(used.chains[0])
    predictions = _predictions(likelihood, outputs, (chains, members))
    measures = (convergence.r_hat, convergence.effective_size, convergence.effective_size_of_spread)
    judged = predictions if members >= LEAST else {}
    quantities = {name: Quantity(*(measure(values) for measure in measures)) for name, values in judged.items()}
    everything = [np.concatenate([np.empty(0), *(found[i].ravel() for found in quantities.values())]) for i in range(3)]
    r_hat, effective, spread = (found[~np.isnan(found)] for found in everything)
    alone = float(chains) if members == 1 else math.nan
    chance = by_chance(chains, members) if r_hat.size else math.nan
    within, between = _spreads(predictions["mean"])
    return Diagnosis(
        chains=chains,
        members=chains * members,
        rows=predictions["mean"].shape[2],
        r_hat_median=_quantile(r_hat, 0.5),
        r_hat_worst=_quantile(r_hat, 1),
        r_hat_by_chance=chance,
        share_above_1_05=_share(r_hat, 1.05),
        share_above_1_1=_share(r_hat, 1.1),
        share_above_chance=_share(r_hat, max(DISAGREE, chance)),
        effective=_quantile(effective, 0.5, alone),
        effective_tenth=_quantile(effective, 0.1, alone),
        effective_spread=_quantile(spread, 0.5, alone),
        effective_spread_tenth=_quantile(spread, 0.1, alone),
        spread_within=within,
        spread_between=between,
        **_left_over(infos),
        diverged=used.diverged,
        unused=used.unused,
        still=everything[0].size - r_hat.size,
        quantities=quantities,
    )


@lru_cache(maxsize=64)
def by_chance(chains: int, members: int) -> float:
    """The 95% quantile of R-hat of independent draws, by simulation."""
    repeats = int(np.clip(2**20 // (chains * members), 40, 400))
    draws = np.random.default_rng(0).normal(size=(chains, members, repeats))
    return float(np.quantile(convergence.r_hat(draws), 0.95))


def _predictions(likelihood: Likelihood, outputs: Iterable[Array], shape: tuple[int, int]) -> dict[str, HostArray]:
    """Predictive means, and log standard deviations where they depend on the member, (chains, members, rows, ...)."""
    normal = isinstance(likelihood, NormalLikelihood)
    means, scales = [], []
    for one in outputs:
        mean, variance = moments(likelihood, one)
        means.append(np.asarray(mean))
        if normal:
            scales.append(0.5 * np.log(np.asarray(variance)))
    found = {"mean": np.stack(means)}
    if normal and any((scale != scales[0]).any() for scale in scales):
        found["log_std"] = np.stack(scales)
    return {name: values.reshape(*shape, *values.shape[1:]) for name, values in found.items()}


def _quantile(values: HostArray, level: float, otherwise: float = math.nan) -> float:
    # An infinite R-hat is possible; nothing is interpolated with it.
    return float(np.quantile(values, level, method="nearest")) if values.size else otherwise


def _share(values: HostArray, limit: float) -> float:
    return float(np.mean(values > limit)) if values.size else math.nan


def _spreads(means: HostArray) -> tuple[float, float]:
    """Standard deviations within chains and between their averages, averaged over predictions."""
    chains, members = means.shape[:2]
    means = means.astype(np.float64)
    with np.errstate(all="ignore"):  # what is not finite is told by the prediction itself
        within = float(np.mean(np.sqrt(means.var(axis=1, ddof=1).mean(axis=0)))) if members > 1 else math.nan
        between = float(np.mean(means.mean(axis=1).std(axis=0, ddof=1))) if chains > 1 else math.nan
    return within, between


def _left_over(infos: Sequence[MemberInfo]) -> dict[str, float]:
    """Losses and gradients after first and later trainings, as far as they were evaluated.

    Trained equally well they have one distribution; their difference has at most the noise of two members a chain.
    """
    told = [info for info in infos if info.good and math.isfinite(info.value("loss_end"))]
    ends = np.array([(info.value("loss_end"), info.value("gradient_norm_end")) for info in told]).reshape(-1, 2)
    is_first = np.array([info.index == 0 for info in told], bool)
    first, later = ends[is_first], ends[~is_first]
    found: dict[str, float] = {}
    for name, part in (("first", first), ("later", later)):
        loss, gradient = part.mean(axis=0) if len(part) else (math.nan, math.nan)
        found |= {f"loss_{name}": float(loss), f"gradient_{name}": float(gradient)}
    noise = math.nan
    if len(first) and len(later) > 1:
        noise = float(later[:, 0].std(ddof=1)) * math.sqrt(2 / len({info.chain for info in told}))
    return {**found, "loss_noise": noise}


def _lines(found: Diagnosis) -> Iterable[tuple[str, str]]:
    """What was found, a name and words at a time."""
    length = found.members // found.chains
    counts = f"{found.members:,} ({found.chains:,} {_plural('chain', found.chains)} x {length:,})"
    yield "members", counts + _worth(found, length)
    if found.judged:
        yield "chains", _agreement(found)
    spreads = {"within chains": found.spread_within, "between their averages": found.spread_between}
    if words := [f"{value:.3g} {name}" for name, value in spreads.items() if not math.isnan(value)]:
        yield "spread", ", ".join(words)
    if not math.isnan(found.loss_later - found.loss_first):
        yield (
            "loss",
            f"{found.loss_first:.4g} after first trainings, {found.loss_later:.4g} after later ones (gradient norm "
            f"{found.gradient_first:.2g} and {found.gradient_later:.2g})",
        )
    notes = {
        f"{found.diverged:,} diverged {_plural('member', found.diverged)}": found.diverged,
        f"{found.unused:,} {_plural('member', found.unused)} beyond the chains' common length": found.unused,
        f"{found.still:,} predictions that do not vary or are not finite": found.still,
    }
    if any(notes.values()):
        yield "left out", ", ".join(note for note, count in notes.items() if count)


def _worth(found: Diagnosis, length: int) -> str:
    if found.members == 1:
        return ": one member, nothing to compare it with"
    if length == 1:
        return ", independent by construction: one member a chain has no R-hat"
    if length < LEAST:
        return f"; a chain has too few to say what they are worth, which takes {LEAST}"
    if not found.judged:
        return ", whose predictions do not vary"
    return (
        f", worth about {found.effective:,.0f} independent ones for averages and {found.effective_spread:,.0f} for "
        f"variances; on a tenth of the predictions less than {found.effective_tenth:,.0f} and "
        f"{found.effective_spread_tenth:,.0f}"
    )


def _agreement(found: Diagnosis) -> str:
    numbers = (
        f"R-hat {found.r_hat_median:.3f} in the median, {found.r_hat_worst:.3g} at worst, above 1.05 for "
        f"{found.share_above_1_05:.0%} and above 1.1 for {found.share_above_1_1:.0%} of predictions"
    )
    if found.r_hat_by_chance > DISAGREE:
        numbers += f" (chains this short pass {found.r_hat_by_chance:.2f} for 5% by chance)"
    if found.agree is None:
        return f"only one, so agreement between chains is not known; between its halves {numbers}"
    return f"{'agree' if found.agree else 'do not agree'}: {numbers}"


def _advice(found: Diagnosis) -> Iterable[str]:
    length = found.members // found.chains
    behind = found.loss_later - found.loss_first > 2 * found.loss_noise  # False for NaN, here and below
    if found.loss_first - found.loss_later > 2 * found.loss_noise:
        reason = "later ones keep improving, so chains start outside the posterior"
        yield f"train first members longer (`first`, or an estimator's `budget`): {reason}"
    if behind:
        yield "train later members longer (`then`, or an estimator's `budget`): their loss stays above the first ones'"
    if found.chains == 1:
        yield "run more chains, about four: a single one cannot tell what it has not seen"
    worth = min(found.effective, found.effective_spread)
    if found.agree is False:
        yield "run more chains, or take a larger step of the walk: each chain has seen a part of the posterior only"
    elif worth >= NEARLY_INDEPENDENT * found.members and worth < ENOUGH:
        what = "chains" if length == 1 else "members or chains"
        yield f"train more {what}: these are nearly independent, but few"
    elif worth < ENOUGH and behind:
        yield "run more chains: members of a chain are much alike, and a larger step would leave them further behind"
    elif worth < ENOUGH:
        yield "take a larger step of the walk, or run more chains: members of a chain are much alike"
    elif 1 < length < LEAST and found.chains < MANY:
        yield f"train at least {LEAST} members a chain to have them judged"
    if found.diverged > DIVERGED * (found.members + found.unused + found.diverged):
        yield "lower the rate of `then`: members that diverge are left out, which is a selection"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
