"""What a run leaves: approximate samples of the posterior p(θ | D)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import Status
from anchorwalk.likelihoods import Likelihood
from anchorwalk.prediction import Passes, Prediction
from anchorwalk.problem import check_apply, check_inputs
from anchorwalk.store import Store
from anchorwalk.types import Apply, Inputs, Member, MemberInfo


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
        good = self._good
        if not good:
            checks.reject("predict", "a posterior without members", "at least one", "Look at posterior.infos.")
        like = self._member(good[0]).params
        x, rows = check_inputs("predict", x, jnp.result_type(*jax.tree.leaves(like)))
        check_apply("predict(x=)", self._apply, like, x, rows)
        x = jax.tree.map(np.asarray, x)

        def params(i: int) -> Any:
            return self._member(good[i]).params

        size = None if batch_size is None else checks.count("predict(batch_size=)", batch_size)
        return Prediction(Passes(params, len(good), self._apply, x, rows, size), self._likelihood)
