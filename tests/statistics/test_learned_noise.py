"""What noise members learn where they have many parameters for few rows."""

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.integrations.sklearn.networks import normal
from anchorwalk.networks import mlp

ROWS, FEATURES = 400, 199
PARAMETERS = FEATURES + 1  # and the bias


@pytest.mark.parametrize(("perturbed", "expected"), [(False, 1 - PARAMETERS / ROWS), (True, 1.0)])
def test_learned_noise_on_a_linear_model(perturbed, expected):
    """Least squares with p of N directions fits p / N of the noise away; members with moved targets do not.

    With H the projection on p directions and targets y moved by s e, a member's residuals of y are those of y's own
    noise, (1 - H) y, and what it followed of e, H s e: their mean square is v (1 - p / N) + s^2 p / N, which is s^2
    at s^2 = v. Without e it is v (1 - p / N). A residual's mean square has a chi-squared distribution with N - p
    degrees of freedom: a relative standard deviation of sqrt(2 / (N - p)), of which four are allowed; what members
    follow of their own draws adds less than that of p degrees.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = (x @ rng.normal(size=FEATURES) + rng.normal(size=ROWS)).astype(np.float32)
    network = normal(mlp(FEATURES, (), 1), (), True)
    prior = aw.Prior(scale=10.0)  # wide: least squares
    problem = aw.Problem(network.init, network.apply, aw.HeteroscedasticNormal(), prior, data=(x, y))
    first = aw.Training(aw.Adam(0.1, end_rate=1e-4), epochs=2000, batch_size=ROWS)
    plan = aw.Plan(aw.AE(first, perturb_targets=perturbed), chains=4)
    found = aw.sample(jax.random.key(1), problem, plan, callbacks=[])
    variances = [float(np.logaddexp(0, member.params["noise"])) ** 2 for member in found]
    assert np.mean(variances) == pytest.approx(expected, rel=4 * np.sqrt(2 / (ROWS - PARAMETERS)))
