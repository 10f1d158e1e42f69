"""One small model of each framework, made anew at each call as another process would make it.

Each function gives the network, the framework's own parameters of a key, and the framework's own forward pass.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk.run.store import fingerprint

ROWS, FEATURES, HIDDEN = 20, 3, 8


class Case(NamedTuple):
    network: aw.networks.Network
    own_params: Any
    own_forward: Any
    likelihood: Any


def inputs():
    return np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(np.float32)


def targets(likelihood):
    y = np.sin(inputs()[:, 0]) + inputs()[:, 1]
    return (y > 0).astype(int) if isinstance(likelihood, aw.Categorical) else y


def linen():
    from flax import linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.tanh(nn.Dense(HIDDEN)(x)))

    def own_params(key):
        return Net().init(key, inputs())["params"]

    def own_forward(params, x):
        return Net().apply({"params": params}, x)

    return Case(aw.from_flax(Net(), inputs()), own_params, own_forward, aw.Categorical())


def nnx():
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.hidden = nnx.Linear(FEATURES, HIDDEN, rngs=rngs)
            self.out = nnx.Linear(HIDDEN, 2, rngs=rngs)

        def __call__(self, x):
            return self.out(nnx.tanh(self.hidden(x)))

    def own_params(key):
        return nnx.to_pure_dict(nnx.state(Net(nnx.Rngs(key))))

    def own_forward(params, x):
        model = Net(nnx.Rngs(7))
        nnx.update(model, jax.tree.map(jax.numpy.asarray, params))
        return model(x)

    return Case(aw.from_flax(lambda rngs: Net(rngs), inputs()), own_params, own_forward, aw.HeteroscedasticNormal())


def equinox():
    import equinox as eqx

    def maker(key):
        return eqx.nn.MLP(FEATURES, 2, HIDDEN, 1, activation=jax.nn.tanh, key=key)

    def own_params(key):
        layers = maker(key).layers
        return {"layers": {str(i): {"weight": layer.weight, "bias": layer.bias} for i, layer in enumerate(layers)}}

    def own_forward(params, x):
        def arrays(model):
            return [getattr(layer, name) for layer in model.layers for name in ("weight", "bias")]

        given = [params["layers"][i][name] for i in "01" for name in ("weight", "bias")]
        return jax.vmap(eqx.tree_at(arrays, maker(jax.random.key(7)), given))(x)

    return Case(aw.from_equinox(maker), own_params, own_forward, aw.HeteroscedasticNormal())


def haiku():
    import haiku as hk

    def function(x):
        return hk.nets.MLP([HIDDEN, 2], activation=jax.numpy.tanh)(x)

    def own_params(key):
        return hk.transform(function).init(key, inputs())

    def own_forward(params, x):
        return hk.transform(function).apply(params, None, x)

    return Case(aw.from_haiku(function, inputs()), own_params, own_forward, aw.Categorical())


CASES = {"linen": linen, "nnx": nnx, "equinox": equinox, "haiku": haiku}
LIBRARIES = {"linen": "flax", "nnx": "flax", "equinox": "equinox", "haiku": "haiku"}


def problem(case):
    data = (inputs(), targets(case.likelihood))
    return aw.Problem(case.network.init, case.network.apply, case.likelihood, aw.Prior(scale=0.5), data=data)


def network_fingerprint(name):
    return fingerprint.of_network(problem(CASES[name]()))
