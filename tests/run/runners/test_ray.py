"""A Ray cluster on this machine: the same bits as Local, workers that die, and what is refused."""

import dataclasses
import json
import os
import socket
import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput, LostChainsWarning, WorkerLost
from anchorwalk.posterior import passes
from anchorwalk.run.runners import Job, cluster, layout, worker
from anchorwalk.run.runners.ray import RaySession, _loss
from anchorwalk.run.store import maintenance
from helpers import LinearGaussian, leaves_equal, small_apply, small_init, small_plan, small_problem, stacked_params
from rays import kill, workers

ray = pytest.importorskip("ray")
KEY = jax.random.key(7)


@pytest.fixture(scope="module")
def two_workers():
    """A cluster of two CPUs that this module's tests share."""
    with cluster.connected(None, workers=2, room=0):
        yield


def run(plan, runner, problem=None, store=None, **options):
    problem = small_problem() if problem is None else problem
    return aw.sample(KEY, problem, plan, runner=runner, store=store, **({"callbacks": []} | options))


def same(one, other):
    return leaves_equal(stacked_params(one), stacked_params(other)) and one.settings == other.settings


@pytest.mark.parametrize(("chains", "lanes"), [pytest.param(3, 1, marks=pytest.mark.slow), (3, 2), (1, None)])
def test_members_are_those_of_local(two_workers, chains, lanes, tmp_path):
    plan = small_plan(chains, members=4)
    local = run(plan, aw.Local(lanes=lanes), store=tmp_path / "local")
    found = run(plan, aw.Ray(lanes=lanes), store=tmp_path / "ray")
    assert same(found, local)
    assert [m.info.values for m in found] == [m.info.values for m in local]
    assert same(aw.load(tmp_path / "ray", small_apply), aw.load(tmp_path / "local", small_apply))
    assert ray.is_initialized()  # the cluster was there before


def test_a_run_goes_from_one_runner_to_another(two_workers, tmp_path):
    expected = run(small_plan(3, members=4), aw.Local(lanes=2))
    run(small_plan(3, members=2), aw.Ray(lanes=2), store=tmp_path)
    assert same(run(small_plan(3, members=4), "auto", store=tmp_path), expected)


def test_calls_of_a_block_go_together_where_they_are_short(two_workers, monkeypatch):
    tasks, once = [], RaySession._once

    def counted(session, job):
        found = once(session, job)
        tasks.append(1 + len(found.more))
        return found

    monkeypatch.setattr(RaySession, "_once", counted)
    plan = small_plan(2, members=20)
    reports = []
    found = run(plan, aw.Ray(lanes=2), callbacks=[reports.append])
    assert sum(tasks) == 20
    assert len(tasks) < 10
    assert [report.number for report in reports] == list(range(20))
    assert [report.last for report in reports] == [False] * 19 + [True]
    assert same(found, run(plan, aw.Local(lanes=2)))


def test_predictions_are_the_same(two_workers, monkeypatch):
    posterior, x = run(small_plan(2, members=12), "auto"), small_problem().data.x
    alone, judged = posterior.predict(x), posterior.diagnose(x)
    intervals = alone.interval(0.9)

    def only_there(*_):
        raise AssertionError("networks run on the workers")

    monkeypatch.setattr(passes, "_all_rows", only_there)
    shared = posterior.predict(x, runner=aw.Ray())
    np.testing.assert_array_equal(shared.mean, alone.mean)
    np.testing.assert_array_equal(shared.epistemic, alone.epistemic)
    np.testing.assert_array_equal(shared.interval(0.9), intervals)
    assert str(posterior.diagnose(x, runner=aw.Ray(workers=1))) == str(judged)


def test_predictions_outlive_workers(two_workers, monkeypatch):
    posterior, x = run(small_plan(2, members=12), "auto"), small_problem().data.x
    real, lost = ray.get, []

    def get(reference, **options):
        if len(lost) < 3:
            lost.append(reference)
            raise ray.exceptions.WorkerCrashedError
        return real(reference, **options)

    here = threading.current_thread()
    monkeypatch.setattr(cluster, "check_workers", lambda *_: None)
    monkeypatch.setattr(ray, "get", lambda *a, **k: (get if threading.current_thread() is here else real)(*a, **k))
    np.testing.assert_array_equal(posterior.predict(x, runner=aw.Ray()).mean, posterior.predict(x).mean)
    assert len(lost) == 3
    lost.clear()
    monkeypatch.setattr("anchorwalk.run.runners.ray.AGAIN", 2)
    with pytest.raises(WorkerLost, match="3 workers were lost"):
        posterior.predict(x, runner=aw.Ray())


