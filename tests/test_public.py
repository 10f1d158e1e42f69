"""What is public, that it is documented by examples that run, and that importing it is light."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import anchorwalk as aw

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(aw.__path__, "anchorwalk.")
    if not module.name.endswith("__main__") and ".cli" not in module.name
)

PUBLIC = """
AE Adam Autoregressive Bernoulli Call Categorical CyclicalSGHMC DeepEnsemble Description Devices Diagnosis DiskStore
Draws FGE GuidedWalk HMC Hamiltonian HeteroscedasticNormal IVON Independent Keys Laplace Likelihood Lion Local
LowPrecisionSAE MAP MCLMC MLflow Member MemberInfo MemoryStore Method Normal Optimizer Plan Planned Poisson Posterior
Prediction Prior Problem Progress RandomWalk Ray Rotation RoundInfo Runner SAE SGD SGHMC SGLD SOAP SPRO SWA SWAG SWALP
SimplexSAE Snapshot Status Store Tempering TensorBoard Training Walk WalkInfo WalkState by_path cache_programs
describe errors fan_in from_equinox from_flax from_haiku load networks plan_for sample sample_many testing to_arviz
walks
"""


def test_public_names_are_pinned():
    assert sorted(aw.__all__) == sorted(PUBLIC.split())
    assert all(getattr(aw, name) is not None for name in aw.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


def test_every_public_object_has_an_example():
    # Read, not made:
    records = {"Description", "Diagnosis", "Member", "MemberInfo", "RoundInfo", "Status", "WalkInfo", "WalkState"}
    records |= {"Call", "Draws", "Keys"}  # what methods get and give
    results = {"Planned", "Posterior", "Prediction"}  # made by plan_for, sample and predict
    interfaces = {"Method", "Runner", "Store", "Walk"}
    modules = {"errors", "networks", "testing", "walks"}
    for name in set(aw.__all__) - records - results - interfaces - modules:
        assert ">>>" in getattr(aw, name).__doc__, name
    for name in aw.__all__:
        assert getattr(aw, name).__doc__, name


def test_names_are_found_where_type_checkers_are_told():
    """The imports that type checkers read and the table that is used at run time are one list."""
    tree = ast.parse(inspect.getsource(aw))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module.removeprefix("anchorwalk").removeprefix(".")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == aw._HOME | dict.fromkeys(aw._MODULES, "")
    assert sorted(imported) == sorted(aw.__all__)
    assert set(dir(aw)) == {*aw.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'smaple'"):
        _ = aw.smaple
    assert isinstance(aw.__version__, str)


def test_functions_take_three_arguments_by_position_at_most():
    functions = {name: getattr(aw, name) for name in aw.__all__ if inspect.isfunction(getattr(aw, name))}
    assert {"load", "plan_for", "sample", "to_arviz"} <= set(functions)
    for name, function in functions.items():
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= 3, name


def test_import_is_light():
    heavy = ("jax", "tqdm", "matplotlib", "typer", "rich", "sklearn", "pandas", "flax", "equinox", "haiku", "arviz")
    code = f"import sys, anchorwalk; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
