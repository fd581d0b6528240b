# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of the command line: exit codes and the files that are written.

What is printed is for people, and may change.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest.mock import patch

import joblib
import numpy as np
from golden.data import NAMES, digits, linear, penguins
from golden.nodes import message_record, temporary_folder
from golden.records import fitted_attributes, predictions
from helpers.accepting import nodes_that_accept_everything

from skgems.asking import Message
from skgems.guard import Agreement

COLUMNS = [f"pixel {k}" for k in range(18, 30)]
OVERLAPPING = digits("overlapping")


def typed(*words) -> int:
    """The exit code of a command, where nobody sits who could be asked."""
    from skgems._cli import main

    with (
        nodes_that_accept_everything(),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
        patch.object(sys, "stdin", io.StringIO()),
    ):
        try:
            return main(list(map(str, words)))
        except SystemExit as end:  # of words that --help does not have
            return end.code


def write_tables(rows=OVERLAPPING, **written):
    """A table and a classifier of each node, in this folder."""
    import pandas as pd

    for k, name in enumerate(NAMES):
        is_own = rows.nodes == k
        X = rows.X[is_own][:, 18:30]
        X_local, y_local = rows.local[k]
        table = pd.DataFrame(X, columns=COLUMNS).assign(digit=rows.y[is_own])
        table.to_csv(f"{name}.csv", index=False, **written)
        member = linear(X_local[:, 18:30], y_local.astype(str), None, k)
        member.feature_names_in_ = np.array(COLUMNS, dtype=object)
        joblib.dump(member, f"{name}.joblib")


def write_penguins():
    """A table of each island, with texts and gaps."""
    rows = penguins()
    for k, name in enumerate(NAMES):
        is_own = rows.nodes == k
        table = rows.X[is_own].assign(species=rows.y[is_own])
        table.to_csv(f"{name}.csv", index=False)


def written(place) -> dict:
    """Messages and agreements below a folder, by path."""
    records = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.suffix == ".safetensors":
            records[name] = message_record(Message.from_bytes(path.read_bytes()))
        elif path.name == "agreement.json":
            agreement = Agreement.load(path)
            records[name] = {
                "method": agreement.method,
                "settings": agreement.settings,
                "tasks": agreement.tasks,
                "radii": agreement.radii,
                "disclosure": agreement.disclosure.as_dict(),
            }
    return records


def kept_messages(place) -> dict:
    return {
        path.relative_to(place).as_posix().replace("/", " "): path.read_bytes()
        for path in sorted(place.rglob("*.safetensors"))
    }


def model_record(path, X_test) -> dict:
    model = joblib.load(path)
    if hasattr(model, "feature_names_in_"):
        X_test = X_test[list(model.feature_names_in_)]
    else:
        X_test = X_test.to_numpy()
    return {"model": fitted_attributes(model), **predictions(model, X_test)}


def exchange(
    *start,
    answer=(),
    combine=("study",),
    label="digit",
    with_model=True,
    write=write_tables,
):
    """Start, answer at each node and combine, until the model is there."""
    codes = []
    n_messages = 0
    with temporary_folder() as folder, chdir(folder):
        write()
        codes.append(typed("start", "study", *start, "--nodes", *NAMES))
        place = folder / "study"
        out = folder / "model.joblib"
        while not out.exists() and n_messages < 9:
            n_messages += 1
            for name in NAMES:
                request = place / "requests" / f"{n_messages:03d}-{name}.safetensors"
                if not request.exists():
                    continue
                model = ("--model", f"{name}.joblib") if with_model else ()
                rows = ("--rows", f"{name}.csv", "--label", label, "--name", name)
                codes.append(
                    typed(
                        "answer",
                        request,
                        *model,
                        *rows,
                        "--disclosure",
                        "min_rows=10",
                        *answer,
                    )
                )
            codes.append(typed("combine", *combine, "--out", out))
        X_test = test_rows(label)
        return {
            "codes": codes,
            "files": written(place),
            "kept": kept_messages(place),
            **model_record(out, X_test),
        }


