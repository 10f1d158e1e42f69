"""What a run leaves: approximate samples of the posterior p(θ | D)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.likelihoods import Likelihood
from anchorwalk.methods.base import Draws, Member, MemberInfo
from anchorwalk.posterior.diagnose import Diagnosis, examine, rectangle
from anchorwalk.posterior.passes import Passes
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.problem import check_apply, check_inputs
from anchorwalk.run.runners import Mapper
from anchorwalk.run.store import MemoryStore, Round, Store
from anchorwalk.run.store.base import status_of
from anchorwalk.types import Apply, Inputs, Params


@dataclass(frozen=True, eq=False)
class Posterior:
    """Members in the order (chain, member); made by `sample`, `load` and `Posterior.from_members`.

    Iteration, `len` and prediction leave diverged members out; `infos` and `posterior[chain, index]` show
    them. Leaving them out is a selection: an anchor whose training diverges is not represented.

    Attributes:
        likelihood: The likelihood of the run: from outputs to predictions.
        infos: What is known of every member, diverged ones included.
        settings: What the run was made with, as text: what must be equal for it to resume.
        complete: Whether the plan was done, or the run was ended before.
        failed: Chains that had no good first draw and are not represented at all.
    """

    _store: Store
    _apply: Apply
    likelihood: Likelihood
    infos: tuple[MemberInfo, ...]
    settings: Mapping[str, str]
    complete: bool
    failed: tuple[int, ...] = ()

    @classmethod
    def from_members(
        cls, *, apply: Apply, likelihood: Likelihood, members: Sequence[Params] | Sequence[Sequence[Params]]
    ) -> "Posterior":
        """A posterior of draws from anywhere: another sampler, another library, a file.

        Args:
            apply: The network, as in `Problem`.
            likelihood: From outputs to predictions, as in `Problem`.
            members: Parameters of each draw; or, for several chains, a list of draws for each chain. A list is one of
                chains where all of its entries are lists or tuples, and what is in them all has one tree, the same
                shapes and the same dtypes. Draws that are such lists themselves are passed as chains.

        Raises:
            InvalidInput: No members, members without numbers, or members of different trees, shapes or dtypes.

        Example:
            >>> import anchorwalk as aw, jax.numpy as jnp
            >>> draws = [{"w": jnp.asarray(1.0)}, {"w": jnp.asarray(3.0)}]
            >>> posterior = aw.Posterior.from_members(
            ...     apply=lambda params, x: params["w"] * x, likelihood=aw.Normal(scale=0.5), members=draws)
            >>> posterior.predict(jnp.ones(1)).mean
            array([2.])
        """
        checks.instance("from_members(likelihood=)", likelihood, Likelihood, "Normal(scale=...) or another likelihood")
        if not callable(apply):
            checks.reject("from_members(apply=)", repr(apply), "the network's function", "Pass apply(params, x).")
        store = MemoryStore()
        for chain, draws in enumerate(_chains(members)):
            store.commit(_round(chain, draws))
        return cls(store, apply, likelihood, tuple(store.infos()), {}, True)

    @cached_property
    def _good(self) -> list[MemberInfo]:
        return [info for info in self.infos if info.good]

    @cached_property
    def _places(self) -> set[tuple[int, int]]:
        return {(info.chain, info.index) for info in self.infos}

    @property
    def diverged(self) -> int:
        """Number of members that are not finite and are left out."""
        return len(self.infos) - len(self._good)

    def __len__(self) -> int:
        return len(self._good)

    def __iter__(self) -> Iterator[Member]:
        return map(self._member, self._good)

    def __getitem__(self, place: tuple[int, int]) -> Member:
        """The member at (chain, index), both from 0, whatever its status."""
        if not (isinstance(place, tuple) and len(place) == 2):
            checks.reject("posterior[...]", repr(place), "posterior[chain, index]", "Pass a chain and an index.")
        if place not in self._places:
            found = f"{len(self.infos)} members of {len({info.chain for info in self.infos})} chains"
            raise IndexError(f"no member {place[1]} in chain {place[0]} (both from 0) among {found}")
        return self._store.member(*place)

    def __repr__(self) -> str:
        left_out = f", {self.diverged} diverged" if self.diverged else ""
        left_out += f", {len(self.failed)} chains failed" if self.failed else ""
        chains = len({info.chain for info in self.infos})
        return f"Posterior({len(self)} members in {chains} chains{left_out}{'' if self.complete else ', not complete'})"

    def _member(self, info: MemberInfo) -> Member:
        return self._store.member(info.chain, info.index)

    @property
    def about(self) -> Mapping[str, Any]:
        """What the run says of itself, as JSON: plan, method, prior, likelihood, rows; empty where it is not known."""
        return self._store.about()

    def thin(self, every: int) -> "Posterior":
        """Every `every`-th member of each chain, the first included; members keep their numbers.

        Args:
            every: A whole number of at least 1.
        """
        every = checks.count("thin(every=)", every)
        return replace(self, infos=tuple(info for info in self.infos if info.index % every == 0))

    def select(self, chains: Collection[int]) -> "Posterior":
        """The members of some chains; they keep their numbers.

        Args:
            chains: Numbers of chains, from 0.
        """
        failed = tuple(chain for chain in self.failed if chain in chains)
        return replace(self, infos=tuple(info for info in self.infos if info.chain in chains), failed=failed)

    def predict(self, x: Inputs, batch_size: int | None = None, *, runner: Mapper | None = None) -> Prediction:
        """The predictive distribution on new rows, averaged over members.

        Args:
            x: Inputs as in training, any number of rows.
            batch_size: Rows in one call of the network; None: up to 1000, on a CPU what fits its caches.
            runner: Where networks run, such as `Ray(address="auto")`, now and whenever the prediction is asked for more
                than it has kept; None for this thread. The numbers are the same.

        Returns:
            Mean, probabilities, quantiles, draws and the parts of the variance.

        Raises:
            InvalidInput: Inputs that do not fit the network, or a posterior without members.
        """
        return Prediction(self.passes("predict", self._good, x, batch_size, runner), self.likelihood)

    def diagnose(self, x: Inputs, batch_size: int | None = None, *, runner: Mapper | None = None) -> Diagnosis:
        """How far chains agree on predictions, and how many independent members they are worth.

        Predictions are means (for classes probabilities) and, where the noise depends on the network, log standard
        deviations. Memory holds all of them, and a few hundred rows say as much as all.

        Args:
            x: Inputs as in training, any number of rows.
            batch_size: As in `predict`.
            runner: As in `predict`.

        Returns:
            R-hat, effective members, spread and loss; printed, it is in words, with advice.

        Raises:
            InvalidInput: Inputs that do not fit the network, or a posterior without members.

        Example:
            >>> import anchorwalk as aw, jax, jax.numpy as jnp
            >>> x = jnp.linspace(-1.0, 1.0, 32)
            >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
            ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
            >>> plan = aw.Plan(aw.AE(aw.Training(aw.SGD(0.5), epochs=50, batch_size=32)), chains=4)
            >>> posterior = aw.sample(jax.random.key(0), problem, plan, callbacks=[])
            >>> print(posterior.diagnose(x).advice)
            ('train more chains: these are nearly independent, but few',)
        """
        used = rectangle(self.infos)
        passes = self.passes("diagnose", [info for chain in used.chains for info in chain], x, batch_size, runner)
        return examine(self.infos, used, self.likelihood, (outputs for _, outputs in passes.outputs()))

    def passes(
        self,
        argument: str,
        infos: Sequence[MemberInfo],
        x: Inputs,
        batch_size: int | None,
        runner: Mapper | None = None,
    ) -> Passes:
        """The outputs of some members on rows, for what looks at members one by one; `argument` is named in errors."""
        checks.outside(argument, x)
        if runner is not None:
            checks.instance(f"{argument}(runner=)", runner, Mapper, "Local(threads=2), Ray(...) or None")
        size = None if batch_size is None else checks.count(f"{argument}(batch_size=)", batch_size)
        if not infos:
            checks.reject(argument, "a posterior without members", "at least one", "Look at posterior.infos.")
        like = self._member(infos[0]).params
        x, rows = check_inputs(argument, x, jnp.result_type(*jax.tree.leaves(like)))
        check_apply(f"{argument}(x=)", self._apply, like, x, rows)
        x = jax.tree.map(np.asarray, x)
        return Passes(lambda i: self._member(infos[i]).params, len(infos), self._apply, x, rows, size, runner)


def _chains(members: Any) -> list[list[Params]]:
    """Draws as a list for each chain; see `Posterior.from_members`."""
    given = list(members) if isinstance(members, list | tuple) else []
    if not given:
        checks.reject("from_members(members=)", repr(members), "a list of parameters", "Pass at least one draw.")
    nested = all(type(chain) in (list, tuple) and chain for chain in given)
    nested = nested and len({_kind(draw) for chain in given for draw in chain}) == 1
    chains = [list(chain) for chain in given] if nested else [given]
    kinds = {_kind(draw): None for chain in chains for draw in chain}  # in their order
    if len(kinds) > 1:
        some = " and ".join(f"{structure}: {shapes}" for structure, shapes in list(kinds)[:2])
        remedy = "Pass draws of one network."
        checks.reject("from_members(members=)", f"draws of {some}", "one tree, with the same shapes and dtypes", remedy)
    if not jax.tree.leaves(chains):
        checks.reject("from_members(members=)", "draws without arrays", "parameters", "Pass those of the network.")
    return chains


def _kind(params: Params) -> Any:
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
    for array in arrays:
        checks.real("from_members(members=)", array)
    return str(jax.tree.structure(params)), tuple(f"{array.dtype}{array.shape}" for array in arrays)


def _round(chain: int, draws: list[Params]) -> Round:
    """A chain's draws as one finished call."""
    lead = (1, len(draws))
    params = tree.lane(tree.stack([jax.tree.map(np.asarray, draw) for draw in draws]), None)
    found = Draws(params, np.zeros((*lead, 0)), np.ones(lead, bool), {})
    return Round((chain,), 0, "given", 0, 0, found, status_of(found), 0.0, ())
