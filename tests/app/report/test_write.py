"""The report as files: what it holds, what it escapes, and what it is made from."""

import dataclasses
import re
import sys
import warnings
from html.parser import HTMLParser
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.app import report
from anchorwalk.app.report import style, training
from anchorwalk.app.report.run import read
from anchorwalk.errors import InvalidInput, OtherNetworkWarning
from anchorwalk.methods.base import Draws
from anchorwalk.run.store import Like, MemoryStore, Round
from helpers import ABOUT, made_up_run, small_apply, small_init, small_problem
from stored import rewritten

pytestmark = pytest.mark.slow

TRAINING = aw.Training(aw.Adam(0.01), epochs=1, batch_size=7)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\x00 & \"'$\\frac{ 高さ"


def scaled(w, x):
    """Outputs of any shape: the rows' first column times the parameters, plus the second."""
    return x[:, 0].reshape(-1, *(1,) * w.ndim) * w + x[:, 1].reshape(-1, *(1,) * w.ndim)


def members(shape, n=5, seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=shape), jnp.float32) for _ in range(n)]


def posterior_of(params, apply, likelihood, method=None):
    """A posterior of given members, one chain each, as if an ensemble had been trained for one epoch."""
    method = aw.AE(TRAINING) if method is None else method
    store = MemoryStore()
    store.begin({}, Like(params[0], ()), {**ABOUT, "method": {**method.to_json(), "title": method.title}}, {})
    for chain, one in enumerate(params):
        draws = Draws(
            np.asarray(one)[None, None], np.zeros((1, 1, 1)), np.ones((1, 1), bool), {"loss_end": np.zeros((1, 1))}
        )
        store.commit(Round((chain,), 0, "train", 0, 0, draws, np.zeros((1, 1), int), 0.25, ()))
    return aw.Posterior(store, apply, likelihood, tuple(store.infos()), {}, True)


def rows(n=40, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 2))


