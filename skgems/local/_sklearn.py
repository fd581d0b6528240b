"""How scikit-learn's classifiers go on training, and of which kind a classifier is."""

import copy
import warnings
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from ..networks import (
    Layers,
    Network,
    read_network,
    to_mlp_classifier,
)
from ._model import LocalModel

# For the one row that start() shows a model; what it learns is below rounding.
NO_RATE = np.finfo(np.float64).tiny


@contextmanager
def lent(estimator, **params):
    own = {key: getattr(estimator, key) for key in params}
    # Rows come as arrays, without the names that the user's had.
    if "feature_names_in_" in vars(estimator):
        own["feature_names_in_"] = vars(estimator).pop("feature_names_in_")
    vars(estimator).update(params)
    try:
        yield
    finally:
        vars(estimator).update(own)


class SklearnModel(LocalModel):
    """A classifier of scikit-learn's form, which need not be able to go on training."""

    def carrying(self, layers: Layers) -> "MLPModel":
        """An MLPClassifier's trainer around other layers."""
        fresh = to_mlp_classifier(layers, np.arange(layers.n_outputs))
        return MLPModel(fresh, self.name)


class MLPModel(SklearnModel):
    """MLPClassifier; with a stochastic solver it goes on by ``partial_fit``."""

    layout = "layers"

    def _copy(self):
        check_is_fitted(self.own)
        fresh = copy.copy(self.own)
        for name in ("_optimizer", "_best_coefs", "_best_intercepts"):
            vars(fresh).pop(name, None)
        # Attributes that training writes, as they are before the first epoch.
        fresh.coefs_ = [array.copy() for array in fresh.coefs_]
        fresh.intercepts_ = [array.copy() for array in fresh.intercepts_]
        fresh.loss_curve_, fresh.best_loss_ = [], np.inf
        fresh.validation_scores_ = fresh.best_validation_score_ = None
        fresh._no_improvement_count = 0
        return fresh

    def _read(self):
        return [array.copy() for array in (*self.own.coefs_, *self.own.intercepts_)]

    def _write(self, parameters):
        arrays = [np.array(array, order="C") for array in parameters]
        depth = len(self.own.coefs_)
        self.own.coefs_, self.own.intercepts_ = arrays[:depth], arrays[depth:]

    def _train(self, X, y, epochs, rates, rng):
        # partial_fit knows no early stopping, and would start each epoch at the seed.
        estimator, own = self.own, {"random_state": rng, "early_stopping": False}
        if rates is not None:
            own["learning_rate_init"] = rates[0]
        if estimator.batch_size != "auto":
            own["batch_size"] = min(estimator.batch_size, X.shape[0])
        X = X.astype(estimator.coefs_[0].dtype, copy=False)
        with lent(estimator, **own):
            for epoch in range(epochs):
                if epoch and rates is not None:
                    solver = estimator._optimizer
                    solver.learning_rate = solver.learning_rate_init = rates[epoch]
                estimator.partial_fit(X, y)

    def _start(self, estimator, X, y, classes, rng):
        own = {"learning_rate_init": NO_RATE, "early_stopping": False, "batch_size": 1}
        with lent(estimator, random_state=rng, **own):
            estimator.partial_fit(X, y, classes=classes)
        return MLPModel(estimator)._copy()

    def _widen(self, estimator, classes):
        wide = read_network(estimator).aligned(classes)
        fresh = to_mlp_classifier(wide, classes, feature_names_in=wide.feature_names_in)
        return fresh.set_params(**estimator.get_params())

    def _class_axes(self):
        depth = len(self.own.coefs_)
        return {depth - 1: 1, 2 * depth - 1: 0}

    def _obstacle(self):
        reason = super()._obstacle()
        if reason is None and self.own.solver not in ("adam", "sgd"):
            return f"{type(self.own).__name__}(solver={self.own.solver!r})"
        return reason

    def parameters_of(self, network: Network):
        layers = network.contracted()
        return [*layers.coefs, *layers.intercepts]

    @property
    def learning_rate(self):
        return self.own.learning_rate_init

    @property
    def trainer(self):
        # Its parameters; get_params looks up signatures, longer than hashing takes.
        names = (n for n in vars(self.own) if n[0] != "_" and n[-1] != "_")
        return type(self.own), {n: getattr(self.own, n) for n in sorted(names)}

    def carrying(self, layers: Layers) -> "MLPModel":
        made = to_mlp_classifier(layers, np.arange(layers.n_outputs))
        settings = self.own.get_params(deep=False)
        settings |= {"hidden_layer_sizes": layers.widths, "activation": made.activation}
        if self.own.solver == "lbfgs":
            settings["solver"] = "adam"
        return MLPModel(made.set_params(**settings), self.name)


