"""A node's own classifier as one object, and layers that are trained on its rows."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from ..compat import num_samples, safe_indexing
from ..networks import (
    Layers,
    ModuleState,
    Network,
    check_finite,
    dropped_columns,
    final_step,
    is_constant,
    label_array,
    read_network,
    unwrap,
)
from ..spaces import SpaceProfile, normalize_logits, profile_space
from ._classifiers import (
    Description,
    Rows,
    as_it_was_fitted,
    check_outputs,
    class_scores,
    indices_of,
    naming_node,
)

TRAINABLE = (
    "MLPClassifier (solver 'adam' or 'sgd'), SGDClassifier, LogisticRegression "
    "(any solver but 'liblinear') and skorch NeuralNetClassifier or "
    "NeuralNetBinaryClassifier of any torch module, bare, in a FrozenEstimator or as "
    "the best estimator of a fitted search"
)

# Where scikit-learn's classifiers, or a Network, keep what they learned.
_LEARNED_ATTRIBUTES = (
    "coef_",
    "intercept_",
    "coefs_",
    "intercepts_",
    "dual_coef_",
    "coefs",
    "intercepts",
    "means_",
    "theta_",
    "var_",
    "class_prior_",
    "centroids_",
)


class LocalModel:
    """A node's classifier of any kind, which is never altered.

    It says what the classifier predicts, whatever its kind. A kind that can go on
    training sets ``layout``, and has ``_copy``, ``_read``, ``_write``, ``_train``,
    ``_start``, ``_widen`` and ``_class_axes``.

    Parameters
    ----------
    estimator : object
        Fitted, in any wrappers and pipelines.
    name : str
        Of the node, for errors.
    """

    # How its parameters are laid out: models of one layout can be averaged. None: it
    # cannot go on training.
    layout: str | None = None

    advice_on_labels = ""  # what to do where its classes are numbers of outputs
    has_module = False  # whether its parameters are those of a torch module
    is_chain = True  # whether it can be read as a chain of dense layers
    may_lose_settings = False  # whether `lost_setting` may have any

    learning_rate: float  # only of kinds that train by gradients

    def __init__(self, estimator: object, name: str = "estimator") -> None:
        self.estimator = estimator
        self.name = name
        self.classifier = final_step(estimator)  # inside all wrappers and pipelines

    def __reduce__(self) -> tuple:
        return type(self), (self.estimator, self.name)

    @property
    def _prediction_failure(self) -> str:
        return f"{type(self.classifier).__name__} cannot predict the rows"

    @cached_property
    def description(self) -> Description | Network:
        """Describe its classes and features; TypeError if it has no ``classes_``."""
        estimator = self.estimator
        if isinstance(estimator, Network):
            return estimator
        if not hasattr(estimator, "classes_"):
            raise TypeError(
                f"Node {self.name!r}: {type(estimator).__name__} has no classes_; give "
                "a fitted one."
            )
        seen = None
        if is_constant(self.classifier) and hasattr(self.classifier, "class_prior_"):
            seen = np.asarray(self.classifier.class_prior_) > 0
        return Description.from_classifier(
            estimator, label_array(estimator, name=self.name), seen
        )

    @cached_property
    def dropped(self) -> np.ndarray | None:
        """Return which features it drops by name, (n_features,), bool; None: none."""
        if isinstance(self.estimator, Network):
            return self.estimator.dropped
        return dropped_columns(self.estimator)

    @property
    def is_constant(self) -> bool:
        """Report whether its prediction is constant, as at a node of one class."""
        if isinstance(self.estimator, Network):
            return self.estimator.is_constant
        return is_constant(self.estimator)

    @cached_property
    def network(self) -> Network:
        """The classifier as plain arrays; TypeError if it is no chain of layers.

        It is read once, as a pipeline's steps are probed on rows. Do not change it.
        """
        network = read_network(self.estimator, name=self.name)
        if self.dropped is None or network is self.estimator:
            return network
        return network.drop_features(self.dropped)

    @property
    def described(self) -> Network | ModuleState:
        """The classifier as a summary has it: as layers, or as a module's numbers."""
        return self.network

    def borrow_network(self) -> Network:
        """Return the network with the model's own arrays, not copied and not kept."""
        return read_network(self.estimator, name=self.name, copy=False)

    def lost_setting(self, *, merged: bool) -> str | None:
        """Say in words what a user has set and an aggregate does not have.

        ``merged``: whether layers are merged or averaged, as they are not in a vote.
        """
        return None

    def check_finite(self, path: str = "") -> None:
        """Raise ValueError, naming node and attribute, for what is not finite.

        ``path`` is where the classifier is within another, for the error.
        """
        for attribute in _LEARNED_ATTRIBUTES:
            learned = getattr(self.classifier, attribute, None)
            for array_name, array in _named_arrays(path + attribute, learned):
                check_finite(array, name=self.name, array_name=array_name)
        members = getattr(self.classifier, "estimators_", None)
        for i, member in enumerate(members if isinstance(members, list) else ()):
            LocalModel(member, self.name).check_finite(f"{path}estimators_[{i}].")

    def probabilities(self, X: Rows, classes: ArrayLike) -> np.ndarray:
        """Checked probabilities of sorted classes; 0 where it has no output.

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
        """
        with naming_node(self.name, self._prediction_failure):
            own_proba = self._probabilities(X)
            _check_one_a_row(own_proba, X)
            check_outputs(own_proba, "probabilities")
        columns = indices_of(self.description.classes, classes)
        proba = np.zeros((own_proba.shape[0], len(classes)))
        proba[:, columns[columns >= 0]] = own_proba[:, columns >= 0]
        return proba

    def votes(self, X: Rows, classes: ArrayLike) -> np.ndarray:
        """Return predictions as indices of sorted classes, (n_rows,).

        Where it predicts a label that is none of these it votes for the class that it
        finds most probable among them.
        """
        with naming_node(self.name, self._prediction_failure):
            predicted = self._predictions(X)
            _check_one_a_row(predicted, X)
        votes = indices_of(predicted, classes)
        is_of_no_class = votes < 0
        if is_of_no_class.any():
            rows = safe_indexing(X, np.flatnonzero(is_of_no_class))
            proba = self.probabilities(rows, classes)
            votes[is_of_no_class] = np.argmax(proba, axis=1)
        return votes

    def _probabilities(self, X: Rows) -> np.ndarray:
        """(n_rows, n_own_classes): its own, the softmax of scores, or of votes."""
        estimator = self.estimator
        if isinstance(estimator, Network):
            return softmax(estimator.decision_function(X), axis=1)
        with as_it_was_fitted(estimator, X) as X:
            if hasattr(estimator, "predict_proba"):
                proba = np.asarray(estimator.predict_proba(X))
                # Columns of any other number are not those of the classes.
                if proba.shape[1:] == (len(estimator.classes_),):
                    return proba
            scores = class_scores(estimator, X)
            if scores is None:
                predicted = np.asarray(estimator.predict(X)).reshape(-1, 1)
                return (predicted == estimator.classes_).astype(float)
        check_outputs(scores, "scores")
        if scores.ndim == 1:
            positive = expit(scores)
            return np.stack([1 - positive, positive], axis=1)
        return softmax(scores, axis=1)

    def _predictions(self, X: Rows) -> np.ndarray:
        """Return the labels that it predicts, (n_rows,)."""
        estimator = self.estimator
        if isinstance(estimator, Network):
            logits = estimator.decision_function(X)
            return estimator.classes[np.argmax(logits, axis=1)]
        with as_it_was_fitted(estimator, X) as X:
            return np.asarray(estimator.predict(X)).ravel()

    def check_trainable(self) -> None:
        """Raise TypeError if it cannot go on training from given parameters."""
        untrainable = self._untrainable()
        if untrainable is None:
            return
        if isinstance(unwrap(self.estimator), Pipeline):
            raise TypeError(
                f"Node {self.name!r}: {untrainable} cannot continue training from "
                f"given parameters. These can: {TRAINABLE}. Put what comes before the "
                "classifier before the aggregator instead: "
                "make_pipeline(StandardScaler(), aggregator). EnsembleAggregator lets "
                "classifiers of any kind vote."
            )
        raise TypeError(
            f"Node {self.name!r}: {untrainable} cannot continue training from given "
            f"parameters. These can: {TRAINABLE}. EnsembleAggregator lets classifiers "
            "of any kind vote."
        )

    def _untrainable(self) -> str | None:
        """Name the class that cannot go on training; None if the classifier can."""
        bare = unwrap(self.estimator)
        if self.layout is None or bare is not self.classifier:
            return type(bare).__name__
        return None

    def parameters(self) -> list[np.ndarray]:
        """Copies of all weights, then biases; of a net what its ``state_dict`` has."""
        self.check_trainable()
        return self._read()

    def with_parameters(self, parameters: Sequence[np.ndarray]) -> "LocalModel":
        """A fitted copy, without wrappers and optimizer state, of other parameters."""
        self.check_trainable()
        model = type(self)(self._copy(), self.name)
        expected_shapes = [np.shape(array) for array in model._read()]
        shapes = [np.shape(array) for array in parameters]
        if shapes != expected_shapes:
            raise ValueError(
                f"{type(model.classifier).__name__} has parameters of shapes "
                f"{expected_shapes}, got {shapes}."
            )
        model._write(parameters)
        return model

    def train(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        epochs: int,
        learning_rate: ArrayLike | None = None,
        parameters: Sequence[np.ndarray] | None = None,
        random_state: object = None,
    ) -> "LocalModel":
        """Train a copy.

        Parameters
        ----------
        X : {array, CSR matrix} of shape (n_rows, n_features)
        y : ndarray of shape (n_rows,)
            See `targets`.
        epochs : int
        learning_rate : float, array-like of shape (epochs,) or None, default=None
            One for all epochs or one for each; None: as the classifier has it.
        parameters : sequence of ndarray or None, default=None
            Those to start from; None: its own.
        random_state : int, RandomState instance or None, default=None
        """
        rng = check_random_state(random_state)
        model = self.with_parameters(
            self.parameters() if parameters is None else parameters
        )
        rates = None
        if learning_rate is not None:
            rates = np.asarray(learning_rate, dtype=np.float64)
            rates = np.broadcast_to(rates, epochs)
        if epochs:
            model._train(X, y, epochs=epochs, rates=rates, rng=rng)
        return model

    def start(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        classes: np.ndarray,
        random_state: object = None,
    ) -> object:
        """A fitted copy of the classifier as it is before its first step.

        Parameters are random or 0. The rows say how many features there are, and what
        they hold has no influence.
        """
        self.check_trainable()
        return self._start(
            deepcopy(self.classifier),
            X[:1],
            y[:1],
            classes=classes,
            rng=check_random_state(random_state),
        )

    def widened(self, classes: np.ndarray) -> "LocalModel":
        """A fitted copy with outputs for all classes, new ones 0; nets keep theirs."""
        self.check_trainable()
        classifier = self._copy()
        classes = np.asarray(classes)
        if not np.array_equal(getattr(classifier, "classes_", None), classes):
            classifier = self._widen(classifier, classes)
        return type(self)(classifier, self.name)

    def class_axes(self) -> dict[int, int]:
        """Axis of the outputs in parameters that have one, by index in `parameters`."""
        self.check_trainable()
        return self._class_axes()

    def buffers(self) -> frozenset[int]:
        """Return indices of `parameters` that hold statistics, not learnt weights."""
        return frozenset()

    def targets(self, classes: np.ndarray) -> np.ndarray:
        """Return its trainer's targets of the classes: labels, or outputs' numbers."""
        return classes

    def parameters_of(self, network: Network) -> list[np.ndarray]:
        """`parameters` of a Network that has a column for each of its classes."""
        raise NotImplementedError

    @property
    def trainer(self) -> object:
        """Return all that its training depends on, to be pickled."""
        return self.estimator

    def carrying(self, layers: Layers) -> "LocalModel":
        """Return its own trainer, or an MLPClassifier's, around other layers."""
        raise NotImplementedError

    def layers(self) -> Layers:
        return self.network.above(0)

    # What follows is for kinds that can go on training.

    def _copy(self) -> object:
        """A fitted copy of the classifier, which forgets how far it had trained."""
        raise NotImplementedError

    def _read(self) -> list[np.ndarray]:
        """Copies of its parameters."""
        raise NotImplementedError

    def _write(self, parameters: Sequence[np.ndarray]) -> None:
        """Set parameters, of the shapes that `_read` returns."""
        raise NotImplementedError

    def _train(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        epochs: int,
        rates: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> None:
        """Train in place; ``rates`` (epochs,), None: as the classifier has them."""
        raise NotImplementedError

    def _start(
        self,
        classifier: object,
        X: Rows,
        y: np.ndarray,
        *,
        classes: np.ndarray,
        rng: np.random.RandomState,
    ) -> object:
        """Make an unfitted classifier one before its first step, and return it."""
        raise NotImplementedError

    def _widen(self, classifier: object, classes: np.ndarray) -> object:
        """A classifier of more classes, which says the same of those it had."""
        raise NotImplementedError

    def _class_axes(self) -> dict[int, int]:
        raise NotImplementedError


def _named_arrays(name: str, learned: object) -> Iterator[tuple[str, object]]:
    """Yield each array that an attribute holds, or lists, with its name."""
    if isinstance(learned, (list, tuple)):
        for i, array in enumerate(learned):
            if array is not None:
                yield f"{name}[{i}]", array
    elif learned is not None:
        yield name, learned


def _check_one_a_row(outputs: np.ndarray, X: Rows) -> None:
    n_rows = num_samples(X)
    if len(outputs) != n_rows:
        raise ValueError(
            f"it returned outputs for {len(outputs)} rows, but {n_rows} rows were "
            "given. Was it fitted to rows of another form, such as texts that are now "
            "a table?"
        )


def retrain_layers(
    model: LocalModel,
    layers: Layers,
    Z: Rows,
    y: np.ndarray,
    *,
    epochs: int,
    learning_rate: ArrayLike | None = None,
    random_state: object = None,
) -> Layers:
    """Train layers by the trainer of a model.

    Parameters
    ----------
    model : LocalModel
    layers : Layers
    Z : {array, CSR matrix} of shape (n_rows, n_inputs)
        What enters the layers.
    y : ndarray of int of shape (n_rows,)
        The output of each row's class.
    epochs, learning_rate, random_state
        See `LocalModel.train`.

    Returns
    -------
    layers : Layers
        In the dtype of those that were given.
    """
    if not epochs or not len(y) or layers.n_outputs < 2:
        return layers
    failure = f"{type(model.classifier).__name__} cannot train on its rows"
    with naming_node(model.name, failure):
        trained = model.carrying(layers).train(
            Z,
            y,
            epochs=epochs,
            learning_rate=learning_rate,
            random_state=random_state,
        )
    return trained.layers().astype(layers.coefs[0].dtype)


def node_space(
    W: np.ndarray,
    X: Rows,
    y: np.ndarray,
    *,
    scale_logits: bool,
    n_others: int = 0,
    rows: Rows | None = None,
    seed: int | None = None,
    **settings: object,
) -> SpaceProfile:
    """The good-enough spaces of a node for every epsilon.

    Parameters
    ----------
    W : ndarray of shape (n_features + 1, n_own_classes)
        The node's linear model.
    X : {array, CSR matrix} of shape (n_rows, n_features)
        Rows that judge models.
    y : ndarray of int of shape (n_rows,)
        Indices of the node's own classes, -1 for others.
    scale_logits : bool
        Whether the model is divided by the size of its logits first, so that spaces of
        nodes that are more or less sure can meet.
    n_others : int, default=0
        How many classes of other nodes there are.
    rows : {array, CSR matrix} or None, default=None
        Rows that the shape of the spaces is made of; None: X.
    seed : int or None, default=None
        Source of the rays.
    **settings : object
        Geometry, criterion and construction, see `profile_space`.
    """
    n_own = W.shape[1]
    is_own = np.arange(n_own + n_others) < n_own
    center = np.pad(W.astype(np.float64), [(0, 0), (0, n_others)])
    scale = 1.0
    if scale_logits:
        center, scale = normalize_logits(center, is_own, X if rows is None else rows)
    profile = profile_space(
        X,
        y,
        center,
        is_own,
        scale=scale,
        rows=rows,
        random_state=seed,
        **settings,
    )
    if not n_others:
        return profile
    # All others have the same space: the reply has one of them, or none if it is free.
    return profile.select_outputs(np.arange(n_own + (not profile.last_is_free)))
