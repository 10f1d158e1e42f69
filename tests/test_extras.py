"""Each integration in a fresh virtual environment with only its extra installed, and the error without that extra."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DATA = "import numpy as np; x = np.random.default_rng(0).normal(size=(64, 3)).astype('f'); y = x[:, 0]\n"
SAMPLE = """
import anchorwalk as aw, jax
network = {network}
problem = aw.Problem(network.init, network.apply, aw.Normal(scale=0.5), aw.Prior(scale=1.0), data=(x, y[:, None]))
training = aw.Training(aw.Adam(1e-2), epochs=5, batch_size=32)
plan = aw.Plan(aw.SAE(training, training), chains=2, members=3)
posterior = aw.sample(jax.random.key(0), problem, plan, callbacks={callbacks})
assert len(posterior) == 6
print(posterior.diagnose(x))
"""
MLP = SAMPLE.format(network="aw.networks.mlp(3, (5,), 1)", callbacks="[]")
EXTRAS = {
    "": DATA + MLP,
    "sklearn": DATA
    + """
from anchorwalk.integrations.sklearn import SAERegressor
model = SAERegressor(budget=50, random_state=0).fit(x, y)
mean, std = model.predict(x, return_std=True)
assert mean.shape == std.shape == (64,)
""",
    "flax": DATA
    + "from flax import linen as nn\n"
    + SAMPLE.format(network="aw.from_flax(nn.Dense(1), x[:1])", callbacks="[]")
    + "from flax import nnx\n"
    + SAMPLE.format(network="aw.from_flax(lambda rngs: nnx.Linear(3, 1, rngs=rngs), x[:1])", callbacks="[]"),
    "equinox": DATA
    + "import equinox as eqx\n"
    + SAMPLE.format(network="aw.from_equinox(lambda key: eqx.nn.Linear(3, 1, key=key))", callbacks="[]"),
    "haiku": DATA
    + "import haiku as hk\n"
    + SAMPLE.format(network="aw.from_haiku(lambda x: hk.Linear(1)(x), x[:1])", callbacks="[]"),
    "arviz": DATA + MLP + "print(aw.to_arviz(posterior, x, y[:, None]))\n",
    "ray": DATA + MLP.replace("callbacks=[]", "callbacks=[], runner=aw.Ray(workers=1)"),
    "tensorboard": DATA
    + SAMPLE.format(network="aw.networks.mlp(3, (5,), 1)", callbacks="[aw.TensorBoard('board')]")
    + "from pathlib import Path; assert list(Path('board').rglob('*tfevents*'))\n",
    "mlflow": DATA
    + "import os; os.environ['MLFLOW_TRACKING_URI'] = 'file:./mlruns'; os.environ['MLFLOW_ALLOW_FILE_STORE'] = 'true'\n"
    + SAMPLE.format(network="aw.networks.mlp(3, (5,), 1)", callbacks="[aw.MLflow()]"),
}
TABLE = "a,b,y\n" + "".join(f"{i % 7},{'u' if i % 3 else 'v'},{i % 7 + 0.1 * (i % 5)}\n" for i in range(60))


@pytest.fixture
def fresh(tmp_path):
    """From an extra to the folder of a new environment's commands."""

    def make(extra):
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        commands = tmp_path / "venv" / "bin"
        what = f"{ROOT}[{extra}]" if extra else str(ROOT)
        subprocess.run([commands / "python", "-m", "pip", "install", "--quiet", what], check=True)
        return commands

    return make


def run(command, folder, code=0):
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_integration_needs_its_extra_alone(extra, fresh, tmp_path):
    commands = fresh(extra)
    if extra == "haiku" and sys.version_info >= (3, 12):
        trial = subprocess.run([commands / "python", "-c", "import haiku"], capture_output=True, check=False)
        if trial.returncode:
            pytest.skip("this version of JAX is too new for Haiku")
    run([commands / "python", "-c", EXTRAS[extra]], tmp_path)


@pytest.mark.slow
def test_the_command_line_needs_its_extra_alone(fresh, tmp_path):
    anchorwalk = fresh("cli") / "anchorwalk"
    (tmp_path / "t.csv").write_text(TABLE)
    run([anchorwalk, "fit", "t.csv", "--target", "y", "--out", "run", "--budget", "50"], tmp_path)
    run([anchorwalk, "predict", "run", "t.csv", "--out", "p.csv"], tmp_path)
    run([anchorwalk, "report", "run", "--data", "t.csv"], tmp_path)
    assert (tmp_path / "run" / "report" / "report.html").is_file()
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 61


@pytest.mark.slow
def test_what_is_missing_is_named(fresh, tmp_path):
    commands = fresh("")
    assert "anchorwalk[cli]" in run([commands / "anchorwalk", "runs"], tmp_path, code=1)
    missing = {
        "import anchorwalk.integrations.sklearn": "anchorwalk[sklearn]",
        "import anchorwalk as aw; aw.from_flax(None, None)": "anchorwalk[flax]",
        "import anchorwalk as aw; aw.from_equinox(lambda key: None)": "anchorwalk[equinox]",
        "import anchorwalk as aw; aw.from_haiku(lambda x: x, None)": "anchorwalk[haiku]",
        "import anchorwalk as aw; aw.to_arviz(None, None)": "anchorwalk[arviz]",
        "import anchorwalk as aw; aw.TensorBoard('x')": "anchorwalk[tensorboard]",
        "import anchorwalk as aw; aw.MLflow()": "anchorwalk[mlflow]",
        "import anchorwalk as aw; aw.Ray()": "anchorwalk[ray]",
    }
    for code, extra in missing.items():
        assert extra in run([commands / "python", "-c", code], tmp_path, code=1)
