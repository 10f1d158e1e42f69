"""References in files: what is kept, what is found, what is packaged."""

import importlib.resources
import json

import numpy as np
import pytest

from anchorwalk.benchmark.references import distances, packaged, published, references
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from anchorwalk.errors import InvalidInput


def test_a_file_keeps_quantiles_to_a_share_of_their_spread(tmp_path):
    rng = np.random.default_rng(0)
    centre = rng.normal(scale=5.0, size=(7, 1))
    values = np.sort(centre + 0.01 * rng.normal(size=(7, 1000)), axis=1)
    references.write(tmp_path / "one.npz", "quantiles", values, {"w1": 0.5}, {"seeds": [0]})
    back = references.read(tmp_path / "one.npz")
    # float16 keeps 11 bits of a distance of at most 0.05, and float32 24 bits of a centre of at most 20.
    assert np.max(np.abs(back.values - values)) < 0.05 * 2**-11 + 20 * 2**-24
    assert (back.kind, back.floor, back.about) == ("quantiles", {"w1": 0.5}, {"seeds": [0]})
    assert (np.diff(back.values, axis=1) >= 0).all()


def test_distances_by_kind():
    same = np.array([[0.0, 1.0, 2.0]])
    assert distances("quantiles", same, same + 0.5) == {"w1": pytest.approx(0.5), "w2": pytest.approx(0.5)}
    one, other = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.6, 0.4], [0.7, 0.3]])
    assert distances("probabilities", one, other) == {
        "agreement": 0.5,
        "total_variation": pytest.approx((0.3 + 0.5) / 2),
    }
    with pytest.raises(InvalidInput, match="kind"):
        distances("moments", one, other)


def test_published_predictions_are_found_and_the_longest_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert published("dermamnist") is None
    for rows in (3, 5):
        np.savez(tmp_path / f"hmc_dermamnist_first{rows}.npz", probs=np.full((rows, 2), 0.5))
    np.savez(tmp_path / "hmc_dermamnistlike_first9.npz", probs=np.full((9, 2), 0.5))
    found = published("dermamnist")
    assert found.rows == 5
    assert "hmc_dermamnist_first5.npz" in found.source
    assert found.first(2).rows == 2
    np.savez(tmp_path / "hmc_imdb.npz", other=np.zeros(2))
    with pytest.raises(InvalidInput, match="probs"):
        published("imdb")


@pytest.mark.parametrize("split", REFERENCED)
def test_the_packaged_references_are_whole_and_say_how_good_they_are(split):
    reference = packaged(f"uci_gap-{split}")
    assert reference.values.shape == (256, 1000)
    assert np.isfinite(reference.values).all()
    assert set(reference.floor) == {"w1", "w2"}
    evidence = reference.about["evidence"]
    assert {"r_hat_median", "r_hat_90", "share_below_1.05", "ess_median"} <= set(evidence["mean"])
    assert "anchorwalk reference uci_gap" in reference.about["command"]


def test_the_packaged_references_are_small():
    folder = importlib.resources.files("anchorwalk.benchmark.references").joinpath("posteriors")
    sizes = [len(path.read_bytes()) for path in folder.iterdir() if path.name.endswith(".npz")]
    assert len(sizes) == len(REFERENCED)
    assert sum(sizes) < 3_000_000


def test_missing_ones_are_none():
    assert packaged("uci_gap-3") is None
    assert json.dumps(packaged("uci_gap-5").about)
