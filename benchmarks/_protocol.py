# SPDX-License-Identifier: BSD-3-Clause
"""The experiment that every benchmark shares: data, splits, nodes, local models.

MNIST's 60,000 training rows are dealt anew in each trial: 50,000 to train the
local models, 5,000 validation rows (spaces and public rows come from these) and
5,000 selection rows, on which defaults are chosen. The 10,000 test rows are read
only where a final table is made.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
from sklearn.datasets import fetch_openml
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

from skgems.datasets import partition_by_label

DATA_VARIABLE = "SKGEMS_MNIST"
CACHE_VARIABLE = "SKGEMS_BENCH_CACHE"

# Labels of each node, by the number of nodes; one node is the global model.
LABEL_GROUPS = {
    1: [range(10)],
    2: [range(0, 5), range(5, 10)],
    3: [range(0, 3), range(3, 6), range(6, 10)],
    5: [range(0, 2), range(2, 4), range(4, 6), range(6, 8), range(8, 10)],
}

KINDS = ("softmax", "hidden", "plain_hidden", "own_classes", "five_kinds")
# Of skorch nets, which mostly converge before.
MAX_EPOCHS = 15
# MNIST's training rows and pixels.
N_ROWS = 60_000
N_PIXELS = 784
# Units of a hidden layer, as in the GEMS papers.
WIDTH = 50

Data = tuple[np.ndarray, np.ndarray]


class Rows(NamedTuple):
    """The rows of one trial that are not for training local models.

    ``public`` is a seeded order of the validation rows: the first n of it are
    the n public rows, so smaller public samples lie inside larger ones.
    """

    X_val: np.ndarray
    y_val: np.ndarray
    nodes: np.ndarray
    public: np.ndarray
    X_sel: np.ndarray
    y_sel: np.ndarray


def add_arguments(parser: ArgumentParser) -> ArgumentParser:
    """Add ``--data``, ``--cache`` and ``--trials`` to a benchmark's parser."""
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--cache", default=os.environ.get(CACHE_VARIABLE))
    parser.add_argument("--trials", type=int, default=5)
    return parser


def load_mnist(path: str | None = None, *, test: bool = False) -> Data:
    """MNIST's training rows, or its test rows, as float32 in [0, 1].

    Parameters
    ----------
    path : str, default=None
        An npz with ``X_train``, ``y_train``, ``X_test`` and ``y_test``. None looks
        into the environment variable SKGEMS_MNIST, and then asks OpenML. Floats are
        features of some layers, of any ten classes, and taken as they are.
    test : bool, default=False
        Whether to read the 10,000 test rows in place of the 60,000 training rows.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), dtype float32
    y : ndarray of shape (n_samples,), dtype int64
    """
    path = path or os.environ.get(DATA_VARIABLE)
    if path:
        part = "test" if test else "train"
        with np.load(path) as arrays:
            X = arrays[f"X_{part}"]
            y = arrays[f"y_{part}"]
    else:
        X, y = fetch_openml("mnist_784", return_X_y=True, as_frame=False)
        chosen = slice(N_ROWS, None) if test else slice(N_ROWS)
        X = X[chosen]
        y = y[chosen]
    scale = 1 if X.dtype.kind == "f" and path else 255
    return X.astype(np.float32) / np.float32(scale), y.astype(np.int64)


def split(
    trial: int, n_rows: int = N_ROWS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the local training, validation and selection rows of a trial.

    Of fewer rows than MNIST's the parts have the same shares.
    """
    order = np.random.default_rng([0, trial]).permutation(n_rows)
    local, validation, selection = np.split(
        order, [10 * n_rows // 12, 11 * n_rows // 12]
    )
    return local, validation, selection


def trial_rows(data: Data, K: int, trial: int) -> Rows:
    """Validation rows with their nodes, public order and selection rows."""
    X, y = data
    _, validation, selection = split(trial, len(X))
    return Rows(
        X_val=X[validation],
        y_val=y[validation],
        nodes=partition_by_label(y[validation], LABEL_GROUPS[K]),
        public=np.random.default_rng([1, trial]).permutation(len(validation)),
        X_sel=X[selection],
        y_sel=y[selection],
    )


def softmax_regression(n_in: int = N_PIXELS, width: int = WIDTH):
    """A torch module: 10 logits of the inputs."""
    from torch import nn

    return nn.Sequential(nn.Linear(n_in, 10))


def hidden_network(n_in: int = N_PIXELS, width: int = WIDTH):
    """A torch module: relu units with dropout 0.5, 10 logits."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(n_in, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, 10)
    )


def plain_hidden_network(n_in: int = N_PIXELS, width: int = WIDTH):
    """A torch module: like `hidden_network`, without dropout."""
    from torch import nn

    return nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, 10))


def deep_network():
    """A torch module: like `hidden_network`, with two hidden layers."""
    from torch import nn

    layers = [nn.Linear(784, 50), nn.ReLU(), nn.Dropout(0.5)]
    layers += [nn.Linear(50, 50), nn.ReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*layers, nn.Linear(50, 10))


