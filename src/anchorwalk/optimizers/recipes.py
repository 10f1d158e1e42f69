"""Optimisers as recipes: numbers that can be compared and written down, made into optax when the steps are known.

Their numbers are leaves of a pytree, so that another rate compiles nothing.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
import optax

from anchorwalk import checks, tree
from anchorwalk.serial import Settings
from anchorwalk.types import Array


@runtime_checkable
class Optimizer(Protocol):
    """A recipe for an optimiser: anything with `build(steps)` that is a pytree.

    Its numbers are leaves, so that another rate compiles nothing: `build` sees them traced and cannot branch on them.
    One that offers `to_json`, a dictionary with "name" and "settings", is stored with its settings. With
    `any_steps = True` the number of steps is traced too, and trainings of other lengths compile nothing.

    Example:
        >>> import dataclasses, jax, optax, anchorwalk as aw
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Clipped:
        ...     rate: float
        ...     norm: float
        ...
        ...     def build(self, steps):
        ...         return optax.chain(optax.clip_by_global_norm(self.norm), optax.adam(self.rate))
        >>> aw.Training(Clipped(1e-3, norm=1.0), epochs=10, batch_size=32).optimizer
        Clipped(rate=0.001, norm=1.0)
    """

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optimiser for a training of `steps` steps."""
        ...


def cosine(rate: Any, end_rate: Any, steps: int) -> Any:
    """A schedule that falls from `rate` to `end_rate` along half a cosine; constant where `end_rate` is None."""
    if end_rate is None:
        return lambda step: jnp.asarray(rate)

    def schedule(step: Array) -> Any:
        return end_rate + 0.5 * (rate - end_rate) * (1 + jnp.cos(jnp.pi * step / steps))

    return schedule


@tree.node()
@dataclass(frozen=True)
class Adam(Settings):
    """Adam with a cosine schedule over one training.

    Args:
        rate: Learning rate at the first step.
        end_rate: Learning rate after the last step; None keeps the rate constant.
        b1: Decay of the gradient's running mean.
        b2: Decay of its running square.
        eps: Added to the root of the square. Losses are divided by N here: to do as eps=e does with a loss that is
            summed over N rows, pass e / N.

    Raises:
        InvalidInput: A number out of its range.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Adam(1e-3, end_rate=1e-5)
        Adam(rate=0.001, end_rate=1e-05, b1=0.9, b2=0.999, eps=1e-08)
    """

    rate: float
    end_rate: float | None = None
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    any_steps = True

    def __post_init__(self) -> None:
        set_rates(self, "Adam", self.rate, self.end_rate)
        object.__setattr__(self, "b1", checks.within("Adam(b1=)", self.b1, 0, 1, open_above=True))
        object.__setattr__(self, "b2", checks.within("Adam(b2=)", self.b2, 0, 1, open_above=True))
        object.__setattr__(self, "eps", checks.positive("Adam(eps=)", self.eps))

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optimiser for a training of `steps` steps."""
        return optax.adam(cosine(self.rate, self.end_rate, steps), b1=self.b1, b2=self.b2, eps=self.eps)


@tree.node(static=("nesterov",))
@dataclass(frozen=True)
class SGD(Settings):
    """Stochastic gradient descent with momentum and a cosine schedule over one training.

    Args:
        rate: Learning rate at the first step.
        end_rate: Learning rate after the last step; None keeps the rate constant.
        momentum: Decay of the running sum of gradients.
        nesterov: Whether to look ahead.

    Raises:
        InvalidInput: A number out of its range.

    Example:
        >>> import anchorwalk as aw
        >>> aw.SGD(0.1, end_rate=0.0)
        SGD(rate=0.1, end_rate=0.0, momentum=0.0, nesterov=False)
    """

    rate: float
    end_rate: float | None = None
    momentum: float = 0.0
    nesterov: bool = False

    any_steps = True

    def __post_init__(self) -> None:
        set_rates(self, "SGD", self.rate, self.end_rate)
        object.__setattr__(self, "momentum", checks.within("SGD(momentum=)", self.momentum, 0, 1, open_above=True))

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optimiser for a training of `steps` steps."""
        return optax.sgd(cosine(self.rate, self.end_rate, steps), momentum=self.momentum, nesterov=self.nesterov)


@tree.node()
@dataclass(frozen=True)
class Lion(Settings):
    """Lion with a cosine schedule over one training: every parameter moves by the rate, up or down, in every step.

    Adam's steps shrink where a batch's gradient is mostly noise; these do not, so that a stiff loss is descended in
    fewer epochs (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"). Without weight decay: the anchor
    has that part. It does best with an end rate far below the rate, and with a rate three to ten times below Adam's.

    Args:
        rate: Learning rate at the first step.
        end_rate: Learning rate after the last step; None keeps the rate constant.
        b1: Share of the running mean in the direction of a step.
        b2: Decay of the running mean.

    Raises:
        InvalidInput: A number out of its range.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Lion(1e-3, end_rate=1e-5)
        Lion(rate=0.001, end_rate=1e-05, b1=0.9, b2=0.99)
    """

    rate: float
    end_rate: float | None = None
    b1: float = 0.9
    b2: float = 0.99

    any_steps = True

    def __post_init__(self) -> None:
        set_rates(self, "Lion", self.rate, self.end_rate)
        object.__setattr__(self, "b1", checks.within("Lion(b1=)", self.b1, 0, 1, open_above=True))
        object.__setattr__(self, "b2", checks.within("Lion(b2=)", self.b2, 0, 1, open_above=True))

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optimiser for a training of `steps` steps."""
        schedule = cosine(self.rate, self.end_rate, steps)
        return optax.lion(schedule, b1=self.b1, b2=self.b2, weight_decay=0.0)


@tree.node(static=("transformation",))
@dataclass(frozen=True)
class OptaxOptimizer:
    """An optax optimiser as it is; its numbers are fixed in the compiled program."""

    transformation: optax.GradientTransformation

    any_steps = True

    def __repr__(self) -> str:
        return "optax"

    def to_json(self) -> dict[str, Any]:
        """Its name alone: functions have no JSON form."""
        return {"name": "optax"}

    def build(self, steps: int) -> optax.GradientTransformation:
        """The same, whatever the number of steps."""
        return self.transformation


def set_rates(recipe: Any, name: str, rate: Any, end_rate: Any) -> None:
    """Check the rates of a recipe, and set them as numbers.

    Raises:
        InvalidInput: A rate that is not above zero, or an end rate below it.
    """
    object.__setattr__(recipe, "rate", checks.positive(f"{name}(rate=)", rate))
    if end_rate is not None:
        value = checks.number(f"{name}(end_rate=)", end_rate)
        if value < 0:
            checks.reject(f"{name}(end_rate=)", end_rate, "a number of at least zero", "Pass None to keep the rate.")
        object.__setattr__(recipe, "end_rate", value)
