"""Diagnoses of posteriors whose answer is known."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.posterior.diagnose import _left_over, by_chance, rectangle
from anchorwalk.posterior.metrics import convergence
from chains import autoregressive, chains_of

RNG = np.random.default_rng(5)
ROWS = np.arange(30)


def normal(chains, members, rows=30):
    return RNG.normal(size=(chains, members, rows))


def test_independent_members_are_all_effective_and_nothing_is_advised():
    values = normal(4, 100)
    found = chains_of(values, loss=RNG.normal(size=(4, 100))).diagnose(ROWS)
    assert (found.chains, found.members, found.rows) == (4, 400, 30)
    # One effective size has an error of about 400 / sqrt(100) here, the median over 30 rows less.
    assert 300 < found.effective < 500
    assert 300 < found.effective_spread < 500
    assert found.effective_tenth < found.effective
    assert found.r_hat_median < 1.02 < 1.05 < found.r_hat_by_chance + 0.05
    assert found.share_above_1_1 == found.share_above_1_05 == 0
    assert found.agree is True
    assert found.advice == ()
    assert str(found).endswith("nothing to change")
    assert "chains   agree" in str(found)
    single = values.astype(np.float32)
    np.testing.assert_allclose(found.quantities["mean"].r_hat, convergence.r_hat(single), rtol=1e-12)
    np.testing.assert_allclose(found.quantities["mean"].effective, convergence.effective_size(single), rtol=1e-12)


def test_members_that_are_alike_are_worth_what_their_correlation_says():
    values = autoregressive(RNG, 0.9, (4, 200, 30))
    found = chains_of(values).diagnose(ROWS)
    expected = 800 * 0.1 / 1.9  # 42
    # An effective size of 42 is known to within a third or so for a row, and the median of 30 rows to a fifth.
    assert abs(found.effective / expected - 1) < 0.25
    assert found.effective_spread > 1.3 * found.effective  # 800 * 0.19 / 1.81 = 84
    assert "worth about" in str(found)
    stuck = chains_of(autoregressive(RNG, 0.995, (1, 50, 30))).diagnose(ROWS)
    assert stuck.effective < 20
    assert any("members of a chain are much alike" in one for one in stuck.advice)


def test_chains_that_differ_do_not_agree():
    values = normal(4, 50) + 2 * np.arange(4)[:, None, None]
    found = chains_of(values).diagnose(ROWS)
    assert found.agree is False
    assert found.r_hat_median > 1.5
    assert found.share_above_1_1 == found.share_above_1_05 == 1
    (advice,) = found.advice
    assert "run more chains" in advice
    assert "do not agree" in str(found)
    # Within chains 1; between 2 * sd(0, 1, 2, 3) = 2.58, to which the averages' own noise of 1/7 adds little.
    assert abs(found.spread_within - 1) < 0.05
    assert abs(found.spread_between - 2 * np.std(range(4), ddof=1)) < 0.1


def test_one_chain_tells_nothing_of_others():
    found = chains_of(normal(1, 60)).diagnose(ROWS)
    assert found.agree is None
    assert found.judged
    assert math.isnan(found.spread_between)
    assert "agreement between chains is not known" in str(found)
    assert any("run more chains" in one for one in found.advice)


def test_one_member_a_chain_is_told_in_words():
    found = chains_of(normal(25, 1)).diagnose(ROWS)
    assert found.effective == found.effective_tenth == found.effective_spread == found.members == 25
    assert math.isnan(found.r_hat_median)
    assert math.isnan(found.share_above_1_05)
    assert found.agree is None
    assert "independent by construction" in str(found)
    assert "nan" not in str(found)
    assert found.advice == ()
    few = chains_of(normal(5, 1)).diagnose(ROWS)
    assert few.advice == ("train more chains: these are nearly independent, but few",)
    alone = chains_of(normal(1, 1)).diagnose(ROWS)
    assert "one member, nothing to compare it with" in str(alone)
    assert "nan" not in str(alone)


def test_short_chains_are_not_judged():
    found = chains_of(normal(4, 9)).diagnose(ROWS)
    assert not found.judged
    assert math.isnan(found.effective)
    assert "a chain has too few" in str(found)
    assert found.advice == ("train at least 10 members a chain to have them judged",)
    assert "nan" not in str(found)
    many = chains_of(normal(8, 4)).diagnose(ROWS)
    assert not many.judged
    assert many.advice == ()
    assert chains_of(normal(4, 10)).diagnose(ROWS).judged


def test_short_chains_disagree_by_chance_and_are_told_so():
    chance = by_chance(3, 10)
    draws = np.random.default_rng(1).normal(size=(3, 10, 4000))
    share = np.mean(convergence.r_hat(draws) > chance)
    # A quantile of 400 draws: its level has the error sqrt(0.05 * 0.95 / 400) = 0.011; four of them.
    assert 0.006 < share < 0.094
    assert chance > 1.1
    found = chains_of(normal(3, 10, rows=300)).diagnose(np.arange(300))
    assert found.share_above_1_1 > 0.1
    assert found.agree is True
    assert "by chance" in str(found)
    assert by_chance(4, 500) < 1.02


def test_diverged_members_and_unequal_chains_are_left_out_and_told():
    values = normal(4, 40)
    status = np.zeros((4, 40))
    status[1, [3, 7]] = 1
    lengths = (40, 40, 39, 12)
    broken = values.copy()
    broken[1, [3, 7]] = np.nan
    posterior = chains_of(broken, status=status, lengths=lengths)
    found = posterior.diagnose(ROWS)
    assert (found.chains, found.members, found.diverged) == (3, 3 * 38, 2)
    assert found.unused == 2 + 1 + 12
    kept = np.stack([values[0, :38], np.delete(values[1], [3, 7], axis=0), values[2, :38]]).astype(np.float32)
    np.testing.assert_allclose(found.quantities["mean"].effective, convergence.effective_size(kept), rtol=1e-12)
    assert "2 diverged members, 15 members beyond the chains' common length" in str(found)
    assert any("lower the rate" in one for one in found.advice)
    used = rectangle(posterior.infos)
    assert [info.index for info in used.chains[1]] == [i for i in range(40) if i not in (3, 7)]
    assert [[info.chain for info in chain] for chain in used.chains] == [[c] * 38 for c in (0, 1, 2)]


def test_loss_that_is_left_over_is_seen_and_noise_is_not():
    values = normal(4, 30)
    loss = 1 + 0.1 * RNG.normal(size=(4, 30))
    fine = chains_of(values, loss=loss).diagnose(ROWS)
    assert fine.advice == ()
    np.testing.assert_allclose([fine.loss_first, fine.loss_later], [loss[:, 0].mean(), loss[:, 1:].mean()])
    np.testing.assert_allclose(
        [fine.gradient_first, fine.gradient_later], [2 * loss[:, 0].mean(), 2 * loss[:, 1:].mean()]
    )
    loss[:, 1:] += 1
    found = chains_of(values, loss=loss).diagnose(ROWS)
    assert len(found.advice) == 1
    assert "after first trainings" in str(found)
    assert "train later members longer" in found.advice[0]
    loss[:, 1:] -= 2
    (advice,) = chains_of(values, loss=loss).diagnose(ROWS).advice
    assert "train first members longer" in advice
    unknown = chains_of(values).diagnose(ROWS)
    assert math.isnan(unknown.loss_later)
    assert "trainings" not in str(unknown)
    assert unknown.advice == ()


def test_alarms_over_the_loss_are_as_rare_as_derived():
    """Two standard errors, on one side: 2.3%, and less where later members of a chain differ."""
    alarms = 0
    for _ in range(200):
        loss = RNG.normal(size=(8, 5))
        places = [(chain, index) for chain in range(8) for index in range(5)]
        found = _left_over([aw.MemberInfo(c, i, 0, 0, {"loss_end": loss[c, i]}) for c, i in places])
        alarms += found["loss_later"] - found["loss_first"] > 2 * found["loss_noise"]
    assert alarms < 15  # 4.6 of 200 at the most in the mean, standard deviation 2.1: one in 10,000 runs


def test_heteroscedastic_noise_is_judged_too():
    values = RNG.normal(size=(3, 20, 30, 2))
    values[..., 1] += 3 * np.arange(3)[:, None, None]  # chains agree on the mean, not on the noise
    found = chains_of(values, aw.HeteroscedasticNormal()).diagnose(ROWS)
    assert set(found.quantities) == {"mean", "log_std"}
    log_std = np.log(np.log1p(np.exp(values[..., 1])))
    np.testing.assert_allclose(found.quantities["log_std"].r_hat, convergence.r_hat(log_std), rtol=1e-3)
    assert np.median(found.quantities["mean"].r_hat) < 1.1 < np.median(found.quantities["log_std"].r_hat)
    assert 0.3 < found.share_above_1_1 < 0.7
    assert set(chains_of(values[..., 0]).diagnose(ROWS).quantities) == {"mean"}


def test_classes_are_judged_by_their_probabilities():
    logits = RNG.normal(size=(3, 20, 30, 4))
    found = chains_of(logits, aw.Categorical()).diagnose(ROWS, batch_size=7)
    probabilities = special.softmax(logits.astype(np.float32), axis=-1)
    assert found.quantities["mean"].r_hat.shape == (30, 4)
    np.testing.assert_allclose(found.quantities["mean"].r_hat, convergence.r_hat(probabilities), rtol=1e-3)


def test_predictions_that_do_not_vary_are_counted_and_left_out():
    values = normal(3, 20)
    values[..., :10] = 1.0
    found = chains_of(values).diagnose(ROWS)
    assert found.still == 10
    assert "10 predictions that do not vary" in str(found)
    assert found.r_hat_median < 1.3
    still = chains_of(np.ones((3, 20, 30))).diagnose(ROWS)
    assert not still.judged
    assert "whose predictions do not vary" in str(still)
    assert "nan" not in str(still)


def test_html_is_the_text_escaped():
    found = chains_of(normal(2, 12)).diagnose(ROWS)
    assert found._repr_html_().startswith("<pre>members")
    assert "quantities" not in repr(found)


def test_thinned_and_selected_posteriors_can_be_diagnosed():
    values = normal(4, 40)
    posterior = chains_of(values)
    thinned = posterior.thin(2).select([0, 2]).diagnose(ROWS)
    expected = convergence.r_hat(values[[0, 2], ::2].astype(np.float32))
    np.testing.assert_allclose(thinned.quantities["mean"].r_hat, expected, rtol=1e-12)


def test_bad_input_is_refused():
    posterior = chains_of(normal(2, 12))
    with pytest.raises(InvalidInput, match="diagnose: inputs x"):
        posterior.diagnose(3.0)
    with pytest.raises(InvalidInput, match=r"diagnose\(batch_size=\)"):
        posterior.diagnose(ROWS, batch_size=0)
    with pytest.raises(InvalidInput, match="without members"):
        posterior.select([9]).diagnose(ROWS)
    with pytest.raises(InvalidInput, match=r"diagnose\(x=\)"):
        posterior.diagnose(jnp.zeros((4, 4, 4)))
