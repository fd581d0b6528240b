# SPDX-License-Identifier: BSD-3-Clause
"""Run Python once under each switch, as other processors would; a line for each.

A switch is one argument, of NAME=VALUE with spaces between; after -- comes what
Python is to run: python .ci/anywhere.py OMP_NUM_THREADS=2 -- -m pytest tests
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

LOGS = Path("build", "anywhere")
# What a process computes with: kernels of BLAS, its threads, numpy's instructions.
STATE = """
import json, numpy, scipy.linalg, threadpoolctl
from numpy._core._multiarray_umath import __cpu_features__ as features
pools = [(p["filepath"], p.get("architecture"), p["num_threads"])
         for p in threadpoolctl.threadpool_info()]
print(json.dumps([sorted(pools), [name for name in features if features[name]]]))
"""
DISABLED = "NPY_DISABLE_CPU_FEATURES"


def state(switch: dict[str, str]) -> list:
    run = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", STATE],
        env=os.environ | switch,
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise SystemExit(f"{switch} cannot be set:\n{run.stderr}")
    return json.loads(run.stdout)


def main(switches: list[str], command: list[str]) -> int:
    LOGS.mkdir(parents=True, exist_ok=True)
    plain = state({})
    n_run = n_failed = 0
    for text in switches:
        switch = dict(part.split("=", 1) for part in text.split())
        if DISABLED in switch:  # numpy takes only those that are there to disable
            there = set(switch[DISABLED].split(",")) & set(plain[1])
            switch[DISABLED] = ",".join(sorted(there))
        if state(switch) == plain:
            print(f"{text}: changes nothing on this machine, not run", flush=True)
            continue
        start = time.monotonic()
        log = LOGS / f"{text.replace(' ', '+')}.log"
        with log.open("w") as out:
            env = os.environ | switch
            run = subprocess.run(
                [sys.executable, *command], env=env, stdout=out, stderr=out
            )
        lines = log.read_text().splitlines() or [""]
        last = lines[-1].strip("= ")
        word = "failed" if run.returncode else "passed"
        seconds = time.monotonic() - start
        print(f"{text}: {word} ({last}), {seconds:.0f} s, {log}", flush=True)
        if run.returncode:
            print(*lines[-40:], sep="\n", flush=True)
        n_run, n_failed = n_run + 1, n_failed + bool(run.returncode)
    if not n_run:
        print("No switch changes anything on this machine.")
    return int(n_failed > 0 or not n_run)


if __name__ == "__main__":
    cut = sys.argv.index("--")
    sys.exit(main(sys.argv[1:cut], sys.argv[cut + 1 :]))