def test_a_killed_worker_costs_one_call(two_workers, tmp_path):
    plan, killed = small_plan(3, members=100), []

    def strike(report):
        if report.members_done > 20 and not killed:
            killed.extend(pid for pid in workers(os.getpid()) if kill(pid))

    found = run(plan, aw.Ray(lanes=1), store=tmp_path, callbacks=[strike])
    assert killed
    assert same(found, run(plan, aw.Local(lanes=1)))
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert {event["event"] for event in events} == {"sent again"}
    assert all("died" in loss for event in events for loss in event["losses"])


def test_a_chain_whose_workers_die_again_and_again_is_given_up(two_workers, tmp_path, monkeypatch):
    plan, once, tries = small_plan(3, members=3), RaySession._once, []

    def dying(session, job):
        if 1 in job.chains and job.number == 1:
            tries.append(job.number)
            raise ray.exceptions.WorkerCrashedError
        return once(session, job._replace(more=()))

    with monkeypatch.context() as patch:
        patch.setattr(RaySession, "_once", dying)
        with pytest.warns(LostChainsWarning, match=r"chain 1 given up: 4 workers were lost"):
            found = run(plan, aw.Ray(lanes=1), store=tmp_path)
    assert len(tries) == 4
    assert not found.complete
    assert [(i.chain, i.index) for i in found.infos] == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2)]
    (event,) = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert (event["event"], event["chains"], event["call"], len(event["losses"])) == ("given up", [1], 1, 4)
    assert maintenance.summarize(tmp_path).given_up == (1,)
    assert same(run(plan, aw.Ray(lanes=1), store=tmp_path), run(plan, aw.Local(lanes=1)))  # the same call goes on
    assert maintenance.summarize(tmp_path).given_up == ()


def test_a_run_of_which_nothing_is_left_is_an_error(two_workers, monkeypatch):
    def dying(session, job):
        raise ray.exceptions.OutOfMemoryError("memory on the node was short")

    monkeypatch.setattr(RaySession, "_once", dying)
    with pytest.raises(WorkerLost, match="4 workers were lost with the same call: OutOfMemoryError: memory"):
        run(small_plan(2), aw.Ray())


@pytest.mark.slow
def test_states_that_a_node_took_with_it_are_sent_from_here(two_workers, monkeypatch):
    once, lost = RaySession._once, []

    def forgetful(session, job):
        if hasattr(job.states, "reference") and not lost:
            lost.append(job.number)
            raise ray.exceptions.ObjectLostError("0" * 56, "127.0.0.1", "call")
        return once(session, job)

    monkeypatch.setattr(RaySession, "_once", forgetful)
    found = run(small_plan(2, members=40), aw.Ray(lanes=2))
    assert lost
    assert same(found, run(small_plan(2, members=40), aw.Local(lanes=2)))


def test_what_ray_could_not_bring_to_a_task_is_no_error_of_the_work():
    """A task runs without it, and its error comes as one of the task."""
    missing = ray.exceptions.ObjectLostError("0" * 56, "127.0.0.1", "call")
    for error in (missing, ray.exceptions.RayTaskError("carry_out", "its trace", missing)):
        assert _loss(ray, error).startswith("ObjectLostError: Failed to retrieve object 0000")
    with pytest.raises(ZeroDivisionError):
        _loss(ray, ray.exceptions.RayTaskError("carry_out", "its trace", ZeroDivisionError()))


def test_no_job_is_left_without_an_answer(two_workers, monkeypatch):
    """Where the cluster cannot even be asked for its nodes, the run ends with that error."""
    plan, problem = small_plan(2), small_problem()
    with aw.Ray().open(plan.method, problem, aw.Ray().layout(problem, 2, 1.0, None), 2) as session:
        monkeypatch.setattr(RaySession, "slots", property(lambda _: 1 / 0))
        with pytest.raises(ZeroDivisionError):
            session.submit(None).result(timeout=10)


def test_what_is_sent_while_a_session_closes_is_cancelled():
    cancelled, session = [], object.__new__(RaySession)
    task = SimpleNamespace(remote=lambda *_: ["last", "found"])

    def get(_):
        raise ray.exceptions.TaskCancelledError

    session._ray = SimpleNamespace(
        get=get, cancel=lambda reference, force: cancelled.append((reference, force)), exceptions=ray.exceptions
    )
    session._task, session._name, session._shared, session._layout = task, "run", [], None
    session._ready, session._sent, session._closing = threading.Condition(), set(), True
    (call,) = small_plan().method.calls(small_problem(), 1)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        session._once(Job(call, 0, KEY, np.zeros(1, np.uint32), np.zeros(1, np.uint32), None))
    assert cancelled == [("last", True)]


