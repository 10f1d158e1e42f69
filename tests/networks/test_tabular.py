"""The network for tables against plain perceptrons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
KEY = jax.random.key(0)


@pytest.mark.parametrize(("sharpness", "activation"), [(0.0, jax.nn.silu), (12.0, jax.nn.relu)])
def test_at_both_ends_it_is_a_perceptron(sharpness, activation):
    network, plain = aw.networks.tabular(3, (5, 4), 2), aw.networks.mlp(3, (5, 4), 2, activation)
    params = {**network.init(KEY), "sharpness": jnp.full(2, sharpness)}
    layers = {name: leaf for name, leaf in params.items() if name.startswith("dense")}
    # h sigmoid(s h) differs from max(h, 0) by at most 0.28 / s.
    np.testing.assert_allclose(network.apply(params, X), plain.apply(layers, X), atol=1e-5)
    for one, other in zip(jax.tree.leaves(layers), jax.tree.leaves(plain.init(KEY)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_gate_scales_its_input():
    network = aw.networks.tabular(3, (5,), 1)
    params = network.init(KEY)
    gates = jnp.array([0.0, 2.0, -40.0])
    scaled = X * np.exp(np.array([0, 1, -20], np.float32))
    found = network.apply({**params, "gate": gates}, X)
    np.testing.assert_allclose(found, network.apply(params, scaled), rtol=1e-5)


def test_without_hidden_layers_it_is_linear():
    network = aw.networks.tabular(3, (), 1)
    params = network.init(KEY)
    assert set(params) == {"dense_0", "gate"}
    dense = params["dense_0"]
    np.testing.assert_allclose(network.apply(params, X), X @ dense["kernel"] + dense["bias"], rtol=1e-5)


def test_equal_arguments_give_the_same_functions():
    assert aw.networks.tabular(3, (5,), 1) is aw.networks.tabular(3, [5], 1)
