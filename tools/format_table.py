"""Writes the table of rounding into docs/format.md from results/rounding.jsonl. Command: `make docs-tables`."""

from pages import ROOT, load

PAGE = ROOT / "docs" / "format.md"
BEGIN, END = "<!-- rounding -->\n", "<!-- end -->"


def render(record: dict) -> str:
    """The table as text."""
    lines = ["| task | members, rows | bytes, exact and rounded | what changes |", "|---|---|---|---|"]
    for run in record["runs"]:
        if "agreement" in run:
            change = (
                f"agreement {run['agreement']:.4f}, total variation {run['total_variation']:.1e}, "
                f"largest change of a probability {run['largest_change']:.1e}"
            )
        else:
            change = (
                f"mean shifted by {run['mean_shift_in_sds']:.1e} predictive sds on average, {run['largest_shift_in_sds']:.1e} "
                f"at most; sd changed by {run['mean_change_of_sd']:.1%} on average"
            )
        size = f"{run['bytes']:,}, {run['bytes_rounded']:,}"
        lines.append(f"| {run['task']} | {run['members']}, {run['rows']} | {size} | {change} |")
    return "\n".join(lines) + "\n"


def filled(page: str, record: dict) -> str:
    """The page with its table made anew."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + render(record) + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), load("rounding", "rounding")))
