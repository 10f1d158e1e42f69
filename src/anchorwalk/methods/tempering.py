"""Parallel tempering: Hamiltonian Monte Carlo at a ladder of temperatures, whose states swap places.

Differs from the paper, which has none: it is for references where chains of `HMC` keep to the arrangement of the hidden
units that they began with. At rung k of the ladder the density is p(D | θ)^β p(θ). Hot rungs, with a small β, forget
where they began; neighbours swap states, even and odd pairs in turns, so that states travel from the hottest rung to
the posterior and back (Okabe et al. 2001; Syed et al. 2022). All rungs together are one Markov chain whose last rung
has the posterior as its limit.

Each rung moves in coordinates in which the Fisher information, in the eigenbasis of its Kronecker factors, is about
the identity (George et al. 2018); products with these bases cost less than the gradient. Windows of warm-up choose
coordinates, ladder and step sizes. After that step sizes alone change, by 1 / t at iteration t.

With one rung this is Hamiltonian Monte Carlo in float32 and in such coordinates, for many chains of a larger network.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.density import log_likelihood, log_prior, params_dtype, params_of, prior_vectors
from anchorwalk.methods.hmc_kernel import GAIN, GAIN_DELAY, LONGEST, SHORTEST
from anchorwalk.optimizers import Training, train
from anchorwalk.optimizers.soap import Layout
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key

TARGET = 0.8  # acceptance of trajectories that step sizes are tuned for
FIRST_STEP = 0.05  # step size that warm-up begins with, where the information is the identity
DELAY = 9.0  # in a window log(step size) moves by (acceptance - TARGET) / sqrt(DELAY + iteration); see GAIN for draws
LOOKS = 4  # places in a window at which the information is taken
LOOKED_AT = 512  # rows, drawn anew, that it is taken from
LEAST_REJECTION = 0.02  # of a swap, where the ladder is spaced anew: rungs never fall together
LARGEST = 256  # a side of a matrix with more rows than this has no basis of its own
UNKNOWN, FROM_HOT, FROM_COLD = 0, 1, 2  # the end of the ladder at which a state was last


class Axes(NamedTuple):
    """The coordinates of one matrix of parameters: bases of its sides, and the information in these bases."""

    left: Array | None
    right: Array | None
    information: Array


class TemperingState(NamedTuple):
    """What the next call of a chain needs; every array has a leading axis of rungs, the hottest first."""

    positions: Array
    ladder: Array  # inverse temperatures, the last one 1
    axes: tuple[Axes, ...]
    log_step: Array
    ends: Array  # where each state was last: UNKNOWN, FROM_HOT or FROM_COLD


class Swaps(NamedTuple):
    """How often neighbours tried to swap, and the expected number of tries that failed."""

    tried: Array
    rejected: Array


@tree.node(static=("rungs", "windows", "thin", "leapfrogs", "draws"))
@dataclass(frozen=True)
class Tempering(Settings):
    """Parallel tempering: draws from the posterior by chains that do not keep to the mode where they began.

    A chain is a ladder of `rungs` states, and costs as much as so many chains of `HMC`. Its draws are those of the last
    rung. A call is its start, a window of warm-up, or a number of draws. It needs blackjax: `pip install
    'anchorwalk[reference]'`.

    Args:
        rungs: States of a chain, each at an inverse temperature of its own; 1 for the posterior alone.
        hottest: The inverse temperature of the first one.
        windows: Iterations of each window of warm-up, multiples of eight. Each chooses coordinates, step sizes and the
            ladder for the next. Step sizes follow in the window itself, so that the last one should be long.
        thin: Iterations for each draw that is kept, an even number.
        leapfrogs: Steps of a trajectory; each is a pass over the data.
        draws: Draws of one call. A chain gets whole calls: draws beyond the plan's members are made and not used.
        training: Where all states of a chain start: at the optimum of this training towards a draw of the prior. None
            starts each at a draw of the prior of its own.

    Raises:
        InvalidInput: Numbers that do not go together.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Plan(aw.Tempering(rungs=4, windows=(40,), thin=2, leapfrogs=5, draws=10), chains=2, members=10).epochs
        3440
    """

    rungs: int = 24
    hottest: float = 0.003
    windows: tuple[int, ...] = (56, 104, 200, 400)
    thin: int = 10
    leapfrogs: int = 20
    draws: int = 20
    training: Training | None = None

    title = "Parallel tempering"

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", tuple(self.windows))
        for name, least in (("rungs", 1), ("thin", 2), ("leapfrogs", 1), ("draws", 1)):
            checks.count(f"Tempering({name}=)", getattr(self, name), least=least)
        hottest = checks.within("Tempering(hottest=)", self.hottest, 0, 1, open_above=True)
        object.__setattr__(self, "hottest", hottest)
        if self.thin % 2:
            checks.reject("Tempering(thin=)", self.thin, "an even number", "Even and odd pairs swap in turns.")
        if not self.windows or any(checks.count("Tempering(windows=)", one) % (2 * LOOKS) for one in self.windows):
            checks.reject("Tempering(windows=)", self.windows, f"multiples of {2 * LOOKS}", "Pass (56, 104, 200, 400).")
        if self.training is not None:
            member.check_training("Tempering(training=)", self.training)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """The problem as it is; rows held back, where the training keeps its best epoch."""
        if find_spec("blackjax") is None:
            checks.reject("Tempering", "no blackjax", "blackjax", "pip install 'anchorwalk[reference]'")
        if self.training is None:
            return problem
        return member.prepare(key, problem, {"Tempering(training=)": self.training})

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """A start, the windows of warm-up, and then draws."""
        begin = 0 if self.training is None else self.training.epochs
        yield Call("start", draws=0, passes=begin + 2 * self.rungs)
        for window in self.windows:
            yield Call("warm-up", draws=0, passes=self._passes(window) + 2 * LOOKS * self.rungs)
        for _ in range(-(-members // self.draws)):
            yield Call("draws", self.draws, self._passes(self.draws * self.thin))

    def _passes(self, iterations: int) -> int:
        """Gradients of each trajectory, one where it begins, and the likelihood where it ends."""
        return iterations * self.rungs * (self.leapfrogs + 2)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> TemperingState:
        """Draws from the prior, a ladder of equal ratios, and coordinates in which the prior is the identity."""
        mean, scale = prior_vectors(problem, params_dtype(problem))
        shape = (self.rungs, problem.size)
        positions = mean + scale * jax.random.normal(jax.random.fold_in(keys.own, attempt), shape, scale.dtype)
        ladder = jnp.exp(jnp.linspace(jnp.log(self.hottest), 0.0, self.rungs)).astype(scale.dtype).at[-1].set(1)
        axes = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.rungs, *leaf.shape)), _plain(problem))
        log_step = jnp.full(self.rungs, jnp.log(FIRST_STEP), scale.dtype)
        return TemperingState(positions, ladder, axes, log_step, jnp.full(self.rungs, UNKNOWN, jnp.int32))

    def step(
        self, keys: Keys, problem: Problem, state: TemperingState, call: Call, number: Array
    ) -> tuple[TemperingState, Draws]:
        """A start, a window, or draws."""
        if call.draws:
            return self._draw(keys.own, problem, state, number)
        if call.kind == "warm-up":
            state = self._warm_up(keys.own, problem, state, number)
        else:
            train_key, look_key = jax.random.split(keys.own)
            if self.training is not None:
                optimum = self._optimum(train_key, problem, state.positions[0])
                state = state._replace(positions=jnp.broadcast_to(optimum, state.positions.shape))
            state = state._replace(axes=self._coordinates(look_key, problem, state, state.positions[None]))
        info = dict.fromkeys(("log_density", "acceptance", "divergent", "step_size", "round_trips"), jnp.zeros(0))
        return state, _draws(problem, jnp.zeros((0, problem.size)), info)

    def _optimum(self, key: Key, problem: Problem, anchor: Array) -> Array:
        init_key, order_key = jax.random.split(key)
        start = member.initialise(init_key, problem, jnp.uint32(0))
        return tree.ravel(train(order_key, problem, self.training, params_of(problem, anchor), start)[0])  # type: ignore[arg-type]

    def _warm_up(self, key: Key, problem: Problem, state: TemperingState, number: Array) -> TemperingState:
        """One window: step sizes follow; then the ladder and the coordinates of the next one are chosen."""
        iterations = jnp.asarray([window // LOOKS for window in self.windows])[number - 1]
        pairs = jnp.zeros(self.rungs - 1, state.ladder.dtype)
        key, look_key = jax.random.split(key)

        def iterate(i: Array, carry: tuple[TemperingState, Swaps]) -> tuple[TemperingState, Swaps]:
            state, swaps = carry
            after, found, tried = self._iterate(jax.random.fold_in(key, i), problem, state, i)
            log_step = state.log_step + (found.acceptance - TARGET) / jnp.sqrt(DELAY + i)
            return after._replace(log_step=log_step), jax.tree.map(jnp.add, swaps, tried)

        def block(carry: tuple[TemperingState, Swaps], b: Array) -> tuple[tuple[TemperingState, Swaps], Array]:
            carry = jax.lax.fori_loop(b * iterations, (b + 1) * iterations, iterate, carry)
            return carry, carry[0].positions

        (state, swaps), looks = jax.lax.scan(block, (state, Swaps(pairs, pairs)), jnp.arange(LOOKS))
        axes = self._coordinates(look_key, problem, state, looks)
        return state._replace(axes=axes, ladder=respaced(state.ladder, swaps))

    def _draw(self, key: Key, problem: Problem, state: TemperingState, number: Array) -> tuple[TemperingState, Draws]:
        before = (number - 1 - len(self.windows)) * self.draws * self.thin

        def iterate(state: TemperingState, this: tuple[Array, Key]) -> tuple[TemperingState, Any]:
            after, found, _ = self._iterate(this[1], problem, state, this[0])
            log_step = state.log_step + GAIN / (GAIN_DELAY + this[0]) * (found.acceptance - TARGET)
            return after._replace(log_step=log_step), (found.acceptance[-1], found.divergent[-1], found.arrived)

        def one(state: TemperingState, this: tuple[Array, Key]) -> tuple[TemperingState, Any]:
            each = (before + this[0] * self.thin + jnp.arange(self.thin), jax.random.split(this[1], self.thin))
            state, (acceptance, divergent, arrived) = jax.lax.scan(iterate, state, each)
            cold = state.positions[-1]
            info = {
                "log_density": tempered(problem, cold, 1.0),
                "acceptance": acceptance.mean(),
                "divergent": divergent.mean(),
                "step_size": jnp.exp(state.log_step[-1]),
                "round_trips": arrived.sum(),
            }
            return state, (cold, info)

        state, (vectors, info) = jax.lax.scan(one, state, (jnp.arange(self.draws), jax.random.split(key, self.draws)))
        return state, _draws(problem, vectors, info)

    def _iterate(
        self, key: Key, problem: Problem, state: TemperingState, number: Array
    ) -> tuple[TemperingState, "Moved", Swaps]:
        """A trajectory on every rung, and then swaps of the even pairs of neighbours, or of the odd ones."""
        move_key, swap_key = jax.random.split(key)
        rungs = (state.positions, state.ladder, state.axes, state.log_step)
        move: Any = jax.vmap(lambda key, rung: self._move(key, problem, *rung))
        positions, likelihoods, acceptance, divergent = move(jax.random.split(move_key, self.rungs), rungs)
        order, swaps = swap(swap_key, likelihoods, state.ladder, number)
        ends = state.ends[order]
        arrived = ends[-1] == FROM_HOT
        ends = ends.at[0].set(FROM_HOT).at[-1].set(FROM_COLD)
        return state._replace(positions=positions[order], ends=ends), Moved(acceptance, divergent, arrived), swaps

    def _move(
        self, key: Key, problem: Problem, position: Array, beta: Array, axes: tuple[Axes, ...], log_step: Array
    ) -> tuple[Array, Array, Array, Array]:
        """A trajectory: where it ends, the log-likelihood there, its acceptance, and whether its energy ran away."""
        import blackjax

        def density(coordinates: Array) -> Array:
            return tempered(problem, from_coordinates(problem, axes, coordinates), beta)

        move_key, jitter_key = jax.random.split(key)
        step = jnp.exp(log_step) * jax.random.uniform(jitter_key, (), log_step.dtype, SHORTEST, LONGEST)
        begin = blackjax.hmc.init(to_coordinates(problem, axes, position), density)
        after, info = blackjax.hmc.build_kernel()(
            move_key, begin, density, step, jnp.ones_like(position), self.leapfrogs
        )
        # A state that stays does so to the last bit.
        end = jnp.where(info.is_accepted, from_coordinates(problem, axes, after.position), position)
        return end, log_likelihood(problem, end), info.acceptance_rate, info.is_divergent

    def _coordinates(self, key: Key, problem: Problem, state: TemperingState, looks: Array) -> tuple[Axes, ...]:
        """Coordinates of each rung, from positions of the shape (looks, rungs, D)."""
        keys = jax.random.split(key, looks.shape[:2])
        of_rung: Any = jax.vmap(lambda keys, places, beta: coordinates(keys, problem, places, beta), in_axes=(1, 1, 0))
        found: tuple[Axes, ...] = of_rung(keys, looks, state.ladder)
        return found


class Moved(NamedTuple):
    """What an iteration says of the rungs, and whether a state arrived at the last one from the first."""

    acceptance: Array
    divergent: Array
    arrived: Array


def tempered(problem: Problem, vector: Array, beta: Array | float) -> Array:
    """β log p(D | θ) + log p(θ)."""
    density: Array = beta * log_likelihood(problem, vector) + log_prior(problem, vector)
    return density


def swap(key: Key, likelihoods: Array, ladder: Array, number: Array) -> tuple[Array, Swaps]:
    """Which rung's state goes to each rung: pairs (0, 1), (2, 3), ... swap if `number` is even, else (1, 2), ..."""
    count = len(ladder)
    active = (jnp.arange(count - 1) + number) % 2 == 0
    ratio = (ladder[1:] - ladder[:-1]) * (likelihoods[:-1] - likelihoods[1:])
    accepted = active & (jnp.log(jax.random.uniform(key, (count - 1,), ladder.dtype)) < ratio)
    none = jnp.zeros(1, bool)
    up, down = jnp.concatenate([accepted, none]), jnp.concatenate([none, accepted])
    rejected = jnp.where(active, -jnp.expm1(jnp.minimum(ratio, 0)), 0)
    return jnp.arange(count) + up - down, Swaps(active.astype(ladder.dtype), rejected)


