"""A fit of bde, run by `competitors.py` in an environment that has sklearn-contrib-bde 1.0.2 and no anchorwalk.

The configuration is that of the regression example in its README. Arguments: an .npz with x, y, new and seed, and one
to write with the mean and standard deviation of every draw in the targets' units, shape (draws, rows), and seconds.
"""

import os
import sys
import time

os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={min(8, os.cpu_count() or 1)}")

import numpy as np
from bde import BdeRegressor
from bde.loss import GaussianNLL

README = {"hidden_layers": [16, 16], "n_members": 8, "epochs": 200, "validation_split": 0.15, "lr": 1e-3}
README |= {"weight_decay": 1e-4, "warmup_steps": 5000, "n_samples": 2000, "n_thinning": 2, "patience": 10}
SMALLEST = 1e-6
"""What bde adds to a standard deviation."""


def main():
    given = np.load(sys.argv[1])
    began = time.perf_counter()
    scale = given["x"].std(axis=0) + 1e-8
    x, new = ((given[name] - given["x"].mean(axis=0)) / scale for name in ("x", "new"))
    middle, unit = given["y"].mean(), given["y"].std() + 1e-8
    model = BdeRegressor(loss=GaussianNLL(), seed=int(given["seed"]), **README)
    model.fit(x=x, y=((given["y"] - middle) / unit)[:, None])
    raw = np.asarray(model.predict(new, raw=True), np.float64).reshape(-1, len(new), 2)
    mean, std = raw[..., 0] * unit + middle, (np.logaddexp(0, raw[..., 1]) + SMALLEST) * unit
    np.savez(sys.argv[2], mean=mean, std=std, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main()
