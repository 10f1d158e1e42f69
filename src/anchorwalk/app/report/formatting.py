"""Numbers in words: what captions and tables of the report are made of."""

import math
import re
from typing import Any

import numpy as np

NORMAL_975 = 1.959963984540054
"""The standard normal's quantile at 0.975."""
MINUS = "\N{MINUS SIGN}"
LONGEST = 60
"""Letters of a user's name that are shown."""


def plain(text: Any, longest: int = LONGEST) -> str:
    r"""A user's text on one line, without control characters, its end left out where it is long.

    Example:
        >>> plain("a\x00b\nc"), plain("abcdef", 4)
        ('ab c', 'abc…')
    """
    # Control characters, halves of surrogate pairs and non-characters are not allowed in XML.
    clean = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "", str(text))
    line = " ".join(clean.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def number(value: Any, digits: int = 3) -> str:
    """A number as people write it, to some significant digits.

    Example:
        >>> number(1234.5), number(0.012345), number(-2.0), number(float("inf")), number(1.5e-9)
        ('1,234', '0.0123', '−2', '∞', '1.5e−09')
    """
    value = float(value)
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-5:
        text = f"{value:.{digits}g}"
    else:
        decimals = 0 if size >= 10**digits else max(0, digits - 1 - math.floor(math.log10(size or 1)))
        text = f"{value:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("0" if text == "-0" else text).replace("-", MINUS)


def percent(share: float) -> str:
    """A share in percent, with a digit after the point where it is close to nothing or all.

    Example:
        >>> percent(0.873), percent(0.9951), percent(0.99999), percent(0.0004)
        ('87%', '99.5%', '99.99%', '0.04%')
    """
    if share in (0.0, 1.0) or 0.02 <= share <= 0.98:
        return f"{100 * share:.0f}%"
    if 0.001 <= share <= 0.999:
        return f"{100 * share:.1f}%"
    return f"{100 * share:.2g}%" if share < 0.5 else f"{math.floor(1e4 * share) / 100:.2f}%"


def count(n: int, one: str, many: str | None = None) -> str:
    """A count and its noun.

    Example:
        >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
        ('1 row', '2,000 rows', '2 classes')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A time in a unit that fits.

    Example:
        >>> duration(0.5), duration(75), duration(90 * 60)
        ('0.5 s', '1 min 15 s', '1 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def wilson(hits: Any, rows: Any) -> tuple[Any, Any]:
    """Wilson's 95% interval of a binomial share; it stays within 0 and 1 and is honest for few rows.

    Example:
        >>> low, high = wilson(9, 10)
        >>> round(float(low), 3), round(float(high), 3)
        (0.596, 0.982)
    """
    hits, rows = np.asarray(hits, float), np.asarray(rows, float)
    share, z2 = hits / rows, NORMAL_975**2
    centre = (share + z2 / (2 * rows)) / (1 + z2 / rows)
    half = NORMAL_975 * np.sqrt(share * (1 - share) / rows + z2 / (4 * rows**2)) / (1 + z2 / rows)
    # At 0 and 1 the ends are exact; rounding would put the share a little outside of them.
    return np.minimum(np.maximum(centre - half, 0), share), np.maximum(np.minimum(centre + half, 1), share)


def share_with_range(hits: int, rows: int) -> str:
    """A share with its counts and its binomial range.

    Example:
        >>> share_with_range(9, 10)
        '90% (9 of 10 rows; 95% range 60% to 98.2%)'
    """
    low, high = wilson(hits, rows)
    return f"{percent(hits / rows)} ({hits:,} of {count(rows, 'row')}; 95% range {percent(low)} to {percent(high)})"


def spread_out(rows: int, most: int) -> np.ndarray[Any, Any]:
    """Numbers of at most `most` rows, evenly spaced over all: the fixed rule by which points are left out.

    Example:
        >>> spread_out(5, 10), spread_out(100, 3)
        (array([0, 1, 2, 3, 4]), array([ 0, 50, 99]))
    """
    if rows <= most:
        return np.arange(rows)
    return np.round(np.linspace(0, rows - 1, most)).astype(int)


def shown(rows: int, of: int) -> str:
    """A sentence on rows that were left out of a figure; empty where none were.

    Example:
        >>> shown(10, 10), shown(10, 2000)
        ('', ' Drawn are 10 of 2,000 rows, evenly spaced.')
    """
    return "" if rows == of else f" Drawn are {rows:,} of {of:,} rows, evenly spaced."
