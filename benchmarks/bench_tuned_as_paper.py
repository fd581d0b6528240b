# SPDX-License-Identifier: BSD-3-Clause
"""Which setting of GEMS 2019 decides the accuracy of its tuned aggregates.

Softmax regressions (Table 5) and networks (Table 6) of MNIST are aggregated and tuned
as in the paper, and then with one setting changed after the other. The paper says for
how many epochs and on how many rows it tunes. It gives the rate, the batches and the
optimizer of local training only. The table has the accuracy before and after tuning, on
selection rows. Local models are trained once, with ``--cache`` for all later runs.
"""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import _baselines as baselines
import _protocol as protocol
import joblib
import numpy as np
import torch
from _quick import note_figure, parse_with_quick
from skorch.callbacks import Callback

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.gems import HiddenLayers, Spaces

CLASSES = np.arange(10)
N_PUBLIC = 1000  # rows, as in the paper
# Deviation of hidden neurons and clusters in Table 6, by the number of nodes.
EPSILON_CLUSTERS = {2: (0.01, 1), 3: (1.0, 100), 5: (1.0, 100)}


# How local models are trained: most epochs, epochs without a gain of training accuracy
# after which training ends, the least gain, and whether first weights are as in Keras,
# whose deviation is twice that of torch.
TRAININGS = {
    "protocol": (protocol.MAX_EPOCHS, 2, 1e-3, False),
    "longer local training": (40, 5, 0.0, False),
    "larger first weights": (protocol.MAX_EPOCHS, 2, 1e-3, True),
}


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How an aggregate is tuned on public rows."""

    learning_rate: float = 1e-3
    epochs: int = 5
    batch_size: int = 32
    dropout: float = 0.0  # share of hidden units that a step leaves out
    n_public: int = N_PUBLIC
    last_only: bool = True


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is tuned."""

    merging: str = "gems"  # or "average", of the parameters
    shape: str = "ellipsoid"  # of the linear models' spaces
    epsilon: float | None = None  # None: the paper's
    hidden_epsilon: float | None = None
    n_clusters: int | None = None  # of hidden neurons
    local_epochs: int = 5  # in which nodes retrain last layers
    training: str = "protocol"  # a key of TRAININGS
    calibrates: bool = False  # whether a factor calibrates the logits of "gems"
    # Whether nodes retrain last layers on the rows that they trained on, which are ten
    # times as many as the validation rows.
    retrains_on_training_rows: bool = False


TEXT = Tuning()
FAST = Tuning(learning_rate=0.01)


def settings(kind: str) -> Iterator[tuple[str, Start, Tuning]]:
    """Names, starts and tunings: the paper's, then one setting changed at a time."""
    start = Start()
    yield "as the text says", start, TEXT
    yield "start calibrated", Start(calibrates=True), TEXT
    yield "start calibrated, rate 0.01", Start(calibrates=True), FAST
    yield "rate 0.003", start, replace(TEXT, learning_rate=0.003)
    yield "rate 0.01", start, FAST
    yield "rate 0.03", start, replace(TEXT, learning_rate=0.03)
    yield "20 epochs", start, replace(TEXT, epochs=20)
    yield "50 epochs", start, replace(TEXT, epochs=50)
    yield "batches of 8", start, replace(TEXT, batch_size=8)
    yield "5,000 public rows", start, replace(TEXT, n_public=5000)
    if kind == "softmax":
        yield "epsilon 0.7", Start(epsilon=0.7), TEXT
    else:
        yield "all layers tuned", start, replace(TEXT, last_only=False)
        yield "dropout in tuning", start, replace(TEXT, dropout=0.5)
        for name, other in {
            "150 clusters": Start(n_clusters=150),
            "no neurons merged": Start(hidden_epsilon=1e-6),
            "10 epochs of last layers": Start(local_epochs=10),
            "last layers of training rows": Start(retrains_on_training_rows=True),
        }.items():
            yield name, other, TEXT
            yield f"{name}, rate 0.01", other, FAST
        yield "all layers tuned, rate 0.01", start, replace(FAST, last_only=False)
    yield "balls", Start(shape="ball"), TEXT
    yield "average", Start(merging="average"), TEXT
    yield "average, rate 0.01", Start(merging="average"), FAST
    for training in list(TRAININGS)[1:]:
        yield training, Start(training=training), TEXT
        yield f"{training}, rate 0.01", Start(training=training), FAST
        average = Start(merging="average", training=training)
        yield f"{training}, average", average, TEXT


def local_models(
    kind: str, K: int, trial: int, data: protocol.Data, options: Namespace, *, how: str
) -> list:
    """The local models of a trial; ``how`` is a key of TRAININGS."""
    if how == "protocol":
        return protocol.local_models(kind, K, trial, data, options.cache)
    file = None
    if options.cache:
        name = f"{kind}-K{K}-trial{trial}-{how.replace(' ', '-')}"
        file = Path(options.cache) / f"{name}.joblib"
        if file.exists():
            return joblib.load(file)
    max_epochs, patience, threshold, is_larger = TRAININGS[how]
    X, y, nodes = training_rows(data, K, trial)
    module = protocol.softmax_regression
    if kind == "hidden":
        module = protocol.hidden_network
    models = []
    for node in range(K):
        rows = nodes == node
        seed = int(np.random.SeedSequence([trial, K, node]).generate_state(1)[0])
        net = protocol.unfitted_net(module, max_epochs).set_params(
            callbacks__converged__patience=patience,
            callbacks__converged__threshold=threshold,
        )
        if is_larger:
            net.set_params(callbacks=[*net.callbacks, LargerFirstWeights(seed)])
        models.append(protocol.fit_seeded(net, X[rows], y[rows], seed))
    if file is not None:
        protocol.write_whole(models, file)
    return models


