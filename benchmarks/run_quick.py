# SPDX-License-Identifier: BSD-3-Clause
"""Run the quick forms of all benchmarks, and hold each claim against what they found.

Scripts run one after the other in processes of their own, with one thread each; one
that fails does not stop the others. What they print is kept in a folder, a file a
script. At the end is a table of the claims in ``claims.toml``: what the quick form
found, its bounds, and whether it is within them. A script whose data are not there is
not run, and a line names the environment variable to set.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from pathlib import Path

from _claims import DIFFERS, NO_FIGURE, Claim, read_claims
from _quick import FIGURES_VARIABLE, MISSING, NAME, VALUE
from _records import JsonLines

HERE = Path(__file__).parent
OUTPUT = HERE.parent / "build" / "quick"
ALWAYS = ("papers/run.py",)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one script."""

    status: int  # of its process
    seconds: float  # of the processor
    log: Path
    # A variable that must be set before the script can run.
    missing: str | None = None
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the script ended with an error."""
        return self.status != 0

    def __str__(self) -> str:
        if self.failed:
            return f"failed after {self.seconds:.0f} s, see {self.log}"
        if self.missing is not None:
            return f"not run, set {self.missing}"
        return f"{self.seconds:.0f} s"


def all_scripts(claims: list[Claim]) -> list[str]:
    """Scripts with their options: all benchmarks, and what else claims name."""
    names = [path.name for path in sorted(HERE.glob("bench_*.py"))]
    return sorted({*names, *ALWAYS, *(claim.script for claim in claims)})


def run_script(script: str, folder: Path) -> Outcome:
    """Run one quick form; its figures come through a file, its output is kept."""
    stem = script.replace("/", "-").replace(" ", "_")
    log = folder / f"{stem}.log"
    figures = folder / f"{stem}.jsonl"
    figures.unlink(missing_ok=True)
    name, *options = script.split()
    variables = {FIGURES_VARIABLE: str(figures), "OMP_NUM_THREADS": "1"}
    seconds_before = child_seconds()
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.run(
            [sys.executable, str(HERE / name), *options, "--quick"],
            env=os.environ | variables,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    records = JsonLines(figures).read()
    missing = [record[MISSING] for record in records if MISSING in record]
    return Outcome(
        status=process.returncode,
        seconds=child_seconds() - seconds_before,
        log=log,
        missing=missing[0] if missing else None,
        figures={record[NAME]: record[VALUE] for record in records if NAME in record},
    )


def child_seconds() -> float:
    """Seconds of the processor of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def print_claims(claims: list[Claim], outcomes: dict[str, Outcome]) -> int:
    """The table of claims; returns how many are not as the page says."""
    line = "{:56} {:18} {:>9}  {:9}  {:>9} {:>9}"
    print("\nPages tell figures of whole runs. A quick form has fewer data sets, rows")
    print("and seeds, so it is held to bounds, often only to a direction.\n")
    print(line.format("claim", "page", "found", "verdict", "at least", "at most"))
    counts: dict[str, int] = {}
    for claim in claims:
        outcome = outcomes.get(claim.script)
        has_run = outcome is not None and outcome.missing is None and not outcome.failed
        verdict, figure = claim.judge(outcome.figures if has_run else None)
        counts[verdict] = counts.get(verdict, 0) + 1
        found = "" if figure is None else f"{figure:.4g}"
        bounds = [f"{bound:.4g}" for bound in (claim.at_least, claim.at_most)]
        page = Path(claim.page).stem
        print(line.format(claim.about, page, found, verdict, *bounds))
    print("\n" + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    return counts.get(DIFFERS, 0) + counts.get(NO_FIGURE, 0)


def parse_options() -> Namespace:
    """Options of the command line."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", help="scripts whose names have one of these in them"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="of the scripts")
    return parser.parse_args()


def main() -> int:
    """Run the scripts and print the table; 1 if one failed or a claim differs."""
    options = parse_options()
    options.output.mkdir(parents=True, exist_ok=True)
    claims = read_claims()
    scripts = all_scripts(claims)
    if options.only:
        scripts = [s for s in scripts if any(part in s for part in options.only)]
        claims = [claim for claim in claims if claim.script in scripts]
    outcomes: dict[str, Outcome] = {}
    for number, script in enumerate(scripts, 1):
        print(f"[{number:2} of {len(scripts)}] {script}: ", end="", flush=True)
        outcomes[script] = run_script(script, options.output)
        print(outcomes[script], flush=True)
    n_differing = print_claims(claims, outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    failed = [script for script, outcome in outcomes.items() if outcome.failed]
    print(f"{seconds:.0f} seconds of the processor for {len(scripts)} scripts")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed or n_differing))


if __name__ == "__main__":
    sys.exit(main())
