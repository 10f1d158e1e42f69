"""Trials of rates on one weight whose way is known: every batch has the same gradient, and Lion is three lines."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import TrainingFailed
from anchorwalk.plan import rates

ROWS, NOISE, TARGET = 16, 0.5, 2.0
KEY = jax.random.key(0)


@tree.node()
@dataclass(frozen=True)
class AtMean:
    """Anchors that stay at the prior's mean, so that losses are known."""

    def init(self, key, like):
        return aw.WalkState(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like), ())

    def step(self, key, state):
        return state, aw.WalkInfo(jnp.ones(()))


def problem(apply=lambda w, x: w * x):
    data = (np.ones(ROWS, np.float32), np.full(ROWS, TARGET, np.float32))
    return aw.Problem(lambda key: jnp.zeros(()), apply, aw.Normal(scale=NOISE), aw.Prior(scale=1.0), data=data)


def simulated(rate, epochs):
    """Mean loss over the last epoch of Lion on the anchored loss, step by step."""
    steps = 2 * epochs  # batches of 8
    w = mean = 0.0
    losses = []
    for step in range(steps):
        constant = 0.5 * math.log(2 * math.pi * NOISE**2) + 0.5 * math.log(2 * math.pi) / ROWS
        losses.append((TARGET - w) ** 2 / (2 * NOISE**2) + w**2 / (2 * ROWS) + constant)
        gradient = (w - TARGET) / NOISE**2 + w / ROWS
        now = rates.END * rate + 0.5 * (1 - rates.END) * rate * (1 + math.cos(math.pi * step / steps))
        w -= now * np.sign(0.9 * mean + 0.1 * gradient)
        mean = 0.99 * mean + 0.01 * gradient
    return float(np.mean(losses[-2:]))


def find(budget, problem, least_steps=1):
    return rates.find_rate(KEY, problem, budget, AtMean(), least_steps)


@pytest.mark.parametrize("budget", [2000, 5000])
def test_the_best_of_the_ladder_is_found(budget):
    found = find(budget, problem())
    assert found.length == budget // 100
    expected = {rate: simulated(rate, found.length) for rate in map(rates.rate_at, range(-4, 6))}
    for rate, loss in found.losses.items():
        assert loss == pytest.approx(expected[rate], rel=1e-3, abs=1e-4)
    best = min(found.losses, key=found.losses.get)
    assert best > rates.MIDDLE  # 0.001 cannot get there in so few steps, so that trials had to climb
    assert abs(math.log10(found.best / best)) <= 0.25 + 1e-9
    assert found.epochs == len(found.losses) * found.length <= rates.SHARE * budget
    # Either both neighbours are worse, or the trials ran out on the way.
    ladder = [rates.rate_at(place) for place in range(-4, 6)]
    around = [ladder[ladder.index(best) + step] for step in (-1, 1)]
    assert len(found.losses) == rates.TRIALS or all(expected[rate] > expected[best] for rate in around)


def test_rates_that_diverge_are_left_alone_and_counted():
    """The loss is no number beyond a weight of 0.02: half a cosine of 0.001 in 40 steps stops at about that."""
    broken = problem(lambda w, x: jnp.where(w > 0.025, jnp.nan, w) * x)
    found = find(2000, broken)
    failed = [rate for rate, loss in found.losses.items() if math.isinf(loss)]
    assert failed
    assert all(rate > rates.MIDDLE for rate in failed)
    assert found.best <= rates.MIDDLE
    assert found.epochs == found.length * len(found.losses)


def test_where_nothing_stays_finite_rates_are_lowered():
    """No number beyond a weight of 0.004, where 0.001 and 0.0003 lead in 40 steps, and 0.0001 does not."""
    found = find(2000, problem(lambda w, x: jnp.where(w > 0.004, jnp.nan, w) * x))
    finite = [rate for rate, loss in found.losses.items() if math.isfinite(loss)]
    assert finite
    assert max(finite) <= 1e-4
    assert found.best <= 1e-4 * 10**0.25
    with pytest.raises(TrainingFailed, match="at every rate from"):
        find(2000, problem(lambda w, x: w * jnp.nan * x))


def test_a_budget_too_small_for_trials_takes_the_middle():
    for budget, least in ((99, 1), (2000, 41)):
        found = find(budget, problem(), least)
        assert (found.losses, found.epochs) == ({}, 0)
        assert found.training(ROWS, 50) == rates.training_at(rates.MIDDLE, ROWS, 50)
    assert find(2000, problem(), 40).losses


@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (7, 7), (100, 8), (512, 8), (1024, 16), (7000, 32)])
def test_batches_are_small_where_rows_are_few(rows, batch):
    assert rates.training_at(1e-3, rows).batch_size == batch


@pytest.mark.parametrize(("epochs", "share"), [(1, 0.5), (40, 0.5), (90, 1 / 3), (1000, 0.1)])
def test_rates_fall_with_the_root_of_the_length(epochs, share):
    found = rates.Rates(0.02, {0.02: 1.0}, 10, 50).training(100, epochs)
    assert found.optimizer.rate == pytest.approx(0.02 * share)
    assert found.optimizer.end_rate == pytest.approx(0.02 * share * rates.END)
    assert (found.epochs, found.batch_size) == (epochs, 8)


@pytest.mark.parametrize("middle", [-0.4, 0.0, 0.25, 0.5])
def test_the_lowest_point_of_a_parabola_is_found(middle):
    assert rates._lowest(*(3 * (place - middle) ** 2 - 7 for place in (-1, 0, 1))) == pytest.approx(middle)


def test_neighbours_that_diverged_push_half_a_place_away():
    values = (1.0, 0.5, math.inf)
    assert rates._lowest(*values) == pytest.approx(rates._lowest(1.0, 0.5, 1e9), abs=1e-6) == -0.5
    assert rates._lowest(*values[::-1]) == 0.5
    assert rates._lowest(math.inf, 0.5, math.inf) == rates._lowest(0.5, 0.5, 0.5) == 0.0


@pytest.mark.parametrize("tops", [2.6, 9.9], ids=["between trials", "beyond what was tried"])
def test_trials_between_two_rates_take_one_between_them(tops, monkeypatch):
    """Losses that are a parabola over the places of the ladder, from 0.001 at place 0 upwards."""
    monkeypatch.setattr(rates, "_last_loss", lambda key, _, method: (place_of(method.first.optimizer.rate) - tops) ** 2)
    found = find(2000, problem())
    assert len(found.losses) == rates.TRIALS
    expected = rates.MIDDLE * 10 ** (tops / 2) if tops == 2.6 else rates.rate_at(rates.TRIALS - 1)
    assert found.best == pytest.approx(expected, rel=0.1)  # the ladder's rates have one digit


def place_of(rate):
    return round(2 * math.log10(rate / rates.MIDDLE))


def test_the_ladder_has_half_decades():
    assert [rates.rate_at(place) for place in range(-3, 4)] == [3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2]
