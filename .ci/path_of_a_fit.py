# SPDX-License-Identifier: BSD-3-Clause
"""Count the functions and files of skgems that a default fit passes.

A fit of `GEMSLogisticAggregator` over three local models of iris, which have their rows
in this process, all parameters at their defaults; with ``--summaries`` over the files
of three summaries, which is the server's side alone. A function counts once, however
often it is called and in whichever thread. There are two counts:

- functions: what is written as ``def``, with methods, properties and nested functions;
- code objects: these, and lambdas, generator expressions and comprehensions, which are
  functions to the interpreter (comprehensions up to Python 3.11 only).

A fit before imports all modules and fills what `functools` keeps; the cache of results
is emptied. Methods that `dataclasses` writes belong to no file and are not counted.
``--list`` prints the functions by file, in the order of their first calls.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import GEMSLogisticAggregator
from skgems.local import clear_cache

PACKAGE = Path(skgems.__file__).parent
N_NODES = 3


def codes_of(call: Callable[[], object]) -> list[CodeType]:
    """Return the code objects of skgems that a call runs, in order of first calls."""
    codes: dict[CodeType, None] = {}

    def note(frame, event, argument) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            codes.setdefault(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(codes)


def name_of(code: CodeType) -> str:
    """Return file and function, as "gems/_logistic.py:GEMSLogisticAggregator.fit"."""
    return f"{file_of(code)}:{code.co_qualname}"


def file_of(code: CodeType) -> str:
    return Path(code.co_filename).relative_to(PACKAGE).as_posix()


def fit_over_models() -> Callable[[], object]:
    """Return a fit of three local models, over their rows."""
    X, y = load_iris(return_X_y=True)
    nodes = np.arange(len(y)) % N_NODES
    members = [
        LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(N_NODES)
    ]
    return lambda: GEMSLogisticAggregator(members).fit(X, y, nodes=nodes)


def fit_over_summaries(folder: Path) -> Callable[[], object]:
    """Return a fit of the summaries of three nodes, which are files in a folder."""
    X, y = load_iris(return_X_y=True)
    nodes = np.arange(len(y)) % N_NODES
    aggregator, paths = GEMSLogisticAggregator(random_state=0), []
    for k in range(N_NODES):
        X_node, y_node = X[nodes == k], y[nodes == k]
        model = LogisticRegression().fit(X_node, y_node)
        paths.append(folder / f"{k}.safetensors")
        aggregator.summarize(model, X_node, y_node, name=str(k)).save(paths[-1])
    return lambda: GEMSLogisticAggregator(paths, random_state=0).fit()


def codes_of_a_fit(fit: Callable[[], object]) -> list[CodeType]:
    """Return the code objects that a fit runs, once all modules are imported."""
    fit()
    clear_cache()
    return codes_of(fit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the functions")
    parser.add_argument(
        "--summaries", action="store_true", help="fit over files of summaries"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        fit = (
            fit_over_summaries(Path(folder))
            if arguments.summaries
            else fit_over_models()
        )
        codes = codes_of_a_fit(fit)
    functions = [code for code in codes if not code.co_name.startswith("<")]
    if arguments.list:
        print("\n".join(map(name_of, functions)))
    n_files = len({file_of(code) for code in functions})
    print(f"{len(functions)} functions in {n_files} files")
    n_files = len({file_of(code) for code in codes})
    print(f"{len(codes)} code objects in {n_files} files, with lambdas and the like")


if __name__ == "__main__":
    main()
