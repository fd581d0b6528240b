# SPDX-License-Identifier: BSD-3-Clause
"""Run the golden cases of any checkout, and write what came out to a file.

``python tests/golden/run.py CHECKOUT records.json``; the checkout may be of an older
commit, whose library and cases stand in its own folders.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path


def run(checkout) -> dict:
    """The records of a checkout's own cases, made by its own library."""
    sys.path[:1] = [str(checkout), str(checkout / "tests")]
    from golden.cases import AGGREGATORS
    from golden.records import record

    import skgems
    from skgems import local

    # The name of either commit.
    clear_cache = getattr(local, "clear_cache", None) or local.forget
    if not Path(skgems.__file__).is_relative_to(checkout):
        raise ImportError(f"{skgems.__file__} is not in {checkout}")
    records = {}
    for kind, cases in AGGREGATORS.items():
        for name, case in cases.items():
            clear_cache()
            try:
                records[f"{kind}/{name}"] = record(case)
            except Exception as error:
                records[f"{kind}/{name}"] = {"error": repr(error)}
    return records


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    records = run(Path(sys.argv[1]).resolve())
    Path(sys.argv[2]).write_text(json.dumps(records), encoding="utf-8")
