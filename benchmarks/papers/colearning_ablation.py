# SPDX-License-Identifier: BSD-3-Clause
"""Co-learning, Figure 2 and Tables 1 and 2: rates, round lengths, bytes.

Five nodes have similar rows of MNIST, and networks with one hidden layer of 100 units.
Every variant has the same total number of epochs. The tables show the accuracy of the
shared model after each round. The variants are cyclical and exponential learning rates,
increasing and fixed epochs, and first rounds of one and two epochs. For comparison
there are training on all rows, the mean local model, the ensemble of local models, and
their average. Each of these has as many epochs.

Rates, epochs and epsilon were chosen on selection rows (``--select``), not on the test
rows.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from _common import CIFAR, CLASSES, MNIST, Cell, Program, Trial, protocol
from sklearn.neural_network import MLPClassifier

from skgems import EnsembleAggregator, ModelAveragingAggregator
from skgems.asking import InProcess, Message, Run, learning_rates, mean_parameters
from skgems.averaging import CoLearning, Schedule
from skgems.datasets import partition_homogeneous
from skgems.local import Member, local_model

# Alike nodes, as in the paper.
N_NODES = 5
# First rates, by the data; features of CIFAR-10 are larger than pixels.
LEARNING_RATES = {MNIST: 0.1, CIFAR: 0.03}
LENGTHS = "epochs of the first round: {}"


class Variant(NamedTuple):
    """One kind of co-learning."""

    first_length: int  # epochs of the first round
    schedule: str  # of the rates
    epochs: str  # whether rounds get longer


class Round(NamedTuple):
    """Where co-learning is after one round."""

    n_epochs: int
    n_bytes: int
    accuracy: float


def co_learning(
    start,
    members: list[Member],
    variant: Variant,
    *,
    options: Namespace,
    accuracy: Callable,
    seed: int,
) -> list[Round]:
    """The rounds of co-learning from one start, until all epochs are spent."""
    rounds = []
    n_epochs = 0
    n_bytes = 0
    run = Run(InProcess(members))
    strategy = CoLearning(
        n_rounds=-(-options.epochs // variant.first_length),
        local_epochs=variant.first_length,
        learning_rate=options.learning_rate,
        schedule=Schedule(variant.schedule, epochs=variant.epochs, tol=options.epsilon),
    )
    plan = strategy.plan(
        start.parameters(),
        {member.name: 1.0 for member in members},
        CLASSES.tolist(),
        np.random.RandomState(seed),
    )
    request = next(plan)
    while True:
        content = request.content
        # The last round is cut to what is left.
        length = min(content["epochs"], options.epochs - n_epochs)
        content |= {"epochs": length, "rates": content["rates"][:length]}
        replies = list(run.ask(Message.of(request.task, **content)))
        mean = mean_parameters(
            (reply.content["parameters"], 1.0) for _, reply in replies
        )
        n_epochs += length
        exchange = run.history[-1]
        n_bytes += exchange["bytes_sent"] + exchange["bytes_received"]
        rounds.append(Round(n_epochs, n_bytes, accuracy(mean)))
        if n_epochs >= options.epochs:
            return rounds
        try:
            request = plan.send(iter(replies))
        except StopIteration:
            return rounds


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    options = trial.options
    if options.learning_rate is None:
        options.learning_rate = LEARNING_RATES.get(options.of, LEARNING_RATES[MNIST])
    X, y = trial.train
    local, _, selection = protocol.split(trial.number, len(X))
    X_test, y_test = (X[selection], y[selection]) if options.select else trial.test
    nodes = partition_homogeneous(y[local], n_nodes=N_NODES, random_state=trial.number)
    rows_of_nodes = [local[nodes == k] for k in range(N_NODES)]
    unfitted = MLPClassifier(options.units, solver="sgd", batch_size=32, alpha=0.0)
    started = local_model(unfitted).start(
        X, y, classes=CLASSES, random_state=trial.number
    )
    start = local_model(started)

    def accuracy_of_parameters(parameters) -> float:
        return start.with_parameters(parameters).classifier.score(X_test, y_test)

    def train_alone(rows: np.ndarray):
        return start.train(
            X[rows],
            y[rows],
            epochs=options.epochs,
            learning_rate=learning_rates(options.learning_rate, options.epochs),
            random_state=trial.number,
        ).classifier

    local_models = [train_alone(rows) for rows in rows_of_nodes]
    vote = EnsembleAggregator(local_models).fit()
    averaged = ModelAveragingAggregator(local_models).fit()
    baselines = {
        "pooled": train_alone(local).score(X_test, y_test),
        "local (mean)": np.mean(
            [model.score(X_test, y_test) for model in local_models]
        ),
        "soft vote": vote.score(X_test, y_test),
        "averaged once": averaged.score(X_test, y_test),
    }
    members = [
        Member.from_estimator(str(k), start.classifier, X[rows], y[rows])
        for k, rows in enumerate(rows_of_nodes)
    ]
    for first_length in options.local_epochs:
        setting = LENGTHS.format(first_length)
        for name, accuracy in baselines.items():
            yield Cell(setting, name, accuracy, x=options.epochs)
        for schedule in ("cyclical", "exponential"):
            for epochs in ("increasing", "fixed"):
                rounds = co_learning(
                    start,
                    members,
                    Variant(first_length, schedule, epochs),
                    options=options,
                    accuracy=accuracy_of_parameters,
                    seed=trial.number,
                )
                name = f"{schedule}, {epochs}"
                for n_epochs, _, accuracy in rounds:
                    yield Cell(setting, name, accuracy, x=n_epochs)
                yield Cell(setting, name, len(rounds), "rounds")
                yield Cell(setting, name, rounds[-1].n_bytes / 1e6, "MB")


def add_options(parser: ArgumentParser) -> None:
    """Add the network, its training, and on which rows variants are judged."""
    parser.set_defaults(epochs=12)
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--local-epochs", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--learning-rate", type=float, help="first rate of a round")
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--select", action="store_true", help="judge by selection rows")


PROGRAM = Program(
    name="colearning_ablation",
    title="Co-learning, Figure 2: schedules and lengths of rounds",
    measure_cells=measure_cells,
    ours=("cyclical, increasing",),
    x_label="epochs at every node",
    note="The paper has deep networks on CIFAR-10, and no figures for MNIST.",
    add_options=add_options,
    quick={"epochs": 6, "local_epochs": [1, 2]},
    trials=2,
)

if __name__ == "__main__":
    PROGRAM.main()