def respaced(ladder: Array, swaps: Swaps) -> Array:
    """The ladder on which all neighbours would reject equally many swaps, with the ends where they are."""
    rejections = swaps.rejected / jnp.maximum(swaps.tried, 1) + LEAST_REJECTION
    reached = jnp.concatenate([jnp.zeros(1, ladder.dtype), jnp.cumsum(rejections)])
    wanted = jnp.linspace(0, reached[-1], len(ladder))
    return jnp.exp(jnp.interp(wanted, reached, jnp.log(ladder))).at[-1].set(1)


def coordinates(keys: Key, problem: Problem, places: Array, beta: Array) -> tuple[Axes, ...]:
    """Coordinates for one rung: bases from the Fisher information at some places, and the information in them."""
    layout, prior = Layout(problem.params_like), _plain(problem)

    def gradients(key: Key, vector: Array) -> list[Array]:
        """Of log p(y | x, θ) for targets that the network draws, of some rows, each as matrices."""
        data = problem.data
        pick_key, draw_key = jax.random.split(key)
        rows = min(problem.n, LOOKED_AT)
        picked = jax.random.randint(pick_key, (rows,), 0, problem.n)
        x = jax.tree.map(lambda leaf: jnp.asarray(leaf)[picked], data.x)
        drawn = problem.likelihood.draw(draw_key, problem.apply(params_of(problem, vector), x))

        def row(vector: Array, x: Any, y: Array) -> Array:
            outputs = problem.apply(params_of(problem, vector), jax.tree.map(lambda leaf: leaf[None], x))
            return problem.likelihood.log_prob(outputs, y[None])[0]

        found = jax.vmap(jax.grad(row), in_axes=(None, 0, 0))(vector, x, drawn)
        weights = jnp.sqrt(jnp.asarray(data.weights)[picked] * problem.n / rows)
        return jax.vmap(lambda one: layout.matrices(params_of(problem, one)))(weights[:, None] * found)

    def factors(this: tuple[Key, Array]) -> list[Any]:
        return [
            (
                None if a.left is None else jnp.einsum("iab,icb->ac", one, one),
                None if a.right is None else jnp.einsum("iab,iac->bc", one, one),
            )
            for one, a in zip(gradients(*this), prior, strict=True)
        ]

    summed = jax.tree.map(lambda leaf: leaf.sum(0), jax.lax.map(factors, (keys, places)))
    bases = jax.tree.map(_eigenvectors, summed)

    def squares(this: tuple[Key, Array]) -> list[Array]:
        turned = zip(gradients(*this), bases, strict=True)
        return [jnp.square(_turned(one, left, right)).sum(0) for one, (left, right) in turned]

    information = jax.tree.map(lambda leaf: leaf.mean(0), jax.lax.map(squares, (keys, places)))
    found = []
    for one, (left, right), plain in zip(information, bases, prior, strict=True):
        # The diagonal of the prior's precision in these bases.
        squared = [None if basis is None else jnp.square(basis) for basis in (left, right)]
        found.append(Axes(left, right, beta * one + _turned(plain.information, *squared)))
    return tuple(found)


