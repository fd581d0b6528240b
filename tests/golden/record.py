# SPDX-License-Identifier: BSD-3-Clause
"""Record the golden results anew::

    OMP_NUM_THREADS=1 python tests/golden/record.py                   # all cases
    OMP_NUM_THREADS=1 python tests/golden/record.py "logistic/kind*"  # some

The library is the one in this checkout. Cases that no table has any more are dropped.
It tells which records changed beyond rounding; the others stay as they are, so that the
files do not change in their last digits. A commit that changes a result on purpose
records it anew and says so; no other commit does.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parents[1]


def main(pattern="*"):
    """Record the cases whose "aggregator/name" fits a pattern."""
    from golden import records
    from golden.cases import AGGREGATORS, needs_torch, rtol_of

    torch = _has_torch()
    for aggregator, cases in AGGREGATORS.items():
        old = records.read(aggregator)
        new = {}
        for name, case in cases.items():
            key = f"{aggregator}/{name}"
            skipped = not torch and needs_torch(name)
            if skipped or not fnmatch(key, pattern):
                if name in old:
                    new[name] = old[name]
                continue
            found = records.record(case)
            expected = old.get(name)
            changed = expected is None or records.differences(
                found, expected, rtol_of(key)
            )
            new[name] = found if changed else expected
            if changed:
                print("new" if expected is None else "changed", key, flush=True)
        records.write(aggregator, new)


def _has_torch():
    try:
        import skorch  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    sys.path[:0] = [str(TESTS.parent), str(TESTS)]
    main(*sys.argv[1:])
