# SPDX-License-Identifier: BSD-3-Clause
"""Co-learning's ablation: cyclical or exponential rates, increasing or fixed epochs.

MNIST over 5 homogeneous nodes, an MLPClassifier of one hidden layer, every variant
with the same number of epochs in total. Test accuracy of the shared model after each
round, in each trial and in the mean, and the bytes that all nodes sent and were sent;
beside it training on all rows, the mean local model and the ensemble of local models,
each with as many epochs.

Rates, epochs and epsilon were chosen on selection rows (``--select``), not on the
test rows.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np
from _protocol import add_arguments, load_mnist, split
from sklearn.neural_network import MLPClassifier

from skgems import EnsembleAggregator
from skgems.averaging import CoLearning
from skgems.datasets import partition_homogeneous
from skgems.federation import InProcess, Message, Run
from skgems.local import Member, local_model
from skgems.rounds import learning_rates, mean_parameters

N_NODES = 5
CLASSES = np.arange(10)


def local(options):
    """The classifier that every node trains."""
    return MLPClassifier(options.units, solver="sgd", batch_size=32, alpha=0.0)


def co_learning(start, members, options, schedule, epochs, score, seed):
    """Rows of (epochs so far, bytes so far, accuracy), one a round."""
    table, spent, sent = [], 0, 0
    run = Run(InProcess(members))
    names = [member.name for member in members]
    plan = CoLearning(
        n_rounds=options.epochs // options.local_epochs,
        local_epochs=options.local_epochs,
        learning_rate=options.learning_rate,
        schedule=schedule,
        epochs=epochs,
        epsilon=options.epsilon,
    ).plan(
        start.parameters(),
        dict.fromkeys(names, 1.0),
        CLASSES.tolist(),
        np.random.RandomState(seed),
    )
    request = next(plan)
    while True:
        content = request.content
        # The last round is cut to what is left.
        length = min(content["epochs"], options.epochs - spent)
        content |= {"epochs": length, "rates": content["rates"][:length]}
        replies = list(run.ask(Message.of(request.task, **content)))
        mean = mean_parameters((r.content["parameters"], 1.0) for _, r in replies)
        spent += length
        sent += sum(run.history[-1][way] for way in ("bytes_sent", "bytes_received"))
        table.append((spent, sent, score(mean)))
        if spent >= options.epochs:
            return table
        try:
            request = plan.send(iter(replies))
        except StopIteration:
            return table


def one_trial(data, test, trial, options):
    """Print a line for each round of each variant; return the final accuracies."""
    X, y = data
    rows, _, selection = split(trial)
    X_test, y_test = test if test is not None else (X[selection], y[selection])
    owners = partition_homogeneous(y[rows], n_nodes=N_NODES, random_state=trial)
    parts = [rows[owners == k] for k in range(N_NODES)]
    start = local_model(
        local_model(local(options)).start(X, y, classes=CLASSES, random_state=trial)
    )

    def score(parameters):
        return start.with_parameters(parameters).own.score(X_test, y_test)

    def alone(own, seed):
        rates = learning_rates(options.learning_rate, options.epochs)
        return start.train(
            X[own],
            y[own],
            epochs=options.epochs,
            learning_rate=rates,
            random_state=seed,
        ).own

    final = {"all rows": alone(rows, trial).score(X_test, y_test)}
    locals_ = [alone(own, trial) for own in parts]
    final["local"] = np.mean([model.score(X_test, y_test) for model in locals_])
    final["ensemble"] = EnsembleAggregator(locals_).fit().score(X_test, y_test)
    for name, accuracy in final.items():
        print(f"{name:24} {accuracy:.4f}", flush=True)
    members = [
        Member.of(str(k), start.own, X[own], y[own]) for k, own in enumerate(parts)
    ]
    for schedule in ("cyclical", "exponential"):
        for epochs in ("increasing", "fixed"):
            table = co_learning(start, members, options, schedule, epochs, score, trial)
            name = f"{schedule}, {epochs}"
            for spent, sent, accuracy in table:
                print(
                    f"{name:24} {accuracy:.4f}  after {spent:3} epochs, "
                    f"{sent / 1e6:6.1f} MB",
                    flush=True,
                )
            final[name] = table[-1][2]
            final[f"{name}: MB"] = table[-1][1] / 1e6
            for number, (spent, sent, accuracy) in enumerate(table, start=1):
                what = f"{name}, round {number}: {spent} epochs, {sent / 1e6:.1f} MB"
                final[what] = accuracy
    return final


def main() -> None:
    """Run the trials and print means and standard deviations."""
    parser = add_arguments(ArgumentParser(description=__doc__))
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--local-epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--select", action="store_true", help="judge by selection rows")
    options = parser.parse_args()
    data = load_mnist(options.data)
    test = None if options.select else load_mnist(options.data, test=True)
    results = [one_trial(data, test, t, options) for t in range(options.trials)]
    print(f"\nmean (standard deviation) of {options.trials} trials")
    for name in results[0]:
        values = [result[name] for result in results if name in result]
        print(f"{name:54} {np.mean(values):8.4f} ({np.std(values):.4f})")


if __name__ == "__main__":
    main()
