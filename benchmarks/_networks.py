# SPDX-License-Identifier: BSD-3-Clause
"""Networks of nodes that share a data set, as PFNM has them, and their ensembles."""

from __future__ import annotations

import os
from pathlib import Path

import joblib
import numpy as np
from _protocol import CACHE_VARIABLE, N_ROWS, split, write_whole
from sklearn.dummy import DummyClassifier
from sklearn.neural_network import MLPClassifier

from skgems.datasets import partition_dirichlet, partition_homogeneous
from skgems.networks import Layers, read_network, to_mlp_classifier

# Concentration of the Dirichlet partition; None is the homogeneous one.
PARTITIONS = {"homogeneous": None, "Dirichlet 0.5": 0.5, "Dirichlet 0.2": 0.2}
# Settings of the paper's table 1.
EPOCHS = 10  # passes over a node's rows
RATE = 0.01  # of Adam
INITIAL_DEVIATION = 0.01  # of first weights


def partition(y: np.ndarray, name: str, J: int, trial: int) -> np.ndarray:
    """The node of every row."""
    alpha = PARTITIONS[name]
    if alpha is None:
        return partition_homogeneous(y, J, random_state=trial)
    return partition_dirichlet(y, J, alpha=alpha, random_state=trial)


def first_weights(
    sizes: tuple[int, ...], rng: np.random.Generator, *, glorot: bool
) -> list[np.ndarray]:
    """Matrix and bias of each layer, one after the other.

    Normal numbers of deviation `INITIAL_DEVIATION` and biases of 0.1, or, with
    ``glorot``, uniform ones of variance 2 / (n_in + n_out), and zero.
    """
    arrays = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        W = INITIAL_DEVIATION * rng.standard_normal((n_in, n_out), dtype=np.float32)
        if glorot:
            bound = np.sqrt(6 / (n_in + n_out))
            W = rng.uniform(-bound, bound, (n_in, n_out)).astype(np.float32)
        b = np.full(n_out, 0.0 if glorot else 0.1, dtype=np.float32)
        arrays += [W, b]
    return arrays


def weights_of(network: MLPClassifier, classes: np.ndarray) -> list[np.ndarray]:
    """Matrix and bias of each layer, of the last one for some of the classes."""
    outputs = np.searchsorted(network.classes_, classes)
    arrays = []
    for W, b in zip(network.coefs_, network.intercepts_, strict=True):
        arrays += [W, b]
    arrays[-2] = arrays[-2][:, outputs]
    arrays[-1] = arrays[-1][outputs]
    return arrays


