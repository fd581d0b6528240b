# SPDX-License-Identifier: BSD-3-Clause
"""Fits of the likelihood with 50 and 100 classes, whose time grows with their number.

Rows of 64 features are drawn around a point for each class, by scikit-learn's
make_classification. Five nodes have a fifth of the classes each. Each line has the
processor seconds of a fit, the less of two with nothing remembered, and the log-loss on
other rows beside that of a logistic regression of all rows. One thread if
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import warnings
from time import process_time

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_by_label
from skgems.local import clear_cache

K = 5  # nodes
N_ROWS = 20_000
N_FEATURES = 64
N_FITS = 2


def seconds_of_fit(aggregator, X, y, nodes) -> float:
    """Of the processor, with nothing remembered."""
    clear_cache()
    start = process_time()
    aggregator.fit(X, y, nodes=nodes)
    return process_time() - start


def main() -> None:
    """Print seconds and log-losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", nargs="+", type=int, default=[50, 100])
    parser.add_argument("--seps", nargs="+", type=float, default=[0.5, 1.0, 2.0])
    options = parse_with_quick(parser, quick={"classes": [50], "seps": [1.0]})
    warnings.simplefilter("ignore")
    for n_classes in options.classes:
        for class_sep in options.seps:
            X, y = make_classification(
                2 * N_ROWS,
                N_FEATURES,
                n_informative=40,
                n_redundant=0,
                n_classes=n_classes,
                n_clusters_per_class=1,
                class_sep=class_sep,
                random_state=0,
            )
            X, X_test = X[:N_ROWS], X[N_ROWS:]
            y, y_test = y[:N_ROWS], y[N_ROWS:]
            nodes = partition_by_label(y, K)
            local_models = [
                LogisticRegression(max_iter=50).fit(X[nodes == k], y[nodes == k])
                for k in range(K)
            ]
            aggregator = GEMSLogisticAggregator(local_models, random_state=0)
            times = [seconds_of_fit(aggregator, X, y, nodes) for _ in range(N_FITS)]
            pooled = LogisticRegression(max_iter=200).fit(X, y)
            losses = [
                log_loss(y_test, model.predict_proba(X_test))
                for model in (aggregator, pooled)
            ]
            note_figure(f"{n_classes} classes, seconds", np.min(times))
            note_figure(f"{n_classes} classes, above pooled", losses[0] - losses[1])
            print(
                f"{n_classes} classes, class_sep={class_sep}: {np.min(times):.1f} s, "
                f"log-loss {losses[0]:.3f}, pooled {losses[1]:.3f}"
            )


if __name__ == "__main__":
    main()
