"""The parts of docs/paper_plans.md that speak of tasks of classes: DermaMNIST, and SAE at AE's agreement."""

import itertools
from statistics import median

from anchorwalk.benchmark.paper import BUDGETS, FIGURES
from anchorwalk.benchmark.tasks import Variant
from pages import METHODS, PARTS, middle, shown, study_of, table

PAPER = {name: METHODS[name] for name in ("ae", "sae")}
"""Methods whose plans the paper gives."""
SCORED = ("agreement", "total_variation")
STANDARDISED, RAW = Variant(pixels="standardised"), Variant(pixels="raw")
DERMA = {
    "pixels 0 to 1": ("argmin", Variant()),
    "pixels 0 to 1, authors' protocol": ("authors", Variant()),
    "standardised": ("argmin", STANDARDISED),
    "pixels 0 to 255": ("argmin", RAW),
    "pixels 0 to 255, authors' protocol": ("authors", RAW),
}
"""Ways to run dermamnist: protocol and variant."""
OURS = "ours"
AS_AUTHORS = f"{OURS}, pixels 0 to 255, authors' protocol"
EQUAL_HEADS = ["task", "budget", "SAE's agreement", "SAE's TV", "AE's TV at that agreement", "difference"]


def derma(found, method, budget, variant=None):
    """Median agreement and total variation, or None."""
    values = [middle(found.values("dermamnist", method, budget, name, variant)) for name in SCORED]
    return None if values[0] is None else values


def both(point):
    """Agreement and total variation as the page writes them."""
    return f"{point[0]:.3f}/{point[1]:.3f}"


def in_the_paper(method, budget):
    return [FIGURES["dermamnist", method, budget, name].median for name in SCORED]


def cells_of(*ways):
    """Where all of some ways were run: method, budget and the points of the ways."""
    for method in PAPER:
        for budget in BUDGETS:
            points = [way(method, budget) for way in ways]
            if all(points):
                yield method, budget, points


def as_good(one, other):
    """Whether a point is at least as good as another in both scores."""
    return one[0] >= other[0] and one[1] <= other[1]


def counted(one, other):
    """In how many cells one way is at least as good as another in both scores."""
    found = [as_good(*points) for _, _, points in cells_of(one, other)]
    return f"{sum(found)} of {len(found)}"


def beside_the_paper(ours):
    """Where our medians are as good as the paper's."""
    places = {True: [], False: []}
    for method, budget, points in cells_of(ours, in_the_paper):
        places[as_good(*points)].append(f"{PAPER[method]} at {budget:,}")
    return (
        f"These are at least as good as the paper in both scores: {', '.join(places[True]) or 'none'}. "
        f"These are behind the paper in one or both: {', '.join(places[False]) or 'none'}."
    )


def rise(way):
    """By how much agreement changes from 200 to 1000 epochs."""
    first, last = ([way(method, budget)[0] for method in PAPER] for budget in (200, 1000))
    rises = [f"{b - a:+.3f} for {PAPER[method]}" for method, a, b in zip(PAPER, first, last, strict=True)]
    return " and ".join(rises)


def within_the_paper(way):
    """How many scores of a way lie between the least and the greatest of the paper's runs, and how far others are."""
    parts, farthest = [], 0.0
    for place, score in enumerate(SCORED):
        beyond = []
        for method, budget, (point,) in cells_of(way):
            figure = FIGURES["dermamnist", method, budget, score]
            low, high = figure.median - figure.below, figure.median + figure.above
            beyond.append(max(low - point[place], point[place] - high, 0.0))
        inside = sum(value < 5e-4 for value in beyond)
        parts.append(f"for {score.replace('_', ' ')} in {inside} of {len(beyond)} cells")
        farthest = max(farthest, *beyond)
    return f"{' and '.join(parts)}. The farthest score is {farthest:.3f} outside"


def derma_ways(tables):
    """What the page says of scalings and protocols."""

    def way(name):
        protocol, variant = DERMA[name]
        return lambda method, budget: derma(tables[protocol], method, budget, variant)

    ours, as_authors = way("pixels 0 to 1"), way("pixels 0 to 255, authors' protocol")
    return {
        "DERMA_WORDS": beside_the_paper(ours),
        "RISE_PAPER": rise(in_the_paper),
        "RISE_OURS": rise(ours),
        "RISE_AS_AUTHORS": rise(as_authors),
        "DERMA_WITHIN": within_the_paper(as_authors),
        "KEPT": counted(as_authors, way("pixels 0 to 255")),
        "PROTOCOL_ALONE": counted(way("pixels 0 to 1, authors' protocol"), ours),
        "RAW_ALONE": counted(way("pixels 0 to 255"), in_the_paper),
        "STANDARDISED_ALONE": counted(way("standardised"), in_the_paper),
    }


def equal_words(rows):
    """How often SAE's total variation is the lower one, in the paper's figures and in ours."""

    def lower(own):
        differences = [float(row[-1]) for row in rows if row[-1] and (OURS in row[0]) == own]
        count = sum(value < 0 for value in differences)
        return f"{count} of {len(differences)}", f"{-median(differences):.3f}"

    (paper, by), (ours, ours_by) = lower(False), lower(True)
    return {"EQUAL_PAPER": paper, "EQUAL_BY": by, "EQUAL_OURS": ours, "EQUAL_OURS_BY": ours_by}


