"""UCI-Gap: the energy data with the middle third of a feature cut out for testing."""

from dataclasses import replace

import numpy as np

from anchorwalk import checks
from anchorwalk.benchmark.datasets import energy, energy_gap
from anchorwalk.benchmark.references.references import packaged
from anchorwalk.benchmark.tasks.base import AuthorSettings, Case, Task, Variant, assemble
from anchorwalk.likelihoods import HeteroscedasticNormal
from anchorwalk.networks import mlp

SPLITS = 8
REFERENCED = (0, 1, 5, 6)
"""Splits with a reference posterior of ours."""
LANES = 40
"""Chains that train side by side, of one run or several: results are equal to the last bit for the same number."""


def make(variant: Variant, settings: AuthorSettings) -> Case:
    """The case of one split; features and target are standardised on its training rows."""
    split = 0 if variant.split is None else variant.split
    if split not in range(SPLITS):
        checks.reject("split", split, f"a gap from 0 to {SPLITS - 1}", "Choose one of them.")
    table = energy()
    train, test = energy_gap(split)
    values = np.column_stack([table.x, table.y])
    values = (values - values[train].mean(0)) / values[train].std(0)
    variant = Variant(split, None, variant.prior_variance, variant.rows, variant.test_rows)
    own_posterior = not {"prior_variance", "rows"} & set(variant.chosen)
    case = assemble(
        "uci_gap",
        variant,
        settings,
        mlp(8, (50,), 2),
        HeteroscedasticNormal(),
        (values[train, :8], values[train, 8]),
        (values[test, :8], values[test, 8]),
        reference=packaged(f"uci_gap-{split}") if own_posterior else None,
        side_by_side=LANES,
        notes=("targets, RMSE, CRPS and distances in training standard deviations of the heating load",),
    )
    # Compactness and surface of these buildings go together: their gaps are the same rows.
    twin = next((other for other in range(split) if set(energy_gap(other)[0]) == set(train)), None)
    return case if twin is None or variant.rows else replace(case, posterior_of=replace(variant, split=twin))


UCI_GAP = Task(
    name="uci_gap",
    title="UCI-Gap",
    scores=("w1",),
    settings=AuthorSettings(
        batch_size=58,
        first=(8.989e-3, 4.83e-5, 0.8921, 0.9962),
        then=(2.724e-3, 1.518e-4, 0.8109, 0.9959),
        step=0.01,
        prior_variance=1 / 30,
        later_epochs=10,
    ),
    make=make,
    options=("split",),
    variants=tuple(Variant(split=split) for split in REFERENCED),
)
