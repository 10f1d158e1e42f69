"""What the callbacks for TensorBoard and MLflow write, read back from their own files."""

import json
import signal
import struct
import sys
import warnings

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InterruptedWarning, InvalidInput
from anchorwalk.integrations import tracking
from helpers import linear_apply, linear_init

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs, of what they import
    mlflow = pytest.importorskip("mlflow")
    tensorboard = pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

X = np.random.default_rng(0).normal(size=(8, 3))
PROBLEM = aw.Problem(linear_init, linear_apply, aw.Normal(scale=0.5), aw.Prior(scale=1.0), data=(X, X.sum(axis=1)))


def small_plan(chains=3, members=3):
    """One step an epoch: quick to compile."""
    trainings = [aw.Training(aw.SGD(0.1), epochs=epochs, batch_size=8) for epochs in (4, 2)]
    return aw.Plan(aw.SAE(*trainings), chains, members)


PLAN = small_plan()
FIRST, THEN = aw.Call("first", passes=4), aw.Call("then", passes=2)
NAMES = {"training_loss", "loss_end", "gradient_norm_end", "acceptance", "seconds", "diverged"}
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # MLflow's, of itself


class Broken(Exception):
    pass


def run(*callbacks, plan=PLAN, **options):
    runner = aw.Local(threads=1, lanes=1)
    return aw.sample(jax.random.key(0), PROBLEM, plan, runner=runner, callbacks=list(callbacks), **options)


def fail_at(number):
    def fail(round_info):
        if round_info.number == number:
            raise Broken

    return fail


def events(folder):
    """All events of the files in a folder: a length, its checksum, the event, its checksum."""
    found = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            found.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return found


def written(folder):
    """Scalars by name, as steps and values."""
    found = {}
    for event in events(folder):
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


