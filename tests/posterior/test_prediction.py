"""The model average against the mixture written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import anchorwalk as aw
from anchorwalk.errors import InvalidInput, NotFiniteWarning
from anchorwalk.posterior import passes
from helpers import linear_apply, posterior_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(11, 3)).astype(np.float32)
WEIGHTS = RNG.normal(size=(7, 3)).astype(np.float32)
OUT = X @ WEIGHTS.T  # (rows, members)


def linear_posterior(likelihood, weights=WEIGHTS):
    return posterior_of([{"w": w} for w in weights], linear_apply, likelihood)


def logits(w, x):
    return x @ w


def pair(w, x):
    return jnp.stack([x @ w[:3], x @ w[3:]], axis=-1)


KERNELS = RNG.normal(size=(7, 3, 4)).astype(np.float32)
CLASSES = posterior_of(list(KERNELS), logits, aw.Categorical())
MEMBER_PROBABILITIES = special.softmax(np.einsum("nd,mdc->mnc", X, KERNELS), axis=-1)


def test_probabilities_are_averaged_and_not_logits():
    prediction = CLASSES.predict(X)
    np.testing.assert_allclose(prediction.probabilities, MEMBER_PROBABILITIES.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1, atol=1e-6)
    of_logits = special.softmax(np.einsum("nd,mdc->nc", X, KERNELS) / 7, axis=-1)
    assert np.abs(prediction.probabilities - of_logits).max() > 0.05


def test_mutual_information_is_entropy_less_mean_entropy():
    prediction = CLASSES.predict(X)
    total = stats.entropy(MEMBER_PROBABILITIES.mean(axis=0), axis=-1)
    expected = total - stats.entropy(MEMBER_PROBABILITIES, axis=-1).mean(axis=0)
    np.testing.assert_allclose(prediction.entropy, total, rtol=1e-5)
    np.testing.assert_allclose(prediction.mutual_information, expected, rtol=1e-4)
    alone = posterior_of([KERNELS[0]], logits, aw.Categorical()).predict(X)
    np.testing.assert_allclose(alone.mutual_information, 0, atol=1e-12)


def test_bernoulli_probabilities_and_information():
    prediction = linear_posterior(aw.Bernoulli()).predict(X)
    p = special.expit(OUT).mean(axis=1)
    np.testing.assert_allclose(prediction.probabilities, p, rtol=1e-5)
    both = np.stack([special.expit(OUT), 1 - special.expit(OUT)], axis=-1)
    expected = stats.entropy(both.mean(axis=1), axis=-1) - stats.entropy(both, axis=-1).mean(axis=1)
    np.testing.assert_allclose(prediction.mutual_information, expected, rtol=1e-4)
    np.testing.assert_allclose(prediction.variance, p * (1 - p), rtol=1e-5)


def test_total_variance_is_aleatoric_plus_epistemic():
    prediction = linear_posterior(aw.Normal(scale=0.5)).predict(X)
    np.testing.assert_allclose(prediction.mean, OUT.mean(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(prediction.aleatoric, 0.25, rtol=1e-6)
    np.testing.assert_allclose(prediction.epistemic, OUT.var(axis=1), rtol=1e-4)
    np.testing.assert_allclose(prediction.variance, prediction.aleatoric + prediction.epistemic)
    np.testing.assert_allclose(prediction.std**2, prediction.variance)
    classes = CLASSES.predict(X)
    p = classes.probabilities
    np.testing.assert_allclose(classes.variance, p * (1 - p), rtol=1e-5)


def test_log_prob_is_that_of_the_mixture():
    y = RNG.normal(size=11)
    prediction = linear_posterior(aw.Normal(scale=0.5)).predict(X)
    expected = special.logsumexp(stats.norm.logpdf(y[:, None], OUT, 0.5), axis=1) - np.log(7)
    np.testing.assert_allclose(prediction.log_prob(y), expected, rtol=1e-4)
    with pytest.raises(InvalidInput, match=r"targets y of shape \(11, 1\)"):
        prediction.log_prob(y[:, None])


@pytest.mark.parametrize("likelihood", [aw.Normal(scale=0.5), aw.HeteroscedasticNormal()], ids=repr)
def test_normal_quantiles_are_those_of_the_mixture(likelihood):
    levels = [0.001, 0.05, 0.5, 0.9, 0.9999999]
    if likelihood == aw.Normal(scale=0.5):
        prediction, mean, scale = linear_posterior(likelihood).predict(X), OUT, np.full_like(OUT, 0.5)
    else:
        weights = RNG.normal(size=(7, 6)).astype(np.float32)
        prediction = posterior_of(list(weights), pair, likelihood).predict(X)
        mean, scale = X @ weights[:, :3].T, np.log1p(np.exp(X @ weights[:, 3:].T))
    found = prediction.quantile(levels)
    assert found.shape == (5, 11)
    for i, level in enumerate(levels):
        for row in range(11):
            m, s = mean[row].astype(float), scale[row].astype(float)
            exact = optimize.brentq(lambda v, m=m, s=s, q=level: stats.norm.cdf(v, m, s).mean() - q, -90, 90, xtol=1e-9)
            # The stated accuracy; and outputs that differ from these in their last float32 bits.
            assert abs(found[i, row] - exact) < 1e-4 * prediction.std[row] + 1e-5
    assert np.all(np.abs(prediction.quantile(0.9) - found[3]) < 1e-4 * prediction.std)
    low, high = prediction.interval(0.9)
    np.testing.assert_allclose(np.stack([low, high]), prediction.quantile([0.05, 0.95]), rtol=1e-12)


def test_poisson_quantiles_are_exact():
    prediction = linear_posterior(aw.Poisson()).predict(X)
    counts = np.arange(3000)
    cdf = stats.poisson.cdf(counts[:, None, None], np.exp(OUT)).mean(axis=2)
    for level in (0.05, 0.3, 0.5, 0.95):
        expected = (cdf < level).sum(axis=0)
        np.testing.assert_array_equal(prediction.quantile(level), expected)


def test_poisson_quantiles_are_exact_for_large_rates_too():
    log_rates = np.log(RNG.uniform(1, 5000, size=400)).astype(np.float32)
    prediction = posterior_of([np.ones(())], lambda w, x: x * w, aw.Poisson()).predict(log_rates)
    for level in (0.05, 0.5, 0.9):
        np.testing.assert_array_equal(
            prediction.quantile(level), stats.poisson.ppf(level, np.exp(np.float64(log_rates)))
        )


def test_many_rows_make_the_grid_coarser_and_nothing_else(monkeypatch):
    prediction = linear_posterior(aw.Normal(scale=0.5)).predict(X)
    fine = prediction.quantile([0.1, 0.9])
    monkeypatch.setattr("anchorwalk.posterior.prediction.GRID_VALUES", 1)
    assert np.all(np.abs(prediction.quantile([0.1, 0.9]) - fine) < 1e-4 * prediction.std)


def test_predictions_that_are_not_finite_are_reported():
    posterior = posterior_of([np.ones(()), np.full((), 1.01)], lambda w, x: x * w, aw.Poisson())
    with pytest.warns(NotFiniteWarning, match="predictions of 1 of 3 rows are not finite, the first at row 1"):
        posterior.predict(np.array([0.0, 100.0, 1.0]))


def test_half_precision_outputs_are_averaged_in_full():
    half = posterior_of([k.astype(jnp.bfloat16) for k in KERNELS], logits, aw.Categorical()).predict(X)
    np.testing.assert_allclose(half.probabilities.sum(axis=1), 1, atol=1e-6)


def test_a_scale_that_underflows_is_not_nan():
    weights = np.array([0, 0, 0, -200.0, -200.0, -200.0], np.float32)
    prediction = posterior_of([weights], pair, aw.HeteroscedasticNormal()).predict(np.ones((1, 3), np.float32))
    assert prediction.log_prob(np.ones(1)) == -np.inf


def test_several_targets_have_quantiles_each():
    kernels = RNG.normal(size=(5, 3, 2)).astype(np.float32)
    prediction = posterior_of(list(kernels), logits, aw.Normal(scale=0.5)).predict(X)
    both = prediction.quantile([0.1, 0.9])
    assert both.shape == (2, 11, 2)
    for target in range(2):
        alone = posterior_of([{"w": k[:, target]} for k in kernels], linear_apply, aw.Normal(scale=0.5)).predict(X)
        np.testing.assert_allclose(both[..., target], alone.quantile([0.1, 0.9]), atol=1e-3)


def test_an_ensemble_of_one_predicts_as_its_member():
    alone = posterior_of([KERNELS[0]], logits, aw.Categorical()).predict(X)
    np.testing.assert_allclose(alone.probabilities, jax.nn.softmax(X @ KERNELS[0]), rtol=1e-6)
    np.testing.assert_array_equal(alone.epistemic, 0)
    normal = linear_posterior(aw.Normal(scale=0.5), WEIGHTS[:1]).predict(X)
    np.testing.assert_allclose(normal.quantile(0.5), OUT[:, 0], atol=1e-4)


def test_the_order_of_members_does_not_matter():
    one = CLASSES.predict(X)
    other = posterior_of(list(KERNELS[::-1]), logits, aw.Categorical()).predict(X)
    np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-13)
    np.testing.assert_allclose(one.epistemic, other.epistemic, rtol=1e-10)
    np.testing.assert_allclose(one.mutual_information, other.mutual_information, rtol=1e-10)


@pytest.mark.parametrize("batch_size", [1, 4, 11, 1000])
def test_batches_of_rows_do_not_matter(batch_size):
    whole, parts = CLASSES.predict(X), CLASSES.predict(X, batch_size=batch_size)
    np.testing.assert_allclose(parts.probabilities, whole.probabilities, rtol=1e-6)
    key = jax.random.key(0)
    np.testing.assert_array_equal(parts.draws(key, 5), whole.draws(key, 5))


def test_rows_of_a_call_are_few_where_a_network_makes_much_of_each():
    """By the compiler's account: a wide detour takes 12 MiB for some 30 rows. It is not asked of a small product."""

    def wide(w, x):
        detour = jnp.tanh(jnp.outer(x @ w, jnp.linspace(1, 2, 100_000)))
        return detour @ jnp.linspace(1, 2, 100_000) / 100_000  # a product takes it as a whole

    x = np.tile(X, (10, 1))
    asked = passes._fitting_rows.cache_info().misses
    assert passes.fitting_rows(linear_apply, {"w": WEIGHTS[0]}, x, len(x)) == passes.MOST_ROWS
    assert passes._fitting_rows.cache_info().misses == asked
    few = passes.fitting_rows(wide, WEIGHTS[0], x, len(x))
    assert passes._fitting_rows.cache_info().misses == asked + 1
    assert passes.LEAST_ROWS <= few <= passes.NEAR_BYTES / 400_000
    found = posterior_of(list(WEIGHTS), wide, aw.Normal(scale=0.5)).predict(x)
    assert found._passes.batch_size == few
    np.testing.assert_allclose(found.mean[:11], found.mean[-11:], rtol=1e-6)
    whole = posterior_of(list(WEIGHTS), wide, aw.Normal(scale=0.5)).predict(x, batch_size=len(x))
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-5)