class Reader(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(page)
        self.words = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        self.text.append(data)


def written(tmp_path, posterior, data=None, **options):
    paths = report.write(posterior, tmp_path / "out", data, **options)
    page = paths.page.read_text()
    reader = Reader(page)
    names = [value for name, value in reader.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {path.stem for path in paths.figures} == {
        picture for picture in FIGURES if f'<figure id="{picture}"' in page
    }
    for path in paths.figures:
        if path.suffix == ".png":
            assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        else:
            assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")
    assert reader.tags.count("svg") == len(paths.figures) // 2
    assert not {"script", "img", "iframe", "object", "embed"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert not re.search(r"\bnan\b|not a number|None", reader.words), reader.words
    return page, reader, {path.stem for path in paths.figures}


@pytest.fixture
def whole():
    """For the test that looks at PNG files: all others draw SVG alone, which is what the page is made of."""


@pytest.fixture(autouse=True)
def svg_alone(request, monkeypatch):
    if "whole" not in request.fixturenames:
        save = style._saved
        png = b"\x89PNG\r\n\x1a\n"
        monkeypatch.setattr(
            style,
            "_saved",
            lambda figure, format, **options: png if format == "png" else save(figure, format=format, **options),
        )


FIGURES = {"calibration", "confusion", "losses", "members", "parts", "predictions", "walk"}


def said_of(walk):
    return {**aw.SAE(TRAINING, TRAINING, walk).to_json(), "title": aw.SAE.title}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A stored run that nobody trained, which costs nothing."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    made_up_run(folder, jax.eval_shape(small_init, jax.random.key(0)), [(0, 1, 2)], 12)
    rewritten(folder, lambda content: content["about"].update(method=said_of(aw.GuidedWalk(step_size=0.1))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OtherNetworkWarning)
        return aw.load(folder, small_apply)


def changed(posterior, **options):
    return dataclasses.replace(posterior, **options)


def test_all_files_are_there(run, tmp_path, whole):
    _, _, figures = written(tmp_path, run, report.ReportData(rows(), rows()[:, 1]))
    assert figures == FIGURES - {"confusion"}


def test_the_page_asks_for_nothing(run, tmp_path):
    page, reader, _ = written(tmp_path, run, report.ReportData(rows(8)))
    addresses = [value for name, value in reader.attributes if name in ("src", "href", "xlink:href", "srcset", "data")]
    assert addresses
    assert all(value.startswith("#") or value == "data:," for value in addresses)
    assert not re.search(r"url\((?!#)|@import|@font-face", page)
    assert "default-src 'none'" in page  # and a browser would refuse


def test_figures_take_their_inks_from_the_page(run, tmp_path):
    page, _, _ = written(tmp_path, run, report.ReportData(rows(8)))
    body = page[page.index("<body>") :]
    assert not set(re.findall(r"#[0-9a-f]{6}", body))  # every ink has a name
    assert "prefers-color-scheme: dark" in page
    for name, value in style.DARK.items():
        assert f"--{name}: {value};" in page
        assert f"--{name}: {style.LIGHT[name]};" in page
    assert "font:" not in body


def test_names_are_escaped(tmp_path):
    posterior = posterior_of(members((2,)), scaled, aw.Categorical())
    data = report.ReportData(rows(), np.arange(40) % 2, [HOSTILE, "b"], target=HOSTILE, classes=[HOSTILE, "c"])
    page, reader, _ = written(tmp_path, posterior, data, title=HOSTILE)
    shown = HOSTILE.replace("\x00", "")
    assert shown[:30] in reader.words  # as text
    assert "<script" not in page
    assert "<img" not in page
    assert "\x00" not in page


def test_hostile_names_of_targets_and_units_in_figures(tmp_path):
    posterior = posterior_of(members(()), scaled, aw.Normal(scale=0.5))
    _, reader, figures = written(tmp_path, posterior, report.ReportData(rows(), rows()[:, 1], target=HOSTILE))
    assert "predictions" in figures
    assert "<script>alert(1)</script>" in reader.words


LIKELIHOODS = {
    "normal": (aw.Normal(scale=0.5), (), lambda x: x[:, 1]),
    "heteroscedastic": (aw.HeteroscedasticNormal(), (2,), lambda x: x[:, 1]),
    "poisson": (aw.Poisson(), (), lambda x: np.round(np.exp(x[:, 1]))),
    "bernoulli": (aw.Bernoulli(), (), lambda x: (x[:, 1] > 0).astype(int)),
    "categorical": (aw.Categorical(), (3,), lambda x: np.arange(len(x)) % 3),
    "many classes": (aw.Categorical(), (20,), lambda x: np.arange(len(x)) % 20),
    "two numbers": (aw.Normal(scale=0.5), (2,), lambda x: np.stack([x[:, 1]] * 2, 1)),
    "two classes": (aw.Categorical(), (2, 4), lambda x: np.stack([np.arange(len(x)) % 4] * 2, 1)),
}


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "normal"])
def test_every_likelihood_with_truth(name, tmp_path):
    likelihood, shape, truth = LIKELIHOODS[name]
    posterior = posterior_of(members(shape), scaled, likelihood)
    _, reader, figures = written(tmp_path, posterior, report.ReportData(rows(), truth(rows())))
    expected = {"calibration", "predictions", "parts", "losses"}
    if name in ("bernoulli", "categorical", "two classes"):
        expected.add("confusion")
    assert figures == expected
    assert ("of which the figures show “target 0”" in reader.words) == name.startswith("two")
    assert "Negative log-likelihood" in reader.words
    assert "Anchored ensemble" in reader.words


@pytest.mark.parametrize("name", ["normal", "two classes"])
def test_every_kind_without_truth_and_of_one_row(name, tmp_path):
    likelihood, shape, truth = LIKELIHOODS[name]
    posterior = posterior_of(members(shape), scaled, likelihood)
    _, reader, figures = written(tmp_path / "x only", posterior, report.ReportData(rows(1)))
    assert figures == {"predictions", "parts", "losses"}
    assert "Scores" not in reader.words
    _, reader, figures = written(tmp_path / "one row", posterior, report.ReportData(rows(1), truth(rows(1))))
    assert "calibration" in figures
    assert re.search(r"of 1 row; 95% range", reader.words)


def test_without_data(run, tmp_path):
    _, reader, figures = written(tmp_path, run, title="Only training")
    assert figures == {"losses", "members", "walk"}
    assert "Only training" in reader.words
    assert "Predictions" not in reader.words


def test_one_member_and_constant_targets(tmp_path):
    posterior = posterior_of(members((), 1), scaled, aw.Normal(scale=0.5))
    _, reader, figures = written(tmp_path, posterior, report.ReportData(rows(), np.zeros(40)))
    assert figures == {"calibration", "predictions", "losses"}  # nothing to disagree on
    assert "1 (1 chain of 1 member)" in reader.words


def test_one_member_of_a_classifier_that_is_always_right(tmp_path):
    posterior = posterior_of([jnp.asarray([50.0, 0.0])], scaled, aw.Categorical())
    x = np.ones((6, 2))
    _, reader, figures = written(tmp_path, posterior, report.ReportData(x, np.zeros(6, int)))
    assert figures == {"calibration", "predictions", "confusion", "losses"}
    assert "100% (6 of 6 rows; 95% range 61% to 100%)" in reader.words
    assert "Nothing is confused." in reader.words


def test_many_rows_are_thinned_and_it_is_said(tmp_path):
    posterior = posterior_of(members((2,), 3), scaled, aw.HeteroscedasticNormal())
    x = rows(10_000)
    page, reader, _ = written(tmp_path, posterior, report.ReportData(x, x[:, 1]))
    assert "Drawn are 150 of 10,000 rows, evenly spaced." in reader.words
    assert "Drawn are 1,000 of 10,000 rows, evenly spaced." in reader.words
    assert len(page) < 600_000


@pytest.mark.parametrize("n", [500, pytest.param(3000, marks=pytest.mark.slow)])
def test_many_members(tmp_path, n):
    posterior = posterior_of(members((), n), scaled, aw.Normal(scale=0.5))
    page, reader, _ = written(tmp_path, posterior, report.ReportData(rows(20), rows(20)[:, 1]))
    assert f"band of 20 of {n:,} chains" in reader.words
    assert len(page) < 600_000


def test_rows_that_are_not_finite_are_left_out(tmp_path):
    posterior = posterior_of(members((2,)), scaled, aw.HeteroscedasticNormal())
    x = rows()
    x[3] = [0.0, 3e38]  # whose square is too large
    _, reader, _ = written(tmp_path, posterior, report.ReportData(x, np.ones(40)))
    assert "1 row of 40 with predictions that are not finite are left out" in reader.words
    _, reader, figures = written(tmp_path / "all", posterior, report.ReportData(x[[3]]))
    assert "not finite for any row" in reader.words
    assert figures == {"losses"}


def test_diverged_members_are_told(run, tmp_path):
    infos = tuple(i._replace(status=1) if i.index == 5 and i.chain == 1 else i for i in run.infos)
    _, reader, _ = written(tmp_path, changed(run, infos=infos, complete=False))
    assert "1 of 36 members did not stay finite (in chain 1) and are left out." in reader.words
    assert "ended before its plan was done" in reader.words


def test_a_thinned_posterior_and_some_chains(run):
    thin, some = (dict(read(posterior).facts) for posterior in (run.thin(5), run.select([1, 2]).thin(3)))
    assert thin["Members"] == "9 (3 chains of 11 members)"  # 0, 5 and 10 of each
    assert some["Members"] == "8 (2 chains of 10 members)"
    picture = training.losses(run.thin(5), read(run.thin(5)))
    assert ">10</" in picture.svg
    assert ">9</" not in picture.svg  # which is not there


@pytest.mark.parametrize(
    ("n", "method", "name"),
    [
        (1, aw.MAP(TRAINING), "Maximum a posteriori estimate"),
        (2, aw.DeepEnsemble(TRAINING), "Deep ensemble, without anchors"),
        (2, aw.AE(TRAINING), "Anchored ensemble"),
    ],
)
def test_methods_whose_anchors_do_not_walk(n, method, name):
    found = read(posterior_of(members((), n), scaled, aw.Normal(scale=0.5), method))
    assert found.method == name
    assert "Walk" not in dict(found.facts)
    assert training.anchors(found) is None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mine:
    """A walk of one's own, which the stored run knows by its name alone."""

    step_size: float

    def init(self, key, like):
        return aw.GuidedWalk(0.1).init(key, like)

    def step(self, key, state):
        return aw.GuidedWalk(0.1).step(key, state)


def test_a_walk_of_ones_own_can_be_given(run, monkeypatch):
    monkeypatch.setitem(run._store.manifest.about, "method", said_of(Mine(0.1)))
    found = read(run)
    assert dict(found.facts)["Walk"] == "Mine"
    assert training.anchors(found) is None
    given = read(run, Mine(0.1))
    assert dict(given.facts)["Walk"] == "Mine(step_size=0.1)"
    assert "The run's 36 anchors are worth about" in training.anchors(given).caption


def test_facts_are_those_of_the_run(tmp_path):
    """One that was trained: its settings come from the run's header and from what it says of itself."""
    method = aw.SAE(TRAINING, TRAINING, aw.Rotation(step_size=0.3, refresh=0.1), perturb_targets=True)
    plan = aw.Plan(method, chains=2, members=2)
    posterior = aw.sample(jax.random.key(0), small_problem(), plan, store=tmp_path / "mine", callbacks=[])
    facts = dict(read(posterior).facts)
    assert facts["Method"] == "Sequential anchored ensemble"
    assert facts["Members"] == "4 (2 chains of 2 members)"
    assert facts["Epochs"] == "4 (1 for a first member, 1 for a later one)"
    assert facts["First training"] == facts["Later trainings"]
    assert facts["First training"].startswith("Adam(rate=0.01, ")
    assert facts["Network"] == "33 parameters in 4 arrays"
    assert facts["Prior"] == "normal, standard deviation 0.5"
    assert facts["Walk"] == "Rotation(step_size=0.3, refresh=0.1)"
    assert facts["Perturbed targets"] == "yes"
    assert facts["Training rows"] == "20"
    assert facts["Blocks"] == "1 chain in a program, which may use one core"
    assert facts["Run"].startswith("mine, last written")
    alone = aw.sample(jax.random.key(0), small_problem(), aw.Plan(aw.MAP(TRAINING)), callbacks=[])
    facts = dict(read(alone).facts)
    assert facts["First training"].startswith("Adam(rate=0.01, ")
    assert facts["Epochs"] == "1 (1 for a first member)"
    assert {"Later trainings", "Walk", "Perturbed targets"}.isdisjoint(facts)
    assert facts["Blocks"].endswith("several cores")


def test_methods_without_traces_tell_their_costs_by_their_calls():
    posterior = aw.Posterior.from_members(apply=scaled, likelihood=aw.Normal(scale=0.5), members=members((), 4))
    assert "Epochs" not in dict(read(posterior).facts)
    for calls, words in (
        ([["start", 0, 6, 1], ["warm-up", 0, 33.5, 1], ["draws", 5, 500, 2]], "1,040 in all, as passes"),
        ([["start", 0, 0, 1]], None),
        ([["start", 0, "many", 1]], None),
        ([["start"]], None),
        (3, None),
    ):
        posterior._store._about = {"plan": {"calls": calls}, "method": {"title": "Another"}}
        found = dict(read(posterior).facts).get("Epochs")
        assert found is None if words is None else found.startswith(words)
        assert training.losses(posterior, read(posterior)) is None


def test_failed_chains_are_told(run, tmp_path):
    _, reader, _ = written(tmp_path, changed(run, failed=(3, 4)))
    assert "2 chains had no good first member and cannot be shown." in reader.words


def test_figures_of_a_former_report_go(tmp_path):
    posterior = posterior_of(members(()), scaled, aw.Normal(scale=0.5))
    _, _, before = written(tmp_path, posterior, report.ReportData(rows()))
    other = tmp_path / "out" / "figures" / "mine.png"
    other.write_bytes(b"kept")
    _, _, after = written(tmp_path, posterior)
    assert (before, after) == ({"predictions", "parts", "losses"}, {"losses"})
    assert {path.stem for path in other.parent.iterdir()} == {"losses", "mine"}


def test_a_users_style_does_not_matter(whole):
    import matplotlib

    def body(figure):
        figure.subplots().plot([0, 1], [0, 1], label="a line")

    plain = style.draw("name", "heading", "caption", body)
    with matplotlib.rc_context({"figure.facecolor": "black", "font.size": 30, "axes.grid": False}):
        assert style.draw("name", "heading", "caption", body) == plain
        assert matplotlib.rcParams["font.size"] == 30  # and it is left as it was


X, Y = rows(4), np.zeros(4)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: report.ReportData(X, np.zeros(5)), r"ReportData\(y=\): got shape \(5,\) for 4 rows"),
        (lambda: report.ReportData(np.zeros((0, 2))), r"ReportData\(x=\)"),
        (lambda: report.ReportData(X, names=["a"]), r"ReportData\(names=\): got 1 names"),
        (lambda: report.ReportData(X, names="ab"), r"ReportData\(names=\): got 'ab', expected a list"),
        (lambda: report.ReportData({"a": X, "b": Y}, names=["a", "b"]), r"ReportData\(names=\)"),
        (lambda: report.ReportData(X, scale=0.0), r"ReportData\(scale=\)"),
        (lambda: report.ReportData(X, shift=np.nan), r"ReportData\(shift=\)"),
        (lambda: report.ReportData(X, Y, target=["a", "b"]), r"ReportData\(target=\): got 2 names"),
        (lambda: report.ReportData(X, Y, shown=1), r"ReportData\(shown=\): got 1"),
        (lambda: report.ReportData(X, Y, scale=[1.0, 2.0]), r"ReportData\(scale=, shift=\)"),
        (lambda: report.ReportData(X, Y[:, None]), "shape"),
        (lambda: report.ReportData(X[:, :1]), "report|predict"),
        (lambda: X, "got ndarray, expected report.ReportData"),
    ],
)
def test_data_that_do_not_fit_are_refused(run, tmp_path, data, message):
    with pytest.raises(InvalidInput, match=message):
        report.write(run, tmp_path / "out", data())
    assert not (tmp_path / "out").exists()


def test_other_bad_input_is_refused(run, tmp_path):
    posterior = posterior_of(members((2,)), scaled, aw.Categorical())
    with pytest.raises(InvalidInput, match="got 3 names, expected 2"):
        report.write(posterior, tmp_path, report.ReportData(X, classes=["a", "b", "c"]))
    counts = posterior_of(members(()), scaled, aw.Poisson())
    with pytest.raises(InvalidInput, match="none for counts"):
        report.write(counts, tmp_path, report.ReportData(X, scale=2.0))
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="expected a folder"):
        report.write(run, tmp_path / "file")
    with pytest.raises(InvalidInput, match="a Posterior"):
        report.write(tmp_path, tmp_path)
    with pytest.raises(InvalidInput, match="a text"):
        report.write(run, tmp_path, title=3)
    empty = changed(run, infos=())
    with pytest.raises(InvalidInput, match="without members"):
        report.write(empty, tmp_path)


def test_without_matplotlib_the_extra_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"pip install 'anchorwalk\[plot\]'"):
        report.write(run, tmp_path)