def to_coordinates(problem: Problem, axes: tuple[Axes, ...], vector: Array) -> Array:
    """A vector of parameters in coordinates in which the information is about the identity."""
    matrices = Layout(problem.params_like).matrices(params_of(problem, vector))
    turned = [_turned(one, a.left, a.right) * jnp.sqrt(a.information) for one, a in zip(matrices, axes, strict=True)]
    return tree.ravel(turned)


def from_coordinates(problem: Problem, axes: tuple[Axes, ...], vector: Array) -> Array:
    """The inverse of `to_coordinates`."""
    layout = Layout(problem.params_like)
    matrices = []
    for one, a in zip(tree.unravel(vector, [a.information for a in axes]), axes, strict=True):
        left, right = (None if basis is None else basis.T for basis in (a.left, a.right))
        matrices.append(_turned(one / jnp.sqrt(a.information), left, right))
    return tree.ravel(layout.tree(matrices))


def _turned(matrix: Array, left: Array | None, right: Array | None) -> Array:
    """A matrix, or a stack of them, in the bases of its sides."""
    matrix = matrix if left is None else jnp.swapaxes(left, -1, -2) @ matrix
    return matrix if right is None else matrix @ right


def _plain(problem: Problem) -> tuple[Axes, ...]:
    """The prior's precision, without bases turned: each side has the identity."""
    dtype = params_dtype(problem)
    precision = prior_vectors(problem, dtype)[1] ** -2
    found = []
    for matrix in Layout(problem.params_like).matrices(params_of(problem, precision)):
        sides = matrix.shape if matrix.ndim == 2 else (0, 0)
        left, right = (jnp.eye(length, dtype=dtype) if 2 <= length <= LARGEST else None for length in sides)
        found.append(Axes(left, right, matrix))
    return tuple(found)


@jax.custom_batching.sequential_vmap  # type: ignore[untyped-decorator]
def _eigenvectors(matrix: Array) -> Array:
    """Of a symmetric matrix; one at a time, as two of XLA's CPU programs that factorise batches block each other."""
    vectors: Array = jnp.linalg.eigh(matrix)[1]
    return vectors


def _draws(problem: Problem, vectors: Array, info: dict[str, Array]) -> Draws:
    """Vectors of parameters as draws; there may be none."""
    params = jax.vmap(lambda vector: params_of(problem, vector))(vectors)
    typed = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), params, problem.params_like)
    return Draws(typed, jnp.zeros((len(vectors), 0)), jnp.ones(len(vectors), bool), info)
