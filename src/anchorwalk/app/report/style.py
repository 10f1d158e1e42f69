"""Inks, sizes and formats of the report's figures: one drawing for files, and for a page that is light or dark."""

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from anchorwalk import checks
from anchorwalk.app.report.formatting import plain

GROUND, INK, MUTED, GRID = "#ffffff", "#1f2933", "#66727f", "#dde2e8"
BLUE, ORANGE, GREEN, PURPLE, BAND = "#0072b2", "#d55e00", "#008f68", "#b0568a", "#a9cbe6"
LIGHT = {
    "ground": GROUND,
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "blue": BLUE,
    "orange": ORANGE,
    "green": GREEN,
    "purple": PURPLE,
    "band": BAND,
}
"""Inks by name, on light ground. Blue and orange differ to every kind of eye, in light and in dark."""
DARK = {
    "ground": "#1b2027",
    "ink": "#e7eaee",
    "muted": "#9aa5b1",
    "grid": "#343c46",
    "blue": "#5ab4ea",
    "orange": "#ff9850",
    "green": "#3cc79c",
    "purple": "#e29fc4",
    "band": "#35607f",
}
"""The same inks on dark ground."""
CHAINS = (BLUE, ORANGE, GREEN, PURPLE)
"""Inks of chains that are drawn by themselves."""
SIZE = (4.9, 3.3)
"""Inches: small enough that letters can be read where a phone shrinks the figure to its width."""
LETTERS = 60
"""Letters that a line of keys has room for, with six for the sign and the space of each key."""
DPI = 160
SETTINGS = {
    "font.size": 10.3,
    "axes.labelsize": 10.3,
    "legend.fontsize": 9.3,
    "xtick.labelsize": 9.3,
    "ytick.labelsize": 9.3,
    "text.color": INK,
    "text.parse_math": False,  # a name such as "$x" is a name
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.1,
    "legend.handletextpad": 0.5,
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "anchorwalk",
}
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    Attributes:
        name: Of its files, without their ending.
        heading: What it shows.
        caption: How to read it, and what it says here.
        svg: For the page: inks by name, sizes by the page.
        files: Content of its files, by their ending.
    """

    name: str
    heading: str
    caption: str
    svg: str
    files: dict[str, bytes]


def draw(name: str, heading: str, caption: str, body: Callable[[Any], None]) -> Picture:
    """Make a picture by a function that draws on a matplotlib Figure.

    Raises:
        InvalidInput: Where matplotlib is not installed.
    """
    matplotlib = require()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # so that a user's own style does not reach into the report
        matplotlib.rcParams.update(SETTINGS)
        # A name in a script that matplotlib's font lacks: the page's own fonts have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure = Figure(figsize=SIZE, layout="constrained")
        body(figure)
        files = {"svg": _saved(figure, format="svg", metadata={"Date": None, "Creator": "anchorwalk"})}
        figure.set_layout_engine("none")  # it is laid out: once is enough
        files["png"] = _saved(figure, format="png", dpi=DPI)
    return Picture(name, heading, caption, inline(files["svg"], name, heading), files)


def require() -> Any:
    """Import matplotlib.

    Raises:
        InvalidInput: Where it is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        checks.reject("report", "no matplotlib", "it for the figures", "pip install 'anchorwalk[plot]'.")
    return matplotlib


def _saved(figure: Any, **options: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, facecolor=GROUND, **options)
    return content.getvalue()


def legend(figure: Any, axis: Any) -> None:
    """A line of keys above the axes, where it covers nothing."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        one_line = sum(len(label) + 6 for label in labels) <= LETTERS
        columns = len(labels) if one_line else -(-len(labels) // 2)
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, borderaxespad=0.2)


def log_axis(axis: Any, which: str) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axis, f"set_{which}scale")("log")
    one = getattr(axis, f"{which}axis")
    one.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
    one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    one.set_minor_formatter(NullFormatter())


def inline(svg: bytes, name: str, label: str) -> str:
    """An SVG file as an element of a page: its inks by name, its letters the page's, its ids its own."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            # A style element would reach over the whole page.
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    inks = {value: f"var(--{ink})" for ink, value in LIGHT.items()}
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                value = f"{name}-{value}"
            value = re.sub(r"url\(#", f"url(#{name}-", value)
            if key in ("href", f"{{{_LINK}}}href") and value.startswith("#"):
                value = f"#{name}-{value[1:]}"
            if key == "style":
                value = re.sub(r"#[0-9a-f]{6}", lambda found: inks.get(found[0], found[0]), value)
                value = re.sub(r"font:[^;]*?([\d.]+px)[^;]*", r"font-size: \1", value)
            element.set(key, value)
    for key in ("width", "height"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", plain(label))
    return ElementTree.tostring(root, encoding="unicode")
