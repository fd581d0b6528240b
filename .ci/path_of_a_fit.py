# SPDX-License-Identifier: BSD-3-Clause
"""Count the functions and files of skgems that a fit, or a node's reply, passes.

Each way is counted in a process of its own, with parameters at their defaults, three
local models and the rows of iris::

    python .ci/path_of_a_fit.py                   # all ways, as a table
    python .ci/path_of_a_fit.py --way linear --list
    python .ci/path_of_a_fit.py --check           # an error above the ceilings

A function counts once, however often it is called and in whichever thread. There are
two counts:

- functions: what is written as ``def``, with methods, properties and nested functions;
- code objects: these, and lambdas, generator expressions and comprehensions, which are
  functions to the interpreter (comprehensions up to Python 3.11 only).

A call before imports all modules and fills what `functools` keeps; the cache of results
is emptied. Methods that `dataclasses` writes belong to no file and are not counted.
``--list`` prints the functions by file, in the order of their first calls.

Ceilings are in ``ceilings.toml``, beside this file. A change that shortens a way lowers
them; one that lengthens a way says in its message what for.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, repeat
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import CodeType

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

import skgems
from skgems.asking import read_federation
from skgems.channels import Exchange
from skgems.guard import answer
from skgems.local import clear_cache

PACKAGE = Path(skgems.__file__).parent
CEILINGS = Path(__file__).with_name("ceilings.toml")
N_NODES = 3
N_PROCESSES = 2  # at a time: the longest way takes as long as all others
Call = Callable[[], object]


def codes_of(call: Call) -> list[CodeType]:
    """Return the code objects of skgems that a call runs, in order of first calls."""
    codes: dict[CodeType, None] = {}
    beginning = f"{PACKAGE}{os.sep}"

    def note(frame, event, argument) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(beginning):
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


def codes_of_a_fit(fit: Call) -> list[CodeType]:
    """Return the code objects that a fit runs, once all modules are imported."""
    fit()
    clear_cache()
    return codes_of(fit)


# ---- the ways ----------------------------------------------------------------------


def rows_of_nodes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of iris, their labels, and the node of each row."""
    X, y = load_iris(return_X_y=True)
    return X, y, np.arange(len(y)) % N_NODES


def members_of(make: Callable[[], ClassifierMixin]) -> list[ClassifierMixin]:
    """Return a local model of each node."""
    X, y, nodes = rows_of_nodes()
    return [make().fit(X[nodes == k], y[nodes == k]) for k in range(N_NODES)]


def network() -> MLPClassifier:
    return MLPClassifier((10,), max_iter=60, random_state=0)


def fit_over_models(
    aggregator: type = skgems.GEMSLogisticAggregator,
    make: Callable[[], ClassifierMixin] = LogisticRegression,
) -> Call:
    """Return a fit of three local models, over their rows."""
    X, y, nodes = rows_of_nodes()
    members = members_of(make)
    return lambda: aggregator(members).fit(X, y, nodes=nodes)


def read_models() -> Call:
    """Return a call that reads who takes part in such a fit, and asks nobody."""
    X, y, nodes = rows_of_nodes()
    aggregator = skgems.GEMSLogisticAggregator(members_of(LogisticRegression))
    method = aggregator._method()
    return lambda: read_federation(aggregator, X, y, nodes, method=method)


def combine_models() -> Call:
    """Return a call that chooses the best of several aggregates.

    Its first run is of a small budget, which imports as much in a tenth of the time.
    """
    X, y, nodes = rows_of_nodes()
    members = members_of(LogisticRegression)
    budgets = chain(["small"], repeat("fast"))
    return lambda: skgems.combine(members, X, y, nodes=nodes, budget=next(budgets))


def fit_over_summaries(folder: Path) -> Call:
    """Return a fit of the summaries of three nodes, which are files in a folder."""
    X, y, nodes = rows_of_nodes()
    aggregator = skgems.GEMSLogisticAggregator(random_state=0)
    paths = []
    for k, model in enumerate(members_of(LogisticRegression)):
        paths.append(folder / f"{k}.safetensors")
        rows = nodes == k
        aggregator.summarize(model, X[rows], y[rows], name=str(k)).save(paths[-1])
    return lambda: skgems.GEMSLogisticAggregator(paths, random_state=0).fit()


