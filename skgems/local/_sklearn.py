"""How scikit-learn's classifiers go on training.

A kind of classifier is a subclass of `LocalModel` here; `KINDS` in ``_lookup.py`` says
which classifiers it is for.
"""

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from ..networks import (
    Layers,
    Network,
    as_two_logits,
    read_network,
    to_mlp_classifier,
)
from ._classifiers import Rows
from ._model import LocalModel

# For the one row that start() shows a model; what it learns is below rounding.
NO_RATE = np.finfo(np.float64).tiny


@contextmanager
def lent_settings(estimator: object, settings: Mapping[str, object]) -> Iterator[None]:
    """Set attributes of an estimator within a block, and put them back after it."""
    attributes = vars(estimator)
    attributes_before = {name: getattr(estimator, name) for name in settings}
    # Rows come as arrays, without the names that the user's had.
    if "feature_names_in_" in attributes:
        attributes_before["feature_names_in_"] = attributes.pop("feature_names_in_")
    attributes.update(settings)
    try:
        yield
    finally:
        attributes.update(attributes_before)


class SklearnModel(LocalModel):
    """A classifier of scikit-learn's form, which need not be able to go on training."""

    def carrying(self, layers: Layers) -> "MLPModel":
        """An MLPClassifier's trainer around other layers."""
        classifier = to_mlp_classifier(layers, np.arange(layers.n_outputs))
        return MLPModel(classifier, self.name)


