"""Distillation: one model that says what an ensemble of the nodes says."""

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..base import Allows, BaseAggregator
from ..compat import HasMethods
from ..federation import ReportMixin, federated_fit
from ..local import local_model, to_logits
from ..networks import takes_missing_values, to_module
from ._distillation_fit import DistillationFit, DistillationRows
from ._ensemble import EnsembleAggregator
from ._given_rows import GivenRowsMixin

if TYPE_CHECKING:
    import torch


class DistillationAggregator(GivenRowsMixin, ReportMixin, BaseAggregator):
    """One classifier fitted to what the ensemble of the nodes says of given rows.

    The rows need no labels: with fitted local estimators ``fit(X)`` does. Labels only
    count rows for ``node_weight``, and train the clones in simulation.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        As of :class:`EnsembleAggregator`.
    student : classifier, default=None
        Unfitted classifier of any kind. One whose ``fit`` takes ``sample_weight`` sees
        each row once for every class that matters, weighted by its probability; any
        other ten copies, labelled in proportion. None stands for ``MLPClassifier()``.
    voting : {"soft", "hard"}, default="soft"
    node_weight : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
        As of :class:`EnsembleAggregator`. Counting needs labels.
    n_jobs : int, default=None
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`.
    random_state : int, RandomState instance or None, default=None
        Source of the dealing of rows, of seeds, and of the breaking of ties.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    student_ : classifier
        The fitted student. A constant model if the ensemble gives all rows one class.
    weights_ : ndarray of shape (n_nodes, n_classes)
        What each node counts for each class in the ensemble.
    agreement_ : float
        Share of held-out rows (else all) whose most probable class is the ensemble's.
    estimators_ : list of classifiers
    node_names_ : list of str
    history_ : list of dict
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        As of :class:`EnsembleAggregator`.

    References
    ----------
    G. Hinton, O. Vinyals, J. Dean: Distilling the Knowledge in a Neural Network, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skgems import DistillationAggregator
    >>> X, y = load_iris(return_X_y=True)
    >>> trees = [DecisionTreeClassifier().fit(X[k::4], y[k::4]) for k in range(3)]
    >>> agg = DistillationAggregator(trees, student=LogisticRegression(max_iter=1000))
    >>> agg.fit(X).score(X, y) > 0.9  # without labels
    True
    """

    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "voting": EnsembleAggregator._parameter_constraints["voting"],
        "node_weight": EnsembleAggregator._parameter_constraints["node_weight"],
        "student": [HasMethods(["fit", "predict"]), None],
    }
    # Its rows need no labels, nor nodes.
    del _parameter_constraints["front"]

    def __init__(
        self,
        estimators=None,
        *,
        student=None,
        voting="soft",
        node_weight="equal",
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.student = student
        self.voting = voting
        self.node_weight = node_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @federated_fit
    def fit(self, X, y=None, nodes=None, held_out=None) -> "DistillationAggregator":
        """Fit the student to what the ensemble says of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. The student is fitted to those that ``nodes`` calls public, or all.
            Documents and tables with texts go to members and student as they are given.
        y, nodes : array-like of shape (n_samples,), default=None
            As of :meth:`ModelAveragingAggregator.fit`, but for public rows.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only score: nothing is fitted to them, `agreement_` is theirs.

        Returns
        -------
        self : DistillationAggregator

        Raises
        ------
        TypeError
            If a local estimator is no classifier.
        ValueError
            If the input is not usable; the message names the node.
        """
        distillation = DistillationFit.of(self)
        rows = DistillationRows.read(self, X, y=y, nodes=nodes, held_out=held_out)
        self._publish(**distillation.attributes(rows))
        return self

    def to_estimator(self) -> BaseEstimator:
        """The student as a plain fitted classifier.

        Returns
        -------
        estimator : classifier
            A copy of ``student_``; knows nothing of this library.
        """
        check_is_fitted(self)
        student = deepcopy(self.student_)
        if hasattr(self, "feature_names_in_") and hasattr(student, "n_features_in_"):
            student.feature_names_in_ = self.feature_names_in_
        return student

    def to_module(self) -> "torch.nn.Sequential":
        """The student as a torch module.

        Returns
        -------
        module : torch.nn.Sequential
            Linear layers and activations, from rows to one logit per class.

        Raises
        ------
        ImportError
            If torch is not installed.
        TypeError
            If the student is no linear classifier or chain of dense layers.
        """
        check_is_fitted(self)
        student = local_model(self.student_, name="student").network()
        student = student.aligned(self.classes_)
        return to_module(student.astype(student.dtype))

    @property
    def _allows(self) -> Allows:
        allowed = super()._allows
        student_does = self.student is not None and takes_missing_values(self.student)
        return replace(allowed, missing_values=allowed.missing_values and student_does)

    def _logits(self, X) -> np.ndarray:
        student = local_model(self.student_, name="student")
        return to_logits(student.probabilities(X, self.classes_))
