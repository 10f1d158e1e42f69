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
class Section:
    """What a report says of predictions.

    Attributes:
        intro: What is shown, on which rows.
        tiles: The few numbers that matter most: label, value, remark.
        scores: The scores, where the truth is known.
        pictures: The figures.
        rows: The most uncertain rows.
    """

    intro: str
    tiles: list[tuple[str, str, str]] = field(default_factory=list)
    scores: Table | None = None
    pictures: list[Picture] = field(default_factory=list)
    rows: Table | None = None
