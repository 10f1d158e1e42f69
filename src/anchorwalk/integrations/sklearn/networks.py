"""Networks of the estimators. Equal arguments give the same functions, and so the same compiled programs."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax.numpy as jnp

from anchorwalk import checks
from anchorwalk.networks import Network, mlp
from anchorwalk.prior import Prior, fan_in
from anchorwalk.types import Array, Key, Params

Maker = Callable[[int, int], Network]
GAIN, CLASS_GAIN = 1.0, 2.0
"""Prior scale of a kernel, times the root of its fan-in, for targets and for logits, which may grow far beyond one."""
NOISE_START = -1.0
"""Where the noise's inverse-softplus starts, and its prior's mean: 0.3 standard deviations of the targets."""


def build(network: Network | Maker | None, hidden: tuple[int, ...], inputs: int, outputs: int) -> Network:
    """The network of an estimator: its own, what its maker makes, or a multilayer perceptron."""
    if network is None:
        return mlp(inputs, hidden, outputs)
    if isinstance(network, tuple) and len(network) == 2 and all(map(callable, network)):
        return Network(*network)
    if callable(network):
        return _from_maker(network, inputs, outputs)
    expected = "a network (init, apply), or a function (inputs, outputs) that makes one"
    return checks.reject("network", repr(network), expected, "aw.networks, aw.from_flax and others make networks.")


@lru_cache(maxsize=64)
def _from_maker(maker: Maker, inputs: int, outputs: int) -> Network:
    found = maker(inputs, outputs)
    if not (isinstance(found, tuple) and len(found) == 2 and all(map(callable, found))):
        given = f"a function that returned {found!r}"
        checks.reject("network", given, "one that returns a pair (init, apply)", "Return aw.networks.Network.")
    return Network(*found)


@lru_cache(maxsize=64)
def normal(network: Network, targets: tuple[int, ...], constant: bool) -> Network:
    """The network with outputs as `HeteroscedasticNormal` takes them: (rows, *targets, 2).

    Args:
        network: Gives a mean for each target; without `constant` a second number for each, its scale's.
        targets: () for one target, (k,) for k of them.
        constant: Whether the noise is the same everywhere: a parameter for each target instead of an output.
    """

    def init(key: Key) -> Params:
        start = network.init(key)
        return {"network": start, "noise": jnp.full(targets, NOISE_START, jnp.float32)} if constant else start

    def apply(params: Params, x: Any) -> Array:
        if not constant:
            outputs = network.apply(params, x)
            return outputs.reshape(outputs.shape[0], *targets, 2)
        mean = network.apply(params["network"], x)
        mean = mean.reshape(mean.shape[0], *targets)
        return jnp.stack([mean, jnp.broadcast_to(params["noise"], mean.shape)], axis=-1)

    return Network(init, apply)


@lru_cache(maxsize=64)
def known_noise(network: Network, targets: tuple[int, ...]) -> Network:
    """The network with outputs in the shape of the targets, as `Normal` takes them."""

    def apply(params: Params, x: Any) -> Array:
        outputs = network.apply(params, x)
        return outputs.reshape(outputs.shape[0], *targets)

    return Network(network.init, apply)


def default_prior(gain: float, noise: bool) -> Prior:
    """Kernels by their fan-in, biases one; a constant noise around its start."""
    return Prior(scale=fan_in(gain), mean=_noise_mean if noise else 0.0)


def _noise_mean(path: str, leaf: Any) -> float:
    return NOISE_START if path == "noise" else 0.0
