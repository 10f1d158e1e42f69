"""`plan_for` on problems whose answer is known: one weight, full batches, plain descent.

Each epoch takes the weight from where it is towards its anchored optimum by the same factor, so that what pilots of any
length see is known to the digit, and so is the error of any plan.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput, TrainingFailed
from anchorwalk.plan import pilots as module
from anchorwalk.plan import planner, rates
from anchorwalk.run.keys import Stream
from anchorwalk.walks import diagnostics

ROWS, NOISE = 16, 0.5
X = np.linspace(0.5, 1.5, ROWS, dtype=np.float32)
Y = 2 * X
CURVATURE = float(np.mean(X**2) / NOISE**2 + 1 / ROWS)
"""Of the loss, which is divided by the rows; the prior has a standard deviation of 1."""
KEY = jax.random.key(0)
TOGETHER = aw.Local(lanes=module.CHAINS)
"""All chains of a pilot in one program."""


def start(key):
    return jnp.zeros(())


def line(w, x):
    return w * x


def problem():
    return aw.Problem(start, line, aw.Normal(scale=NOISE), aw.Prior(scale=1.0), data=(X, Y))


def descent(left):
    """An epoch that leaves a share of the way to the optimum."""
    return aw.Training(aw.SGD((1 - left) / CURVATURE), epochs=1, batch_size=ROWS)


FAST, SLOW = descent(0.1), descent(0.98)
SUMMARIZE = lru_cache(diagnostics.summarize)  # plans of one walk ask for the same


@pytest.fixture(autouse=True)
def steps_that_tell(monkeypatch):
    """Epochs have one step here, and each of them tells something."""
    monkeypatch.setattr(planner, "LEAST_STEPS", 1)
    monkeypatch.setattr(diagnostics, "summarize", SUMMARIZE)


def optimum(anchor):
    return (np.mean(X * Y) / NOISE**2 + anchor / ROWS) / CURVATURE


def test_pilots_see_what_descent_is_known_to_do():
    budget, left = 1000, 0.98
    pilots = aw.plan_for(KEY, problem(), budget, first=SLOW).pilots
    a, b, c = pilots.lengths
    assert (b, c) == (2 * a, 4 * a)
    # Weights start at zero, so that after L epochs (1 - left ** L) of the way is gone, in every chain.
    assert pilots.moved[1] / pilots.moved[0] == pytest.approx((left**b - left**c) / (left**a - left**b), rel=1e-4)
    # Optima differ by what the prior adds to them; probes are training inputs here, there being one feature.
    own = jax.random.fold_in(KEY, Stream.PILOT)
    plan = aw.Plan(aw.SAE(aw.Training(aw.SGD(1 / CURVATURE), epochs=1, batch_size=ROWS)), module.CHAINS)
    optima = np.array([float(member.params) for member in aw.sample(own, problem(), plan, callbacks=[])])
    assert optima.mean() == pytest.approx(optimum(0), abs=4 / (ROWS * CURVATURE))
    width = np.sqrt(np.mean(module._probes(jax.random.fold_in(KEY, Stream.PROBE), problem())[1] ** 2))
    assert pilots.spread == pytest.approx(width * optima.std(ddof=1) * (1 - left**c), rel=1e-3)


@pytest.mark.parametrize("budget", [145, 1000])
@pytest.mark.parametrize("training", [FAST, SLOW], ids=["fast", "slow"])
def test_pilots_and_plan_are_paid_from_the_budget(budget, training):
    planned = aw.plan_for(KEY, problem(), budget, first=training)
    assert planned.spent == planned.pilots.epochs
    total = planned.spent + planned.plan.epochs
    then = planned.plan.method.then
    assert total <= budget
    assert total > budget - planned.plan.chains * max(2, then.epochs if then else 1)
    assert planned.pilots.epochs <= (module.FIRST_SHARE + module.FOLLOW_SHARE) * budget


def test_slow_trainings_get_more_epochs_and_fewer_chains():
    fast, slow = (aw.plan_for(KEY, problem(), 1000, first=training).plan for training in (FAST, SLOW))
    assert slow.method.first.epochs > 4 * fast.method.first.epochs
    assert slow.chains < fast.chains
    assert slow.members == 1  # nothing that short trainings could follow


@pytest.mark.parametrize(("moved", "last"), [((4.0, 3.0), 3.0), ((4.0, 5.0), 5.0), ((4.0, 1.0), 2.0)])
def test_what_is_left_falls_with_the_root_of_the_epochs(moved, last):
    """c / sqrt(L): each doubling moves sqrt(1 / 2) times what the one before moved. The last move that was seen counts
    as half of the one before at least."""
    pilots = module.Pilots((5, 10, 20), (0.0, 0.0, 0.0), moved, 1.0, False, {}, {}, 0)
    left = sum(last / 2 ** (doubling / 2) for doubling in range(1, 200))
    found = [pilots.unfinished(20 * times) for times in (1, 2, 9)]
    assert found == pytest.approx([left, left / np.sqrt(2), left / 3])
    assert pilots.unfinished(10) == pytest.approx(left + last)
    assert pilots.unfinished(5) == pytest.approx(left + last + moved[0])
    assert all(np.diff([pilots.unfinished(epochs) for epochs in range(5, 100)]) < 0)


def test_nothing_moved_is_nothing_left():
    pilots = module.Pilots((5, 10, 20), (0.0, 0.0, 0.0), (0.0, 0.0), 1.0, True, {}, {}, 0)
    assert pilots.unfinished(40) < 1e-20


def test_first_trainings_grow_with_the_budget_where_they_are_far_from_finished():
    lengths = [
        aw.plan_for(KEY, problem(), budget, first=descent(0.999)).plan.method.first.epochs for budget in (140, 1000)
    ]
    assert lengths[1] > 3 * lengths[0]


def wide(noise=0.0):
    """Forty weights that the rows together tell about as much of as the prior: 400 / 20 ** 2 = 1."""
    weights, rows = 40, 400
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, weights)).astype(np.float32)
    return aw.Problem(
        lambda key: jnp.zeros(weights),
        lambda w, x: x @ w,
        aw.Normal(scale=20.0),
        aw.Prior(scale=1.0),
        data=(x, x.sum(axis=1) + noise * rng.normal(size=rows)),
    )


# Curvatures are those of x.T @ x / rows / 400, all near 1 / 400, and the prior's 1 / 400: this rate leaves little.
WIDE = aw.Training(aw.SGD(200.0), epochs=1, batch_size=400)


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_later_members_are_planned_where_they_are_worth_their_epochs(seed):
    """Independent anchors, and two epochs that reach the optimum: a later member is worth a training from scratch."""
    planned = aw.plan_for(jax.random.key(seed), wide(), 1000, aw.Independent(), first=WIDE)
    assert planned.plan.method.then is not None, planned
    assert planned.plan.method.then.epochs == 2
    # The number of members is what counts here. Trainings from scratch would be a seventh of the epochs; where the
    # pilots see less of the spread within reach than there is, by luck, some epochs go into chains.
    assert planned.plan.total > 1.5 * planned.plan.epochs / planned.pilots.lengths[0]
    assert "2 epochs follow the anchors" in str(planned)


def test_moves_are_what_chains_have_in_common():
    """Half of each weight's way is its anchor's own: products of different chains' moves leave it out."""
    slow = aw.Training(aw.SGD(1.0), epochs=1, batch_size=400)
    pilots = aw.plan_for(KEY, wide(), 1000, first=slow).pilots
    seen, _ = module._probes(jax.random.fold_in(KEY, Stream.PROBE), wide())
    own = jax.random.fold_in(KEY, Stream.PILOT)
    weights = []
    for epochs in pilots.lengths[:2]:
        plan = aw.Plan(aw.SAE(module.replace(slow, epochs=epochs)), module.CHAINS)
        weights.append(np.stack([np.asarray(one.params) for one in aw.sample(own, wide(), plan, callbacks=[])]))
    moves = (weights[1] - weights[0]) @ seen.T
    products = [np.mean(moves[a] * moves[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert pilots.moved[0] == pytest.approx(np.sqrt(np.mean(products)), rel=1e-3)
    assert pilots.moved[0] < 0.95 * np.sqrt(np.mean(moves.mean(axis=0) ** 2))  # which the mean over chains does not


@pytest.mark.parametrize("own", [0.0, 4.0])
def test_moves_of_chains_own_do_not_count_and_what_is_common_is_not_nothing_by_luck(own):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 200_000, 1))
    assert module._common(3 + own * noise) == pytest.approx(3, rel=0.02)
    alone = own * (noise - noise.mean(axis=0)) + 1e-3
    assert module._common(alone) == pytest.approx(1e-3 if own == 0 else 5e-4, rel=1e-6)  # half of the mean, at least


@pytest.mark.slow
@pytest.mark.parametrize("left", [1 - 1e-9, -1.5], ids=["stand still", "are thrown off"])
def test_no_later_members_where_short_trainings(left):
    plan = aw.plan_for(KEY, problem(), 1000, aw.Independent(), first=FAST, then=descent(left)).plan
    assert plan.members == 1


def test_noise_of_short_trainings_is_not_taken_for_a_walk():
    """Ten rows a step, and a rate at which two epochs go s = 1 - e ** -0.1 of the way to the optimum: the order of the
    rows moves members ten times as far as the anchors do, and must fall out of what walking brings.

    An anchor that moves by d, 2 d, 3 d takes its member s ((1 - s) ** 2 + 2 (1 - s) + 3) d along, of 3 d.
    """
    short = aw.Training(aw.SGD(0.25), epochs=1, batch_size=10)
    walk = aw.Rotation(step_size=0.01, refresh=0.0)
    trainings = module.Trainings(400, None, WIDE, short)
    pilots = module.run_pilots(KEY, wide(noise=20.0), 1000, 7, walk, trainings, TOGETHER, None)
    s = 1 - np.exp(-0.1)
    along = s * ((1 - s) ** 2 + 2 * (1 - s) + 3) / 3
    # Moves are of 3 chains in 40 weights and the spread has 80 degrees of freedom: off by a fifth or so together.
    assert pilots.reach[2] == pytest.approx(along**2, rel=0.6)


@pytest.mark.slow
def test_trainings_that_run_apart_by_themselves_are_not_taken_for_a_walk():
    """Steps of 0.1 up or down, and a rate that stays: which way a weight goes hangs on the smallest difference of its
    anchor, so that members run far apart whose anchors have hardly moved."""
    short = aw.Training(aw.Lion(0.1), epochs=1, batch_size=10)
    walk = aw.Rotation(step_size=0.001, refresh=0.0)
    trainings = module.Trainings(400, None, WIDE, short)
    key = jax.random.key(1)  # with one key in six the three chains differ too much for anything to be sure
    pilots = module.run_pilots(key, wide(noise=20.0), 1000, 7, walk, trainings, TOGETHER, None)
    own = jax.random.fold_in(key, Stream.PILOT)
    trained = module.replace(WIDE, epochs=28), module.replace(short, epochs=2)
    plans = [aw.Plan(aw.SAE(*trained, way), module.CHAINS, 4) for way in (walk, module._Slowed(walk, 0.0))]
    one, other = (aw.sample(own, wide(noise=20.0), plan, runner=TOGETHER, callbacks=[]) for plan in plans)
    apart = np.mean([(np.asarray(one[c, 3].params) - np.asarray(other[c, 3].params)) ** 2 for c in range(3)])
    optima = np.var([np.asarray(one[c, 0].params) for c in range(3)], axis=0, ddof=1).mean()
    uncontrolled = apart / (2 * module._anchors_moved(walk, 3)) / optima
    assert uncontrolled > 1  # more than all that there is: anchors have hardly moved
    # More than anchors can carry members, and so not followed.
    assert pilots.reach[2] > planner.THROWN
    assert planner._best(pilots, 1000, walk).members == 1


@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_a_slowed_walk_makes_a_share_of_the_steps(share):
    walk = aw.GuidedWalk(step_size=0.3)
    slowed = module._Slowed(walk, share)
    like = jnp.zeros(1000)
    state = walk.init(KEY, like)
    np.testing.assert_array_equal(slowed.init(KEY, like).position, state.position)
    step = jax.random.key(1)
    whole, part = walk.step(step, state)[0].position, slowed.step(step, state)[0].position
    np.testing.assert_allclose(part - state.position, share * (whole - state.position), atol=1e-6)


def test_chains_are_planned_for_inputs_that_are_given():
    """A line through the origin: chains differ in proportion to x, and not at all where it is zero."""
    near, far = (aw.plan_for(KEY, problem(), 1000, first=SLOW, at=np.full(5, x, np.float32)) for x in (0.1, 1e4))
    assert far.pilots.spread == pytest.approx(1e5 * near.pilots.spread, rel=1e-4)
    assert far.pilots.moved == near.pilots.moved  # looked at on training inputs all the same
    assert far.plan.chains > near.plan.chains == 2  # one member alone would say nothing of how sure it is
    assert "2 are the least that can disagree" in str(near)
    assert "the least" not in str(far)
    assert "at the inputs that were given" in str(far)


def error(chains, epochs, left):
    """Mean squared error of the weight's mean over an anchored ensemble, and nothing else is to be known of it."""
    bias = optimum(0) * left**epochs
    return bias**2 + (1 - left**epochs) ** 2 / (ROWS * CURVATURE) ** 2 / chains


@pytest.mark.parametrize("left", [0.1, 0.9, 0.98])
def test_members_of_the_plan_are_finished(left):
    """What is left of an exponential descent falls faster than the rule takes for granted (by its root):
    it trains longer than it need, and pays by fewer chains, at worst as few as two, never by unfinished members."""
    plan = aw.plan_for(KEY, problem(), 1000, first=descent(left)).plan
    assert left**plan.method.first.epochs < 0.05
    assert error(plan.chains, plan.method.first.epochs, left) < 1.01 * error(1, 10_000, left)


def test_the_plan_is_nearly_the_best_where_pilots_see_the_end():
    plan = aw.plan_for(KEY, problem(), 1000, first=FAST).plan
    # No plan has first trainings shorter than the shortest pilot: nothing is known of them.
    shortest = int(module.FIRST_SHARE * 1000 / (7 * module.CHAINS))
    best = min(error(1000 // epochs, epochs, 0.1) for epochs in range(shortest, 1001))
    # Of the budget so much goes into pilots at most.
    assert (
        error(plan.chains, plan.method.first.epochs, 0.1) < best / (1 - module.FIRST_SHARE - module.FOLLOW_SHARE) * 1.01
    )


def test_probes_have_each_features_own_values_and_kind():
    rng = np.random.default_rng(0)
    x = {
        "numbers": rng.normal(size=(50, 2, 2)).astype(np.float32),
        "words": rng.integers(0, 9, (50, 3)).astype(np.int32),
    }
    many = aw.Problem(
        lambda key: jnp.zeros(4),
        lambda w, x: x["numbers"].reshape(-1, 4) @ w + x["words"].sum(axis=1),
        aw.Normal(scale=1.0),
        aw.Prior(scale=1.0),
        data=(x, rng.normal(size=50)),
    )
    seen, probes = module._probes(KEY, many)
    for name, given in x.items():
        found = probes[name].reshape(module.PROBES, -1)
        assert probes[name].dtype == given.dtype
        for feature, values in zip(found.T, given.reshape(50, -1).T, strict=True):
            assert np.isin(feature, values).all()
            assert len(np.unique(feature)) > len(np.unique(values)) / 2
    assert {tuple(row) for row in seen["words"]} <= {tuple(row) for row in x["words"]}
    joint = {tuple(row) for row in x["numbers"].reshape(50, -1)}
    assert sum(tuple(row) in joint for row in probes["numbers"].reshape(module.PROBES, -1)) < 3


def test_classes_are_compared_by_their_probabilities():
    labels = (X > 1).astype(int)
    classes = aw.Problem(
        lambda key: jnp.zeros(2), lambda w, x: x[:, None] * w, aw.Categorical(), aw.Prior(scale=1.0), data=(X, labels)
    )
    training = aw.Training(aw.SGD(0.1), epochs=1, batch_size=ROWS)
    pilots = aw.plan_for(KEY, classes, 140, first=training).pilots
    plan = aw.Plan(aw.SAE(module.replace(training, epochs=pilots.lengths[-1])), module.CHAINS)
    _, asked = module._probes(jax.random.fold_in(KEY, Stream.PROBE), classes)
    members = aw.sample(jax.random.fold_in(KEY, Stream.PILOT), classes, plan, callbacks=[])
    probabilities = np.stack([jax.nn.softmax(asked[:, None] * one.params) for one in members])
    assert pilots.spread**2 == pytest.approx(probabilities.var(axis=0, ddof=1).sum(axis=-1).mean(), rel=1e-3)


def test_what_chains_have_in_common_is_found_among_what_they_do_not():
    """Moves of a common part 3 and of own parts of standard deviation 4: their rms is 5, and 3 is to be found."""
    rng = np.random.default_rng(0)
    probes = 200_000
    moves = 3 + 4 * rng.normal(size=(module.CHAINS, probes, 1))
    # Each product of two chains has variance 2 * 9 * 16 + 16 ** 2, and there are CHAINS pairs times probes of them.
    deviation = np.sqrt((2 * 9 * 16 + 16**2) / (module.CHAINS * probes))
    assert module._alike(moves) ** 2 == pytest.approx(9, abs=5 * deviation)
    assert module._mean_square(moves) == pytest.approx(25, rel=0.02)


def test_what_is_not_sure_does_not_count():
    assert module._significant_mean(np.array([1.0, 1.1, 0.9])) == pytest.approx(1)
    assert module._significant_mean(np.array([3.0, -1.0, 1.0])) == 0  # a mean of 1 with a standard error of 1.15
    assert module._significant_mean(np.array([-1.0, -1.1, -0.9])) == 0


def halves():
    """Predictions of half a weight that stays where it began, for ever, and half of one that follows its anchor."""
    weights, rows = 40, 400
    x = np.random.default_rng(0).normal(size=(rows, weights)).astype(np.float32)

    def apply(params, x):
        return x @ (jax.lax.stop_gradient(params["begun"]) + params["follows"]) * np.sqrt(0.5)

    def init(key):
        return {"begun": jax.random.normal(key, (weights,)), "follows": jnp.zeros(weights)}

    prior = aw.Prior(scale={"begun": 1e4, "follows": 1.0})  # so wide that the anchor does not pull
    return aw.Problem(init, apply, aw.Normal(scale=100.0), prior, data=(x, np.zeros(rows)))


def test_what_is_a_chains_own_is_not_reached_by_walking():
    """With half of what chains differ by their own for ever, chains must stay many: M members average the other half.

    With ten members in each of C chains the mean has a variance of (1 / 2 + 1 / 20) / C, not of 1 / (10 C).
    """
    pilots = module.Pilots((7, 14, 28), (0.0,) * 3, (0.0, 0.0), 1.0, True, {2: 0.0}, {2: 0.5}, 0)
    chosen = planner._best(pilots, 840, aw.Independent())
    plans = [(chains, members) for chains in range(2, 121) for members in (1, 1 + (840 // chains - 7) // 2)]
    best = min((0.5 + 0.5 / members) / chains for chains, members in plans)
    assert (0.5 + 0.5 / chosen.members) / chosen.chains < 1.05 * best
    assert chosen.chains > 60
    # All of it within reach: fewer chains of more members.
    assert planner._best(pilots._replace(reach={2: 1.0}), 840, aw.Independent()).members > 10
    # Thrown about: none is followed.
    assert planner._best(pilots._replace(reach={2: 3.0}), 840, aw.Independent()).members == 1


@pytest.mark.slow
def test_the_share_of_a_chains_own_is_seen():
    walk = aw.Independent()
    fast = aw.Training(aw.SGD(400.0), epochs=1, batch_size=400)
    pilots = module.run_pilots(KEY, halves(), 1000, 7, walk, module.Trainings(400, None, fast, None), TOGETHER, None)
    # Three chains of forty weights: the spread has 80 degrees of freedom, moves 120: off by a fifth or so together.
    assert pilots.reach[2] == pytest.approx(0.5, rel=0.6)
    assert pilots.slips[2] < 0.1 * pilots.spread


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"finished": False}, "so far from finished"),
        ({"spread": 0.0}, "chains agree"),
        ({}, "from 900 epochs on"),
        (
            {"slips": {2: 0.3}, "reach": {2: 0.01}},
            "2 epochs are off by 0.3 and walk through 1% of what chains differ by",
        ),
    ],
    ids=["unfinished", "agree", "too dear", "tried"],
)
def test_why_there_are_no_later_members(changes, words):
    pilots = module.Pilots((7, 14, 28), (0.0,) * 3, (0.0, 0.0), 1.0, True, {}, {}, 0)._replace(**changes)
    assert words in planner._explain_later(pilots, aw.Plan(aw.SAE(FAST), 3))


def test_later_members_follow_as_the_pilots_did(monkeypatch):
    """Rates that were found fall with the length of first trainings; short ones keep the one that pilots had."""
    found = rates.Rates(0.01, {0.01: 1.0}, 5, 25)
    seen = module.Pilots((7, 14, 28), (0.0,) * 3, (0.02, 0.01), 1.0, True, {2: 0.0}, {2: 1.0}, 147)
    monkeypatch.setattr(planner, "find_rate", lambda *_: found)
    monkeypatch.setattr(planner, "run_pilots", lambda *_: seen)
    plan = aw.plan_for(KEY, wide(), 1000, aw.Independent()).plan
    assert plan.members > 1
    assert plan.method.first.epochs > seen.lengths[-1]
    assert plan.method.then == module.replace(found.training(400, seen.lengths[-1]), epochs=2)
    assert plan.method.then.optimizer != plan.method.first.optimizer


def test_rows_without_weight_are_no_training_inputs():
    weights = (X < 1).astype(float)
    weighted = aw.Problem(start, line, aw.Normal(scale=NOISE), aw.Prior(scale=1.0), data=(X, Y), weights=weights)
    seen, mixed = module._probes(KEY, weighted)
    assert max(seen) < 1
    assert max(mixed) < 1


def test_predictions_that_are_not_finite_are_refused():
    counts = aw.Problem(start, line, aw.Poisson(), aw.Prior(scale=1.0), data=(X, np.ones(ROWS, int)))
    with pytest.raises(TrainingFailed, match="not finite"):
        aw.plan_for(KEY, counts, 200, first=descent(0.5), at=np.full(5, 1e5, np.float32))


def test_ctrl_c_in_a_pilot_ends_it(monkeypatch):
    whole = module.sample

    calls = []

    def sample_once(*arguments, **options):
        calls.append(arguments)
        return module.replace(whole(*arguments, **options), complete=len(calls) < 2)

    monkeypatch.setattr(module, "sample", sample_once)
    with pytest.raises(KeyboardInterrupt):
        aw.plan_for(KEY, problem(), 1000, first=FAST)
    assert len(calls) == 2


def test_the_walk_decides_what_later_members_are_worth():
    moved = module._anchors_moved(aw.Independent(), 1)
    assert moved == pytest.approx(1, abs=5 * np.sqrt(2 / diagnostics.PARAMETERS))
    # x' = cos(a) x + sin(a) p: correlation cos(a) after a step.
    turned = module._anchors_moved(aw.Rotation(step_size=0.3, refresh=0.0), 1)
    assert turned == pytest.approx(1 - np.cos(0.3), rel=0.05)


def test_the_same_key_gives_the_same_plan_and_it_explains_itself():
    one, two = (aw.plan_for(KEY, problem(), 1000, first=SLOW) for _ in range(2))
    assert one == two
    text = str(one)
    assert f"{one.pilots.epochs:,} for trials and pilots" in text
    assert f"First trainings get {one.plan.method.first.epochs:,} epochs" in text
    assert "One member a chain" in text
    assert f"{one.plan.chains:,} chains" in text or "One chain" in text


@pytest.mark.parametrize("budget", [1, 40, 140])
def test_without_a_training_a_rate_is_found_and_paid_for(budget):
    planned = aw.plan_for(KEY, problem(), budget)
    first = planned.plan.method.first
    assert first == planned.rates.training(ROWS, first.epochs)
    pilots = 0 if planned.pilots is None else planned.pilots.epochs
    assert planned.spent == planned.rates.epochs + pilots
    assert planned.spent <= (rates.SHARE + module.FIRST_SHARE + module.FOLLOW_SHARE) * budget
    assert planned.spent + planned.plan.epochs <= budget
    assert f"Lion with a rate of {first.optimizer.rate:.2g}" in str(planned)
    assert ("untried" in str(planned)) == (planned.rates.losses == {})
    assert aw.plan_for(KEY, problem(), budget, first=FAST).rates is None


@pytest.mark.parametrize(("budget", "chains", "epochs"), [(1, 1, 1), (2, 2, 1), (139, 2, 69)])
def test_a_budget_too_small_for_pilots_is_shared_by_two_chains(budget, chains, epochs):
    planned = aw.plan_for(KEY, problem(), budget, first=FAST)
    assert planned.pilots is None
    assert (planned.plan.chains, planned.plan.members, planned.plan.method.first.epochs) == (chains, 1, epochs)
    assert "from 140 epochs on" in str(planned)


def test_pilots_need_steps_that_tell(monkeypatch):
    monkeypatch.setattr(planner, "LEAST_STEPS", 2)
    assert aw.plan_for(KEY, problem(), 279, first=FAST).pilots is None
    assert aw.plan_for(KEY, problem(), 280, first=FAST).pilots is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budget": 0}, ["budget"]),
        ({"budget": 2.5}, ["budget"]),
        ({"problem": "data.csv"}, ["a Problem"]),
        ({"first": aw.Adam(1e-3)}, ["Training"]),
        ({"first": None, "then": aw.Training(aw.SGD(0.1), 1, 1, keep="best")}, ["keep"]),
        ({"walk": 0.1}, ["walk"]),
        ({"key": 0}, ["key"]),
        ({"at": "test.csv"}, ["plan_for(at=)"]),
        ({"at": np.zeros(0, np.float32)}, ["plan_for(at=)"]),
    ],
    ids=["nothing", "half", "problem", "training", "another keep", "walk", "key", "text for inputs", "no inputs"],
)
def test_what_is_wrong_is_said_before_any_pilot(change, words, monkeypatch):
    for name in ("run_pilots", "find_rate"):
        monkeypatch.setattr(planner, name, lambda *_: pytest.fail("a pilot was run"))
    given = {"key": KEY, "problem": problem(), "budget": 200, "first": FAST, **change}
    with pytest.raises(InvalidInput) as caught:
        aw.plan_for(**given)
    assert all(word in str(caught.value) for word in words)
