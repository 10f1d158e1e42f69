"""What the parts of a report are made of, before they become a page."""

from dataclasses import dataclass, field

from anchorwalk.app.report.style import Picture


@dataclass(frozen=True)
class Table:
    """A table as text.

    Attributes:
        head: Names of its columns.
        rows: Its cells.
        note: A sentence under it.
        words: Numbers of columns that hold words, not numbers.
        lines: Whether words may take several lines; else a narrow page scrolls.
    """

    head: list[str]
    rows: list[list[str]]
    note: str = ""
    words: tuple[int, ...] = ()
    lines: bool = False


@dataclass(frozen=True)
class Evidence:
    """How predictions did on rows whose truth is known.

    Attributes:
        intervals: Whether it is on intervals, or on the probability of the predicted class.
        promised: The share of rows that should hold the truth, or be right.
        held: The number of rows that do.
        rows: The number of all.
        instead: The coverage whose intervals hold what is promised, where that is another one.
        whole: Whether targets are counts, whose intervals hold more than they promise.
        constant_noise: Whether all rows have the same noise.
    """

    intervals: bool
    promised: float
    held: int
    rows: int
    instead: float | None = None
    whole: bool = False
    constant_noise: bool = False


@dataclass(frozen=True)
class Section:
    """What a report says of predictions.

    Attributes:
        intro: What is shown, on which rows.
        tiles: The few numbers that matter most: label, value, remark.
        scores: The scores, where the truth is known.
        pictures: The figures.
        rows: The most uncertain rows.
        evidence: How predictions did, where the truth is known.
    """

    intro: str
    tiles: list[tuple[str, str, str]] = field(default_factory=list)
    scores: Table | None = None
    pictures: list[Picture] = field(default_factory=list)
    rows: Table | None = None
    evidence: Evidence | None = None
