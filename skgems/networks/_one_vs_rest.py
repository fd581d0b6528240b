# SPDX-License-Identifier: BSD-3-Clause
"""Read one linear model for each class as the columns of one layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.multiclass import OneVsRestClassifier

from ._layers import expand_binary
from ._linear import label_array
from ._network import Network


def is_one_vs_rest(estimator) -> bool:
    """Whether it is a OneVsRestClassifier, fitted or not."""
    return isinstance(estimator, OneVsRestClassifier)


def read_one_vs_rest(
    estimator: OneVsRestClassifier, *, name: str, read: Callable[..., Network]
) -> Network:
    """Read a fitted OneVsRestClassifier of linear classifiers, as one layer.

    ``read`` reads one of them, with the parameter ``name``. A class that no row showed
    does not count as seen.
    """
    classes = label_array(estimator, name=name)
    columns, seen, links = [], [], set()
    for i, part in enumerate(estimator.estimators_):
        if hasattr(part, "y_") and not hasattr(part, "classes_"):
            # All rows were of the class, or none; it scores them 1, or 0.
            columns.append(float(part.y_[0]))
            seen.append(part.y_[0] == 1)
            continue
        network = _read_part(part, i, name, read)
        columns.append(np.diff(network.aligned([0, 1]).last))
        seen.append(True)
        links.add(network.output)
    found = [column for column in columns if isinstance(column, np.ndarray)]
    dtype = np.result_type(*found) if found else np.dtype(np.float64)
    n_features_in = estimator.estimators_[0].n_features_in_
    if found:
        n_features_in = len(found[0]) - 1
    last = np.zeros((n_features_in + 1, len(columns)), dtype)
    for c, column in enumerate(columns):
        if isinstance(column, np.ndarray):
            last[:, c] = column[:, 0]
        else:
            last[-1, c] = column
    coef, intercept = last[:-1], last[-1]
    if len(columns) == 1:
        coef, intercept = expand_binary(coef, intercept, len(classes))
        seen = [True] * len(classes)
    return Network(
        coefs=(np.ascontiguousarray(coef),),
        intercepts=(intercept,),
        activation=(),
        output="identity" if "identity" in links else "logistic",
        classes=classes,
        seen=np.array(seen),
        n_features_in=n_features_in,
        feature_names_in=getattr(estimator, "feature_names_in_", None),
    )


def _read_part(part, i, name, read) -> Network:
    """One of the classifiers, whose errors say which."""
    try:
        network = read(part, name=name)
    except ValueError as exc:
        reason = str(exc).removeprefix(f"Node {name!r}: ")
        raise ValueError(
            f"Node {name!r}: estimators_[{i}] of OneVsRestClassifier: {reason}"
        ) from exc
    except TypeError as exc:
        network, cause = None, exc
    else:
        cause = None
    if network is None or not network.is_linear:
        raise TypeError(
            f"Node {name!r}: OneVsRestClassifier of {type(part).__name__} cannot be "
            "read; only of linear classifiers, which have coef_ and intercept_, it "
            "can. EnsembleAggregator and DistillationAggregator take any classifier."
        ) from cause
    return network
