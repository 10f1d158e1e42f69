"""What a method is: four functions that `sample` calls, and the draws that they make.

A method is a frozen pytree: its numbers are leaves, so that another value compiles nothing; counts and functions are
structure. `anchorwalk.testing.check_method` runs this contract on any method.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from anchorwalk.errors import Status
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params

State = Any  # any pytree of arrays: what the next call of a chain needs; keys and counters come from the run


class Keys(NamedTuple):
    """The randomness of one call.

    `own` is the chain's own key. It is used once: split it for several uses. `shared` is the same for all chains of a
    run, for what they have in common, such as an order of rows.
    """

    own: Key
    shared: Key


class Call(NamedTuple):
    """One call of `step`, as far as it is known before anything runs; a compiled program serves all calls of a kind.

    Attributes:
        kind: A name, such as "first" or "warm-up".
        draws: Draws that the call returns; 0 for a warm-up or for a part of a long training.
        passes: Its cost in passes over the training rows, forward and backward.
        trace: Entries of its trace that count; those after them fill up. None for all.
    """

    kind: str
    draws: int = 1
    passes: float = 0.0
    trace: int | None = None


class Draws(NamedTuple):
    """Approximate samples of the posterior, with a leading axis of `call.draws` of them.

    Attributes:
        params: The parameters.
        trace: Numbers along the way, such as the loss of each epoch; may have no entries.
        good: False where the method knows that a draw is no good. The run adds those that are not finite.
        info: Named numbers. Readers use what they know: `loss_start`, `loss_end`, `gradient_norm_start`,
            `gradient_norm_end`, `log_density`, `acceptance`, `divergent`, `step_size`.
    """

    params: Params
    trace: Any
    good: Any
    info: Mapping[str, Any]


@runtime_checkable
class Method(Protocol):
    """A way to an approximate posterior.

    `start` and `step` are traced and compiled, and vectorised over chains. They see one chain. A method may offer more:
    `title`, a name for people; `one_member`, True where a chain has one member; `walk`, the walk of its anchors.
    """

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """The problem as this method uses it, made once a run and on the host: checks, rows held back, precision.

        Raises:
            InvalidInput: A problem that the method cannot be used on.
        """

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> State:
        """A chain's first state; cheap.

        Args:
            keys: Other keys than those of any call.
            problem: As `prepare` returned it.
            attempt: 0, and one more each time the chain's first draw was bad. It may change the initialisation, and
                nothing that the chain samples from.
        """

    def step(self, keys: Keys, problem: Problem, state: State, call: Call, number: Array) -> tuple[State, Draws]:
        """Carry out a call.

        Args:
            keys: Of this call.
            problem: As `prepare` returned it.
            state: What the call before left.
            call: Which call; known while tracing.
            number: Of the call in its chain, from 0; the same in all chains of a block.
        """

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The calls of a chain of so many members; those of fewer members come first and are the same.

        Args:
            problem: As `prepare` returned it; None where only costs are asked for and data do not matter.
            members: Draws of a chain.

        Raises:
            InvalidInput: A number of members that the method does not have.
        """


class MemberInfo(NamedTuple):
    """What is known of one member: its chain and its place there, both from 0, and its `Status`.

    `seconds` are wall time, its equal share of its block's; `values` what the method says of it, see `Draws.info`.
    """

    chain: int
    index: int  # type: ignore[assignment]  # it hides tuple.index, which nobody calls here
    status: int
    seconds: float
    values: Mapping[str, float]

    @property
    def good(self) -> bool:
        """Whether iteration and prediction use it."""
        return self.status == Status.OK

    def value(self, name: str) -> float:
        """What the method says under a name; NaN where it says nothing."""
        return self.values.get(name, np.nan)


class Member(NamedTuple):
    """One draw: the parameters of a network of the ensemble, and what is known of it.

    `trace` has numbers along the way; for a trained member the mean loss of each epoch, in nats per row.
    """

    params: Params
    trace: Any
    info: MemberInfo
