"""Rows that are read while a run trains: the same members as from rows in memory, and memory that does not grow."""

import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.integrations import sklearn
from anchorwalk.run.runners import Devices, cluster
from helpers import leaves_equal, small_apply, small_init, small_plan, small_problem, stacked_params

KEY = jax.random.key(7)
MEMORY = small_problem(rows=60)


class Rows:
    """A source that counts which threads read it, and of how many rows."""

    def __init__(self, x, y):
        self.x, self.y, self.read = x, y, []

    def __len__(self):
        return len(self.x)

    def __getitem__(self, indices):
        self.read.append((threading.current_thread().name, len(indices)))
        return self.x[indices], self.y[indices]


def streamed(source, **options):
    return aw.Problem(small_init, small_apply, aw.Normal(scale=0.3), aw.Prior(scale=0.5), data=source, **options)


@pytest.fixture
def rows():
    return Rows(MEMORY.data.x, MEMORY.data.y)


def run(problem, plan, lanes=1, **options):
    return aw.sample(KEY, problem, plan, runner=aw.Local(2, lanes), callbacks=[], **options)


@pytest.mark.parametrize(
    ("lanes", "options"),
    [
        (2, {}),
        pytest.param(1, {}, marks=pytest.mark.slow),
        pytest.param(2, {"shared_order": True}, marks=pytest.mark.slow),
    ],
)
def test_members_are_those_of_rows_in_memory(rows, lanes, options, monkeypatch):
    plan, problem, asked = small_plan(3, members=3, **options), streamed(rows), []
    reader = problem.data.reader
    given = reader.next_batch

    def next_batch(*indices):
        asked.append(indices)
        return given(*indices)

    monkeypatch.setattr(reader, "next_batch", next_batch)
    found, expected = run(problem, plan, lanes), run(MEMORY, plan, lanes)
    assert leaves_equal(stacked_params(found), stacked_params(expected))
    assert [m.info.values for m in found] == [m.info.values for m in expected]
    late = [name for name, count in rows.read if count == 7 and not name.startswith("anchorwalk-rows")]
    # All but the first ones of epochs and evaluations are read ahead, once for blocks that ask for the same rows.
    assert len(late) < 0.2 * len(asked)
    assert max(count for _, count in rows.read) <= 61  # those that are looked at, one of them twice


def test_row_numbers_come_to_the_source_in_small_pieces(rows, monkeypatch):
    """JAX hands larger arguments of a callback over in threads that programs fill: on one core they wait for ever."""
    data = streamed(rows).data

    def pieces(count):
        traced = jax.make_jaxpr(data.take)(jax.ShapeDtypeStruct((count,), np.int32)).jaxpr
        (call,) = [one for one in traced.eqns if one.primitive.name == "pure_callback"]
        return [argument.aval.size * argument.aval.dtype.itemsize for argument in call.invars]

    assert pieces(60) == [240, 240]  # this batch and the next one
    assert pieces(40_000) == [65_536, 65_536, 28_928] * 2
    monkeypatch.setattr("anchorwalk.data.PIECE", 28)
    wanted = np.random.default_rng(0).permutation(60)[:16].astype(np.int32)
    found = jax.jit(lambda indices: data.take(indices))(wanted)
    np.testing.assert_array_equal(found.x, MEMORY.data.x[wanted])
    np.testing.assert_array_equal(found.y, MEMORY.data.y[wanted])


def test_batches_trace_no_network(rows):
    traced = []

    def apply(params, x):
        traced.append(x.shape)
        return small_apply(params, x)

    reader = aw.Problem(small_init, apply, aw.Normal(scale=0.3), aw.Prior(), data=rows).data.reader
    reader.rows(np.arange(7))
    before = len(traced)
    for start in range(50):
        reader.rows(np.arange(start, start + 7))
    assert len(traced) == before


def test_by_default_one_device_is_chosen_of_several(rows, monkeypatch):
    class Chosen(Exception):
        pass

    def local():
        raise Chosen

    monkeypatch.setattr("anchorwalk.run.sample.default", Devices)
    monkeypatch.setattr("anchorwalk.run.sample.Local", local)
    with pytest.raises(Chosen):
        aw.sample(KEY, streamed(rows), small_plan(), callbacks=[])


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda t: aw.AE(t), lambda t: aw.DeepEnsemble(t), lambda t: aw.MAP(t)])
def test_other_methods_that_train(rows, make):
    plan = aw.Plan(make(aw.Training(aw.SOAP(0.01), epochs=3, batch_size=16)), chains=2)
    assert leaves_equal(stacked_params(run(streamed(rows), plan)), stacked_params(run(MEMORY, plan)))


def test_a_run_resumes_on_the_same_rows_alone(rows, tmp_path):
    whole = run(streamed(rows), small_plan(1, members=3))
    run(streamed(rows), small_plan(1, members=2), store=tmp_path)
    again = run(streamed(Rows(rows.x, rows.y)), small_plan(1, members=3), store=tmp_path)
    assert leaves_equal(stacked_params(again), stacked_params(whole))
    assert again.about["rows"] == 60
    with pytest.raises(InvalidInput, match=r"run of other arguments: data was \w+, is \w+"):
        run(streamed(Rows(rows.x, rows.y + 1)), small_plan(1, members=4), store=tmp_path)


