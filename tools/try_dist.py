"""Installs the wheel and the sdist of dist/ into fresh environments, one for each Python given, and tries them there.

Command: `make dist`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST = 5_000_000  # bytes of a file
CORE = """
import anchorwalk as aw, jax, numpy as np
x = np.linspace(-2, 2, 64, dtype=np.float32)[:, None]
network = aw.networks.mlp(1, (5,), 1)
problem = aw.Problem(network.init, network.apply, aw.Normal(scale=0.1), aw.Prior(scale=1.0), data=(x, np.sin(x)))
training = aw.Training(aw.Adam(1e-2), epochs=5, batch_size=32)
posterior = aw.sample(jax.random.key(0), problem, aw.Plan(aw.SAE(training, training), chains=2, members=3), callbacks=[])
assert posterior.predict(x).mean.shape == (64, 1)
"""
TABLE = "a,b,y\n" + "".join(f"{i % 7},{'u' if i % 3 else 'v'},{i % 7 + 0.1 * (i % 5)}\n" for i in range(60))
COMMANDS = (
    "fit t.csv --target y --out run --budget 50",
    "predict run t.csv --out p.csv",
    "report run --data t.csv",
    "verify run",
)


def check_sizes(files: list[Path]) -> None:
    """Refuse files that are too large."""
    for file in files:
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
        if file.stat().st_size > LARGEST:
            sys.exit(f"{file.name} has more than {LARGEST / 1e6:.0f} MB: look at what is in it")


def check(python: str, what: str, commands: tuple[str, ...]) -> None:
    """Install something into a fresh environment, and run the core and some commands there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        there = Path(folder) / "venv" / "bin"
        subprocess.run([there / "python", "-m", "pip", "install", "--quiet", what], check=True)
        subprocess.run([there / "python", "-c", CORE], check=True, cwd=folder)
        (Path(folder) / "t.csv").write_text(TABLE)
        for command in commands:
            subprocess.run([there / "anchorwalk", *command.split()], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    print(f"{Path(what.split('[')[0]).name} works on {python}")


def main() -> None:
    """Try what is in dist/."""
    (wheel,), (sdist,) = (list((ROOT / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    check_sizes([wheel, sdist])
    for python in sys.argv[1:]:
        check(python, f"{wheel}[cli]", COMMANDS)
        check(python, str(sdist), ())


if __name__ == "__main__":
    main()