class LinearModel(SklearnModel):
    """What ``coef_`` and ``intercept_`` of any kind have in common."""

    layout = "linear"

    def _copy(self):
        check_is_fitted(self.own)
        fresh = copy.copy(self.own)
        fresh.coef_, fresh.intercept_ = self._read()
        for name in ("_standard_coef", "_standard_intercept"):
            vars(fresh).pop(name, None)
        return fresh

    def _read(self):
        coef = np.array(self.own.coef_, order="C")
        # Without an intercept scikit-learn may keep a single number.
        intercept = np.array(np.broadcast_to(self.own.intercept_, coef.shape[0]))
        return [coef, intercept.astype(coef.dtype, copy=False)]

    def _write(self, parameters):
        arrays = (np.array(array, order="C") for array in parameters)
        self.own.coef_, self.own.intercept_ = arrays

    def _widen(self, estimator, classes):
        wide = read_network(estimator).aligned(classes)
        estimator.classes_ = classes.copy()
        estimator.coef_, estimator.intercept_ = self.parameters_of(wide)
        return estimator

    def _class_axes(self):
        return {0: 0, 1: 0}

    def parameters_of(self, network: Network):
        layers = network.contracted()
        return [layers.coefs[0].T.copy(), layers.intercepts[0].copy()]


class SGDModel(LinearModel):
    def _train(self, X, y, epochs, rates, rng):
        # partial_fit knows no early stopping, and no weights by counts. A running
        # average would average over models before the new parameters too.
        estimator = self.own
        own = {"random_state": rng, "early_stopping": False, "average": False}
        if estimator.class_weight == "balanced":
            labels = np.unique(y)
            amounts = compute_class_weight("balanced", classes=labels, y=y)
            own["class_weight"] = dict(zip(labels.tolist(), amounts, strict=True))
        if rates is not None:
            own |= {"learning_rate": "constant", "eta0": rates[0]}
        X = X.astype(estimator.coef_.dtype, copy=False)
        with lent(estimator, **own):
            for epoch in range(epochs):
                if rates is not None:
                    estimator.eta0 = rates[epoch]
                estimator.partial_fit(X, y)

    def _start(self, estimator, X, y, classes, rng):
        own = {"early_stopping": False, "average": False, "class_weight": None}
        with lent(estimator, random_state=rng, **own):
            estimator.partial_fit(X, y, classes=classes)
        estimator.t_ = 1.0
        estimator.coef_[:] = estimator.intercept_[:] = 0.0
        return estimator


class LogisticModel(LinearModel):
    """LogisticRegression: a warm start, an epoch is an iteration of its solver."""

    def _obstacle(self):
        reason, kind = super()._obstacle(), type(self.own).__name__
        if reason is None and not hasattr(self.own, "warm_start"):
            return kind  # a cross-validated one
        if reason is None and self.own.solver == "liblinear":
            return f"{kind}(solver='liblinear')"
        return reason

    def _train(self, X, y, epochs, rates, rng):
        estimator, (coef, intercept) = self.own, self._read()
        classes, own = estimator.classes_, np.isin(estimator.classes_, y)
        if own.sum() < 2:  # nothing to separate
            return
        shown = own if len(classes) > 2 else slice(None)
        start, bias = coef[shown], intercept[shown]
        if own.sum() == 2 < len(classes):  # scikit-learn fits the difference
            start, bias = np.diff(start, axis=0), np.diff(bias)
        estimator.coef_, estimator.intercept_ = start.copy(), bias.copy()
        own_start = {"random_state": rng, "warm_start": True, "max_iter": epochs}
        with lent(estimator, **own_start), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(X, y)
        estimator.classes_ = classes
        if estimator.coef_.shape == coef.shape:
            return
        # Classes that the rows do not show keep what was said of them.
        moved, moved_bias = estimator.coef_ - start, estimator.intercept_ - bias
        if own.sum() == 2:
            sides = np.array([-0.5, 0.5])
            moved, moved_bias = sides[:, None] * moved, sides * moved_bias
        coef[own] += moved
        intercept[own] += moved_bias
        estimator.coef_, estimator.intercept_ = coef, intercept

    def _start(self, estimator, X, y, classes, rng):
        n_outputs, d = 1 if len(classes) == 2 else len(classes), X.shape[1]
        estimator.classes_, estimator.n_features_in_ = np.array(classes), d
        estimator.coef_ = np.zeros((n_outputs, d), dtype=X.dtype)
        estimator.intercept_ = np.zeros(n_outputs, dtype=X.dtype)
        estimator.n_iter_ = np.zeros(1, dtype=np.int32)
        return estimator
