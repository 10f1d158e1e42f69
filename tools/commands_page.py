"""Writes docs/commands.md from the command line itself. Command: `make docs-tables`."""

import inspect

import typer

from anchorwalk.app.cli import app
from pages import ROOT

HEAD = """# Commands

Every command and option, as `anchorwalk --help` shows them. [The command line](howto/command_line.md) explains those for tables, and
[the benchmark](benchmark.md) those of the paper's experiments. Exit codes: 0 all is well, 1 an error of ours, 2 something to
correct in the input, 130 ended by Ctrl-C.
"""


def escaped(text):
    """Text of one line for a cell of a table."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def default(parameter):
    """The default of an option; nothing where there is none worth a word."""
    value = parameter.default
    return "" if callable(value) or value is None or value is False or value == [] or value == () else f"`{value}`"


def section(name, command):
    """A command with its arguments and options."""
    shown = [p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    arguments = [f"{p.name.upper()}{'...' if p.nargs == -1 else ''}" for p in shown if p.param_type_name == "argument"]
    usage = " ".join(["anchorwalk", name, *arguments])
    lines = [f"## {name}", "", f"`{usage}`", "", inspect.cleandoc(command.help or ""), ""]
    rows = [
        (
            ", ".join(f"`{o}`" for o in [*p.opts, *p.secondary_opts])
            if p.param_type_name == "option"
            else f"`{p.name.upper()}`",
            p,
        )
        for p in shown
    ]
    if rows:
        lines += ["| option | meaning | default |", "|---|---|---|"]
        lines += [f"| {names} | {escaped(p.help)} | {'required' if p.required else default(p)} |" for names, p in rows]
        lines += [""]
    return lines


PANELS = ("Tables", "Stored runs", "The paper's benchmark")


def panel(command):
    """The place of a command's panel among those of the help."""
    return PANELS.index(command.rich_help_panel)


def commands(group, prefix=""):
    """Every command below a group, with its full name."""
    for name, command in (
        group.commands.items() if prefix else sorted(group.commands.items(), key=lambda c: panel(c[1]))
    ):
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def render():
    """The page."""
    lines = [HEAD]
    for name, command in commands(typer.main.get_command(app)):
        lines += section(name, command)
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "commands.md").write_text(render())
