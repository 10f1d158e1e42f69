"""Every likelihood against scipy, and its draws against its own moments; the contract, and that it can fail."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import anchorwalk as aw
from anchorwalk import likelihoods, tree
from anchorwalk.errors import InvalidInput

RNG = np.random.default_rng(0)
OUT = RNG.normal(size=(6, 4)).astype(np.float32)
PAIR = RNG.normal(size=(6, 4, 2)).astype(np.float32)
SOFT = np.log1p(np.exp(PAIR[..., 1]))
COUNTS = RNG.poisson(2.0, size=(6, 4))
REALS = RNG.normal(size=(6, 4)).astype(np.float32)
BITS = RNG.integers(0, 2, size=(6, 4))

CASES = [
    pytest.param(aw.Normal(scale=0.7), OUT, REALS, stats.norm(OUT, 0.7), id="normal"),
    pytest.param(aw.HeteroscedasticNormal(), PAIR, REALS, stats.norm(PAIR[..., 0], SOFT), id="heteroscedastic"),
    pytest.param(aw.Poisson(), OUT, COUNTS, stats.poisson(np.exp(OUT)), id="poisson"),
    pytest.param(aw.Bernoulli(), OUT, BITS, stats.bernoulli(special.expit(OUT)), id="bernoulli"),
]


@pytest.mark.parametrize(("likelihood", "outputs", "y", "truth"), CASES)
def test_against_scipy(likelihood, outputs, y, truth):
    log_prob = (truth.logpmf if hasattr(truth.dist, "logpmf") else truth.logpdf)(y).sum(axis=1)
    np.testing.assert_allclose(likelihood.log_prob(jnp.asarray(outputs), jnp.asarray(y)), log_prob, rtol=2e-5)
    np.testing.assert_allclose(likelihood.mean(jnp.asarray(outputs)), truth.mean(), rtol=1e-5)
    np.testing.assert_allclose(likelihood.variance(jnp.asarray(outputs)), truth.var(), rtol=1e-5)
    likelihood.check(jax.ShapeDtypeStruct(outputs.shape, "float32"), y)


@pytest.mark.parametrize(("likelihood", "outputs", "y", "truth"), CASES[:3])
def test_distribution_functions_against_scipy(likelihood, outputs, y, truth):
    values = np.linspace(-1.5, 4.5, 9).astype(np.float32)
    found = likelihood.cdf(jnp.asarray(outputs), jnp.broadcast_to(values, (6, 4, 9)))
    expected = np.stack([truth.cdf(v) for v in values], axis=-1)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize(("likelihood", "outputs", "y", "truth"), CASES)
def test_draws_have_their_moments_and_are_independent(likelihood, outputs, y, truth):
    n = 20_000
    draws = np.asarray(jax.vmap(lambda k: likelihood.draw(k, outputs))(jax.random.split(jax.random.key(0), n)), float)
    error = (draws.mean(axis=0) - truth.mean()) / np.sqrt(truth.var() / n)
    assert np.all(np.abs(error) < 5.33)
    kurtosis = truth.stats("k") + 3
    error = (draws.var(axis=0) - truth.var()) / (truth.var() * np.sqrt((kurtosis - 1) / n) + truth.var() / n)
    assert np.all(np.abs(error) < 5.33)
    correlations = np.corrcoef(draws.reshape(n, -1), rowvar=False) - np.eye(24)
    assert np.abs(correlations).max() < 5.8 / np.sqrt(n)  # 276 pairs at 1e-8 each


def test_categorical_against_scipy():
    logits = RNG.normal(size=(5, 3)).astype(np.float32)
    y = np.array([0, 2, 1, 1, 2])
    likelihood = aw.Categorical()
    p = special.softmax(logits, axis=1)
    np.testing.assert_allclose(likelihood.log_prob(logits, y), np.log(p[np.arange(5), y]), rtol=1e-5)
    np.testing.assert_allclose(likelihood.mean(logits), p, rtol=1e-5)
    np.testing.assert_allclose(likelihood.variance(logits), p * (1 - p), rtol=1e-5)
    np.testing.assert_allclose(likelihood.entropy(p), stats.entropy(p, axis=1), rtol=1e-5)
    n = 20_000
    draws = jax.vmap(lambda k: likelihood.draw(k, logits))(jax.random.split(jax.random.key(0), n))
    shares = np.stack([(np.asarray(draws) == c).mean(axis=0) for c in range(3)], axis=1)
    assert np.all(np.abs(shares - p) < 5.33 * np.sqrt(p * (1 - p) / n))


def test_several_categorical_outputs_are_summed_over():
    logits = RNG.normal(size=(5, 2, 3)).astype(np.float32)
    y = RNG.integers(0, 3, size=(5, 2))
    likelihood = aw.Categorical()
    parts = [likelihood.log_prob(logits[:, i], y[:, i]) for i in range(2)]
    np.testing.assert_allclose(likelihood.log_prob(logits, y), parts[0] + parts[1], rtol=1e-5)


def test_entropy_at_certainty_is_zero():
    np.testing.assert_array_equal(aw.Categorical().entropy(np.array([[0.0, 1.0]])), [0.0])
    np.testing.assert_array_equal(aw.Bernoulli().entropy(np.array([0.0, 1.0])), [0.0, 0.0])


def test_perturbed_normal_targets_are_moved_targets():
    noise = RNG.normal(size=(6, 4)).astype(np.float32)
    likelihood = aw.Normal(scale=0.7)
    moved = likelihood.log_prob(OUT, REALS + 0.7 * noise)
    np.testing.assert_allclose(likelihood.perturbed_log_prob(OUT, REALS, noise), moved, rtol=1e-6)


def test_perturbation_of_a_heteroscedastic_normal_moves_the_mean_alone():
    noise = jnp.asarray(RNG.normal(size=(6, 4)), jnp.float32)
    likelihood = aw.HeteroscedasticNormal()
    pair, y = jnp.asarray(PAIR), jnp.asarray(REALS)
    value, gradient = jax.value_and_grad(lambda o: likelihood.perturbed_log_prob(o, y, noise).sum())(pair)
    moved = y + SOFT * noise
    np.testing.assert_allclose(value, stats.norm.logpdf(moved, PAIR[..., 0], SOFT).sum(), rtol=1e-4)
    mean_gradient = jax.grad(lambda o: likelihood.log_prob(o, moved).sum())(pair)[..., 0]
    scale_gradient = jax.grad(lambda o: likelihood.log_prob(o, y).sum())(pair)[..., 1]
    np.testing.assert_allclose(gradient[..., 0], mean_gradient, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient[..., 1], scale_gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [(), (4,)], ids=["one target", "four targets"])
def test_with_even_noise_the_mean_learns_from_the_average_variance(axes):
    likelihood, weights = aw.HeteroscedasticNormal(), jnp.asarray([1.0, 0, 2, 1, 1, 0.5])
    pick = (slice(None), slice(None)) if axes else (slice(None), 0)
    pair, y, scale = jnp.asarray(PAIR)[pick], jnp.asarray(REALS)[pick], jnp.asarray(SOFT)[pick]

    def log_prob(outputs, even):
        return likelihood.log_prob(likelihood.even_noise(outputs, weights) if even else outputs, y).sum()

    (value, even), (plain_value, plain) = (jax.value_and_grad(log_prob)(pair, one) for one in (True, False))
    assert value == plain_value
    np.testing.assert_array_equal(even[..., 1], plain[..., 1])
    average = np.average(scale**2, axis=0, weights=weights)
    np.testing.assert_allclose(even[..., 0], (y - pair[..., 0]) / average, rtol=1e-4, atol=1e-6)
    # Targets that are moved by the noise are moved by each row's own.
    noise = jnp.asarray(RNG.normal(size=y.shape), jnp.float32)
    moved = jax.grad(lambda o: likelihood.perturbed_log_prob(likelihood.even_noise(o, weights), y, noise).sum())(pair)
    np.testing.assert_allclose(moved[..., 0], (y + scale * noise - pair[..., 0]) / average, rtol=1e-4, atol=1e-5)


def test_which_likelihoods_can_do_what():
    normal = [aw.Normal(scale=1.0), aw.HeteroscedasticNormal()]
    classes = [aw.Categorical(), aw.Bernoulli()]
    assert all(isinstance(one, likelihoods.NormalLikelihood) for one in normal)
    assert all(isinstance(one, likelihoods.ClassLikelihood) for one in classes)
    assert isinstance(aw.Poisson(), likelihoods.OrderedLikelihood)
    assert isinstance(aw.HeteroscedasticNormal(), likelihoods.VaryingNoise)
    assert not any(isinstance(one, likelihoods.VaryingNoise) for one in [aw.Normal(scale=1.0), *classes])
    for one in [*classes, aw.Poisson()]:
        assert not isinstance(one, likelihoods.NormalLikelihood)
    for one in classes:
        assert not isinstance(one, likelihoods.OrderedLikelihood)


# The contract

LOGITS = RNG.normal(size=(6, 2, 3)).astype(np.float32)
CONTRACT = [
    pytest.param(aw.Normal(scale=0.7), OUT[:, 0], REALS[:, 0], id="normal"),
    pytest.param(aw.Normal(scale=0.7), OUT, REALS, id="normals"),
    pytest.param(aw.HeteroscedasticNormal(), PAIR[:, 0], REALS[:, 0], id="heteroscedastic"),
    pytest.param(aw.Poisson(), 3 * OUT[:, 0], COUNTS[:, 0], id="poisson"),
    pytest.param(aw.Bernoulli(), 3 * OUT[:, 0], BITS[:, 0], id="bernoulli"),
    pytest.param(aw.Bernoulli(), OUT, BITS, id="bernoullis"),
    pytest.param(aw.Categorical(), LOGITS[:, 0], [0, 1, 2, 0, 1, 2], id="categorical"),
    pytest.param(aw.Categorical(), LOGITS, [[0, 1], [2, 0], [1, 2]] * 2, id="categoricals"),
]


@pytest.mark.parametrize(("likelihood", "outputs", "y"), CONTRACT)
def test_likelihood_keeps_the_contract(likelihood, outputs, y):
    aw.testing.check_likelihood(likelihood, outputs, y)


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "outputs", "y"), CONTRACT)
def test_the_contract_of_likelihoods_holds_whatever_the_key(likelihood, outputs, y):
    for seed in range(1, 11):  # a false alarm is rarer than one in a million
        aw.testing.check_likelihood(likelihood, outputs, y, jax.random.key(seed))


def changed(parent, **methods):
    """A likelihood of this package with other methods."""
    return tree.node()(dataclass(frozen=True)(type("Changed", (parent,), methods)))


def summed(self, outputs, y):
    return jnp.sum(aw.Normal.log_prob(self, outputs, y))


def mixed(self, outputs, y):  # a little of the neighbour
    log_prob = aw.Normal.log_prob(self, outputs, y)
    return log_prob + 0.01 * jnp.roll(log_prob, 1)


def wide(self, outputs, values):
    return aw.Normal.cdf(self, outputs, outputs[..., None] + (values - outputs[..., None]) / 1.1)


def too_small(self, outputs):
    return 0.97 * aw.Normal.variance(self, outputs)


def one_noise(self, key, outputs):
    return outputs + self.scale * jax.random.normal(key)


BROKEN = {
    "summed": ({"log_prob": summed}, "one number for each of 6 rows"),
    "summed in every row": ({"log_prob": lambda s, o, y: jnp.full(len(o), summed(s, o, y))}, "on that row alone"),
    "rows mixed": ({"log_prob": mixed}, "on that row alone"),
    "a mean over rows": ({"log_prob": lambda s, o, y: aw.Normal.log_prob(s, o, y) / len(o)}, "the number of rows"),
    "without its constant": ({"log_prob": lambda s, o, y: -0.5 * ((y - o) / s.scale) ** 2}, "logarithm of the density"),
    "a scale as variance": ({"variance": lambda s, o: jnp.full_like(o, s.scale)}, "variance"),
    "a variance too small": ({"variance": too_small}, "`variance` is not the variance"),
    "a variance of another shape": ({"variance": lambda s, o: jnp.square(s.scale)}, r"mean has shape \(6,\) and var"),
    "a mean that is off": ({"mean": lambda s, o: o + 0.1}, "the mean of draws is not `mean`"),
    "a wide cdf": ({"cdf": wide}, "cdf is off the shares of draws"),
    "a falling cdf": ({"cdf": lambda s, o, v: 1 - aw.Normal.cdf(s, o, v)}, "cdf must rise from 0 to 1"),
    "a cdf in float32": ({"cdf": lambda s, o, v: aw.Normal.cdf(s, o, v).astype(jnp.float32)}, "must be float64"),
    "a snap to counts": ({"snap": lambda s, v: np.floor(v)}, "snap"),
    "one noise for all rows": ({"draw": one_noise}, "noise of its own"),
    "no noise": ({"perturbed_log_prob": lambda s, o, y, e: s.log_prob(o, y)}, "with noise"),
    "noise in units": ({"perturbed_log_prob": lambda s, o, y, e: s.log_prob(o, y + e)}, "with noise"),
    "no zero of noise": ({"perturbed_log_prob": lambda s, o, y, e: s.log_prob(o, y + e + 1)}, "without noise"),
    "outputs that move": ({"even_noise": lambda s, o, weights: 2 * o}, "even_noise"),
    "no check": ({"check": lambda s, o, y, argument="data": y}, "check must refuse"),
    "an array in its json": ({"to_json": lambda s: {"scale": np.ones(1)}}, "to_json"),
    "another json": ({"to_json": lambda s: {"name": "Changed", "settings": {"scale": 1.0}}}, None),
}


@pytest.mark.parametrize("what", BROKEN)
def test_contract_finds_a_broken_likelihood(what):
    methods, message = BROKEN[what]
    if message is None:
        methods, message = (
            methods | {"from_json": classmethod(lambda cls, _: aw.Normal(2.0))},
            "inverse of to_json",
        )
    with pytest.raises(AssertionError, match=message):
        aw.testing.check_likelihood(changed(aw.Normal, **methods)(0.7), OUT[:, 0], REALS[:, 0])


BROKEN_CLASSES = {
    "other draws": ({"draw": lambda s, key, o: jax.random.categorical(key, 1.2 * o)}, "the mean of draws is not"),
    "bits": ({"entropy": lambda s, p: aw.Categorical().entropy(p) / np.log(2)}, "in nats"),
    "a variance of 1": ({"variance": lambda s, o: jnp.ones_like(o)}, "p \\(1 - p\\)"),
    "logits as mean": ({"mean": lambda s, o: o}, "sum to 1"),
    "no normaliser": (
        {"log_prob": lambda s, o, y: jnp.take_along_axis(o, y[:, None], -1)[:, 0]},
        "the class's probabi",
    ),
}


@pytest.mark.parametrize("what", BROKEN_CLASSES)
def test_contract_finds_broken_classes(what):
    methods, message = BROKEN_CLASSES[what]
    with pytest.raises(AssertionError, match=message):
        aw.testing.check_likelihood(changed(aw.Categorical, **methods)(), LOGITS[:, 0], np.arange(6) % 3)


class Bare:
    """A normal likelihood of scale 1 with no more than a likelihood must have."""

    log_prob, mean, check = (lambda self, *args, name=name: getattr(aw.Normal(1.0), name)(*args)
                             for name in ("log_prob", "mean", "check"))  # fmt: skip

    def variance(self, outputs):
        return jnp.ones_like(outputs)

    def draw(self, key, outputs):
        return aw.Normal(1.0).draw(key, outputs)


def test_the_contract_of_a_bare_likelihood():
    with pytest.raises(AssertionError, match="its class must be a pytree"):
        aw.testing.check_likelihood(Bare(), OUT, REALS)
    registered = tree.node()(dataclass(frozen=True)(Bare))
    aw.testing.check_likelihood(registered(), OUT, REALS)
    wrong = changed(registered, variance=lambda self, outputs: jnp.full_like(outputs, 1.5))
    with pytest.raises(AssertionError, match="the variance of draws is not `variance`"):
        aw.testing.check_likelihood(wrong(), OUT, REALS)


def test_what_cannot_be_put_through_the_contract():
    for nothing in (aw.Normal, None, aw.Adam(0.1)):
        with pytest.raises(AssertionError, match="an object with the methods log_prob, mean, variance, draw and check"):
            aw.testing.check_likelihood(nothing, OUT, REALS)
    for rows in (OUT[:1], np.zeros((3, 4))):
        with pytest.raises(InvalidInput, match="expected two rows at least, whose log-probabilities differ"):
            aw.testing.check_likelihood(aw.Normal(1.0), rows, np.zeros(rows.shape))
