"""Appends a JSON file to a file of records under a name: `python tools/add_record.py FILE NAME RECORDS`."""

import json
import sys
from pathlib import Path

from anchorwalk.benchmark import records

if __name__ == "__main__":
    source, name, target = sys.argv[1:]
    records.append(Path(target), {"name": name, **json.loads(Path(source).read_text())})
