"""Makes docs/figures/report.png: the report of docs/howto/report.md, in a headless Chromium.

Command: `python tools/figure_report.py`. Chromium must be installed.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, OUT = DOCS / "howto" / "report.md", DOCS / "figures" / "report.png"
SIZE = "1160,2040"
"""Width and height of the window in CSS pixels: from the head of the page to its first figures."""


def main() -> None:
    """Run the how-to's example and take a picture of what it wrote."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("Chromium is needed for this figure: install the package `chromium`.")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        scope: dict = {}
        exec(block, scope)
        page = scope["paths"].page.resolve()
        flags = [
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--window-size={SIZE}",
            f"--user-data-dir={folder}/profile",
        ]
        subprocess.run([program, *flags, f"--screenshot={OUT}", page.as_uri()], check=True, capture_output=True)
    print(f"Written: {OUT}")


if __name__ == "__main__":
    main()