class MLPModel(SklearnModel):
    """MLPClassifier; with a stochastic solver it goes on by ``partial_fit``."""

    layout = "layers"

    def _copy(self) -> MLPClassifier:
        check_is_fitted(self.classifier)
        classifier = copy.copy(self.classifier)
        for name in ("_optimizer", "_best_coefs", "_best_intercepts"):
            vars(classifier).pop(name, None)
        # Attributes that training writes, as they are before the first epoch.
        classifier.coefs_ = [array.copy() for array in classifier.coefs_]
        classifier.intercepts_ = [array.copy() for array in classifier.intercepts_]
        classifier.loss_curve_ = []
        classifier.best_loss_ = np.inf
        classifier.validation_scores_ = None
        classifier.best_validation_score_ = None
        classifier._no_improvement_count = 0
        return classifier

    def _read(self) -> list[np.ndarray]:
        arrays = [*self.classifier.coefs_, *self.classifier.intercepts_]
        return [array.copy() for array in arrays]

    def _write(self, parameters: Sequence[np.ndarray]) -> None:
        arrays = [np.array(array, order="C") for array in parameters]
        n_layers = len(self.classifier.coefs_)
        self.classifier.coefs_ = arrays[:n_layers]
        self.classifier.intercepts_ = arrays[n_layers:]

    def _train(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        epochs: int,
        rates: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> None:
        classifier = self.classifier
        # partial_fit knows no early stopping, and would start each epoch at the seed.
        settings = {"random_state": rng, "early_stopping": False}
        if rates is not None:
            settings["learning_rate_init"] = rates[0]
        if classifier.batch_size != "auto":
            settings["batch_size"] = min(classifier.batch_size, X.shape[0])
        X = X.astype(classifier.coefs_[0].dtype, copy=False)
        with lent_settings(classifier, settings):
            for epoch in range(epochs):
                if epoch and rates is not None:
                    # The first epoch makes the optimizer, which keeps its rate.
                    solver = classifier._optimizer
                    solver.learning_rate = solver.learning_rate_init = rates[epoch]
                classifier.partial_fit(X, y)

    def _start(
        self,
        classifier: MLPClassifier,
        X: Rows,
        y: np.ndarray,
        *,
        classes: np.ndarray,
        rng: np.random.RandomState,
    ) -> MLPClassifier:
        settings = {
            "random_state": rng,
            "learning_rate_init": NO_RATE,
            "early_stopping": False,
            "batch_size": 1,
        }
        with lent_settings(classifier, settings):
            classifier.partial_fit(X, y, classes=classes)
        return MLPModel(classifier)._copy()

    def _widen(self, classifier: MLPClassifier, classes: np.ndarray) -> MLPClassifier:
        network = read_network(classifier).aligned(classes)
        wide = to_mlp_classifier(
            network, classes, feature_names_in=network.feature_names_in
        )
        return wide.set_params(**classifier.get_params())

    def _class_axes(self) -> dict[int, int]:
        # The last weights are (n_units, n_outputs), the last biases (n_outputs,).
        n_layers = len(self.classifier.coefs_)
        return {n_layers - 1: 1, 2 * n_layers - 1: 0}

    def _untrainable(self) -> str | None:
        untrainable = super()._untrainable()
        if untrainable is not None:
            return untrainable
        if self.classifier.solver not in ("adam", "sgd"):
            name = type(self.classifier).__name__
            return f"{name}(solver={self.classifier.solver!r})"
        return None

    def parameters_of(self, network: Network) -> list[np.ndarray]:
        layers = network.contracted()
        return [*layers.coefs, *layers.intercepts]

    @property
    def learning_rate(self) -> float:
        return self.classifier.learning_rate_init

    @property
    def trainer(self) -> tuple[type, dict]:
        # Its parameters. get_params looks up signatures, which takes longer than to
        # hash what they hold.
        attributes = vars(self.classifier)
        names = [n for n in sorted(attributes) if n[0] != "_" and n[-1] != "_"]
        return type(self.classifier), {n: attributes[n] for n in names}

    def carrying(self, layers: Layers) -> "MLPModel":
        classifier = to_mlp_classifier(layers, np.arange(layers.n_outputs))
        settings = self.classifier.get_params(deep=False)
        settings["hidden_layer_sizes"] = layers.widths
        settings["activation"] = classifier.activation
        if self.classifier.solver == "lbfgs":  # which cannot go on training
            settings["solver"] = "adam"
        return MLPModel(classifier.set_params(**settings), self.name)


class LinearModel(SklearnModel):
    """What ``coef_`` and ``intercept_`` of any kind have in common."""

    layout = "linear"

    def _copy(self) -> object:
        check_is_fitted(self.classifier)
        classifier = copy.copy(self.classifier)
        classifier.coef_, classifier.intercept_ = self._read()
        # SGDClassifier keeps what it averages here.
        for name in ("_standard_coef", "_standard_intercept"):
            vars(classifier).pop(name, None)
        return classifier

    def _read(self) -> list[np.ndarray]:
        coef = np.array(self.classifier.coef_, order="C")
        # Without an intercept scikit-learn may keep a single number.
        intercept = np.broadcast_to(self.classifier.intercept_, coef.shape[0])
        return [coef, np.array(intercept).astype(coef.dtype, copy=False)]

    def _write(self, parameters: Sequence[np.ndarray]) -> None:
        coef, intercept = parameters
        self.classifier.coef_ = np.array(coef, order="C")
        self.classifier.intercept_ = np.array(intercept, order="C")

    def _widen(self, classifier: object, classes: np.ndarray) -> object:
        network = read_network(classifier).aligned(classes)
        classifier.classes_ = classes.copy()
        classifier.coef_, classifier.intercept_ = self.parameters_of(network)
        return classifier

    def _class_axes(self) -> dict[int, int]:
        # coef_ is (n_outputs, n_features), intercept_ (n_outputs,).
        return {0: 0, 1: 0}

    def parameters_of(self, network: Network) -> list[np.ndarray]:
        layers = network.contracted()
        return [layers.coefs[0].T.copy(), layers.intercepts[0].copy()]


class SGDModel(LinearModel):
    """SGDClassifier, which goes on by ``partial_fit``."""

    def _train(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        epochs: int,
        rates: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> None:
        classifier = self.classifier
        # partial_fit knows no early stopping, and no weights by counts. A running
        # average would average over models before the new parameters too.
        settings = {"random_state": rng, "early_stopping": False, "average": False}
        if classifier.class_weight == "balanced":
            labels = np.unique(y)
            weights = compute_class_weight("balanced", classes=labels, y=y)
            settings["class_weight"] = dict(zip(labels.tolist(), weights, strict=True))
        if rates is not None:
            settings["learning_rate"] = "constant"
            settings["eta0"] = rates[0]
        X = X.astype(classifier.coef_.dtype, copy=False)
        with lent_settings(classifier, settings):
            for epoch in range(epochs):
                if rates is not None:
                    classifier.eta0 = rates[epoch]
                classifier.partial_fit(X, y)

    def _start(
        self,
        classifier: object,
        X: Rows,
        y: np.ndarray,
        *,
        classes: np.ndarray,
        rng: np.random.RandomState,
    ) -> object:
        settings = {
            "random_state": rng,
            "early_stopping": False,
            "average": False,
            "class_weight": None,
        }
        with lent_settings(classifier, settings):
            classifier.partial_fit(X, y, classes=classes)
        classifier.t_ = 1.0  # its count of steps
        classifier.coef_[:] = 0.0
        classifier.intercept_[:] = 0.0
        return classifier


class LogisticModel(LinearModel):
    """LogisticRegression: a warm start, an epoch is an iteration of its solver."""

    def _untrainable(self) -> str | None:
        untrainable = super()._untrainable()
        if untrainable is not None:
            return untrainable
        name = type(self.classifier).__name__
        if not hasattr(self.classifier, "warm_start"):  # a cross-validated one
            return name
        if self.classifier.solver == "liblinear":
            return f"{name}(solver='liblinear')"
        return None

    def _train(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        epochs: int,
        rates: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> None:
        """See `LocalModel._train`; its solvers have no rates.

        scikit-learn fits outputs for the classes that the rows have, and no others. So
        it is given those outputs to start from, and what it has changed about them is
        added to the whole model.
        """
        classifier = self.classifier
        classes = classifier.classes_
        has_rows = np.isin(classes, y)
        if has_rows.sum() < 2:  # nothing to separate
            return
        coef, intercept = self._read()
        # Two classes have one output together.
        trained = has_rows if len(classes) > 2 else slice(None)
        coef_before = coef[trained]
        intercept_before = intercept[trained]
        if has_rows.sum() == 2 < len(classes):  # scikit-learn fits the difference
            coef_before = np.diff(coef_before, axis=0)
            intercept_before = np.diff(intercept_before)
        classifier.coef_ = coef_before.copy()
        classifier.intercept_ = intercept_before.copy()
        settings = {"random_state": rng, "warm_start": True, "max_iter": epochs}
        with lent_settings(classifier, settings), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifier.fit(X, y)
        classifier.classes_ = classes
        if classifier.coef_.shape == coef.shape:
            return
        # Classes without rows keep the outputs that they had.
        coef_change = classifier.coef_ - coef_before
        intercept_change = classifier.intercept_ - intercept_before
        if has_rows.sum() == 2:
            coef_change = as_two_logits(coef_change.T).T
            intercept_change = as_two_logits(intercept_change)
        coef[has_rows] += coef_change
        intercept[has_rows] += intercept_change
        classifier.coef_ = coef
        classifier.intercept_ = intercept

    def _start(
        self,
        classifier: LogisticRegression,
        X: Rows,
        y: np.ndarray,
        *,
        classes: np.ndarray,
        rng: np.random.RandomState,
    ) -> LogisticRegression:
        n_outputs = 1 if len(classes) == 2 else len(classes)
        n_features = X.shape[1]
        classifier.classes_ = np.array(classes)
        classifier.n_features_in_ = n_features
        classifier.coef_ = np.zeros((n_outputs, n_features), dtype=X.dtype)
        classifier.intercept_ = np.zeros(n_outputs, dtype=X.dtype)
        classifier.n_iter_ = np.zeros(1, dtype=np.int32)
        return classifier
