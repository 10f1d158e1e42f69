"""Draws docs/figures/gap.png: three ensembles of one small network on a curve with a gap in its data.

Command: `make figures`.
"""

import jax
import matplotlib
import numpy as np

import anchorwalk as aw
from pages import ROOT

matplotlib.use("Agg")
import matplotlib.pyplot as plt

INK, BAND, LINE, DOT = "#1f2933", "#9db8d9", "#1d4e89", "#d1495b"
EPOCHS = 40_000


def main() -> None:
    """Train the three ensembles at the same budget and draw their predictions."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2.0, -0.7, 30), rng.uniform(0.6, 2.0, 30)])[:, None]
    y = np.sin(2.5 * x[:, 0]) + 0.1 * rng.normal(size=60)
    grid = np.linspace(-3, 3, 300)[:, None]
    network = aw.networks.mlp(1, (50,), 1, jax.nn.tanh)

    def apply(params, x):
        return network.apply(params, x)[:, 0]

    problem = aw.Problem(
        init=network.init,
        apply=apply,
        likelihood=aw.Normal(scale=0.1),
        prior=aw.Prior(scale=aw.by_path({"dense_0/*": 4.0, "*": 3 / 50**0.5})),
        data=(x, y),
    )
    scratch = aw.Training(aw.Adam(0.02, end_rate=1e-4), epochs=EPOCHS // 10, batch_size=60)
    short = aw.Training(aw.Adam(0.005, end_rate=1e-4), epochs=EPOCHS // 400, batch_size=60)
    sequential = aw.SAE(scratch, short, aw.GuidedWalk(step_size=0.25))
    plans = {
        "deep ensemble": aw.Plan(aw.DeepEnsemble(scratch), chains=10),
        "anchored ensemble": aw.Plan(aw.AE(scratch), chains=10),
        "sequential anchored ensemble": aw.Plan.from_budget(EPOCHS, sequential, chains=5),
    }
    ensembles = {name: aw.sample(jax.random.key(0), problem, plan) for name, plan in plans.items()}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True, layout="constrained")
    for axis, (name, posterior) in zip(axes, ensembles.items(), strict=True):
        prediction = posterior.predict(grid)
        low, high = prediction.interval(0.9)
        axis.fill_between(grid[:, 0], low, high, color=BAND, alpha=0.7, linewidth=0, label="90% interval")
        axis.plot(grid[:, 0], prediction.mean, color=LINE, label="mean")
        axis.plot(x[:, 0], y, ".", color=DOT, markersize=4, label="data")
        axis.set_title(f"{name}, {len(posterior)} members", loc="left", fontsize=10, color=INK)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("x")
    axes[0].set_ylim(-3, 3)
    axes[0].set_ylabel("y")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(ROOT / "docs/figures/gap.png", dpi=150)


if __name__ == "__main__":
    main()
