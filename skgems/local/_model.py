# SPDX-License-Identifier: BSD-3-Clause
"""A node's own classifier as one object: how it is read, asked and trained further."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from ..networks import (
    Layers,
    Network,
    check_finite,
    final_step,
    is_constant,
    read_network,
    to_mlp_classifier,
    unwrap,
)
from ._descriptions import (
    Description,
    check_told,
    describe,
    own_predictions,
    own_probabilities,
    places,
)
from ._errors import at_node

TRAINABLE = (
    "MLPClassifier (solver 'adam' or 'sgd'), SGDClassifier, LogisticRegression "
    "(any solver but 'liblinear') and skorch NeuralNetClassifier or "
    "NeuralNetBinaryClassifier of any torch module, bare, in a FrozenEstimator or as "
    "the best estimator of a fitted search"
)


# Where scikit-learn's classifiers, or a Network, keep what they learned.
_LEARNED = (
    *("coef_", "intercept_", "coefs_", "intercepts_", "dual_coef_", "coefs"),
    *("intercepts", "means_", "theta_", "var_", "class_prior_", "centroids_"),
)


class LocalModel:
    """A classifier of any kind, which cannot go on training.

    Made by :func:`local_model`, which looks up the kind once. A subclass for a kind
    that can go on training sets ``layout`` and implements what begins with ``_`` below.

    Parameters
    ----------
    estimator : classifier
        Fitted, but for `check_trainable` and `start`. Never altered.
    name : str
        Name of the node, for messages.

    Attributes
    ----------
    own : classifier
        The classifier inside all wrappers, pipelines too.
    layout : str or None
        Name of the way its parameters are laid out; of others they mean other things.
        None: it cannot go on training.
    """

    layout: str | None = None

    def __init__(self, estimator, name: str = "estimator") -> None:
        self.estimator = estimator
        self.name = name
        self.own = final_step(estimator)

    # ---- what it is -------------------------------------------------------

    @cached_property
    def description(self) -> Description:
        """Its classes and features."""
        return describe(self.estimator, name=self.name)

    @property
    def is_constant(self) -> bool:
        """Whether it is the constant model of a node whose rows show one class."""
        if isinstance(self.estimator, Network):
            return self.estimator.is_constant
        return is_constant(self.estimator)

    @property
    def has_module(self) -> bool:
        """Whether its parameters are those of a torch module of whatever form."""
        return False

    @property
    def is_chain(self) -> bool:
        """Whether it can be read as a chain of dense layers."""
        return True

    @property
    def dtype(self) -> np.dtype:
        """That of its weights, float64 where they differ."""
        return self.network(copy=False).dtype

    def network(self, *, copy: bool = True) -> Network:
        """It as plain arrays; see `skgems.networks.read_network`."""
        return read_network(self.estimator, name=self.name, copy=copy)

    def check_finite(self) -> None:
        """Raise ValueError, naming node and attribute, for what is NaN or infinite.

        Of the numbers that it learned, where they are kept in attributes of usual
        names; of others :meth:`probabilities` says what comes of them.
        """
        self._check_finite(self.own)

    def _check_finite(self, estimator, where="") -> None:
        for attribute in _LEARNED:
            values = getattr(estimator, attribute, None)
            if isinstance(values, (list, tuple)):
                for i, part in enumerate(values):
                    what = f"{where}{attribute}[{i}]"
                    check_finite(part, name=self.name, what=what)
            elif values is not None:
                check_finite(values, name=self.name, what=where + attribute)
        members = getattr(estimator, "estimators_", None)
        for i, member in enumerate(members if isinstance(members, list) else ()):
            self._check_finite(final_step(member), f"{where}estimators_[{i}].")

    def probabilities(self, X, classes) -> np.ndarray:
        """What it says of rows, one column for each of some classes.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)
            Rows; of more dimensions where the classifier takes them.
        classes : ndarray of shape (n_classes,)
            Sorted labels.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Zero for classes that it has no output for. Rows sum to one, as long as it
            has no outputs beyond ``classes``. Without ``predict_proba``, the softmax
            of its scores stands for it (the sigmoid, with two classes); scores of
            pairs of classes are turned into scores of classes before, and without
            scores what it predicts counts.

        Raises
        ------
        ValueError
            If its probabilities or scores are not finite.
        """
        with self._asked():
            own = self._probabilities(X)
            check_told(own, "probabilities")
        target = places(self.description.classes, classes)
        proba = np.zeros((own.shape[0], len(classes)))
        proba[:, target[target >= 0]] = own[:, target >= 0]
        return proba

    def votes(self, X, classes) -> np.ndarray:
        """What it predicts for rows, as columns of some classes.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)
            Rows; of more dimensions where the classifier takes them.
        classes : ndarray of shape (n_classes,)
            Sorted labels.

        Returns
        -------
        votes : ndarray of shape (n_samples,), int
            Where it predicts none of ``classes``, that of them which is most probable.
        """
        with self._asked():
            predicted = self._predictions(X)
        votes = places(predicted, classes)
        others = votes < 0
        if others.any():
            votes[others] = np.argmax(self.probabilities(X[others], classes), axis=1)
        return votes

    def _asked(self):
        return at_node(self.name, f"{type(self.own).__name__} cannot predict the rows")

    def _probabilities(self, X) -> np.ndarray:
        return own_probabilities(self.estimator, X)

    def _predictions(self, X) -> np.ndarray:
        return own_predictions(self.estimator, X)

    # ---- training further -------------------------------------------------

    def check_trainable(self) -> None:
        """Raise TypeError, naming what can, if training cannot go on."""
        reason = self._obstacle()
        if reason is None:
            return
        hint = ""
        if isinstance(unwrap(self.estimator), Pipeline):
            hint = (
                " Put what comes before the classifier before the aggregator instead: "
                "make_pipeline(StandardScaler(), aggregator)."
            )
        raise TypeError(
            f"Node {self.name!r}: {reason} cannot go on training from given "
            f"parameters. What can: {TRAINABLE}.{hint}"
        )

    def _obstacle(self) -> str | None:
        """What it is, if that cannot go on training."""
        bare = unwrap(self.estimator)
        if self.layout is None or bare is not self.own:
            return type(bare).__name__
        return None

    def parameters(self) -> list[np.ndarray]:
        """Copies of all that it learned.

        Returns
        -------
        parameters : list of ndarray
            ``coefs_`` then ``intercepts_`` of MLPClassifier, ``coef_`` and
            ``intercept_`` of linear classifiers, the ``state_dict`` of a torch module
            (parameters and buffers) in its order.
        """
        self.check_trainable()
        return self._read(self.own)

    def with_parameters(self, parameters: Sequence[np.ndarray]) -> LocalModel:
        """A fitted copy that carries other parameters.

        Parameters
        ----------
        parameters : sequence of ndarray
            As :meth:`parameters` gives them, of the same shapes.

        Returns
        -------
        copy : LocalModel
            Of the bare classifier, out of FrozenEstimator and searches, without the
            state of its optimizer.

        Raises
        ------
        ValueError
            If the number of arrays or a shape does not fit.
        """
        self.check_trainable()
        fresh = self._copy(self.own)
        shapes = [np.shape(array) for array in self._read(fresh)]
        given = [np.shape(array) for array in parameters]
        if shapes != given:
            raise ValueError(
                f"{type(fresh).__name__} has parameters of shapes {shapes}, got "
                f"{given}."
            )
        self._write(fresh, parameters)
        return type(self)(fresh, self.name)

    def train(
        self,
        X,
        y,
        *,
        epochs: int,
        learning_rate: float | Sequence[float] | None = None,
        parameters: Sequence[np.ndarray] | None = None,
        random_state=None,
    ) -> LocalModel:
        """Train a copy some epochs more, by the classifier's own trainer.

        MLPClassifier and SGDClassifier go on by ``partial_fit``, LogisticRegression by
        a warm start (an epoch is one iteration of its solver; there is no rate),
        skorch nets by theirs, callbacks included. Optimizers start afresh.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)
            Rows.
        y : ndarray of shape (n_samples,)
            Labels as :meth:`targets` says.
        epochs : int
            Passes over the rows.
        learning_rate : float or sequence of float of length epochs, default=None
            Rate, or one for each epoch; None leaves it to the classifier.
        parameters : sequence of ndarray, default=None
            Where to start, as :meth:`parameters` gives them; None starts where the
            classifier is.
        random_state : int, RandomState instance or None, default=None
            Source of the order of rows, and of a torch module's own randomness.

        Returns
        -------
        copy : LocalModel
            Of the bare classifier, out of FrozenEstimator and searches.

        Raises
        ------
        TypeError
            If it cannot go on training; the message names what can.
        """
        rng = check_random_state(random_state)
        if parameters is None:
            parameters = self.parameters()
        fresh = self.with_parameters(parameters)
        rates = None
        if learning_rate is not None:
            rates = np.broadcast_to(np.asarray(learning_rate, dtype=np.float64), epochs)
        if epochs:
            self._train(fresh.own, X, y, epochs, rates, rng)
        return fresh

    def start(self, X, y, *, classes, random_state=None):
        """A copy of the unfitted classifier at the start of its training.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_samples, n_features)
            Rows, for their number of features and dtype.
        y : ndarray of shape (n_samples,)
            Labels.
        classes : ndarray of shape (n_classes,)
            Labels that the model is to have outputs for.
        random_state : int, RandomState instance or None, default=None
            Source of the first weights.

        Returns
        -------
        estimator : fitted classifier
            Random weights where its training starts at random, else zeros.
        """
        self.check_trainable()
        rng = check_random_state(random_state)
        return self._start(X[:1], y[:1], classes, rng)

    def widened(self, classes: np.ndarray) -> LocalModel:
        """A fitted copy with an output for each of ``classes``.

        Parameters
        ----------
        classes : ndarray of shape (n_classes,)
            Sorted labels, at least those of the classifier.

        Returns
        -------
        copy : LocalModel
            New outputs have zero weights. The outputs of a torch module are what they
            are: such a net comes back as a copy.
        """
        self.check_trainable()
        fresh = self._widen(self._copy(self.own), np.asarray(classes))
        return type(self)(fresh, self.name)

    def class_axes(self) -> dict[int, int]:
        """Which of its parameters have one entry per output, along which axis.

        Returns
        -------
        axes : dict
            From the index in :meth:`parameters` to the axis of the outputs. With one
            output for two classes the axis has length 1.
        """
        self.check_trainable()
        return self._class_axes(self.own)

    def targets(self, classes: np.ndarray) -> np.ndarray:
        """What its trainer takes for each class: the label, or the output's number."""
        return classes

    def parameters_of(self, network: Network) -> list[np.ndarray]:
        """Parameters of a Network in the layout of this classifier.

        Parameters
        ----------
        network : Network
            One output column per class, with the classes of this classifier.

        Returns
        -------
        parameters : list of ndarray
            For :meth:`with_parameters`.
        """
        raise NotImplementedError

    # ---- other layers in its own trainer ----------------------------------

    @property
    def learning_rate(self) -> float:
        """Rate that its own training starts at."""
        raise NotImplementedError

    @property
    def trainer(self):
        """All that training what `carrying` gives depends on, to be pickled."""
        return self.estimator

    def carrying(self, layers: Layers) -> LocalModel:
        """Its own trainer around other layers, or the upper ones of them.

        A skorch net lends its loss, optimizer, batch size, callbacks and device, and
        the Softmax or the like that its module ends with, so that the loss sees what
        it saw; MLPClassifier its parameters ("lbfgs", which cannot train by epochs, is
        replaced by "adam"). What has no trainer for layers gets that of
        ``MLPClassifier()``.

        Parameters
        ----------
        layers : Layers
            One output per class.

        Returns
        -------
        model : LocalModel
            Trains on numbers of outputs, whatever the labels were. The classifier
            itself is not altered.
        """
        from ._resolve import local_model

        fresh = to_mlp_classifier(layers, np.arange(layers.n_outputs))
        return local_model(fresh, name=self.name)

    def layers(self) -> Layers:
        """Its layers, one output per class."""
        network = self.network()
        return Layers(network.coefs, network.intercepts, network.activation)
