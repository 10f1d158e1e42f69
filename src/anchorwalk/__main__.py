"""`python -m anchorwalk` is the command line."""

import os
import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA's alarms about slow compilation help no user
    try:
        from anchorwalk.app.cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"The command line needs {error.name}: pip install 'anchorwalk[cli]'")
    app(prog_name="anchorwalk")


if __name__ == "__main__":
    main()
