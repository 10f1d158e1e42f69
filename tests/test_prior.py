import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.testing import assert_standard_normal

LIKE = {"dense": {"kernel": jnp.zeros((16, 3)), "bias": jnp.zeros(3)}, "out": [jnp.zeros((2, 2, 4, 5))]}


def scales(prior):
    return jax.tree.map(lambda leaf: leaf.tolist(), prior.resolve(LIKE).scale)


def test_one_scale_for_all():
    assert scales(aw.Prior(scale=0.5)) == {"dense": {"kernel": 0.5, "bias": 0.5}, "out": [0.5]}


def test_a_matching_tree():
    tree = {"dense": {"kernel": 0.5, "bias": np.array([1.0, 2.0, 3.0])}, "out": [4.0]}
    assert scales(aw.Prior(scale=tree)) == {"dense": {"kernel": 0.5, "bias": [1.0, 2.0, 3.0]}, "out": [4.0]}


def test_by_path_the_first_pattern_decides():
    prior = aw.Prior(scale=aw.by_path({"dense/bias": 2.0, "dense/*": 0.25, "*": 1.0}))
    assert scales(prior) == {"dense": {"kernel": 0.25, "bias": 2.0}, "out": [1.0]}


def test_fan_in():
    found = scales(aw.Prior(scale=aw.fan_in(2.0, bias=3.0)))
    assert found == {"dense": {"kernel": 0.5, "bias": 3.0}, "out": [0.5]}  # fan-ins 16 and 2 * 2 * 4


def test_draws_and_anchors_are_normal_with_mean_and_scale():
    like = {"a": jnp.zeros(60_000), "b": jnp.zeros((4, 10_000))}
    prior = aw.Prior(scale={"a": 0.5, "b": 2.0}, mean={"a": 3.0, "b": -1.0}).resolve(like)
    draw = prior.draw(jax.random.key(0), like)
    standard = [(np.ravel(draw["a"]) - 3.0) / 0.5, (np.ravel(draw["b"]) + 1.0) / 2.0]
    assert_standard_normal(np.concatenate(standard), "prior draws")


def test_log_prob_is_the_normal_density():
    like = {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))}
    prior = aw.Prior(scale={"a": np.array([0.5, 1.0, 2.0]), "b": 0.1}, mean=1.0).resolve(like)
    params = jax.tree.map(lambda leaf: jax.random.normal(jax.random.key(leaf.size), leaf.shape), like)
    expected = (
        stats.norm.logpdf(params["a"], 1.0, [0.5, 1.0, 2.0]).sum() + stats.norm.logpdf(params["b"], 1.0, 0.1).sum()
    )
    assert prior.log_prob(params) == pytest.approx(expected, rel=1e-5)
    anchor = jax.tree.map(lambda leaf: leaf + 0.3, like)
    expected = (
        stats.norm.logpdf(params["a"], 0.3, [0.5, 1.0, 2.0]).sum() + stats.norm.logpdf(params["b"], 0.3, 0.1).sum()
    )
    assert prior.anchored_log_prob(anchor, params) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", ["1", None, True])
def test_what_is_no_scale_is_refused_at_once(scale):
    with pytest.raises(InvalidInput, match=r"Prior\(scale=\): got .*expected a number, a tree of them, or a rule"):
        aw.Prior(scale=scale)


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf")])
def test_bad_scale_is_refused(scale):
    with pytest.raises(InvalidInput, match=r"Prior\(scale=\): got .*expected a .*standard deviation"):
        aw.Prior(scale=scale)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ({"dense": 1.0}, r"expected a tree with the leaves dense/bias, dense/kernel, out/0"),
        ({"dense": {"kernel": 1.0, "bias": -1.0}, "out": [1.0]}, r"got -1 at 'dense/bias'"),
        ({"dense": {"kernel": 1.0, "bias": np.ones(4)}, "out": [1.0]}, r"at 'dense/bias': got shape \(4,\)"),
        (aw.by_path({"dense/*": 1.0}), r"no pattern that fits the parameter 'out/0'.*Add '\*'"),
        (lambda path, leaf: 0.0, r"got 0 at 'dense/bias'"),
    ],
)
def test_scales_that_do_not_fit_are_refused(scale, message):
    with pytest.raises(InvalidInput, match=message):
        aw.Prior(scale=scale).resolve(LIKE)


def test_bad_mean_is_refused():
    with pytest.raises(InvalidInput, match=r"Prior\(mean=\)"):
        aw.Prior(scale=1.0, mean=float("nan"))
    with pytest.raises(InvalidInput, match=r"fan_in\(gain=\)"):
        aw.fan_in(-1.0)