class LargerFirstWeights(Callback):
    """First weights by Glorot's rule, and intercepts of 0, as Keras has them."""

    def __init__(self, seed: int):
        self.seed = seed

    def on_train_begin(self, net, **kwargs):
        """Draw them."""
        rng = torch.Generator().manual_seed(self.seed)
        for parameter in net.module_.parameters():
            if parameter.ndim == 2:
                torch.nn.init.xavier_uniform_(parameter, generator=rng)
            else:
                torch.nn.init.zeros_(parameter)


def merge(
    kind: str,
    models: list,
    rows: protocol.Rows,
    start: Start,
    *,
    training: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> baselines.Layers:
    """The layers of an aggregate; ``training`` are rows, labels and nodes."""
    if start.merging == "average":
        return baselines.average(models, CLASSES)
    epsilon = 0.4 if kind == "softmax" else 0.7
    linear = GEMSLogisticAggregator(
        models if kind == "softmax" else None,
        spaces=Spaces(start.shape, on_empty="ignore"),
        epsilon=epsilon if start.epsilon is None else start.epsilon,
        intersection="hinge",
        random_state=0,
    )
    if kind == "softmax":
        linear.fit(rows.X_val, rows.y_val, nodes=rows.nodes)
        return last_layer(linear, start)
    hidden_epsilon, n_clusters = EPSILON_CLUSTERS[len(models)]
    if start.hidden_epsilon is not None:
        hidden_epsilon = start.hidden_epsilon
    network = GEMSMLPAggregator(
        models,
        last_layer=linear,
        hidden_layers=HiddenLayers(
            "ball",
            epsilon=hidden_epsilon,
            n_clusters=start.n_clusters or n_clusters,
            max_units=None,
        ),
        n_common_units=0,
        local_epochs=start.local_epochs,
        random_state=0,
    )
    if start.retrains_on_training_rows:
        X, y, nodes = (
            np.concatenate(parts)
            for parts in zip(
                training, (rows.X_val, rows.y_val, rows.nodes), strict=True
            )
        )
        held_out = np.arange(len(y)) >= len(training[1])
        network.fit(X, y, nodes=nodes, held_out=held_out)
    else:
        network.fit(rows.X_val, rows.y_val, nodes=rows.nodes)
    hidden = list(zip(network.coefs_, network.intercepts_, strict=True))[:-1]
    return [*hidden, *last_layer(network.last_layer_, start)]


def training_rows(
    data: protocol.Data, K: int, trial: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and labels that local models are trained on, and their nodes."""
    X, y = data
    training, _, _ = protocol.split(trial, len(X))
    nodes = partition_by_label(y[training], protocol.LABEL_GROUPS[K])
    return X[training], y[training], nodes


def last_layer(linear: GEMSLogisticAggregator, start: Start) -> baselines.Layers:
    """The common point of the spaces, or the same times a factor that calibrates."""
    if start.calibrates:
        return [(linear.coef_.T, linear.intercept_)]
    W = linear.intersection_.point
    return [(W[:-1], W[-1])]


def tune(
    layers: baselines.Layers,
    rows: protocol.Rows,
    tuning: Tuning,
    *,
    seed: int,
) -> baselines.Layers:
    """Layers after tuning on public rows."""
    public = rows.public[: tuning.n_public]
    return baselines.tune(
        layers,
        rows.X_val[public],
        rows.y_val[public],
        CLASSES,
        epochs=tuning.epochs,
        learning_rate=tuning.learning_rate,
        batch_size=tuning.batch_size,
        dropout=tuning.dropout,
        last_only=tuning.last_only and len(layers) > 1,
        random_state=seed,
    )


def accuracy(layers: baselines.Layers, rows: protocol.Rows) -> float:
    """On selection rows."""
    return float(np.mean(baselines.predict(layers, rows.X_sel, CLASSES) == rows.y_sel))


def main() -> None:
    """Print a line for each setting."""
    parser = protocol.add_arguments(ArgumentParser(description=__doc__.splitlines()[0]))
    parser.set_defaults(trials=3)
    parser.add_argument("--nodes", type=int, default=5, choices=EPSILON_CLUSTERS)
    parser.add_argument("--kinds", nargs="*", default=["softmax", "hidden"])
    parser.add_argument("--only", nargs="*", help="settings, by name")
    options = parse_with_quick(
        parser,
        quick={"kinds": ["softmax"], "trials": 1},
        needs={"data": protocol.DATA_VARIABLE},
    )
    warnings.simplefilter("ignore")
    data = protocol.load_mnist(options.data)
    K = options.nodes
    print(f"{'kind':9}{'setting':48}{'untuned':>8}{'tuned':>8}{'spread':>8}")
    for kind in options.kinds:
        merged: dict = {}  # by start and trial
        for name, start, tuning in settings(kind):
            if options.only and name not in options.only:
                continue
            figures = []
            for trial in range(options.trials):
                rows = protocol.trial_rows(data, K, trial)
                if (start, trial) not in merged:
                    how = start.training
                    models = local_models(kind, K, trial, data, options, how=how)
                    merged[start, trial] = merge(
                        kind,
                        models,
                        rows,
                        start,
                        training=training_rows(data, K, trial),
                    )
                layers = merged[start, trial]
                tuned = tune(layers, rows, tuning, seed=trial)
                figures.append((accuracy(layers, rows), accuracy(tuned, rows)))
            untuned, after = np.mean(figures, axis=0)
            spread = np.std(figures, axis=0)[1]
            note_figure(f"{kind}, {name}, tuned", after)
            print(f"{kind:9}{name:48}{untuned:8.3f}{after:8.3f}{spread:8.3f}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
