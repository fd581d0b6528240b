# SPDX-License-Identifier: BSD-3-Clause
"""Mutate many summaries and replies, and print what came of them.

    python tests/federation/fuzz_summaries.py --n 10000
    python tests/federation/fuzz_summaries.py --n 0 --limits 60

Fails if one of them came to anything but an error of ours or a finite model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from time import perf_counter

import numpy as np


def main(arguments=None) -> int:
    """Print a table of outcomes by kind of mutation."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from helpers import hostile, mutations, outcomes

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=10_000, help="mutated summaries")
    parser.add_argument("--replies", type=int, default=0, help="mutated replies")
    parser.add_argument("--requests", type=int, default=0, help="mutated requests")
    more = "requests as large as the limits of nodes allow, whose cost is measured"
    parser.add_argument("--limits", type=int, default=0, help=more)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=20, help="violations in full")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    given = parser.parse_args(arguments)
    kinds = hostile.kinds() if given.n else []
    table, violations, start, slowest = Counter(), [], perf_counter(), 0.0
    for i in range(given.first, given.first + given.n):
        rng = np.random.default_rng([given.seed, i])
        kind = kinds[i % len(kinds)]
        other = kinds[int(rng.integers(len(kinds)))]
        what, whole = mutations.mutated(kind.summary.message, other.honest.message, rng)
        began = perf_counter()
        try:
            found = hostile.tried(kind, whole)
        except outcomes.ViolationError as violation:
            found = "VIOLATION"
            violations.append((i, kind.name, what, violation))
        slowest = max(slowest, perf_counter() - began)
        table[what, found] += 1
    if given.replies or given.requests:
        _exchange(given, table, violations)
    if given.limits:
        return _costs(given)
    _show(table)
    seconds = perf_counter() - start
    print(f"{given.n} in {seconds:.0f} s, slowest {slowest:.2f} s")
    seen = Counter()
    for i, name, what, violation in violations:
        cause = violation.__cause__
        where = traceback.extract_tb(cause.__traceback__)[-1] if cause else None
        key = str(violation)[:60], where and (where.filename, where.lineno)
        seen[key] += 1
        if seen[key] == 1 and len(seen) <= given.show:
            print(f"\n{i} {name!r} {what!r}: {str(violation)[:300]}")
            while cause is not None and len(seen) <= given.show:
                for frame in traceback.extract_tb(cause.__traceback__)[-4:]:
                    place = Path(frame.filename)
                    print(f"    {place.parent.name}/{place.name}:{frame.lineno}")
                cause = cause.__cause__
    for key, count in seen.most_common():
        print(count, key[0], (Path(key[1][0]).name, key[1][1]) if key[1] else "")
    return int(bool(violations))


def _costs(given) -> int:
    """Print memory and time of requests at the limits; 1 if one takes too much."""
    from helpers import costly

    n_too_much, draws = 0, costly.DRAWS
    for i in range(given.first, given.first + given.limits):
        drawn = draws[i % len(draws)](np.random.default_rng([given.seed, i]))
        cost = costly.measured(drawn)
        allowed = costly.LEAST_SECONDS
        if cost.seconds > allowed:
            allowed = costly.seconds_allowed(drawn)
        too_much = not cost.outcome.startswith("answered")
        too_much |= cost.megabytes > costly.MOST_MEGABYTES or cost.seconds > allowed
        n_too_much += too_much
        shape = " x ".join(map(str, drawn.X.shape))
        print(
            f"{i:4} {drawn.limit:16} {drawn.request.task:9} {shape:>12} rows "
            f"{drawn.request.n_bytes / 1e6:6.1f} MB asked {cost.megabytes:6.0f} MB "
            f"{cost.seconds:6.1f} s of {allowed:.0f} s  {cost.outcome.strip()}"
            f"{'  TOO MUCH' if too_much else ''}",
            flush=True,
        )
    print(f"{n_too_much} of {given.limits} took too much, or were not answered.")
    return int(n_too_much > 0)


def _exchange(given, table, violations) -> None:
    """What comes of replies and requests after the first."""
    from helpers import hostile, outcomes

    talks = hostile.talks()
    asked = hostile.requests(talks)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(given.replies + given.requests):
            rng = np.random.default_rng([given.seed, 1, i])
            talk, (request, member) = talks[i % len(talks)], asked[i % len(asked)]
            replied = i < given.replies
            name = f"reply, {talk.name}" if replied else f"request, {request.task}"
            try:
                if replied:
                    _, found = hostile.tried_reply(talk, rng)
                else:
                    given_to = request, member, Path(folder)
                    _, found = hostile.tried_request(*given_to, rng)
            except outcomes.ViolationError as violation:
                found = "VIOLATION"
                violations.append((i, name, "exchange", violation))
            table[name, found] += 1


def _show(table) -> None:
    columns = sorted({found for _, found in table})
    rows = sorted({what for what, _ in table})
    print(f"{'':34}" + "".join(f"{column:>18}" for column in columns))
    for what in rows:
        print(f"{what:34}" + "".join(f"{table[what, c]:18}" for c in columns))
    totals = [sum(table[what, c] for what in rows) for c in columns]
    print(f"{'total':34}" + "".join(f"{total:18}" for total in totals))


if __name__ == "__main__":
    sys.exit(main())
