"""Settings as JSON and back."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import serial
from anchorwalk.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class Everything(serial.Settings):
    number: float
    whole: int
    truth: bool
    text: str
    nothing: None
    array: object


@pytest.mark.parametrize(
    "array",
    [
        np.eye(2),
        np.arange(3),
        np.array(True),
        np.float32(0.1),
        jnp.ones((2, 3), jnp.bfloat16),
        np.array([0.1], np.float16),
    ],
)
def test_settings_are_made_again_from_their_json(array):
    one = Everything(0.1, 3, True, "a", None, array)
    other = Everything.from_json(json.loads(json.dumps(one.to_json())))
    assert dataclasses.astuple(other)[:-1] == (0.1, 3, True, "a", None)
    assert other.array.dtype == array.dtype
    np.testing.assert_array_equal(other.array, np.asarray(array))


@pytest.mark.parametrize(
    "likelihood",
    [aw.Normal(scale=0.1), aw.HeteroscedasticNormal(), aw.Categorical(), aw.Bernoulli(), aw.Poisson()],
    ids=repr,
)
def test_likelihoods_are_made_again_from_their_json(likelihood):
    encoded = json.loads(json.dumps(likelihood.to_json()))
    assert set(encoded) == {"name", "settings"}
    assert type(likelihood).from_json(encoded) == likelihood


def test_an_array_of_anything_else_is_refused():
    encoded = {"name": "Everything", "settings": {"array": {"array": ["x"], "dtype": "object"}}}
    with pytest.raises(InvalidInput, match=r"Everything.from_json: got an array of type 'object', expected numbers"):
        Everything.from_json(encoded)


@pytest.mark.parametrize("encoded", [{"a": np.ones(2)}, {"a": float("nan")}, [1.0], "text"])
def test_what_is_no_json_is_refused(encoded):
    class Mine:
        def to_json(self):
            return encoded

    with pytest.raises(InvalidInput, match=r"likelihood.to_json\(\): got .*, expected JSON"):
        serial.to_json("likelihood", Mine())


LONG = aw.Training(aw.Lion(1e-3, end_rate=1e-5), epochs=10, batch_size=32)
SHORT = aw.Training(aw.SGD(0.1, momentum=0.9), epochs=2, batch_size=32, evaluate=False)


@pytest.mark.parametrize(
    "settings",
    [
        aw.GuidedWalk(0.1),
        aw.RandomWalk(0.2),
        aw.Autoregressive(0.5),
        aw.Hamiltonian(0.2, steps=5),
        aw.Rotation(0.3, refresh=0.1),
        aw.Independent(),
        aw.Adam(1e-3),
        LONG,
        aw.SAE(LONG, SHORT, aw.Rotation(0.3, refresh=0.1), perturb_targets=True, shared_order=True),
        aw.SAE(LONG),
        aw.AE(LONG, perturb_targets=True),
        aw.DeepEnsemble(SHORT, shared_order=True),
        aw.MAP(SHORT),
    ],
    ids=repr,
)
def test_settings_of_any_class_are_found_by_their_name(settings):
    encoded = json.loads(json.dumps(settings.to_json()))
    assert set(encoded) == {"name", "settings"}
    assert encoded["name"] == type(settings).__name__
    assert serial.from_json(encoded) == settings == type(settings).from_json(encoded)


@pytest.mark.parametrize(
    "encoded",
    [None, "GuidedWalk", 3, [], {}, {"name": "Everything"}, {"name": "int", "settings": {}}, {"name": ["AE"]}],
)
def test_what_is_not_of_this_package_is_not_made(encoded):
    assert serial.from_json(encoded) is None


def test_a_class_of_the_same_name_elsewhere_changes_nothing():
    @dataclasses.dataclass(frozen=True)
    class GuidedWalk(serial.Settings):
        step_size: float

    assert type(serial.from_json(GuidedWalk(0.1).to_json())) is aw.GuidedWalk


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        ({"name": "AE", "settings": {}}, r"AE.from_json: got TypeError.*training"),
        ({"name": "AE"}, r"AE.from_json: got KeyError\('settings'\)"),
        (
            {"name": "AE", "settings": {"training": {"name": "open", "settings": {}}}},
            r"got 'open', expected a class of",
        ),
        ({"name": "AE", "settings": {"training": aw.Adam(0.1).to_json()}}, r"AE\(training=\): got Adam"),
        ({"name": "AE", "settings": {"training": {"dtype": "float32"}}}, r"AE.from_json: got KeyError\('array'\)"),
        ({"name": "SAE", "settings": {"first": LONG.to_json(), "walk": "guided"}}, r"walk: got 'guided'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(encoded, message):
    with pytest.raises(InvalidInput, match=message):
        serial.from_json(encoded)


def test_an_object_without_json_is_told_by_its_name():
    class Mine:
        pass

    assert serial.to_json("walk", Mine()) == {"name": "Mine"}
    assert Everything(0.1, 3, True, "a", None, Mine()).to_json()["settings"]["array"] == {"name": "Mine"}