def test_rows(label):
    import pandas as pd

    if label == "species":
        return penguins().X_test
    return pd.DataFrame(OVERLAPPING.X_test[:, 18:30], columns=COLUMNS)


def of_tables(*words):
    """One command makes several models of the tables in a folder."""
    with temporary_folder() as folder, chdir(folder):
        write_penguins()
        out = folder / "model.joblib"
        code = typed(
            *("combine", ".", "--method", "auto", "--label", "species", "--out", out),
            *("--set", "random_state=0", *words),
        )
        return {"code": code, **model_record(out, test_rows("species"))}


def with_a_ledger():
    """A node answers under an agreement; its ledger is looked at."""
    with temporary_folder() as folder, chdir(folder):
        write_tables()
        start = typed(
            *("start", "study", "--method", "linear", "--nodes", *NAMES),
            *("--set", "random_state=0"),
        )
        request = "study/requests/001-north.safetensors"
        node = ("--model", "north.joblib", "--rows", "north.csv", "--label", "digit")
        under = ("--name", "north", "--agreement", "study/agreement.json")
        first = typed("answer", request, *node, *under, "--state", "kept", "--yes")
        return {
            "codes": {
                "start": start,
                "answer": first,
                "missing replies": typed("combine", "study", "--out", "model.joblib"),
                "inspect ledger": typed("inspect", "kept"),
                "inspect request": typed("inspect", request),
                "inspect reply": typed(
                    "inspect", "study/replies/001-north.safetensors"
                ),
                "inspect agreement": typed("inspect", "study/agreement.json"),
            },
            "files": written(folder / "study"),
        }


def what_is_wrong():
    """Exit codes of words and files that are not as they have to be."""
    with temporary_folder() as folder, chdir(folder):
        write_tables()
        linear_method = ("--method", "linear", "--nodes", *NAMES)
        return {
            "no command": typed(),
            "no such command": typed("mix"),
            "no such method": typed("start", "a", "--method", "best", "--nodes", "n"),
            "no such parameter": typed("start", "b", *linear_method, "--set", "c=1"),
            "no such file": typed("inspect", "nothing.safetensors"),
            "no message": typed("inspect", "north.csv"),
            "no label": typed(
                "answer", "x.safetensors", "--rows", "north.csv", "--name", "north"
            ),
            "version": typed("--version"),
            "help": typed("answer", "--help"),
            "written": sorted(os.listdir()),
        }


LINEAR = ("--method", "linear", "--set", "random_state=0")

CASES = {
    "linear": lambda: exchange(*LINEAR),
    "linear three messages": lambda: exchange(*LINEAR, "n_rounds=3"),
    "linear epsilon": lambda: exchange(*LINEAR, "epsilon=0.5", answer=["--radii"]),
    "linear report": lambda: exchange(*LINEAR, combine=["study", "--report"]),
    "linear C": lambda: exchange(*LINEAR, combine=["study/replies", "--set", "C=0.5"]),
    "linear of semicolons": lambda: exchange(
        *LINEAR, write=lambda: write_tables(sep=";", decimal=",")
    ),
    "linear front": lambda: exchange(
        *LINEAR,
        *("--front", "SimpleImputer | StandardScaler"),
        with_model=False,
    ),
    "linear front auto": lambda: exchange(
        *LINEAR,
        *("--front", "auto"),
        label="species",
        with_model=False,
        write=write_penguins,
    ),
    "pooled": lambda: exchange(
        *("--method", "pooled", "--set", "pooled=GaussianNB"), with_model=False
    ),
    "averaging": lambda: exchange(
        "--method", "averaging", "--set", "random_state=0", "node_weight=n_samples"
    ),
    "auto": lambda: of_tables("budget=small"),
    "auto front": lambda: of_tables(
        *("budget=small", "--front", "SimpleImputer | StandardScaler", "--drop", "sex")
    ),
    "ledger": lambda: with_a_ledger(),
    "wrong": lambda: what_is_wrong(),
}
