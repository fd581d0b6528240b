# SPDX-License-Identifier: BSD-3-Clause
"""What an aggregate is compared with: averages, votes, public rows alone.

A network is a list of ``(W, b)`` pairs from the input up, ``W`` of shape
(n_inputs, n_outputs), with relu between them; a linear classifier has one pair.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold

Layers = list[tuple[np.ndarray, np.ndarray]]

# Of Adam in fine-tuning, as in the published code of GEMS 2019. The paper names 0.001,
# but for local training; `bench_tuned_as_paper.py` compares the two.
TUNING_RATE = 1e-2


def layers_of(estimator, classes: np.ndarray) -> Layers:
    """The weights of a fitted classifier, one output for each of ``classes``."""
    if hasattr(estimator, "module_"):
        return [
            (m.weight.detach().cpu().numpy().T, m.bias.detach().cpu().numpy())
            for m in estimator.module_
            if hasattr(m, "weight")
        ]
    coef = np.atleast_2d(estimator.coef_)
    intercept = np.ravel(estimator.intercept_)
    if (
        len(coef) == 1
    ):  # two classes: the scores of both differ by the one that is there
        coef = np.vstack([-coef, coef]) / 2
        intercept = np.concatenate([-intercept, intercept]) / 2
    W = np.zeros((coef.shape[1], len(classes)))
    b = np.zeros(len(classes))
    columns = np.searchsorted(classes, estimator.classes_)
    W[:, columns] = coef.T
    b[columns] = intercept
    return [(W, b)]


def average(estimators: list, classes: np.ndarray) -> Layers:
    """The plain mean of the weights; a class that a node has no output for is 0."""
    networks = [layers_of(estimator, classes) for estimator in estimators]
    return [
        (np.mean([W for W, _ in layer], axis=0), np.mean([b for _, b in layer], axis=0))
        for layer in zip(*networks, strict=True)  # the pairs of all networks
    ]


def predict(layers: Layers, X: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The label of the largest output."""
    for W, b in layers[:-1]:
        X = np.maximum(X @ W + b, 0)
    W, b = layers[-1]
    return classes[np.argmax(X @ W + b, axis=1)]


def majority_vote(
    estimators: list, X: np.ndarray, classes: np.ndarray, random_state: int = 0
) -> np.ndarray:
    """The label most estimators predict, ties broken at random."""
    votes = np.random.default_rng(random_state).random((len(X), len(classes)))
    for estimator in estimators:
        predicted = np.searchsorted(classes, estimator.predict(X))
        votes[np.arange(len(X)), predicted] += 1
    return classes[np.argmax(votes, axis=1)]


def public_alone(X: np.ndarray, y: np.ndarray, random_state: int = 0):
    """Logistic regression on the public rows, C chosen by 5-fold validation."""
    folds = KFold(5, shuffle=True, random_state=random_state)
    # From weak to strong regularization, since a tie takes the first: few rows tie.
    grid = {"C": np.logspace(1, -2, 7)}
    search = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=folds)
    return search.fit(X, y).best_estimator_


def random_layers(shape: tuple[int, ...], random_state: int = 0) -> Layers:
    """A network as torch starts it: all weights uniform within 1/sqrt(n_inputs)."""
    rng = np.random.default_rng(random_state)
    bounds = 1 / np.sqrt(shape[:-1])
    return [
        (rng.uniform(-bound, bound, (n_in, n_out)), rng.uniform(-bound, bound, n_out))
        for n_in, n_out, bound in zip(shape[:-1], shape[1:], bounds, strict=True)
    ]


def tune(
    layers: Layers,
    X: np.ndarray,
    y: np.ndarray,
    classes: np.ndarray,
    *,
    epochs: int = 5,
    learning_rate: float = TUNING_RATE,
    batch_size: int = 32,
    dropout: float = 0.0,
    last_only: bool = False,
    random_state: int = 0,
) -> Layers:
    """The papers' fine-tuning: plain Adam over the rows, in batches.

    From `average` it is the tuned average, from `random_layers` a network of the
    public rows alone. ``last_only`` leaves all but the last layer as they are.
    ``dropout`` is the share of hidden units that each step leaves out.
    """
    import torch

    rng = np.random.default_rng(random_state)
    weights = [torch.tensor(a, dtype=torch.float32) for pair in layers for a in pair]
    tuned = weights[-2:] if last_only else weights
    for weight in tuned:
        weight.requires_grad_()
    optimizer = torch.optim.Adam(tuned, lr=learning_rate)
    X = torch.as_tensor(X, dtype=torch.float32)
    y = torch.as_tensor(np.searchsorted(classes, y))
    for _ in range(epochs):
        for rows in torch.from_numpy(rng.permutation(len(X))).split(batch_size):
            Z = X[rows]
            for W, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
                Z = torch.relu(Z @ W + b)
                if dropout:
                    is_kept = rng.random(Z.shape) >= dropout
                    Z = Z * torch.from_numpy(is_kept) / (1 - dropout)
            loss = torch.nn.functional.cross_entropy(
                Z @ weights[-2] + weights[-1], y[rows]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    arrays = [weight.detach().numpy() for weight in weights]
    return list(zip(arrays[::2], arrays[1::2], strict=True))