def reply_to_first_message(folder: Path) -> Call:
    """Return the answer of a node under its agreement, with a ledger."""
    X, y, nodes = rows_of_nodes()
    aggregator = skgems.GEMSLogisticAggregator(random_state=0)
    exchange = Exchange(folder, aggregator, nodes=["lyon"])
    exchange.step()
    model = members_of(LogisticRegression)[0]

    def reply() -> None:
        with tempfile.TemporaryDirectory() as state:
            answer(
                exchange.waiting_for["lyon"],
                model,
                X[nodes == 0],
                y[nodes == 0],
                name="lyon",
                state=state,
                agreement=folder / "agreement.json",
            )

    return reply


@contextmanager
def ways() -> Iterator[Mapping[str, Callable[[], Call]]]:
    """Give what makes the call of each way, by its name; its files go afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield {
            "combine": combine_models,
            "reading": read_models,
            "linear": fit_over_models,
            "networks": lambda: fit_over_models(skgems.GEMSMLPAggregator, network),
            "pfnm": lambda: fit_over_models(skgems.PFNMAggregator, network),
            "averaging": lambda: fit_over_models(skgems.ModelAveragingAggregator),
            "vote": lambda: fit_over_models(skgems.EnsembleAggregator),
            "pooled": lambda: fit_over_models(skgems.PooledAggregator, GaussianNB),
            "first reply": lambda: reply_to_first_message(folder),
            "summaries": lambda: fit_over_summaries(folder),
        }


# ---- counts ------------------------------------------------------------------------


def codes_of_way(way: str) -> list[CodeType]:
    """Return the code objects of a way, in order of first calls."""
    warnings.simplefilter("ignore")
    with ways() as calls:
        return codes_of_a_fit(calls[way]())


def count_in_new_process(way: str) -> dict[str, int]:
    """Return the numbers of functions and files that a way passes."""
    printed = subprocess.run(
        [sys.executable, __file__, "--way", way],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return {"functions": int(printed[0]), "files": int(printed[3])}


def print_way(way: str, *, with_names: bool) -> None:
    """Print the counts of a way, after the names of its functions if they are asked."""
    codes = codes_of_way(way)
    functions = [code for code in codes if not code.co_name.startswith("<")]
    if with_names:
        print("\n".join(map(name_of, functions)))
    n_files = len({file_of(code) for code in functions})
    print(f"{len(functions)} functions in {n_files} files")
    n_files = len({file_of(code) for code in codes})
    print(f"{len(codes)} code objects in {n_files} files, with lambdas and the like")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--way", help="count this way alone, in this process")
    parser.add_argument("--list", action="store_true", help="print its functions")
    parser.add_argument(
        "--check", action="store_true", help="fail where a count is above its ceiling"
    )
    arguments = parser.parse_args()
    if arguments.way is not None or arguments.list:
        print_way(arguments.way or "linear", with_names=arguments.list)
        return
    ceilings = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["ways"]
    with ways() as calls:
        names = list(calls)
    with ThreadPool(N_PROCESSES) as pool:
        counts_of_ways = pool.map(count_in_new_process, names, chunksize=1)
    too_long = []
    for way, counts in zip(names, counts_of_ways, strict=True):
        ceiling = ceilings.get(way, {})
        words = ", ".join(f"{kind} = {count}" for kind, count in counts.items())
        most = ", ".join(map(str, ceiling.values())) or "any"
        print(f'"{way}" = {{ {words} }}  # at most {most}')
        if any(count > ceiling.get(kind, count) for kind, count in counts.items()):
            too_long.append(way)
    if arguments.check and too_long:
        raise SystemExit(
            f"These ways became longer: {', '.join(too_long)}. Shorten them, or raise "
            f"the ceilings in {CEILINGS.name} and say what for."
        )


if __name__ == "__main__":
    main()
