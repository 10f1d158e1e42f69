"""Makes docs/figures/report.png: the report of docs/howto/report.md, in a headless Chromium.

Command: `python docs/figures/report.py`. Chromium must be installed.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent / "howto" / "report.md"
OUT = Path(__file__).with_suffix(".png").resolve()
SIZE = "1160,1790"
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
