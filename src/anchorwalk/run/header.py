"""What a run says of itself: what must be equal for it to resume, and what a later reader wants to know."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk.methods.base import Call, Method
from anchorwalk.plan.plan import Plan
from anchorwalk.problem import Problem
from anchorwalk.run.keys import keys_of
from anchorwalk.run.programs import wide_floats
from anchorwalk.run.runners import Layout
from anchorwalk.run.store import Like, Store, fingerprint, serialise
from anchorwalk.serial import to_json
from anchorwalk.types import Key


def recorded_layout(store: Store) -> Layout | None:
    """The layout of the run that is in a store."""
    layout = store.about().get("layout")
    return Layout(layout["lanes"], layout["wide"], layout.get("quick", False)) if isinstance(layout, dict) else None


def header_of(key: Key, problem: Problem, plan: Plan, layout: Layout) -> dict[str, str]:
    """All that must be equal for a run to resume, as text; a plan may grow, so its counts are not in it."""
    return {
        "key": f"{jax.random.key_impl(key)}:{np.asarray(jax.random.key_data(key)).tolist()}",
        "network": fingerprint.of_network(problem),
        "prior": fingerprint.of_tree(problem.prior),
        "likelihood": fingerprint.of_settings(problem.likelihood),
        **fingerprint.of_method(plan.method, problem),
        "lanes": str(layout.lanes),
        "cores": "several" if layout.wide else "one",
        "compiled": "quickly" if layout.quick else "well",
        "convolution": fingerprint.of_convolution(problem),
    }


def about_of(
    key: Key, problem: Problem, plan: Plan, layout: Layout, calls: list[Call], selected: Sequence[int]
) -> dict[str, Any]:
    """What a later reader of the run needs or wants to know, as JSON."""
    title = str(getattr(plan.method, "title", type(plan.method).__name__))
    return {
        "plan": {
            "chains": plan.chains,
            "members": plan.members,
            "selected": list(selected),
            "calls": [[one.kind, one.draws, one.passes, len(list(same))] for one, same in groupby(calls)],
        },
        "layout": layout._asdict(),
        "method": {**to_json("method", plan.method), "title": title},
        "key": {"implementation": str(jax.random.key_impl(key)), "data": np.asarray(jax.random.key_data(key)).tolist()},
        "prior": serialise.prior_to_json(problem.prior),
        "likelihood": serialise.likelihood_to_json(problem.likelihood),
        "inputs": serialise.inputs_to_json(problem.data.x),
        "rows": int(np.count_nonzero(np.asarray(problem.data.weights))),  # estimators add some without weight
    }


def shapes_of(root: Key, method: Method, given: Problem, problem: Problem) -> Like:
    """Shapes and dtypes of a chain's state and of a draw, which has the parameters' own."""
    with jax.enable_x64(wide_floats(problem)):
        keys = keys_of(root, 0, 0)
        state = jax.eval_shape(lambda: method.start(keys, problem, jnp.uint32(0)))
    return Like(given.params_like, state)