CHILD = """
import resource, sys
import numpy as np, jax, anchorwalk as aw
sys.path.insert(0, {tests!r})
from test_data import Rows
x = np.lib.format.open_memmap({folder!r} + "/x.npy", "w+", np.float32, ({rows}, 250))
for start in range(0, {rows}, 1000):
    x[start : start + 1000] = 1.0
x.flush()
y = np.zeros({rows}, np.float32)
network = aw.networks.mlp(250, (2,), 1)
apply = lambda params, x: network.apply(params, x)[:, 0]
source = Rows(np.load({folder!r} + "/x.npy", mmap_mode="r"), y)
problem = aw.Problem(network.init, apply, aw.Normal(scale=1.0), aw.Prior(), data=source)
training = aw.Training(aw.Adam(1e-3), epochs=1, batch_size=500)
aw.sample(jax.random.key(0), problem, aw.Plan(aw.AE(training), chains=1), callbacks=[])
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("RssAnon")][0])
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(tmp_path):
    """A hundred times the rows, 200 MB of them, in the same memory, up to a tenth of the difference."""

    def megabytes(rows):
        from pathlib import Path

        code = CHILD.format(tests=str(Path(__file__).parent), folder=str(tmp_path), rows=rows)
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert child.returncode == 0, child.stderr
        return int(child.stdout.split()[-1]) / 1e3

    assert megabytes(200_000) - megabytes(2_000) < 20


def test_rows_that_are_bad_stop_the_run(rows):
    problem = streamed(rows)
    rows.x = rows.x.copy()
    rows.x[30, 1] = np.nan
    with pytest.raises(Exception, match=r"1 values that are not finite.*Remove or impute"):
        run(problem, small_plan(1))


def test_a_read_ahead_that_failed_is_tried_again(rows):
    reader, good = streamed(rows).data.reader, rows.x
    batches = np.arange(60).reshape(3, 20)
    rows.x = None
    reader._ahead[batches[1].tobytes()] = failed = reader._pool.submit(reader.rows, batches[1])
    assert isinstance(failed.exception(), TypeError)
    with pytest.raises(TypeError):
        reader.next_batch([batches[1]], [batches[2]])  # there is no way to them yet
    rows.x = good
    for now, later in ((1, 2), (2, 0)):
        x, y, _ = reader.next_batch([batches[now]], [batches[later]])
        np.testing.assert_array_equal(x, good[batches[now]])
        np.testing.assert_array_equal(y, rows.y[batches[now]])


class Other(Rows):
    def __init__(self, give, count=60):
        super().__init__(np.zeros((count, 2)), np.zeros(count))
        self.give = give

    def __getitem__(self, indices):
        return self.give(indices)


def rising(indices):
    """As HDF5 has it."""
    assert (np.diff(indices) > 0).all(), "in increasing order"
    return np.zeros((len(indices), 2)), np.zeros((len(indices), 1))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Other(lambda i: np.zeros((len(i), 2))), r"data: got ndarray, expected a pair \(x, y\)"),
        (Other(lambda i: (np.zeros((3, 2)), np.zeros(3))), r"data: got 3 rows of a source for \d+ indices"),
        (Other(lambda i: (np.zeros((len(i), 2)), np.zeros(3))), r"targets y of shape \(3,\) for \d+ rows"),
        (Other(None, 0), "got a source of 0 rows"),
        (Other(lambda i: {}[tuple(i)]), r"KeyError from source\[indices\].*Check source\[np.array\(\[1, 0, 0\]\)\]"),
        (Other(rising), "AssertionError from source.*: in increasing order"),
        (Rows, r"data: got type, expected a pair \(x, y\)"),
    ],
)
def test_sources_that_are_not_what_they_should_be(source, message):
    with pytest.raises(InvalidInput, match=message):
        streamed(source)


def test_what_does_not_go_with_a_source_is_refused(rows):
    problem, training = streamed(rows), aw.Training(aw.Adam(0.01), 2, 16, keep="best")
    with pytest.raises(InvalidInput, match="HMC on rows that are read while a run trains, expected rows in memory"):
        run(problem, aw.Plan(aw.HMC(), chains=2, members=10))
    with pytest.raises(InvalidInput, match=r"SAE\(perturb_targets=\): got True with rows that are read"):
        run(problem, small_plan(perturb_targets=True))
    with pytest.raises(InvalidInput, match=r"hold_back: got rows that are read.*Pass validation=\(x, y\)"):
        run(problem, aw.Plan(aw.AE(training), chains=2))
    with pytest.raises(InvalidInput, match="weights of rows that are read"):
        streamed(rows, weights=np.ones(60))
    with pytest.raises(InvalidInput, match="filled: got rows that are read"):
        problem.filled(64)
    with pytest.raises(InvalidInput, match="on several devices, expected one device"):
        aw.sample(KEY, problem, small_plan(), runner=Devices(), callbacks=[])
    refused = r"Rows, rows that are read, expected rows in memory\. Pass some of its rows"
    members = aw.Posterior.from_members(apply=small_apply, likelihood=aw.Normal(scale=0.3), members=[small_init(KEY)])
    with pytest.raises(InvalidInput, match=refused):
        members.predict(rows)
    with pytest.raises(InvalidInput, match=refused):
        sklearn.SAERegressor().fit(rows, rows.y)
    pytest.importorskip("ray")
    with pytest.raises(InvalidInput, match=r"problem\.data\.reader: got what does not pickle .*cannot be sent"):
        cluster.taken_apart({"plan.method": small_plan().method, "problem": problem}, None)