def test_nothing_depends_on_the_cache(monkeypatch):
    kept = linear_posterior(aw.Normal(scale=0.5)).predict(X)
    monkeypatch.setattr(passes, "CACHE_BYTES", 0)
    dropped = linear_posterior(aw.Normal(scale=0.5)).predict(X)
    np.testing.assert_array_equal(dropped.quantile([0.1, 0.8]), kept.quantile([0.1, 0.8]))
    assert not dropped._passes._cache


def test_with_a_thousand_members_the_predictive_spread_is_right():
    # Members that share their noise would make the draws' spread that of the means alone.
    members, rows = 1000, 40
    weights = 0.1 * RNG.normal(size=(members, 3)).astype(np.float32)
    x = RNG.normal(size=(rows, 3)).astype(np.float32)
    prediction = linear_posterior(aw.Normal(scale=1.0), weights).predict(x)
    draws = prediction.draws(jax.random.key(1), members)
    assert draws.shape == (members, rows)
    # Normal draws: the standard deviation of n has a relative standard error of 1 / sqrt(2 n).
    assert np.all(np.abs(draws.std(axis=0) / prediction.std - 1) < 5.33 / np.sqrt(2 * members))
    # Noise is independent between rows too: without the members' part it averages out over rows.
    noise = draws.mean(axis=1)
    expected = np.sqrt(1 / rows + (x.mean(axis=0) @ weights.T).var())
    assert abs(noise.std() / expected - 1) < 5.33 / np.sqrt(2 * members)


