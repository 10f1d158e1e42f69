"""Networks of the estimators. Equal arguments give the same functions, and so the same compiled programs."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from anchorwalk import checks, tree
from anchorwalk.networks import Network, tabular
from anchorwalk.prior import Prior, fan_in
from anchorwalk.types import Array, Key, Params

Maker = Callable[[int, int], Network]
GAIN, CLASS_GAIN = 1.0, 2.0
"""Prior scale of a kernel, times the root of its fan-in, for targets and for logits, which may grow far beyond one."""
NOISE_START = -1.0
"""Where the noise's inverse-softplus starts, and its prior's mean: 0.3 standard deviations of the targets."""
FIXED = 0.01
"""Scale of a parameter that hardly leaves its prior's mean."""


def build(network: Network | Maker | None, hidden: tuple[int, ...], inputs: int, outputs: int) -> Network:
    """The network of an estimator: its own, what its maker makes, or one for tables."""
    if network is None:
        return _filled_up(tabular(inputs, hidden, outputs), inputs)
    if isinstance(network, tuple) and len(network) == 2 and all(map(callable, network)):
        return Network(*network)
    if callable(network):
        return _from_maker(network, inputs, outputs)
    expected = "a network (init, apply), or a function (inputs, outputs) that makes one"
    return checks.reject("network", repr(network), expected, "aw.networks, aw.from_flax and others make networks.")


def room(count: int) -> int:
    """Room for so many rows or features, so that tables of a like size share compiled programs.

    Up to 16 it is a power of two, at least 4; above, it is a quarter larger at most.
    """
    if count <= 16:
        return max(4, 1 << (count - 1).bit_length())
    return count + -count % (1 << (count.bit_length() - 3))


@lru_cache(maxsize=64)
def _filled_up(network: Network, inputs: int) -> Network:
    """The network for inputs of so many features or fewer: those that are missing are zero."""

    def apply(params: Params, x: Any) -> Array:
        return network.apply(params, jnp.pad(x, ((0, 0), (0, inputs - x.shape[1]))))

    return Network(network.init, apply)


FIRST_KERNEL, GATE, SHARPNESS = "dense_0/kernel", "gate", "sharpness"


def narrowed(init: Any, features: int) -> Partial:
    """The start of a network with room for more features, as that of one with so many: the others start at zero."""
    inputs = room(features)
    scale = np.zeros((inputs, 1), np.float32)
    scale[:features] = np.sqrt(inputs / features)
    return Partial(_scaled(init), scale)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=64)
def _scaled(init: Any) -> Any:
    def start(scale: Array, key: Key) -> Params:
        return tree.map_named(lambda name, leaf: leaf * scale if name.endswith(FIRST_KERNEL) else leaf, init(key))

    return start


def unused(like: Params, features: int) -> Params:
    """True for the parameters of features that are missing."""

    def leaf(name: str, leaf: Any) -> Any:
        if name.endswith(FIRST_KERNEL):
            return np.arange(leaf.shape[0])[:, None] >= features
        return np.arange(leaf.shape[0]) >= features if name.endswith(GATE) else np.False_

    return tree.map_named(leaf, like)


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
            return outputs.reshape(outputs.shape[0], *targets, 2) + jnp.array([0, NOISE_START], outputs.dtype)
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


class Scales(NamedTuple):
    """What a prior of the network for tables says beside the rule by fan-in."""

    first: float  # scale of the first kernel, times the root of the number of features
    gate: float
    sharpness: float


SCALES = (Scales(0.35, FIXED, FIXED), Scales(0.5, 1.0, FIXED), Scales(0.5, 1.0, 1.0))
"""A smooth function in which all features weigh the same; features of different weight; and kinks, too.

Numbers are given the first unless trials show that another is better, and classes the last: they say less of noise.
"""


def default_prior(gain: float, noise: bool, features: int | None, scales: Scales | None = None) -> Prior:
    """Kernels by their fan-in, biases one, a constant noise around its start.

    Args:
        gain: Scale of a kernel, times the root of its fan-in.
        noise: Whether the noise is a parameter.
        features: Fan-in of the first kernel, where it has room for more.
        scales: Of the network for tables.
    """
    rule = fan_in(gain)

    def scale(path: str, leaf: Any) -> Any:
        if scales is not None:
            if path.endswith(FIRST_KERNEL):
                return np.full((leaf.shape[0], 1), scales.first / np.sqrt(features or leaf.shape[0]))
            if path.endswith((GATE, SHARPNESS)):
                return scales.gate if path.endswith(GATE) else scales.sharpness
        return rule(path, leaf)

    return Prior(scale=scale, mean=_noise_mean if noise else 0.0)


def _noise_mean(path: str, leaf: Any) -> float:
    return NOISE_START if path == "noise" else 0.0