@pytest.fixture
def client(tmp_path, monkeypatch):
    """MLflow with a store of its own on disk, of files, which the small package can read and write by itself."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions want that said
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "mlflow").as_uri())
    yield mlflow.MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


def only_run(client, experiment="0"):
    (found,) = client.search_runs([experiment])
    return found


def test_tensorboard_files_hold_each_round_of_each_chain(tmp_path):
    posterior = run(aw.TensorBoard(tmp_path / "board", settings={"walk": {"step": 0.1}}))
    found = written(tmp_path / "board")
    assert set(found) == {f"{name}/chain_{chain}" for name in NAMES for chain in range(3)} | {
        "run/members_done",
        "run/epochs_done",
        "run/seconds",
        "run/seconds_compiling",
    }
    for name in ("loss_end", "gradient_norm_end", "acceptance", "seconds"):
        for chain in range(3):
            infos = [posterior[chain, i].info for i in range(3)]
            expected = [(info.index, info.seconds if name == "seconds" else info.value(name)) for info in infos]
            np.testing.assert_allclose(found[f"{name}/chain_{chain}"], expected, rtol=1e-6)
    last = [(i, posterior[1, i].trace[-1]) for i in range(3)]
    np.testing.assert_allclose(found["training_loss/chain_1"], last, rtol=1e-6)
    assert found["diverged/chain_2"] == [(i, 0.0) for i in range(3)]
    assert found["run/members_done"] == [(n, float(n)) for n in range(1, 10)]  # one chain a round here
    assert found["run/epochs_done"][-1] == (9, PLAN.epochs)
    assert all(np.diff([value for _, value in found["run/seconds"]]) >= 0)


def test_tensorboard_shows_the_plan_as_text(tmp_path):
    run(aw.TensorBoard(tmp_path / "board", settings={"walk": {"step": 0.1}}))
    texts = [
        v.tensor.string_val[0].decode() for e in events(tmp_path / "board") for v in e.summary.value if v.tensor.dtype
    ]
    (text,) = texts
    assert all(line.startswith("    ") for line in text.splitlines())  # a block of code in Markdown
    shown = json.loads(text)
    assert shown["plan.chains"] == "3"
    assert (shown["plan.method"], shown["plan.method.walk"]) == ("SAE", "GuidedWalk")
    assert shown["plan.method.first.epochs"] == "4"
    assert shown["plan.method.first.optimizer.rate"] == "0.1"
    assert shown["walk.step"] == "0.1"


def test_tensorboard_is_closed_and_whole_however_a_run_ends(tmp_path):
    board = aw.TensorBoard(tmp_path / "board")
    with pytest.raises(Broken):
        run(board, fail_at(1))
    assert board._writer is None
    assert len(written(tmp_path / "board")["loss_end/chain_0"]) == 2
    board.end()  # once more does no harm
    run(board, plan=small_plan(chains=1, members=1))  # and it can be used again
    assert len(written(tmp_path / "board")["loss_end/chain_0"]) == 3


def test_mlflow_holds_parameters_and_metrics(client):
    posterior = run(aw.MLflow(run_name="mine", settings={"walk": "guided"}))
    assert mlflow.active_run() is None
    found = only_run(client)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "mine"
    assert found.data.params["plan.members"] == "3"
    assert found.data.params["plan.method.then.epochs"] == "2"
    assert found.data.params["walk"] == "guided"
    assert {name.split("/")[0] for name in found.data.metrics} == NAMES | {"run"}
    for chain in range(3):
        history = client.get_metric_history(found.info.run_id, f"loss_end/chain_{chain}")
        expected = [posterior[chain, i].info.value("loss_end") for i in range(3)]
        np.testing.assert_allclose([m.value for m in sorted(history, key=lambda m: m.step)], expected, rtol=1e-12)
        assert sorted(metric.step for metric in history) == [0, 1, 2]
    assert found.data.metrics["run/members_done"] == 9


def test_mlflow_leaves_a_run_open_that_was_active_before(client):
    with mlflow.start_run() as active:
        run(aw.MLflow(prefix="a."))
        assert mlflow.active_run().info.run_id == active.info.run_id
        assert client.get_run(active.info.run_id).info.status == "RUNNING"
        with pytest.raises(Broken):
            run(aw.MLflow(prefix="b."), fail_at(0))
        assert client.get_run(active.info.run_id).info.status == "RUNNING"
        mlflow.log_metric("own", 1.0)
    found = only_run(client)
    assert found.info.status == "FINISHED"
    assert {"own", "a.loss_end/chain_0", "b.loss_end/chain_0"} <= set(found.data.metrics)


def test_mlflow_refuses_names_and_settings_that_the_active_run_cannot_take(client):
    with mlflow.start_run():
        with pytest.raises(InvalidInput, match="is active"):
            run(aw.MLflow(experiment="other"))
        run(aw.MLflow())
        with pytest.raises(InvalidInput, match=r"plan\.members = 2 for a run that has 3"):
            run(aw.MLflow(), plan=small_plan(members=2))
        run(aw.MLflow(prefix="second."), plan=small_plan(members=2))
        run(aw.MLflow())  # the same plan once more
    assert only_run(client).data.params["second.plan.members"] == "2"


def test_mlflow_says_how_a_run_ended(client):
    with pytest.raises(Broken):
        run(aw.MLflow(experiment="broken"), fail_at(1))

    def interrupt(round_info):
        if (round_info.number, round_info.chains) == (1, (0,)):  # once: the next call is under way and will be told
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(InterruptedWarning):
        run(interrupt, aw.MLflow(experiment="interrupted"))
    store = aw.MemoryStore()
    run(store=store)
    run(aw.MLflow(experiment="nothing left"), store=store)
    statuses = {
        name: only_run(client, client.get_experiment_by_name(name).experiment_id).info.status
        for name in ("broken", "interrupted", "nothing left")
    }
    assert statuses == {"broken": "FAILED", "interrupted": "KILLED", "nothing left": "FINISHED"}
    run(aw.MLflow(experiment="broken"))  # an experiment that is there
    assert len(client.search_runs([client.get_experiment_by_name("broken").experiment_id])) == 2
    assert mlflow.active_run() is None


def test_mlflow_ends_its_own_run_and_not_one_that_was_started_on_the_way(client):
    def begin_another(round_info):
        if round_info.number == 0 and round_info.chains == (0,):
            mlflow.start_run(nested=True, run_name="another")

    run(aw.MLflow(run_name="ours"), begin_another)
    statuses = {found.info.run_name: found.info.status for found in client.search_runs(["0"])}
    assert statuses == {"ours": "FINISHED", "another": "RUNNING"}


def test_what_is_not_known_or_not_finite_is_left_out():
    posterior = run(plan=small_plan(chains=1, members=1))
    member = posterior[0, 0]
    values = {**member.info.values, "loss_end": float("nan"), "gradient_norm_end": float("inf")}
    info = member.info._replace(chain=4, index=2, status=1, values=values)
    round_info = aw.RoundInfo(PLAN, THEN, 2, (4,), [member._replace(info=info)], 7, 30, 1.5, False)
    found = {name: (value, step) for name, value, step in tracking.scalars(round_info)}
    assert not {"loss_end/chain_4", "gradient_norm_end/chain_4"} & set(found)
    assert found["diverged/chain_4"] == (1.0, 2)
    assert found["run/epochs_done"] == (30.0, 7)


def test_a_call_without_draws_or_with_several_is_told():
    """Methods may warm up, and may make several draws in a call; a draw without a trace has no training loss."""
    member = run(plan=small_plan(chains=1, members=1))[0, 0]
    warm_up = aw.RoundInfo(PLAN, aw.Call("warm-up", draws=0), 0, (0,), [], 0, 3.5, 1.0, False)
    assert [scalar.name for scalar in tracking.scalars(warm_up)] == [
        "run/members_done",
        "run/epochs_done",
        "run/seconds",
        "run/seconds_compiling",
    ]
    infos = [member.info._replace(index=index, values={"log_density": -index}) for index in range(2)]
    draws = [aw.Member(member.params, np.zeros(0), info) for info in infos]
    two = aw.RoundInfo(PLAN, aw.Call("draw", draws=2), 1, (0,), draws, 2, 4.5, 1.0, False)
    found = [(name, value, step) for name, value, step in tracking.scalars(two) if name == "log_density/chain_0"]
    assert found == [("log_density/chain_0", 0, 0), ("log_density/chain_0", -1, 1)]
    assert not [name for name, _, _ in tracking.scalars(two) if name.startswith("training_loss")]


def test_many_chains_go_to_mlflow_in_several_calls(client):
    posterior = run(plan=small_plan(chains=1, members=1))
    plan = small_plan(chains=400, members=1)
    one = posterior[0, 0]
    members = [one._replace(info=one.info._replace(chain=chain)) for chain in range(400)]
    round_info = aw.RoundInfo(plan, FIRST, 0, tuple(range(400)), members, 400, plan.epochs, 1.5, True)
    callback = aw.MLflow()
    callback.start(plan, 0)
    callback(round_info)
    callback.end()
    found = only_run(client)
    assert found.info.status == "FINISHED"
    assert len(found.data.metrics) == 6 * 400 + 4


def test_both_are_callbacks_of_a_whole_run():
    from anchorwalk.run.callbacks import RunCallback

    assert isinstance(aw.TensorBoard("folder"), RunCallback)  # nothing is written before a run starts
    assert isinstance(aw.MLflow(), RunCallback)


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [("tensorboardX", lambda: aw.TensorBoard("folder"), "tensorboard"), ("mlflow", lambda: aw.MLflow(), "mlflow")],
)
def test_a_missing_library_is_named(monkeypatch, module, make, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'anchorwalk\[{extra}\]'"):
        make()


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidInput, match=r"TensorBoard\(folder=\)"):
        aw.TensorBoard(3)
    with pytest.raises(InvalidInput, match=r"MLflow\(settings=\)"):
        aw.MLflow(settings=["walk"])