def train(
    X: np.ndarray,
    y: np.ndarray,
    hidden: tuple[int, ...],
    seed: int,
    *,
    epochs: int = EPOCHS,
    start: MLPClassifier | None = None,
    rate: float = RATE,
    glorot: bool = False,
    classes: np.ndarray | None = None,
) -> MLPClassifier | DummyClassifier:
    """A node's network, as in the paper's table 1: Adam, rate 0.01, batches of 32.

    Weights start as `first_weights` says, or, with ``start``, from those of a fitted
    MLPClassifier. The network knows its node's classes only, and a node of one class
    gets a constant model. ``classes`` are those to have outputs for, if not those of
    ``y``.
    """
    import torch

    if classes is None:
        classes = np.unique(y)
    if len(classes) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, y)
    rng = np.random.default_rng(seed)
    # Drawn in any case, so that the order of rows depends on the seed alone.
    arrays = first_weights((X.shape[1], *hidden, len(classes)), rng, glorot=glorot)
    if start is not None:
        arrays = weights_of(start, classes)
    weights = [torch.tensor(array, dtype=torch.float32) for array in arrays]
    for weight in weights:
        weight.requires_grad_()
    optimizer = torch.optim.Adam(weights, lr=rate, weight_decay=1e-6, fused=True)
    X = torch.as_tensor(np.ascontiguousarray(X))
    y = torch.as_tensor(np.searchsorted(classes, y))
    # One thread is fastest for these sizes; the caller's state is put back.
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(epochs):
            for rows in torch.from_numpy(rng.permutation(len(X))).split(32):
                loss = torch.nn.functional.cross_entropy(
                    _logits(weights, X[rows]), y[rows]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    finally:
        torch.set_num_threads(n_threads)
    arrays = [weight.detach().numpy() for weight in weights]
    return to_mlp_classifier(Layers(arrays[::2], arrays[1::2], "relu"), classes)


def _logits(weights: list, Z):
    """What a network of torch tensors says of rows."""
    import torch

    for W, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        Z = torch.relu(torch.addmm(b, Z, W))
    return torch.addmm(weights[-1], Z, weights[-2])


def node_networks(
    name: str,
    J: int,
    hidden: tuple[int, ...],
    trial: int,
    data: tuple[np.ndarray, np.ndarray],
    *,
    cache_dir: str | os.PathLike | None = None,
    glorot: bool = False,
    epochs: int = EPOCHS,
) -> tuple[list, np.ndarray, np.ndarray]:
    """The fitted networks of one trial, the local rows and the node of each.

    Parameters
    ----------
    name : str
        Key of ``PARTITIONS``.
    J : int
        Number of nodes; 1 is the global model.
    hidden : tuple of int
        Units of each hidden layer of a node.
    trial : int
        Seeds the split, the partition and the first weights, which differ by node.
    data : tuple (X, y)
        What ``load_mnist`` returned.
    cache_dir : path, default=None
        Folder where networks are kept. None: SKGEMS_BENCH_CACHE, else no cache. Those
        of other epochs or of fewer rows than MNIST's are not kept.
    glorot : bool, default=False
        Where networks start; see ``train``.
    epochs : int, default=EPOCHS
        Passes over a node's rows.
    """
    X, y = data
    rows, _, _ = split(trial, len(X))
    nodes = partition(y[rows], name, J, trial) if J > 1 else np.zeros(len(rows), int)
    file = None
    cache_dir = cache_dir or os.environ.get(CACHE_VARIABLE)
    if cache_dir and epochs == EPOCHS and len(X) == N_ROWS:
        start = "glorot" if glorot else "mlp"
        shape = "x".join(map(str, hidden))
        nodes_name = name.replace(" ", "") if J > 1 else "global"
        file = Path(cache_dir) / f"{start}{shape}-{nodes_name}-J{J}-{trial}.joblib"
        if file.exists():
            return joblib.load(file), rows, nodes
    estimators = []
    for node in range(J):
        in_node = rows[nodes == node]
        seed = int(np.random.SeedSequence([trial, J, node]).generate_state(1)[0])
        estimators.append(
            train(X[in_node], y[in_node], hidden, seed, epochs=epochs, glorot=glorot)
        )
    if file is not None:
        write_whole(estimators, file)
    return estimators, rows, nodes


def class_counts(y: np.ndarray, nodes: np.ndarray, J: int) -> np.ndarray:
    """Rows of each class at each node, shape (J, 10)."""
    counts = np.zeros((J, 10), dtype=np.int64)
    np.add.at(counts, (nodes, y), 1)
    return counts


def probabilities(estimators: list, X: np.ndarray) -> np.ndarray:
    """Class probabilities of each network, zero where it has no output."""
    p = np.zeros((len(estimators), len(X), 10))
    for p_of_one, estimator in zip(p, estimators, strict=True):
        p_of_one[:, estimator.classes_.astype(int)] = estimator.predict_proba(X)
    return p


def ensemble_accuracies(
    estimators: list, counts: np.ndarray, X: np.ndarray, y: np.ndarray
) -> tuple[float, float, float]:
    """Mean local accuracy, the uniform ensemble's, and that weighted by classes."""
    p = probabilities(estimators, X)  # (n_nodes, n_rows, 10)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    weighted = np.einsum("jnc,jc->nc", p, shares)
    return (
        float(np.mean(p.argmax(axis=2) == y)),
        float(np.mean(p.mean(axis=0).argmax(axis=1) == y)),
        float(np.mean(weighted.argmax(axis=1) == y)),
    )


def average_accuracy(estimators: list, X: np.ndarray, y: np.ndarray) -> float:
    """Accuracy of the plain average of weights, unit by unit."""
    read = [read_network(estimator) for estimator in estimators]
    # A node of one class has a constant model, which has no units.
    read = [network for network in read if not network.is_linear]
    Z = X
    for i in range(read[0].n_hidden_layers):
        W = np.mean([network.coefs[i] for network in read], axis=0)
        b = np.mean([network.intercepts[i] for network in read], axis=0)
        Z = np.maximum(Z @ W + b, 0)
    W = np.mean([network.aligned(np.arange(10)).last for network in read], axis=0)
    return float(np.mean(np.argmax(Z @ W[:-1] + W[-1], axis=1) == y))
