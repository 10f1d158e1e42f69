"""What methods that start from a mode share: the training that finds it, and calls without draws."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.minibatch import check_batch_size
from anchorwalk.optimizers import Training, train
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params

FIRST, DRAW = "first", "draw"  # kinds of calls


class FromMode:
    """A method whose chains begin with a training towards the prior's mean, or at an initialisation without it.

    A subclass has `begin(key, problem, params)`, its state at a place, and `go(...)`, which is `step` after the first
    training.
    """

    first: Training | None

    def __post_init__(self) -> None:
        if self.first is not None:
            member.check_training(f"{type(self).__name__}(first=)", self.first)

    def begin(self, key: Key, problem: Problem, params: Params) -> Any:
        """The state of a chain that is at some parameters."""
        raise NotImplementedError

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """Carry out any call but the first training; `number` counts from 0 after that one."""
        raise NotImplementedError

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where a training keeps its best epoch."""
        named: dict[str, Training | None] = {
            f"{type(self).__name__}({name}=)": value
            for name, value in vars(self).items()
            if isinstance(value, Training)
        }
        problem = member.prepare(key, problem, named)
        if hasattr(self, "batch_size"):
            check_batch_size(type(self).__name__, self.batch_size, problem)
        return problem

    def first_call(self) -> Iterator[Call]:
        """The first call, where there is one."""
        if self.first is not None:
            yield Call(FIRST, draws=0, passes=self.first.epochs)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> Any:
        """An initialisation."""
        init_key, begin_key = jax.random.split(keys.own)
        return self.begin(begin_key, problem, member.initialise(init_key, problem, attempt))

    def step(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """The first training, or what comes after it."""
        if call.kind != FIRST:
            return self.go(keys, problem, state, call, number - (self.first is not None))
        assert self.first is not None
        train_key, begin_key = jax.random.split(keys.own)
        found = train(train_key, problem, self.first, member.prior_mean(problem), self.place(problem, state))
        return self.begin(begin_key, problem, found.params), no_draws(problem)

    def place(self, problem: Problem, state: Any) -> Params:
        """The parameters that a state is at."""
        return state.params


def no_draws(problem: Problem) -> Draws:
    """What a call without draws gives."""
    params = jax.tree.map(lambda leaf: jnp.zeros((0, *leaf.shape), leaf.dtype), problem.params_like)
    return Draws(params, jnp.zeros((0, 0)), jnp.ones(0, bool), {})


def one_draw(problem: Problem, params: Params, trace: Any = None, good: Any = True, **info: Array) -> Draws:
    """Parameters as the only draw of a call, in the dtypes of the problem's own."""
    typed = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype)[None], params, problem.params_like)
    trace = jnp.zeros(0) if trace is None else trace
    return Draws(typed, trace[None], jnp.asarray(good, bool)[None], {name: value[None] for name, value in info.items()})
