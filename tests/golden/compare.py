# SPDX-License-Identifier: BSD-3-Clause
"""What this checkout computes otherwise than another commit did, on this machine::

    make golden BASE=<commit>

Each of the two runs its own cases, one process and one thread each. Without BASE it is
where this branch left main, or HEAD where something is not committed, or the commit
before. Differences are for whoever reads them; only a case that fails here is an error.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from golden.records import differences

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Up to here sums that are added up in another order: counted, not printed.
ROUNDING = 1e-6
# Of a case that many differences are printed.
AT_MOST = 4


def git(*words, check=True) -> bytes:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=check, stdout=subprocess.PIPE
    ).stdout


def commit(name) -> str:
    """The hash that a name stands for, empty for a name of no commit."""
    found = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    return found.decode().strip()


def default_base() -> str:
    """See above; empty where the history has no other commit."""
    head = commit("HEAD")
    main = commit("main") or commit("origin/main") or head
    base = git("merge-base", "HEAD", main, check=False).decode().strip() or head
    changed = git("status", "--porcelain", "--untracked-files=no").strip()
    return base if base != head or changed else commit("HEAD~1")


def start(checkout, path) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, HERE / "run.py", checkout, path]
    return subprocess.Popen(command, env=environment)


def records_of(base) -> list[dict]:
    """What this checkout and the commit, if there is one, make of their cases."""
    with TemporaryDirectory() as folder:
        folder = Path(folder)
        checkouts = [ROOT]
        if base:
            checkouts.append(folder / "base")
            with tarfile.open(fileobj=io.BytesIO(git("archive", base))) as files:
                files.extractall(folder / "base", filter="data")
        paths = [folder / f"{k}.json" for k in range(len(checkouts))]
        runs = [start(*each) for each in zip(checkouts, paths, strict=True)]
        codes = [run.wait() for run in runs]
        if any(codes):
            sys.exit("The cases could not be run.")
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def report(now, before) -> list[str]:
    """Lines about records that differ, the most first, and about those without a pair.

    The last line is the sum of it all.
    """
    lines = [f"{name}: only now" for name in now if name not in before]
    lines += [f"{name}: only before" for name in before if name not in now]
    alone, equal, near, others = len(lines), 0, 0, []
    for name in [name for name in now if name in before]:
        found = sorted(differences(now[name], before[name]), reverse=True)
        largest = found[0][0] if found else 0.0
        equal += not found
        near += 0 < largest <= ROUNDING
        if largest > ROUNDING:
            said = [f"{name}: {len(found)} differences, of {largest:.1e} at most"]
            said += [f"    {words}" for _, words in found[:AT_MOST]]
            others.append((largest, said))
    for _, said in sorted(others, key=lambda other: -other[0]):
        lines += said
    return [
        *lines,
        f"{len(now)} cases: {equal} equal to 8 digits, {near} to {ROUNDING:g}, "
        f"{len(others)} differ, {alone} without a pair",
    ]


def main(name=""):
    base = commit(name) if name else default_base()
    if name and not base:
        sys.exit(f"{name} is no commit of this repository.")
    now, *before = records_of(base)
    if before:
        title = git("show", "-s", "--format=%h %s", base).decode().strip()
        print(f"This checkout, compared with {title}")
        print("\n".join(report(now, *before)))
    else:
        print(f"{len(now)} cases, and no other commit to compare them with")
    failed = [
        f"{name}: {found['error']}" for name, found in now.items() if "error" in found
    ]
    if failed:
        sys.exit("\n".join(["These cases fail:", *failed]))


if __name__ == "__main__":
    main(*sys.argv[1:])
