"""Numbers as people write them: 1.234,50 €, 12 %, (1,200), 1'000."""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

MONEY = "".join(map(re.escape, filter(lambda one: unicodedata.category(one) == "Sc", map(chr, range(0x3000)))))
CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|AUD|CAD|NZD|BRL|MXN|ZAR|KRW|TRY|SGD|HKD"
UNIT = rf"(?:[A-Z]{{0,3}}[{MONEY}]|{CODES}|[Kk]r\.?|zł|Kč|Ft|Fr\.?|[%‰])"
"""A currency, or per cent."""
SPACES = " \u00a0\u202f'\N{RIGHT SINGLE QUOTATION MARK}_"
"""Between groups of digits, in any country."""
SIGNS = {".": ",", ",": "."}
"""To each decimal sign the other one."""


class Number(NamedTuple):
    """A number, and the sign that stood with it; empty where none did."""

    value: float
    unit: str


@lru_cache(maxsize=16)
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    between = {"auto": SPACES + SIGNS[decimal], "none": ""}.get(thousands, thousands)
    grouped = rf"[1-9]\d{{0,2}}(?P<between>[{re.escape(between)}])\d{{3}}(?:(?P=between)\d{{3}})*|" if between else ""
    lakhs = r"[1-9]\d?(?:,\d\d)+,\d{3}|" if "," in between else ""
    whole = rf"(?:{grouped}{lakhs}\d+)"
    body = rf"(?:(?P<whole>{whole})(?:{re.escape(decimal)}(?P<rest>\d*))?|{re.escape(decimal)}(?P<only>\d+))"
    body += r"(?P<power>[eE][-+]?\d+)?"
    minus = "[-\N{MINUS SIGN}]"
    signed = rf"(?P<minus>{minus}|\+)?\s*(?P<before>{UNIT})?\s*(?P<inner>{minus})?{body}\s*(?P<after>{UNIT})?"
    return re.compile(rf"(?P<bracket>\()?\s*{signed}\s*(?(bracket)\))")


def number(text: str, decimal: str = ".", thousands: str = "auto") -> Number | None:
    """What a text says as a number; None where it is none.

    Args:
        text: Any text.
        decimal: "." or ",".
        thousands: The sign between groups of digits; "auto" takes spaces, apostrophes and the one that is not decimal.

    Example:
        >>> number("$1,234.50"), number("-1.234,5 %", ",")
        (Number(value=1234.5, unit='$'), Number(value=-1234.5, unit='%'))
        >>> number("(3)"), number("1,5")
        (Number(value=-3.0, unit=''), None)
    """
    found = _pattern(decimal, thousands).fullmatch(text.strip())
    if found is None or (found["before"] and found["after"]):
        return None
    whole = re.sub(r"\D", "", found["whole"] or "0")
    value = float(f"{whole}.{found['rest'] or found['only'] or 0}{found['power'] or ''}")
    minuses = [found["bracket"], found["minus"] not in (None, "+"), found["inner"]]
    return Number(-value if sum(map(bool, minuses)) % 2 else value, found["before"] or found["after"] or "")