def test_draws_use_every_member_equally_often():
    # With almost no noise a draw shows its member.
    prediction = linear_posterior(aw.Normal(scale=1e-6)).predict(X)
    draws = prediction.draws(jax.random.key(0), 17)
    member = np.abs(draws[:, None, :] - OUT.T[None]).max(axis=2).argmin(axis=1)
    counts = np.bincount(member, minlength=7)
    assert set(counts) == {2, 3}
    assert np.abs(draws - OUT.T[member]).max() < 1e-4  # one member for all rows of a draw
    assert np.any(np.diff(member) < 0)  # draws do not come sorted by member
    few = prediction.draws(jax.random.key(1), 3)
    assert len({np.abs(d - OUT.T).max(axis=1).argmin() for d in few}) == 3


def test_draws_of_classes():
    draws = CLASSES.predict(X).draws(jax.random.key(0), 7000)
    shares = np.stack([(draws == c).mean(axis=0) for c in range(4)], axis=1)
    p = MEMBER_PROBABILITIES.mean(axis=0)
    # Members are used equally often, which only lowers the variance below p (1 - p) / n.
    assert np.all(np.abs(shares - p) < 5.33 * np.sqrt(p * (1 - p) / 7000))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CLASSES.predict(X).quantile(0.5), r"quantile: got Categorical.*use .probabilities"),
        (lambda: linear_posterior(aw.Normal(scale=1.0)).predict(X).probabilities, r"probabilities: got Normal"),
        (lambda: linear_posterior(aw.Poisson()).predict(X).mutual_information, r"mutual_information: got Poisson"),
        (lambda: linear_posterior(aw.Normal(scale=1.0)).predict(X).quantile([0.5, 1.0]), r"strictly between 0 and 1"),
        (lambda: linear_posterior(aw.Normal(scale=1.0)).predict(X).interval(1.0), r"interval\(coverage=\)"),
        (lambda: CLASSES.predict(X).draws(jax.random.key(0), 0), r"draws\(n=\): got 0"),
        (
            lambda: CLASSES.predict(X[:, :2]),
            r"predict\(x=\): got TypeError from apply.* on inputs x of float32\(11, 2\)",
        ),
        (lambda: CLASSES.predict(X * np.nan), r"predict: inputs x: got 33 values that are not finite"),
        (lambda: CLASSES.predict(X[:0]), r"predict: got 0 rows"),
        (lambda: CLASSES.predict(X, batch_size=0), r"predict\(batch_size=\): got 0"),
        (lambda: CLASSES.predict(X[0]), r"predict\(x=\): got outputs of shape \(4,\).*x needs a leading axis of rows"),
        (lambda: CLASSES.predict(np.full((2, 3), "a")), r"predict: inputs x: got values of type <U1"),
        (lambda: CLASSES.predict(X).draws(0, 3), r"draws\(key=\): got 0, expected one typed key"),
        (lambda: linear_posterior(aw.Normal(scale=1.0)).predict(X).quantile([]), r"quantile\(q=\)"),
        (
            lambda: linear_posterior(aw.Normal(scale=1.0)).predict(X).log_prob(X[:, 0] * np.nan),
            r"log_prob\(y=\): got 11",
        ),
    ],
)
def test_bad_requests_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("cache", [0, passes.CACHE_BYTES])
def test_a_runner_gives_the_same_numbers(monkeypatch, cache):
    """Members in groups of several, kept between passes and not."""
    monkeypatch.setattr(passes, "CACHE_BYTES", cache)
    monkeypatch.setattr(passes, "SHARES", 3)
    posterior, y = linear_posterior(aw.Normal(scale=0.5)), X[:, 0]
    alone, shared = posterior.predict(X, batch_size=4), posterior.predict(X, batch_size=4, runner=aw.Local(threads=2))
    for one in ("mean", "epistemic", "aleatoric"):
        np.testing.assert_array_equal(getattr(shared, one), getattr(alone, one))
    np.testing.assert_array_equal(shared.quantile([0.1, 0.5]), alone.quantile([0.1, 0.5]))
    np.testing.assert_array_equal(shared.log_prob(y), alone.log_prob(y))
    np.testing.assert_array_equal(shared.draws(jax.random.key(1), 5), alone.draws(jax.random.key(1), 5))
    assert str(posterior.diagnose(X, runner=aw.Local(threads=2))) == str(posterior.diagnose(X))


def test_an_error_of_a_network_comes_through_a_runner():
    def apply(params, x):
        return jax.pure_callback(lambda _: 1 / 0, jax.ShapeDtypeStruct(x.shape[:1], np.float32), x[:, 0])

    posterior = posterior_of([np.ones(3)] * 2, apply, aw.Normal(scale=0.5))
    with pytest.raises(jax.errors.JaxRuntimeError, match="division by zero"):
        posterior.predict(X, runner=aw.Local(threads=2))


def test_a_runner_must_be_one():
    with pytest.raises(InvalidInput, match=r"predict\(runner=\): got 'auto', expected a Mapper"):
        CLASSES.predict(X, runner="auto")
