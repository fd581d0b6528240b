# SPDX-License-Identifier: BSD-3-Clause
"""What this checkout computes otherwise than another commit did, on this machine::

    make golden BASE=<commit> INTENDED="pooled/*, linear/clusters*"

Each of the two runs its own cases, one process and one thread each. Without BASE it is
where this branch left main, or HEAD where something is not committed, or the commit
before. Then this checkout reads what the other has kept of its cases: pickles of its
aggregates, and the bytes of its messages.

A case that differs, is gone, or is not read as it was, is an error, unless the call or
``intended.toml`` names it. New cases are listed. Two runs of one commit on one machine
are equal to the bit; with other kernels of BLAS (OPENBLAS_CORETYPE=Prescott) about one
case in twenty differs in more than 8 digits, most of them by the stop of an optimiser.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from golden.records import Difference, differences, only_now

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INTENDED = "tests/golden/intended.toml"
# So many differences of one case are printed, the largest ones.
AT_MOST = 4


def git(*words, check=True) -> bytes:
    """What git prints; nothing where it fails and that is allowed (check=False)."""
    errors = None if check else subprocess.DEVNULL
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=check, stdout=subprocess.PIPE, stderr=errors
    ).stdout


def commit(name) -> str:
    """The hash that a name stands for, empty for a name of no commit."""
    printed = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    return printed.decode().strip()


def default_base() -> str:
    """The commit to compare with, as said above; empty if there is no other commit."""
    head = commit("HEAD")
    main = commit("main") or commit("origin/main") or head
    base = git("merge-base", "HEAD", main, check=False).decode().strip() or head
    changed = git("status", "--porcelain", "--untracked-files=no").strip()
    return base if base != head or changed else commit("HEAD~1")


# ---- running ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Records:
    """Records by the names of cases: of this checkout, and of the other one."""

    now: dict
    before: dict
    # Predictions and digests of the pickles and messages that the other wrote, as this
    # checkout reads them.
    read: dict


def start(*words) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, HERE / "run.py", *words]
    return subprocess.Popen(command, env=environment)


def finish(*runs: subprocess.Popen) -> None:
    codes = [run.wait() for run in runs]  # of all: none is left running
    if any(codes):
        sys.exit("The cases could not be run.")


def records_of(base) -> Records:
    """What this checkout and the commit, if there is one, make of their cases."""
    with TemporaryDirectory() as folder:
        folder = Path(folder)
        checkouts = {"now": ROOT}
        if base:
            checkouts["before"] = folder / "base"
            with tarfile.open(fileobj=io.BytesIO(git("archive", base))) as files:
                files.extractall(folder / "base", filter="data")
        runs = []
        for name, checkout in checkouts.items():
            files_folder = folder / f"kept {name}"
            files_folder.mkdir()
            runs.append(start(checkout, folder / f"{name}.json", files_folder))
        finish(*runs)
        if base:
            before = folder / "kept before"
            now = folder / "kept now"
            finish(start("--read", ROOT, folder / "read.json", before, now))
        return Records(
            now=read_json(folder / "now.json"),
            before=read_json(folder / "before.json"),
            read=read_json(folder / "read.json"),
        )


def read_json(path: Path) -> dict:
    """The records in a file; none if there is no such file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


# ---- what is intended ---------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """Cases that differ on purpose: patterns of their names, and the reason."""

    cases: tuple[str, ...]
    reason: str

    def names(self, case: str) -> bool:
        return any(fnmatchcase(case, pattern) for pattern in self.cases)


def changes_in(text: str) -> list[Change]:
    """The entries of intended.toml; ValueError for one without cases or reason."""
    changes = []
    for entry in tomllib.loads(text).get("change", []):
        cases = entry.get("cases")
        reason = entry.get("reason")
        if not isinstance(cases, list) or not cases or not reason:
            raise ValueError(
                f"{INTENDED}: the entry {entry!r} needs cases, a list of patterns, and "
                "a reason."
            )
        changes.append(Change(tuple(cases), reason))
    return changes


def new_changes(now: str, before: str) -> list[Change]:
    """Entries of the one text that are not in the other: those since that commit."""
    landed = changes_in(before)
    return [change for change in changes_in(now) if change not in landed]


def intended_since(base: str) -> list[Change]:
    now = (ROOT / INTENDED).read_text("utf-8")
    before = git("show", f"{base}:{INTENDED}", check=False).decode()
    return new_changes(now, before)


# ---- comparing ----------------------------------------------------------------


@dataclass
class Report:
    """How cases compare: ``lines`` to read, and the names of those that are errors."""

    intended: list[Change]
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    used: set[Change] = field(default_factory=set)

    def judge(self, case: str, line: str, *details: str) -> None:
        """Add a case that differs: an error unless it is intended."""
        change = next((c for c in self.intended if c.names(case)), None)
        if change is None:
            self.errors.append(case)
        else:
            self.used.add(change)
            line += f" (intended: {change.reason})"
        self.lines += [line, *(f"    {detail}" for detail in details)]

    def judge_together(self, names: list[str], line: str) -> None:
        """Add what differs for one reason; names that are intended are counted."""
        intended = [
            (name, change)
            for name in names
            for change in self.intended
            if change.names(name)
        ]
        self.used |= {change for _, change in intended}
        excused = {name for name, _ in intended}
        errors = [name for name in names if name not in excused]
        self.errors += errors
        first = f"as {errors[0]!r}" if errors else "all intended"
        self.lines.append(f"{line} ({len(names)} cases, {first})")