def unfitted_net(module, max_epochs: int = MAX_EPOCHS, **sizes):
    """A skorch net that trains until its training accuracy converges.

    It stops when the accuracy over an epoch, as seen while training, has not
    risen by 0.001 above the best for two epochs in a row, or after `max_epochs`.
    """
    import torch
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EarlyStopping, EpochScoring

    accuracy = EpochScoring(
        "accuracy", name="train_acc", lower_is_better=False, on_train=True
    )
    converged = EarlyStopping(
        monitor="train_acc",
        patience=2,
        threshold=1e-3,
        threshold_mode="abs",
        lower_is_better=False,
    )
    return NeuralNetClassifier(
        module,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        optimizer__fused=True,
        lr=1e-3,
        batch_size=32,
        iterator_train__shuffle=True,
        max_epochs=max_epochs,
        train_split=None,
        callbacks=[("train_acc", accuracy), ("converged", converged)],
        verbose=0,
        **sizes,
    )


def _unfitted_models(kind: str, K: int, max_epochs: int, **sizes) -> list:
    """One unfitted classifier a node."""
    modules = {
        "softmax": softmax_regression,
        "hidden": hidden_network,
        "plain_hidden": plain_hidden_network,
    }
    if kind in modules:
        return [unfitted_net(modules[kind], max_epochs, **sizes) for _ in range(K)]
    if kind == "own_classes":
        return [LogisticRegression(C=0.01, max_iter=1000) for _ in range(K)]
    if kind == "five_kinds" and K == 5:
        return [
            LogisticRegression(C=100, max_iter=1000),
            LogisticRegression(C=1e-4, max_iter=1000),
            LogisticRegression(C=0.01, max_iter=1000),
            RidgeClassifier(),
            LinearSVC(random_state=0),
        ]
    raise ValueError(
        f"There are no local models of kind {kind!r} for {K} nodes. Choose one of "
        f"{KINDS}; 'five_kinds' needs 5 nodes."
    )


def fit_seeded(estimator, X: np.ndarray, y: np.ndarray, seed: int):
    """Fit a local model, its first weights and order of rows by the seed."""
    if not hasattr(estimator, "initialize"):
        return estimator.fit(X, y)
    import torch

    # One thread is fastest for these sizes; the caller's state is put back.
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return estimator.fit(X, y)
    finally:
        torch.set_num_threads(n_threads)


def local_models(
    kind: str,
    K: int,
    trial: int,
    data: Data | None,
    cache_dir: str | os.PathLike | None = None,
    *,
    max_epochs: int = MAX_EPOCHS,
    width: int = WIDTH,
) -> list:
    """The fitted local models of one trial, one a node; K=1 is the global model.

    Parameters
    ----------
    kind : {"softmax", "hidden", "plain_hidden", "own_classes", "five_kinds"}
        Softmax regression with 10 outputs, one hidden layer of 50 with dropout (both
        skorch, as the paper has them) or without, LogisticRegression(C=0.01) that
        knows only its node's classes, or five kinds of linear model (K=5).
    K : {1, 2, 3, 5}
        Number of nodes.
    trial : int
        Seeds the split, the weights at the start and the order of the rows.
    data : tuple (X, y)
        What `load_mnist` returned. May be None where the models are cached.
    cache_dir : path, default=None
        Folder where models are kept. None: SKGEMS_BENCH_CACHE, else no cache. Models of
        other epochs or of fewer rows than MNIST's are not kept.
    max_epochs : int, default=MAX_EPOCHS
        Most epochs of a skorch net.
    width : int, default=WIDTH
        Units of a hidden layer.

    Returns
    -------
    estimators : list of K fitted classifiers
    """
    n_in = N_PIXELS if data is None else data[0].shape[1]
    sizes = {}
    file_kind = kind
    if (n_in, width) != (N_PIXELS, WIDTH):
        sizes = {"module__n_in": n_in, "module__width": width}
        file_kind = f"{kind}-{n_in}-{width}"
    file = None
    is_kept = max_epochs == MAX_EPOCHS and (data is None or len(data[0]) == N_ROWS)
    cache_dir = cache_dir or os.environ.get(CACHE_VARIABLE)
    if cache_dir and is_kept:
        file = Path(cache_dir) / f"{file_kind}-K{K}-trial{trial}.joblib"
        if file.exists():
            return joblib.load(file)
    estimators = _unfitted_models(kind, K, max_epochs, **sizes)
    X, y = data
    local, _, _ = split(trial, len(X))
    nodes = partition_by_label(y[local], LABEL_GROUPS[K])
    for node, estimator in enumerate(estimators):
        rows = local[nodes == node]
        seed = int(np.random.SeedSequence([trial, K, node]).generate_state(1)[0])
        fit_seeded(estimator, X[rows], y[rows], seed)
    if file is not None:
        write_whole(estimators, file)
    return estimators


def write_whole(estimators: list, file: Path) -> None:
    """Write a file beside its place and move it, so that nobody reads half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    joblib.dump(estimators, partial)
    os.replace(partial, file)