def derma_table(tables):
    """Agreement and total variation by way, and the paper's."""
    rows = []
    for budget in BUDGETS:
        for method, title in PAPER.items():
            points = [derma(tables[protocol], method, budget, variant) for protocol, variant in DERMA.values()]
            if any(points):
                cells = [both(point) if point else "" for point in (*points, in_the_paper(method, budget))]
                rows.append([f"{budget:,}", title, *cells])
    return table(["budget", "method", *DERMA, "paper"], rows)


def derma_scores(tables):
    """The other scores."""
    rows = []
    for budget in BUDGETS:
        for method, title in PAPER.items():
            for words, (protocol, variant) in DERMA.items():
                names = ("accuracy", "nll", "confidence")
                cells = [tables[protocol].values("dermamnist", method, budget, name, variant) for name in names]
                if cells[0]:
                    medians = [shown(middle(cell)) for cell in cells]
                    rows.append([f"{budget:,}", title, words, f"{len(cells[0])}", *medians])
    return table(["budget", "method", "images and protocol", "runs", "accuracy", "NLL", "mean top probability"], rows)


def derma_study():
    """SAE's steps and AE at 200 epochs, scores and what is inside a run."""
    record = study_of("dermamnist")
    rows = []
    for place, runs in record["cells"].items():
        name = place.split(",")[0]
        scores = [shown(middle([one[part] for one in runs])) for part in (*SCORED, "nll", "confidence")]
        parts = [shown(middle([one[part] for one in record["inside"][place]])) for part in PARTS]
        rows.append(["AE" if name == "ae" else f"SAE, step {name.split()[1]}", *scores, *parts])
    heads = ["200 epochs", "agreement", "TV", "NLL", "mean top probability", "loss, first", "loss, later"]
    return table([*heads, "spread within chains", "between"], rows)


def derma_pixels():
    """What images that are a little off would change for AE."""
    record = study_of("dermamnist")
    plain, levels = record["cells"]["ae, 200"][0], record["pixels"]["ae, 200"][0]
    noisy = [both([scores[name] for name in SCORED]) for scores in levels.values()]
    return (
        f"AE at 200 epochs has {both([plain[name] for name in SCORED])} without noise. "
        f"With noise of {', '.join(levels)} levels of 255 it has {', '.join(noisy)}."
    )


def equal_agreement(tables):
    """Rows of the table: SAE's total variation less that of AE at the same agreement, read between AE's own points."""
    rows = []
    for task in ("cifar10", "cifar10c", "imdb", "dermamnist"):
        line = sorted(tuple(FIGURES[task, "ae", b, name].median for name in SCORED) for b in BUDGETS)
        rows += _differences(f"{task}, paper", line, {b: _paper(task, b) for b in BUDGETS})
    for words, found, variant in ((OURS, tables["argmin"], None), (AS_AUTHORS, tables["authors"], RAW)):
        ae, sae = ({budget: derma(found, method, budget, variant) for budget in BUDGETS} for method in ("ae", "sae"))
        line = sorted(tuple(point) for point in ae.values() if point)
        rows += _differences(f"dermamnist, {words}", line, {budget: point for budget, point in sae.items() if point})
    return rows


def imdb_words(found):
    """Our AE and SAE on imdb, where a single budget was run."""
    ae, sae = ([middle(found.values("imdb", method, 200, name)) for name in SCORED] for method in ("ae", "sae"))
    paper = [FIGURES["imdb", "sae", 200, name].median - FIGURES["imdb", "ae", 200, name].median for name in SCORED]
    return (
        f"There SAE has {both(sae)} and AE {both(ae)}. SAE less AE is {sae[0] - ae[0]:+.3f} in agreement and "
        f"{sae[1] - ae[1]:+.3f} in total variation. In the paper these are {paper[0]:+.3f} and {paper[1]:+.3f}."
    )


def _paper(task, budget):
    return tuple(FIGURES[task, "sae", budget, name].median for name in SCORED)


def _differences(title, line, points):
    """Linear between AE's points; nothing is said beyond them."""
    rows = []
    for budget, (agreement, variation) in points.items():
        there = None
        for (a, ta), (b, tb) in itertools.pairwise(line):
            if a <= agreement <= b and b > a:
                there = ta + (tb - ta) * (agreement - a) / (b - a)
        shown_there = "beyond AE's points" if there is None else shown(there)
        difference = "" if there is None else f"{variation - there:+.3f}"
        rows.append([title, f"{budget:,}", shown(agreement), shown(variation), shown_there, difference])
    return rows


def parts(tables):
    """What the page's template asks for, by the tables of each protocol."""
    rows = equal_agreement(tables)
    return {
        "DERMA": derma_table(tables),
        "DERMA_SCORES": derma_scores(tables),
        **derma_ways(tables),
        "DERMA_STUDY": derma_study(),
        "DERMA_PIXELS": derma_pixels(),
        "EQUAL": table(EQUAL_HEADS, rows),
        **equal_words(rows),
        "IMDB": imdb_words(tables["argmin"]),
    }
