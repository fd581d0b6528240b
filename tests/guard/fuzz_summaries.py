# SPDX-License-Identifier: BSD-3-Clause
"""Mutate many summaries, replies and requests, and print the outcomes.

    python tests/guard/fuzz_summaries.py --n 10000
    python tests/guard/fuzz_summaries.py --n 0 --limits 60

Fails if one has another outcome than an error of the package or a finite model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np


@dataclass(frozen=True)
class Violation:
    """A mutation with an outcome that must not be."""

    number: int
    name: str  # of the kind of summary, or of the reply or request
    mutation: str
    error: Exception

    def place(self):
        """The file and line where the error was raised first, if that is known."""
        cause = self.error.__cause__
        if cause is None:
            return None
        frame = traceback.extract_tb(cause.__traceback__)[-1]
        return frame.filename, frame.lineno


@dataclass
class Outcomes:
    """Counts of outcomes, and all violations."""

    counts: Counter = field(default_factory=Counter)  # of (mutation, outcome)
    violations: list[Violation] = field(default_factory=list)
    slowest: float = 0.0  # seconds


def main(arguments=None) -> int:
    """Print a table of outcomes by kind of mutation."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    options = _parsed(arguments)
    if options.limits:
        return _costs(options)
    start = perf_counter()
    outcomes = Outcomes()
    _mutate_summaries(options, outcomes)
    if options.replies or options.requests:
        _mutate_exchanges(options, outcomes)
    _show_table(outcomes.counts)
    seconds = perf_counter() - start
    print(f"{options.n} in {seconds:.0f} s, slowest {outcomes.slowest:.2f} s")
    _show_violations(outcomes.violations, n_in_full=options.show)
    return int(bool(outcomes.violations))


def _parsed(arguments) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=10_000, help="mutated summaries")
    parser.add_argument("--replies", type=int, default=0, help="mutated replies")
    parser.add_argument("--requests", type=int, default=0, help="mutated requests")
    parser.add_argument(
        "--limits",
        type=int,
        default=0,
        help="requests as large as the limits of nodes allow, whose cost is measured",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=20, help="violations in full")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    return parser.parse_args(arguments)


def _mutate_summaries(options, outcomes: Outcomes) -> None:
    """Mutate summaries, load them and fit on them."""
    from helpers import hostile, mutations
    from helpers.outcomes import ViolationError

    kinds = hostile.kinds() if options.n else []
    for i in range(options.first, options.first + options.n):
        rng = np.random.default_rng([options.seed, i])
        kind = kinds[i % len(kinds)]
        other = kinds[int(rng.integers(len(kinds)))]
        mutation, content = mutations.mutate_at_random(
            kind.summary.message, other.honest.message, rng
        )
        start = perf_counter()
        try:
            outcome = hostile.outcome_of_summary(kind, content)
        except ViolationError as error:
            outcome = "VIOLATION"
            outcomes.violations.append(Violation(i, kind.name, mutation, error))
        outcomes.slowest = max(outcomes.slowest, perf_counter() - start)
        outcomes.counts[mutation, outcome] += 1


def _show_violations(violations: list[Violation], *, n_in_full: int) -> None:
    """Print the first violations in full, and the number of each."""
    counts = Counter()
    for violation in violations:
        key = (str(violation.error)[:60], violation.place())
        counts[key] += 1
        if counts[key] == 1 and len(counts) <= n_in_full:
            print(
                f"\n{violation.number} {violation.name!r} {violation.mutation!r}: "
                f"{str(violation.error)[:300]}"
            )
            _show_causes(violation.error)
    for (text, place), count in counts.most_common():
        print(count, text, (Path(place[0]).name, place[1]) if place else "")


def _show_causes(error: Exception) -> None:
    """Print the last places of each cause of an error."""
    cause = error.__cause__
    while cause is not None:
        for frame in traceback.extract_tb(cause.__traceback__)[-4:]:
            path = Path(frame.filename)
            print(f"    {path.parent.name}/{path.name}:{frame.lineno}")
        cause = cause.__cause__


def _costs(options) -> int:
    """Print memory and time of requests at the limits; 1 if one takes too much."""
    from helpers import costly

    n_too_much = 0
    for i in range(options.first, options.first + options.limits):
        draw = costly.DRAWS[i % len(costly.DRAWS)]
        case = draw(np.random.default_rng([options.seed, i]))
        cost = costly.measure_cost(case)
        allowed_seconds = costly.LEAST_SECONDS
        if cost.seconds > allowed_seconds:
            allowed_seconds = costly.seconds_allowed(case)
        too_much = not cost.outcome.startswith("answered")
        too_much |= (
            cost.megabytes > costly.MOST_MEGABYTES or cost.seconds > allowed_seconds
        )
        n_too_much += too_much
        shape = " x ".join(map(str, case.X.shape))
        print(
            f"{i:4} {case.limit:16} {case.request.task:9} {shape:>12} rows "
            f"{case.request.n_bytes / 1e6:6.1f} MB asked {cost.megabytes:6.0f} MB "
            f"{cost.seconds:6.1f} s of {allowed_seconds:.0f} s  {cost.outcome.strip()}"
            f"{'  TOO MUCH' if too_much else ''}",
            flush=True,
        )
    print(f"{n_too_much} of {options.limits} took too much, or were not answered.")
    return int(n_too_much > 0)


def _mutate_exchanges(options, outcomes: Outcomes) -> None:
    """Mutate replies and requests that come after the first message."""
    from helpers import hostile
    from helpers.outcomes import ViolationError

    talks = hostile.methods_of_rounds()
    requests = hostile.requests(talks)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(options.replies + options.requests):
            rng = np.random.default_rng([options.seed, 1, i])
            talk = talks[i % len(talks)]
            request, member = requests[i % len(requests)]
            is_reply = i < options.replies
            name = f"reply, {talk.name}" if is_reply else f"request, {request.task}"
            try:
                if is_reply:
                    _, outcome = hostile.outcome_of_mutated_reply(talk, rng)
                else:
                    _, outcome = hostile.outcome_of_mutated_request(
                        request, member, Path(folder), rng
                    )
            except ViolationError as error:
                outcome = "VIOLATION"
                outcomes.violations.append(Violation(i, name, "exchange", error))
            outcomes.counts[name, outcome] += 1


def _show_table(counts: Counter) -> None:
    """Print a row for each mutation, and a column for each outcome."""
    columns = sorted({outcome for _, outcome in counts})
    rows = sorted({mutation for mutation, _ in counts})
    print(f"{'':34}" + "".join(f"{column:>18}" for column in columns))
    for row in rows:
        print(f"{row:34}" + "".join(f"{counts[row, c]:18}" for c in columns))
    totals = [sum(counts[row, c] for row in rows) for c in columns]
    print(f"{'total':34}" + "".join(f"{total:18}" for total in totals))


if __name__ == "__main__":
    sys.exit(main())
