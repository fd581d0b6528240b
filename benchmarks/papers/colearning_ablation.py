# SPDX-License-Identifier: BSD-3-Clause
"""Co-learning, Figure 2 and Tables 1 and 2: rates, round lengths, bytes.

MNIST over five alike nodes, one hidden layer of 100 units, every variant with as many
epochs in all. The accuracy of the shared model after each round, for cyclical and
exponential rates, increasing and fixed epochs, and first rounds of one and two epochs.
Beside it stand training on all rows, the mean local model, the ensemble of local
models and their average, each with as many epochs.

Rates, epochs and epsilon were chosen on selection rows (``--select``), not on the
test rows.
"""

from __future__ import annotations

import numpy as np
from _common import CLASSES, Cell, Program, protocol
from sklearn.neural_network import MLPClassifier

from skgems import EnsembleAggregator, ModelAveragingAggregator
from skgems.averaging import CoLearning
from skgems.datasets import partition_homogeneous
from skgems.federation import InProcess, Message, Run
from skgems.local import Member, local_model
from skgems.tuning import learning_rates, mean_parameters

N_NODES = 5
LENGTHS = "epochs of the first round: {}"


def local(options):
    """The classifier that every node trains."""
    return MLPClassifier(options.units, solver="sgd", batch_size=32, alpha=0.0)


def co_learning(start, members, options, variant, score, seed):
    """Rows of (epochs so far, bytes so far, accuracy), one a round."""
    length, schedule, epochs = variant
    table, spent, sent = [], 0, 0
    run = Run(InProcess(members))
    names = [member.name for member in members]
    plan = CoLearning(
        n_rounds=-(-options.epochs // length),
        local_epochs=length,
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


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = data
    rows, _, selection = protocol.split(number, len(X))
    X_test, y_test = (X[selection], y[selection]) if options.select else test
    owners = partition_homogeneous(y[rows], n_nodes=N_NODES, random_state=number)
    parts = [rows[owners == k] for k in range(N_NODES)]
    started = local_model(local(options)).start(
        X, y, classes=CLASSES, random_state=number
    )
    start = local_model(started)

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

    locals_ = [alone(own, number) for own in parts]
    base = {"pooled": alone(rows, number).score(X_test, y_test)}
    base["local (mean)"] = np.mean([model.score(X_test, y_test) for model in locals_])
    base["soft vote"] = EnsembleAggregator(locals_).fit().score(X_test, y_test)
    once = ModelAveragingAggregator(locals_).fit()
    base["averaged once"] = once.score(X_test, y_test)
    members = [
        Member.of(str(k), start.own, X[own], y[own]) for k, own in enumerate(parts)
    ]
    for length in options.local_epochs:
        setting = LENGTHS.format(length)
        for name, value in base.items():
            yield Cell(setting, name, value, x=options.epochs)
        for schedule in ("cyclical", "exponential"):
            for epochs in ("increasing", "fixed"):
                variant = (length, schedule, epochs)
                of_run = (start, members, options, variant, score, number)
                table = co_learning(*of_run)
                name = f"{schedule}, {epochs}"
                for spent, _, accuracy in table:
                    yield Cell(setting, name, accuracy, x=spent)
                yield Cell(setting, name, len(table), "rounds")
                yield Cell(setting, name, table[-1][1] / 1e6, "MB")


def add(parser) -> None:
    parser.set_defaults(epochs=12)
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--local-epochs", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--select", action="store_true", help="judge by selection rows")


PROGRAM = Program(
    name="colearning_ablation",
    title="Co-learning, Figure 2: schedules and lengths of rounds",
    trial=trial,
    ours=("cyclical, increasing",),
    x_label="epochs at every node",
    note="The paper has deep networks on CIFAR-10; of MNIST it has no figure.",
    add=add,
    quick={"epochs": 6, "local_epochs": [1, 2]},
    trials=2,
)

if __name__ == "__main__":
    PROGRAM.main()