def test_a_method_of_the_users_script(two_workers):
    """Its class is not to be imported on workers, and comes there as code."""

    @tree.node()
    @dataclasses.dataclass(frozen=True)
    class Counting:
        first: float

        def prepare(self, key, problem):
            return problem

        def calls(self, problem, members):
            for _ in range(members):
                yield aw.Call("count")

        def start(self, keys, problem, attempt):
            return jnp.zeros(3) + self.first

        def step(self, keys, problem, state, call, number):
            return state + 1, aw.Draws({"w": state[None]}, jnp.zeros((1, 0)), jnp.ones(1, bool), {})

    problem = LinearGaussian().problem
    found = aw.sample(KEY, problem, aw.Plan(Counting(0.5), chains=2, members=3), runner=aw.Ray(), callbacks=[])
    assert [float(member.params["w"][0]) for member in found] == [0.5, 1.5, 2.5] * 2
    registered = jax.tree_util.register_dataclass(type("Mine", (Counting,), {}), ["first"], [])
    with pytest.raises(InvalidInput, match="the class Mine, a pytree in your script only, expected one that workers"):
        aw.sample(KEY, problem, aw.Plan(registered(0.5), chains=2), runner=aw.Ray(), callbacks=[])


def test_an_error_of_the_work_is_the_users(two_workers):
    here = os.getpid()

    def apply(params, x):
        if os.getpid() != here:
            raise ZeroDivisionError("not on workers")
        return small_apply(params, x)

    rows = small_problem().data
    problem = aw.Problem(small_init, apply, aw.Normal(scale=0.3), aw.Prior(scale=0.5), data=(rows.x, rows.y))
    with pytest.raises(ZeroDivisionError, match="not on workers"):
        run(small_plan(2), aw.Ray(), problem)


# What is refused, before any work


def test_a_network_that_does_not_pickle_is_named(two_workers):
    lock, rows = threading.Lock(), small_problem().data

    def apply(params, x):
        with lock:
            return small_apply(params, x)

    problem = aw.Problem(small_init, apply, aw.Normal(scale=0.3), aw.Prior(scale=0.5), data=(rows.x, rows.y))
    expected = r"problem\.apply: got what does not pickle, because of its variable 'lock', a lock .*Make it inside"
    with pytest.raises(InvalidInput, match=expected):
        run(small_plan(2), aw.Ray(), problem)


def test_workers_of_another_kind_are_refused_or_asked_for(two_workers, monkeypatch):
    real = cluster.settings
    other = {"version of jax": "0.0.1"}

    def settings(wide, strict):
        found = real(wide, strict)
        return found._replace(machine=found.machine | other)

    monkeypatch.setattr(cluster, "settings", settings)
    with pytest.raises(InvalidInput, match=r"of another kind: version of jax is '[\d.]+', not '0.0.1'.*other_machines"):
        run(small_plan(2), aw.Ray())
    assert len(run(small_plan(2), aw.Ray(other_machines=True))) == 6


def test_a_worker_that_cannot_begin_is_told_of_at_once(two_workers, monkeypatch):
    def apart(parts, given):
        return SimpleNamespace(skeleton=b"cnosuchmodule\nfunction\n.", leaves=[], settings=given)

    monkeypatch.setattr(cluster, "taken_apart", apart)
    with pytest.raises(InvalidInput, match=r"cannot begin \(ModuleNotFoundError.*nosuchmodule.*Install what"):
        run(small_plan(2), aw.Ray())


def test_clusters_that_are_not_there_are_refused(two_workers):
    with pytest.raises(InvalidInput, match=r"resources=\): got {'CPU': 64} of a cluster with {'CPU': 2.0}, expected"):
        run(small_plan(2), aw.Ray(resources={"CPU": 64}))
    with pytest.raises(InvalidInput, match=r"address=\): got '127.0.0.1:9' in a process that works with"):
        run(small_plan(2), aw.Ray(address="127.0.0.1:9"))


def test_an_address_where_something_else_answers(monkeypatch):
    """Ray would try for many minutes."""
    monkeypatch.setattr(cluster, "library", lambda: SimpleNamespace(is_initialized=lambda: False))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with server.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-other\r\n")
                connection.recv(1000)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(InvalidInput, match=r"something else answers there\), expected \"auto\" or the host:port"):
            run(small_plan(2), aw.Ray(address=f"127.0.0.1:{server.getsockname()[1]}"))


def test_the_address_of_a_cluster_answers(two_workers, monkeypatch):
    asked = []
    monkeypatch.setattr(cluster.checks, "reject", lambda *given: asked.append(given))
    cluster._check_answers(ray.get_runtime_context().gcs_address)
    assert asked == []


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nowhere", "ray.invalid:6379"])
def test_an_address_where_nothing_answers(address, monkeypatch):
    monkeypatch.setattr(cluster, "library", lambda: SimpleNamespace(is_initialized=lambda: False))
    with pytest.raises(InvalidInput, match=r"address=\): got .*expected \"auto\" or the host:port.*ray start --head"):
        run(small_plan(2), aw.Ray(address=address))


