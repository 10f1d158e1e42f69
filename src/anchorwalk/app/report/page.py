"""The page: one HTML file that needs nothing else. Every text is escaped here; figures are this package's own SVG."""

import re
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from anchorwalk.app.report.elements import Section, Table
from anchorwalk.app.report.run import Run
from anchorwalk.app.report.style import DARK, LIGHT, Picture
from anchorwalk.app.report.verdict import Verdict

NAME = 8
"""Letters that the name of a line of a diagnosis is filled up to."""


def render(
    title: str,
    when: str,
    run: Run,
    verdict: Verdict,
    tiles: Sequence[tuple[str, str, str]],
    section: Section | None,
    remarks: Sequence[str],
    diagnosis: str,
    training: Sequence[Picture],
) -> str:
    """The report as HTML.

    Args:
        title: Its heading.
        when: When it was written.
        run: What was run.
        verdict: Whether its uncertainty can be trusted.
        tiles: The few numbers that matter most: label, value, remark.
        section: Predictions, or None.
        remarks: Sentences that should not be missed.
        diagnosis: The chains' diagnosis as lines of a name and words, or nothing.
        training: Figures of training and walk.
    """
    body = [
        f'<header><p class="over">Report of an ensemble</p><h1>{escape(title)}</h1>',
        f"<p>{escape(run.method)}{' · ' if run.method else ''}written {escape(when)}</p></header>",
        _verdict(verdict),
        *(f'<p class="note">{escape(remark)}</p>' for remark in remarks),
        _tiles(tiles),
    ]
    if section is not None:
        body += ["<section>", _heading("Predictions", section.intro)]
        body += [_table(section.scores, "Scores")] if section.scores is not None else []
        body += [_figures(section.pictures)]
        body += [_table(section.rows, "The most uncertain rows")] if section.rows is not None else []
        body += ["</section>"]
    if diagnosis:
        body += [
            "<section>",
            _heading("Do the chains agree?"),
            f'<div class="card">{_lines(diagnosis)}</div></section>',
        ]
    body += ["<section>", _heading("Training"), _figures(training), "</section>"] if training else []
    body += ["<section>", _heading("What was run"), _facts(run), "</section>"]
    body += ["<footer>The figures of this page are in the folder <code>figures</code> beside it, as PNG and SVG. "]
    body += [f"Made by anchorwalk {escape(version('anchorwalk'))}.</footer>"]
    template = Template((files("anchorwalk.app.report") / "template.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(title),
        version=escape(version("anchorwalk")),
        light=_variables(LIGHT),
        dark=_variables(DARK),
        body="\n".join(body),
    )


def _variables(inks: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in inks.items())


def _heading(text: str, intro: str = "") -> str:
    return f"<h2>{escape(text)}</h2>" + (f"<p>{escape(intro)}</p>" if intro else "")


def _verdict(verdict: Verdict) -> str:
    reasons = "".join(f"<p>{escape(reason)}</p>" for reason in verdict.reasons)
    code = re.compile("`([^`]*)`")
    words = (code.sub(r"<code>\1</code>", escape(action)) for action in verdict.actions)
    actions = "".join(f"<li>{one}</li>" for one in words)
    todo = f"<h3>What to do</h3><ul>{actions}</ul>" if actions else ""
    return (
        f'<section class="card verdict {verdict.kind}"><p class="over">Can its uncertainty be trusted?</p>'
        f"<h2>{escape(verdict.answer)}</h2>{reasons}{todo}</section>"
    )


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> str:
    items = (
        f"<li><span>{escape(label)}</span><strong>{escape(value)}</strong><span>{escape(remark)}</span></li>"
        for label, value, remark in tiles
    )
    return f'<ul class="tiles">{"".join(items)}</ul>'


def _figures(pictures: Sequence[Picture]) -> str:
    items = (
        f'<figure id="{escape(one.name)}"><h3>{escape(one.heading)}</h3>{one.svg}'
        f"<figcaption>{escape(one.caption)}</figcaption></figure>"
        for one in pictures
    )
    return f'<div class="figures">{"".join(items)}</div>'


def _facts(run: Run) -> str:
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in run.facts)
    return f'<div class="card"><dl class="facts">{items}</dl></div>'


def _lines(text: str) -> str:
    """Lines of a name and words as a list."""
    items, before = "", ""
    for line in text.splitlines():
        name, words = (line[:NAME], line[NAME:]) if line[NAME : NAME + 1] == " " else ("", line)
        shown = "" if name == before else name.strip().capitalize()
        items, before = items + f"<dt>{escape(shown)}</dt><dd>{escape(words.strip())}</dd>", name
    return f"<dl>{items}</dl>"


def _table(table: Table, caption: str) -> str:
    def cells(tag: str, values: Sequence[str]) -> str:
        kinds = (' class="text"' if place in table.words else "" for place in range(len(values)))
        texts = (escape(value).replace("_", "_<wbr>") for value in values)  # where a long name may be broken
        return "".join(f"<{tag}{kind}>{text}</{tag}>" for text, kind in zip(texts, kinds, strict=True))

    head = f"<tr>{cells('th', table.head)}</tr>"
    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    kind = ' class="lines"' if table.lines else ""
    note = f'<p class="small">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="card"><div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table{kind}>'
        f"<caption>{escape(caption)}</caption><thead>{head}</thead><tbody>{rows}</tbody></table></div>{note}</div>"
    )