def differing(now: dict, before: dict) -> list:
    """The differences of two records that matter, the largest first."""
    return sorted(
        (difference for difference in differences(now, before) if difference.matters),
        reverse=True,
    )


def absent(cases: dict, others: dict) -> list[str]:
    """The names of cases that are not among others."""
    return [case for case in cases if case not in others]


def cases_to_compare(records: Records) -> list[str]:
    """The cases of both; one that fails is an error by itself, and not compared."""
    return [
        case
        for case, record in records.now.items()
        if case in records.before and "error" not in record
    ]


def compare_cases(records: Records, report: Report) -> None:
    """Cases of both, the most different first, then those of one of them."""
    now = records.now
    before = records.before
    cases = cases_to_compare(records)
    large_differences = {
        case: large for case in cases if (large := differing(now[case], before[case]))
    }
    report_large_differences(large_differences, report)
    for case in absent(before, now):
        report.judge(case, f"{case}: only before")
    only_here = absent(now, before)
    report.lines += [f"{case}: only now" for case in only_here]
    n_in_both = len(now) - len(only_here)
    n_to_the_bit = sum(not differences(now[case], before[case]) for case in cases)
    n_longer = sum(bool(only_now(now[case], before[case])) for case in cases)
    report.lines.append(
        f"{len(now)} cases: {n_in_both - len(large_differences)} equal to 8 digits, "
        f"of which {n_to_the_bit} to the bit; {len(large_differences)} differ; "
        f"{len(only_here)} only now; {n_longer} with more in their records"
    )


def report_large_differences(
    large_differences: dict[str, list[Difference]], report: Report
) -> None:
    """A line for each case with its largest differences, the most different first."""
    for case, largest_first in sorted(
        large_differences.items(),
        reverse=True,
        key=lambda pair: pair[1][0],
    ):
        size = largest_first[0].size
        line = f"{case}: {len(largest_first)} differences, of {size:.1e} at most"
        words = [difference.words for difference in largest_first[:AT_MOST]]
        report.judge(case, line, *words)


def compare_kept(records: Records, report: Report) -> None:
    """What this checkout reads of the pickles and the messages of the other.

    What cannot be read has one line for each reason: a module that has another name is
    in hundreds of pickles.
    """
    n_read = Counter()
    names_by_reason: dict[str, list[str]] = {}
    for case, parts in records.read.items():
        for part, read in parts.items():
            if reason := reason_not_read(part, read, records.before[case]):
                names = names_by_reason.setdefault(f"{part}: {reason}", [])
                names.append(f"read {part} {case}")
            else:
                n_read[part] += read.get("n_messages", 1)
    for reason, names in names_by_reason.items():
        report.judge_together(names, f"Not read as before, {reason}")
    report.lines.append(
        f"Read of the other commit: {n_read['pickle']} pickles, "
        f"{n_read['messages']} messages; {n_read['files']} fits to its files"
    )


# Arrays that were read lie at other addresses, by which float32 is summed in another
# order: predictions of one process differ from those of the next by up to 5e-7.
ROUNDING_OF_FLOAT32 = 2e-6


def reason_not_read(part: str, read: dict, before: dict) -> str:
    """Why a file of a case could not be read as it was written, empty if it could."""
    if "error" in read:
        return read["error"]
    if part == "messages":
        others = read["other_digests"]
        return f"other digests of {', '.join(others)}" if others else ""
    expected = {key: before[key] for key in read if key in before}
    different = [
        difference
        for difference in differing(read, expected)
        if difference.size > ROUNDING_OF_FLOAT32
    ]
    return f"other predictions, {different[0].words}" if different else ""


def compared(records: Records, intended: list[Change]) -> Report:
    report = Report(intended)
    compare_cases(records, report)
    compare_kept(records, report)
    for case, record in records.now.items():
        if "error" in record:
            report.lines.append(f"{case} fails: {record['error']}")
            report.errors.append(case)
    for change in intended:
        if change not in report.used:
            report.lines.append(
                f"Named as intended, but nothing differs: {', '.join(change.cases)}"
            )
    return report


def patterns(text: str) -> list[Change]:
    """What a call names as intended, with commas between patterns."""
    named = tuple(part.strip() for part in text.split(",") if part.strip())
    return [Change(named, "named in the call")] if named else []


def main(words) -> None:
    parser = argparse.ArgumentParser(prog="golden.compare")
    parser.add_argument("base", nargs="?", default="", help="commit to compare with")
    parser.add_argument(
        "--intended", default="", help="patterns of cases, with commas between them"
    )
    typed = parser.parse_args(words)
    base = commit(typed.base) if typed.base else default_base()
    if typed.base and not base:
        sys.exit(f"{typed.base} is no commit of this repository.")
    intended = patterns(typed.intended) + (intended_since(base) if base else [])
    records = records_of(base)
    report = compared(records, intended)
    if base:
        title = git("show", "-s", "--format=%h %s", base).decode().strip()
        print(f"This checkout, compared with {title}")
    else:
        print("There is no other commit to compare the cases with.")
    print("\n".join(report.lines))
    if report.errors:
        sys.exit(
            f"{len(report.errors)} cases differ or fail, and nobody said so: name what "
            f"is intended in {INTENDED}, with the reason, or in the call, "
            'make golden INTENDED="pattern, pattern".'
        )


if __name__ == "__main__":
    main(sys.argv[1:])
