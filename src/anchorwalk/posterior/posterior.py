"""What a run leaves: approximate samples of the posterior p(θ | D)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import Status
from anchorwalk.likelihoods import Likelihood
from anchorwalk.methods.base import Member, MemberInfo
from anchorwalk.posterior.diagnose import Diagnosis, examine, rectangle
from anchorwalk.posterior.passes import Passes
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.problem import check_apply, check_inputs
from anchorwalk.run.store import Store
from anchorwalk.types import Apply, Inputs


@dataclass(frozen=True, eq=False)
class Posterior:
    """Members in the order (chain, member); made by `sample` and its short forms.

    Iteration, `len` and prediction leave diverged members out; `infos` and `posterior[chain, index]` show
    them. Leaving them out is a selection: an anchor whose training diverges is not represented.

    Attributes:
        infos: What is known of every member, diverged ones included.
        settings: The run's arguments as text, the chosen runner among them.
        complete: Whether the plan was done, or the run was ended before.
    """

    _store: Store
    _apply: Apply
    _likelihood: Likelihood
    infos: tuple[MemberInfo, ...]
    settings: Mapping[str, str]
    complete: bool

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood of the run: from outputs to predictions."""
        return self._likelihood

    @property
    def _good(self) -> list[MemberInfo]:
        return [info for info in self.infos if info.status == Status.OK]

    @property
    def diverged(self) -> int:
        """Number of members that are not finite and are left out."""
        return len(self.infos) - len(self._good)

    def __len__(self) -> int:
        return len(self._good)

    def __iter__(self) -> Iterator[Member]:
        for info in self._good:
            yield self._member(info)

    def __getitem__(self, place: tuple[int, int]) -> Member:
        """The member at (chain, index), both from 0, whatever its status."""
        if not (isinstance(place, tuple) and len(place) == 2):
            checks.reject("posterior[...]", repr(place), "posterior[chain, index]", "Pass a chain and an index.")
        chain, index = place
        for info in self.infos:
            if (info.chain, info.index) == (chain, index):
                return self._member(info)
        chains = {info.chain for info in self.infos}
        raise IndexError(
            f"no member {index} in chain {chain} (both from 0) among {len(self.infos)} members of {len(chains)} chains"
        )

    def __repr__(self) -> str:
        left_out = f", {self.diverged} diverged" if self.diverged else ""
        chains = len({info.chain for info in self.infos})
        return f"Posterior({len(self)} members in {chains} chains{left_out}{'' if self.complete else ', not complete'})"

    def _member(self, info: MemberInfo) -> Member:
        return self._store.member(int(info.chain), int(info.index))  # type: ignore[arg-type]

    def thin(self, every: int) -> "Posterior":
        """Every `every`-th member of each chain, the first included; members keep their numbers.

        Args:
            every: A whole number of at least 1.
        """
        every = checks.count("thin(every=)", every)
        kept = tuple(info for info in self.infos if info.index % every == 0)  # type: ignore[operator]
        return Posterior(self._store, self._apply, self._likelihood, kept, self.settings, self.complete)

    def select(self, chains: Collection[int]) -> "Posterior":
        """The members of some chains; they keep their numbers.

        Args:
            chains: Numbers of chains, from 0.
        """
        kept = tuple(info for info in self.infos if info.chain in chains)
        return Posterior(self._store, self._apply, self._likelihood, kept, self.settings, self.complete)

    def predict(self, x: Inputs, batch_size: int | None = None) -> Prediction:
        """The predictive distribution on new rows, averaged over members.

        Args:
            x: Inputs as in training, any number of rows.
            batch_size: Rows in one call of the network; None: up to 1000, on a CPU what fits its caches.

        Returns:
            Mean, probabilities, quantiles, draws and the parts of the variance.

        Raises:
            InvalidInput: Inputs that do not fit the network, or a posterior without members.
        """
        return Prediction(self.passes("predict", self._good, x, batch_size), self._likelihood)

    def diagnose(self, x: Inputs, batch_size: int | None = None) -> Diagnosis:
        """How far chains agree on predictions, and how many independent members they are worth.

        Predictions are means (for classes probabilities) and, where the noise depends on the network, log standard
        deviations. Memory holds those of all members on all rows: a few hundred rows say as much as all.

        Args:
            x: Inputs as in training, any number of rows.
            batch_size: As in `predict`.

        Returns:
            R-hat, effective members, spread and loss; printed, it is in words, with advice.

        Raises:
            InvalidInput: Inputs that do not fit the network, or a posterior without members.

        Example:
            >>> import anchorwalk as aw, jax, jax.numpy as jnp
            >>> x = jnp.linspace(-1.0, 1.0, 32)
            >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
            ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
            >>> plan = aw.Plan(chains=4, members=1, first=aw.Training(aw.SGD(0.5), epochs=50, batch_size=32))
            >>> posterior = aw.sample(jax.random.key(0), problem, plan, callbacks=[])
            >>> print(posterior.diagnose(x).advice)
            ('train more chains: these are nearly independent, but few',)
        """
        used = rectangle(self.infos)
        passes = self.passes("diagnose", [info for chain in used.chains for info in chain], x, batch_size)
        return examine(self.infos, used, self._likelihood, (outputs for _, outputs in passes.outputs()))

    def passes(self, argument: str, infos: Sequence[MemberInfo], x: Inputs, batch_size: int | None) -> Passes:
        """The outputs of some members on rows, for what looks at members one by one.

        Args:
            argument: The call that errors name.
            infos: Which members, in which order.
            x: Inputs as in training.
            batch_size: As in `predict`.

        Raises:
            InvalidInput: Inputs that do not fit the network, no members, or no such number of rows.
        """
        size = None if batch_size is None else checks.count(f"{argument}(batch_size=)", batch_size)
        if not infos:
            checks.reject(argument, "a posterior without members", "at least one", "Look at posterior.infos.")
        like = self._member(infos[0]).params
        x, rows = check_inputs(argument, x, jnp.result_type(*jax.tree.leaves(like)))
        check_apply(f"{argument}(x=)", self._apply, like, x, rows)
        x = jax.tree.map(np.asarray, x)

        def params(i: int) -> Any:
            return self._member(infos[i]).params

        return Passes(params, len(infos), self._apply, x, rows, size)
