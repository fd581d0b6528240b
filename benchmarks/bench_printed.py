# SPDX-License-Identifier: BSD-3-Clause
"""Sizes in the outputs that the guide prints: of commands, a report, and `combine`.

The command line makes one classifier of three islands, with and without an epsilon. The
report and the table of `combine` are those of their pages. Bytes differ a little
between machines, since settings are sent as text.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import warnings
from argparse import ArgumentParser
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import skops.io
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, combine
from skgems._cli import main as run_command
from skgems.datasets import load_penguins

ISLANDS = ("Biscoe", "Dream", "Torgersen")
FEATURES = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
# What the page on the command line types after the names of the nodes.
WITH_EPSILON = ("--set", "random_state=0", "moments__n_components=1", "epsilon=0.9")


def note(name: str, figure: float) -> None:
    """Print a figure, and hand it on."""
    print(f"{name:50}{figure:12.6g}")
    note_figure(name, figure)


def bytes_in(text: str) -> int:
    """The bytes that all nodes sent, as a report says them."""
    (figure,) = re.findall(r"The nodes sent ([\d,]+) bytes", text)
    return int(figure.replace(",", ""))


def local_models(X: np.ndarray | pd.DataFrame) -> dict:
    """A classifier for each island; one island has a single species."""
    _, y, islands = load_penguins()
    models = {}
    for name in ISLANDS:
        labels = y[islands == name]
        if len(set(labels)) > 1:
            clf = make_pipeline(StandardScaler(), LogisticRegression())
        else:
            clf = DummyClassifier()
        models[name] = clf.fit(X[islands == name], labels)
    return models


def write_islands() -> None:
    """Write the table and the classifier of each island into this folder."""
    X, y, islands = load_penguins()
    table = pd.DataFrame(X, columns=FEATURES)
    for name, clf in local_models(table).items():
        rows = table.assign(species=y)[islands == name]
        rows.to_csv(f"{name}.csv", index=False)
        joblib.dump(clf, f"{name}.joblib")


def typed(*words: object) -> str:
    """What a command of skgems prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = run_command([str(word) for word in words])
    if status:
        raise RuntimeError(f"skgems {words[0]} ended with status {status}")
    return printed.getvalue()


def combined_by_commands(study: str, options: tuple[str, ...]) -> str:
    """What ``skgems combine`` prints after all islands have answered."""
    typed("start", study, "--method", "linear", "--nodes", *ISLANDS, *options)
    for name in ISLANDS:
        request = f"{study}/requests/001-{name}.safetensors"
        rows = ("--model", f"{name}.joblib", "--rows", f"{name}.csv")
        who = ("--label", "species", "--name", name, "--yes")
        agreed = ()
        if options:  # distances of rows are sent under an agreement only
            agreement = f"{study}/agreement.json"
            agreed = ("--agreement", agreement, "--state", f"{study}/kept-{name}")
        typed("answer", request, *rows, *who, *agreed)
    return typed("combine", study, "--out", f"{study}.skops")


def measure_commands() -> None:
    """Bytes that commands print, and lines of what ``skgems inspect`` says."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            write_islands()
            note("bytes, commands", bytes_in(combined_by_commands("study", ())))
            X, y, _ = load_penguins()
            clf = skops.io.load("study.skops", trusted=["numpy.dtype"])
            table = pd.DataFrame(X, columns=FEATURES)
            note("accuracy, commands", 100 * clf.score(table, y))
            text = combined_by_commands("proven", WITH_EPSILON)
            note("bytes, commands with epsilon", bytes_in(text))
            (file,) = Path("proven/replies").glob("*Biscoe*")
            note("bytes, file of Biscoe with epsilon", file.stat().st_size)
            (file,) = Path("study/replies").glob("*Biscoe*")
            note("lines, inspect", len(typed("inspect", file).splitlines()))
        finally:
            os.chdir(here)


def measure_report() -> None:
    """Bytes of the report of the page *report*."""
    X, y, islands = load_penguins()
    agg = GEMSLogisticAggregator(list(local_models(X).items()), random_state=0)
    report = agg.fit(X, y, nodes=islands).report(X, y)
    note("bytes, report", bytes_in(str(report)))


def measure_combine() -> None:
    """Megabytes, accuracy and log-loss of candidates of the page *combine*."""
    X, y = load_digits(return_X_y=True)
    agg = combine(X=X[::2], y=y[::2], nodes=y[::2] // 4, random_state=0)
    print(agg.choice_)
    for row in agg.choice_.table:
        if not row["error"]:
            note(f"MB, {row['name']}", row["bytes"] / 1e6)
            note(f"accuracy, {row['name']}", row["accuracy"])
            note(f"log-loss, {row['name']}", row["log_loss"])


def main() -> None:
    """Run all."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parse_with_quick(parser, quick={})
    warnings.simplefilter("ignore")
    measure_commands()
    measure_report()
    measure_combine()


if __name__ == "__main__":
    main()
