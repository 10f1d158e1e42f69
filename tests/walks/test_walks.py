"""What each walk promises beyond the common contract."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput

N = 100_000
Z = 5.33  # two-sided normal quantile of 1e-7


def one_step(walk, seed=0):
    init_key, step_key = jax.random.split(jax.random.key(seed))
    state = walk.init(init_key, jnp.zeros(N))
    after, info = jax.jit(walk.step)(step_key, state)
    return jax.device_get((state, after, info))


def test_guided_walk_turns_on_rejection_and_only_then():
    state, after, info = one_step(aw.GuidedWalk(step_size=1.0))
    rejected = after.position == state.position
    assert 0.1 < rejected.mean() < 0.5
    np.testing.assert_array_equal(after.memory, np.where(rejected, -state.memory, state.memory))
    assert info.acceptance == pytest.approx(1 - rejected.mean(), abs=1e-6)


def test_guided_walk_moves_along_its_direction():
    state, after, _ = one_step(aw.GuidedWalk(step_size=1.0))
    moved = after.position != state.position
    assert np.all(np.sign(after.position - state.position)[moved] == state.memory[moved])
    assert set(np.unique(state.memory)) == {-1.0, 1.0}


def test_guided_walk_never_rejects_towards_the_mode():
    # For x and a direction towards zero, |y| <= |x| unless the step is longer than 2 |x|.
    state, after, _ = one_step(aw.GuidedWalk(step_size=0.01))
    inward = (np.sign(state.position) == -state.memory) & (np.abs(state.position) > 0.1)
    assert inward.sum() > N / 4
    assert np.all(after.position[inward] != state.position[inward])


@pytest.mark.parametrize("size", [0.1, 1.0, 2.4])
@pytest.mark.parametrize("walk", [aw.RandomWalk, aw.GuidedWalk])
def test_acceptance_has_its_closed_form(walk, size):
    # For normal proposals on a normal the mean acceptance is (2 / pi) atan(2 / step); a guided walk's directions
    # are independent of its position, so its is the same.
    _, _, info = one_step(walk(step_size=size))
    expected = 2 / np.pi * np.arctan(2 / size)
    assert abs(info.acceptance - expected) < Z * np.sqrt(expected * (1 - expected) / N)


@pytest.mark.parametrize("size", [0.1, 0.6, 1.0])
def test_autoregressive_correlation_is_what_it_says(size):
    walk = aw.Autoregressive(step_size=size)
    state, after, _ = one_step(walk)
    product = np.mean(np.float64(state.position) * after.position)
    assert abs(product - walk.correlation) < Z * np.sqrt((1 + walk.correlation**2) / N)


def test_rotation_turns_by_its_angle_and_refreshes_at_its_rate():
    state, after, _ = one_step(aw.Rotation(step_size=0.3, refresh=0.0))
    turned = np.cos(0.3) * state.position + np.sin(0.3) * state.memory
    np.testing.assert_allclose(after.position, turned, atol=2e-6)
    state, after, _ = one_step(aw.Rotation(step_size=0.3, refresh=0.2))
    turned = np.cos(0.3) * state.position + np.sin(0.3) * state.memory
    share = np.mean(np.abs(after.position - turned) > 1e-5)
    # A renewed momentum lands within 1e-5 / sin(0.3) of the old one with a probability below 1e-4.
    assert abs(share - 0.2) < Z * np.sqrt(0.2 * 0.8 / N) + 1e-4


def test_hamiltonian_is_the_leapfrog_of_a_loop():
    walk = aw.Hamiltonian(step_size=0.5, steps=4)
    state, after, info = one_step(walk)
    # Leapfrog on a normal is linear: the squared distance of a trajectory has this mean over position and momentum.
    kick, drift = np.array([[1, 0], [-0.25, 1]]), np.array([[1, 0.5], [0, 1]])
    matrix = np.linalg.matrix_power(kick @ drift @ kick, 4)
    accepted = after.position != state.position
    squared = np.mean((after.position - state.position)[accepted] ** 2)
    expected = (matrix[0, 0] - 1) ** 2 + matrix[0, 1] ** 2
    assert info.acceptance > 0.95
    assert squared == pytest.approx(expected, rel=0.05)  # rejections shift it by their share, below 5%


@pytest.mark.parametrize("size", [0.0, -0.1, float("nan"), float("inf"), "fast", True, None])
@pytest.mark.parametrize("walk", [aw.RandomWalk, aw.GuidedWalk, aw.Hamiltonian, aw.Autoregressive, aw.Rotation])
def test_bad_step_size_is_refused_by_name(walk, size):
    with pytest.raises(InvalidInput, match=rf"{walk.__name__}\(step_size=\): got .*expected a"):
        walk(step_size=size)


def test_steps_that_cannot_be_right_are_refused():
    with pytest.raises(InvalidInput, match=r"below 2"):
        aw.Hamiltonian(step_size=2.0)
    with pytest.raises(InvalidInput, match=r"\[0, 1\]"):
        aw.Autoregressive(step_size=1.5)
    with pytest.raises(InvalidInput, match=r"Rotation\(refresh=\)"):
        aw.Rotation(step_size=0.1, refresh=2.0)
    with pytest.raises(InvalidInput, match=r"Hamiltonian\(steps=\)"):
        aw.Hamiltonian(step_size=0.1, steps=0)