def test_a_cluster_of_this_machine_that_has_died(monkeypatch):
    monkeypatch.setattr(cluster, "library", lambda: SimpleNamespace(is_initialized=lambda: False))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(
        InvalidInput, match=r"address=\): got 'auto', here [\d.]+:9 \(.*\), expected .auto. or the host:port"
    ):
        run(small_plan(2), aw.Ray(address="auto"))


def test_no_cluster_of_this_machine(monkeypatch):
    def init(**_):
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setattr(cluster, "library", lambda: SimpleNamespace(is_initialized=lambda: False, init=init))
    monkeypatch.setattr(cluster, "_meant_by_auto", lambda: None)
    with pytest.raises(InvalidInput, match=r"got 'auto' \(Could not find any.*expected a Ray cluster that runs"):
        run(small_plan(2), aw.Ray(address="auto"))


def test_arguments_are_checked():
    with pytest.raises(InvalidInput, match=r"Ray\(address=\): got 6379"):
        aw.Ray(address=6379)
    with pytest.raises(InvalidInput, match=r"Ray\(workers=\): got 0"):
        aw.Ray(workers=0)
    with pytest.raises(InvalidInput, match=r"Ray\(resources=\): got {'CPU': 0}, expected amounts by name"):
        aw.Ray(resources={"CPU": 0})
    with pytest.raises(InvalidInput, match="no negative amounts"):
        aw.Ray(resources={"CPU": 1, "GPU": -1})


def test_a_cluster_of_this_machine_has_room_for_all_workers(monkeypatch):
    started = []

    class Enough(Exception):
        pass

    def init(**options):
        started.append(options["num_cpus"])
        raise Enough

    monkeypatch.setattr(cluster, "library", lambda: SimpleNamespace(is_initialized=lambda: False, init=init))
    for runner in (aw.Ray(workers=3), aw.Ray(workers=3, resources={"CPU": 2}), aw.Ray(workers=3, resources={"GPU": 1})):
        with pytest.raises(Enough):
            run(small_plan(2), runner)
    assert started == [3, 6, 1]


def test_workers_with_other_cores_are_refused_where_programs_use_several(monkeypatch):
    here = layout.cores()
    monkeypatch.setattr(worker, "cores", lambda: here + 1)
    assert worker.differences(cluster.settings(wide=False, strict=True)) == []
    assert worker.differences(cluster.settings(wide=True, strict=True)) == [f"threads is {here + 1}, not {here}"]


def test_a_look_at_a_gpu_wants_one_and_nobody_waits_for_a_busy_node():
    wanted, cancelled = [], []

    class Function:
        def options(self, num_cpus, num_gpus, **_):
            wanted.append((num_cpus, num_gpus))
            return self

        def remote(self, *_):
            return f"look {len(wanted)}"

    def wait(references, num_returns, timeout):
        assert (num_returns, timeout) == (2, cluster.LONGEST_LOOK)
        return references[:1], references[1:]

    node = {"Alive": True, "NodeID": "0" * 56, "NodeManagerHostname": "there", "Resources": {"CPU": 4.0, "GPU": 1.0}}
    there = SimpleNamespace(
        nodes=lambda: [node, node],
        remote=lambda _: Function(),
        wait=wait,
        get=lambda reference: [],
        cancel=cancelled.append,
        exceptions=ray.exceptions,
        util=ray.util,
    )
    shared = worker.Shared(b"", [], cluster.settings(wide=False, strict=True))
    cluster.check_workers(there, {"CPU": 2, "GPU": 1}, shared)
    cluster.check_workers(there, {"CPU": 2}, shared)
    assert wanted == [(0, 1), (0, 1), (0, 0), (0, 0)]
    assert cancelled == ["look 2", "look 4"]


def test_places_are_those_of_single_nodes():
    nodes = [
        {"Alive": True, "Resources": {"CPU": 3.0, "GPU": 1.0}},
        {"Alive": True, "Resources": {"CPU": 8.0}},
        {"Alive": False, "Resources": {"CPU": 64.0}},
    ]
    there = SimpleNamespace(nodes=lambda: nodes)
    assert cluster.places(there, {"CPU": 2}) == 1 + 4
    assert cluster.places(there, {"CPU": 2, "GPU": 0.5}) == 1
    assert cluster.places(there, {"CPU": 9}) == 0


def test_what_travels_keeps_its_types():
    """A number of no firm type would take the type of what it meets, and programs would be others."""
    weak, firm = jnp.asarray(0.5), jnp.asarray(np.float32(0.5))
    assert isinstance(cluster._on_host(weak), float)
    assert cluster._on_host(firm).dtype == np.float32
    assert cluster._on_host(3) == 3
    assert layout.cores() >= 1
