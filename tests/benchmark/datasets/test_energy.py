import json
from importlib.resources import files

import numpy as np
import pytest

from anchorwalk.benchmark.datasets import energy, energy_gap, gap_split
from anchorwalk.errors import InvalidInput


@pytest.mark.parametrize("feature", range(8))
def test_a_gap_is_the_middle_third_of_its_feature(feature):
    train, test = energy_gap(feature)
    assert train.shape == (512,)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(768))
    # Ties may go either way, and so the rows may differ, but not their sorted values.
    values = energy().x[:, feature]
    np.testing.assert_array_equal(np.sort(values[test]), np.sort(values)[256:512])


def test_splits_without_ties_at_the_ends_are_those_of_gap_split():
    same = [np.array_equal(np.sort(energy_gap(k)[1]), gap_split(energy().x, k)[1]) for k in range(8)]
    assert same == [True, True] + [False] * 6


@pytest.mark.parametrize("feature", [-1, 8, 1.0, "0"])
def test_another_split_is_refused(feature):
    with pytest.raises(InvalidInput, match="feature: got"):
        energy_gap(feature)


def test_the_licence_of_the_splits_is_named():
    content = json.loads(
        files("anchorwalk.benchmark.datasets").joinpath("energy_gaps.json").read_text(encoding="utf-8")
    )
    assert "CC BY 4.0" in content["licence"]
    assert "Tsanas" in content["licence"]
    assert [gap["feature"] for gap in content["gaps"]] == list(range(8))


def test_rows_and_splits_are_the_published_ones(data_folder):
    path = data_folder / "energy_gap.npz"
    if not path.is_file():
        pytest.skip("energy_gap.npz is not in the folder of data files")
    with np.load(path) as published:
        np.testing.assert_array_equal(np.column_stack([energy().x, energy().y]), published["data"])
        for k in range(8):
            train, test = energy_gap(k)
            np.testing.assert_array_equal(train, published[f"train_{k}"])  # in the same order
            np.testing.assert_array_equal(test, published[f"test_{k}"])
