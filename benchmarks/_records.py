# SPDX-License-Identifier: BSD-3-Clause
"""Results that a benchmark keeps in a file, so that a stopped run can go on.

A file has one JSON object a line. `Records` holds the results of programs such as
`bench_pooled_gap.py` by what they are about, and measures only what is missing;
`JsonLines` is the file alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# Stands in a key for what a result does not depend on.
ANY = "any"


class JsonLines:
    """A file of one JSON object a line; without a path nothing is read or written."""

    def __init__(self, path: str | Path | None):
        self.path = None if path is None else Path(path)

    def read(self) -> list[dict]:
        """The objects; none where there is no file."""
        if self.path is None or not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def remove_cut_line(self) -> None:
        """Remove a last line without an end: a run was stopped while it wrote.

        It is no JSON, and what is appended would continue it.
        """
        if self.path is None or not self.path.exists():
            return
        *lines, cut_off = self.path.read_text().split("\n")
        if cut_off:
            self.path.write_text("".join(f"{line}\n" for line in lines))

    def append(self, record: dict) -> None:
        """Write an object behind the others."""
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")


class Key(NamedTuple):
    """What a result is about."""

    data: str
    n_train: int
    seed: int
    partition: str
    kind: str  # of node, or of features
    method: str


class Records:
    """Results by key, also appended to a file; and what failed, in words."""

    def __init__(self, path: str | None):
        self.file = JsonLines(path)
        self.file.remove_cut_line()
        self.failures: list[str] = []
        self._result_of: dict[Key, dict] = {}
        for record in self.file.read():
            self._remember(record)

    def _remember(self, record: dict) -> None:
        key = Key(
            data=record["data"],
            n_train=record["n_train"],
            seed=record["seed"],
            partition=record["partition"],
            kind=record["kind"],
            method=record["method"],
        )
        self._result_of[key] = record

    def get(self, key: Key) -> dict | None:
        """The result, if there is one."""
        return self._result_of.get(key)

    def measure_once(
        self,
        key: Key,
        measure: Callable[[], dict],
        *,
        on_success: Callable[[dict], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """Measure and keep a result, unless there is one already."""
        if key in self._result_of:
            return
        try:
            figures = measure()
        # One method's failure must not cost the others' results.
        except Exception as error:
            about = " ".join(str(part) for part in key)
            failure = f"{about}: {type(error).__name__}: {error}"[:300]
            self.failures.append(failure)
            on_failure(failure)
            return
        record = key._asdict() | figures
        self._remember(record)
        self.file.append(record)
        on_success(figures)

    def exit_if_failed(self) -> None:
        """End the program with 1 where a measurement failed, and print the first."""
        if self.failures:
            print(f"\n{len(self.failures)} fits failed, the first: {self.failures[0]}")
            sys.exit(1)
