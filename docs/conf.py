"""The documentation as a site: `make docs` builds it into docs/_build/html and runs the tutorials on the way."""

import hashlib
import os
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "anchorwalk"

project = "anchorwalk"
author = "The anchorwalk developers"
release = version = installed("anchorwalk")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_build", "figures"]
html_theme = "furo"
html_title = f"anchorwalk {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1d4e89", "color-brand-content": "#1d4e89"},
    "dark_css_variables": {"color-brand-primary": "#9db8d9", "color-brand-content": "#9db8d9"},
}
html_copy_source = False
html_show_copyright = False
smartquotes_action = "qe"  # quotes and dots; two hyphens begin an option
pygments_style, pygments_dark_style = "friendly", "github-dark"

# Pages.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "py:obj"  # `name` in a docstring is a link where there is such a name, and code elsewhere

# Tutorials.


def digest() -> str:
    """A short name of the package's present state: outputs of tutorials are kept for as long as it is the same."""
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".py", ".csv", ".html"))
    content = b"".join(path.read_bytes() for path in files) + sys.version.encode() + small.encode()
    return hashlib.sha256(content).hexdigest()[:16]


small = os.environ.get("ANCHORWALK_SMALL", "")
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # for `anchorwalk` itself
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / "executed" / digest())
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "show"

# Names.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes are in the class's own text, and not once more below it
napoleon_use_rtype = False
python_maximum_signature_line_length = 100
add_module_names = False
FIELD = "Alias for field number"


def skip_fields(app, what, name, obj, skip, options):
    """Leave out the fields of named tuples, which the class's own text explains."""
    return True if (getattr(obj, "__doc__", None) or "").startswith(FIELD) else None


def plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text but for names in backticks: |x| and * mean themselves, and tables are Markdown's."""
    example, result = False, []
    for line in lines:
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if re.fullmatch(r"\s*\|.*\|\s*", line) and not example:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            indent = line[: len(line) - len(line.lstrip())]
            result += [] if set("".join(cells)) <= set("-:") else [f"{indent}- {': '.join(cells)}"]
        else:
            parts = [line] if example else re.split(r"(`[^`]*`)", line)
            result.append(
                "".join(part if part[:1] == "`" or example else re.sub(r"([|*])", r"\\\1", part) for part in parts)
            )
    lines[:] = result


def words_alone(app, docname, source):
    """Links to what is in the repository but not on the site become their words."""
    folder = (DOCS / docname).parent

    def plain(match):
        words, target = match.groups()
        inside = "://" in target or (folder / target).resolve().is_relative_to(DOCS)
        return match[0] if inside else words

    source[0] = re.sub(r"(?<!!)\[([^\]\n]+)\]\(([^)#\s]+)(?:#[^)\s]*)?\)", plain, source[0])


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", plain_text, priority=100)  # before napoleon
    app.connect("source-read", words_alone)
