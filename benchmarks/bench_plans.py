# SPDX-License-Identifier: BSD-3-Clause
"""What plans cost in process: the part of a fit that is messages, not work of nodes.

Time within the tasks' own functions is taken from the time that the run takes; what is
left are messages, checks of replies, copies of rows and threads. Each fit is timed
several times, the median is printed; the goal is at most 3 % of a fit. Beside it the
same with every message turned into bytes and back.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from time import perf_counter
from unittest import mock

import numpy as np
from _quick import parse_with_quick
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import GEMSMLPAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.federation import Message, Run
from skgems.federation import _channel as channel_module
from skgems.federation import _replying as replying_module
from skgems.local import clear_cache
from skgems.messages import TASKS

# Nodes of alike rows.
N_NODES = 5


def cases(units):
    """Aggregators by name, each with fitted members, and the rows."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    nodes = np.arange(len(y)) % N_NODES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nets = [
            MLPClassifier(units, max_iter=50, random_state=0).fit(
                X[nodes == k], y[nodes == k]
            )
            for k in range(N_NODES)
        ]
    yield "hidden layers", GEMSMLPAggregator(nets, random_state=0), (X, y, nodes)
    rounds = ModelAveragingAggregator(nets, n_rounds=3, random_state=0)
    yield "co-learning", rounds, (X, y, nodes)
    yield "matching", PFNMAggregator(nets, n_rounds=3, random_state=0), (X, y, nodes)


def measure(aggregate, rows, by_bytes):
    """Seconds of a fit, and of what its run does beside the tasks."""
    seconds_of_tasks = []
    seconds_of_runs = []
    ask = Run.ask
    answer = channel_module.answer

    def timed(function):
        def run(member, **content):
            start = perf_counter()
            try:
                return function(member, **content)
            finally:
                seconds_of_tasks.append(perf_counter() - start)

        return run

    def timed_ask(self, request):
        start = perf_counter()
        replies = list(ask(self, request))
        seconds_of_runs.append(perf_counter() - start)
        return iter(replies)

    def through_bytes(request, member):
        request = Message.from_bytes(request.to_bytes())
        return Message.from_bytes(answer(request, member).to_bytes())

    timed_tasks = {
        name: replace(task, answer=timed(task.answer)) for name, task in TASKS.items()
    }
    with (
        mock.patch.object(replying_module, "TASKS", timed_tasks),
        mock.patch.object(
            channel_module, "answer", through_bytes if by_bytes else answer
        ),
        mock.patch.object(Run, "ask", timed_ask),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        clear_cache()
        start = perf_counter()
        X, y, nodes = rows
        aggregate.fit(X, y, nodes=nodes)
        total = perf_counter() - start
    return total, sum(seconds_of_runs) - sum(seconds_of_tasks)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=50, help="of each hidden layer")
    parser.add_argument("--runs", type=int, default=7, help="fits of each kind")
    options = parse_with_quick(parser, quick={"runs": 3})
    print(f"{'plan':16} {'fit s':>8} {'messages':>9} {'by bytes':>9}")
    for name, aggregate, rows in cases((options.units,)):
        runs = [
            [measure(aggregate, rows, by_bytes) for by_bytes in (False, True)]
            for _ in range(options.runs)
        ]
        fit = np.median([direct[0] for direct, _ in runs])
        shares = [
            np.median([run[way][1] / run[way][0] for run in runs]) for way in (0, 1)
        ]
        print(f"{name:16} {fit:8.3f} {shares[0]:9.2%} {shares[1]:9.2%}", flush=True)


if __name__ == "__main__":
    main()
