"""Distillation: one model that says what an ensemble of the nodes says."""

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..asking import ReportMixin, federated_fit
from ..base import Allows, BaseAggregator
from ..compat import HasMethods
from ..local import local_model, to_logits
from ..networks import takes_missing_values, to_module
from ._distillation_fit import DistillationFit, DistillationRows
from ._ensemble import EnsembleAggregator
from ._given_rows import GivenRowsMixin

if TYPE_CHECKING:
    import torch


class DistillationAggregator(GivenRowsMixin, ReportMixin, BaseAggregator):
    """Fit one classifier to the predictions of an ensemble of the nodes.

    A *student* is fitted to the class probabilities that the ensemble gives to rows.
    The rows need no labels of their own: ``fit(X)`` is enough if the local estimators
    are fitted. Labels are only used to count rows for `node_weight`, and to train the
    clones in a simulation.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted classifiers of any kind, one per node, or unfitted ones for a
        simulation, as in :class:`EnsembleAggregator`.
    student : classifier, default=None
        Unfitted classifier of any kind to fit to the predictions. None stands for
        ``MLPClassifier()``. Give one if you need another kind of model, or if the rows
        are texts, which MLPClassifier does not take.
    voting : {"soft", "hard"}, default="soft"
        Whether the ensemble averages probabilities or counts predictions, as in
        :class:`EnsembleAggregator`.
    node_weight : {"equal", "n_samples", "class_counts"} or array-like, default="equal"
        Weight of each node in the ensemble, as in :class:`EnsembleAggregator`.
        "n_samples" and "class_counts" need labels.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, as for
        :class:`~skgems.GEMSLogisticAggregator`.
    n_jobs : int, default=None
        Number of nodes that are treated in parallel. Results do not depend on it.
    verbose : bool or int, default=0
        Whether to print progress.
    random_state : int, RandomState instance or None, default=None
        Source of the random numbers that deal rows to simulated nodes, seed the student
        and the clones, and break ties.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes that the nodes know.
    student_ : classifier
        The fitted student. It is a constant model if the ensemble gives all rows the
        same class.
    weights_ : ndarray of shape (n_nodes, n_classes)
        Weight of each node for each class in the ensemble.
    threshold_ : float or None
        Threshold on the probability of ``classes_[1]``, as in
        :class:`EnsembleAggregator`.
    agreement_ : float
        Share of rows whose most probable class is the same for the student and the
        ensemble. If classes tie, any of them counts. It is computed on held-out rows,
        or on the rows that the student was fitted to if none are held out.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Names of the nodes.
    history_ : list of dict
        One dict for each message to the nodes, as in :class:`EnsembleAggregator`.
    n_features_in_ : int
        Number of features, if it is known.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X or the local estimators have them.
    features_used_ : list or None
        Names of the features that the aggregate uses, or their places if they have no
        names. They are all features but those that the nodes' classifiers drop by name.
        None if nobody knows their number.

    See Also
    --------
    EnsembleAggregator : The ensemble itself.

    Notes
    -----
    If the ``fit`` of the student takes ``sample_weight``, it gets each row once for
    every class of non-negligible probability, weighted by this probability. Any other
    student gets ten copies of each row, whose labels are in proportion to the
    probabilities.

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
        disclosure="auto",
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.student = student
        self.voting = voting
        self.node_weight = node_weight
        self.disclosure = disclosure
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @federated_fit
    def fit(
        self,
        X,
        y=None,
        nodes=None,
        held_out=None,
        *,
        groups=None,
    ) -> "DistillationAggregator":
        """Fit the student to the predictions of the ensemble.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
            Rows. The student is fitted to the rows that `nodes` marks as public, or to
            all rows if none are. Documents and tables with texts go to the local
            classifiers and the student as they are given.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows. Fitted local estimators need none, unless `node_weight`
            counts rows.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; -1 or "public" marks the
            public rows. None means that each row belongs to every node that has seen
            its label.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that nothing is fitted to. ``agreement_`` is computed on them.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. Rows of one group go to the same
            node if rows are dealt to simulated nodes. None means that each row stands
            alone.

        Returns
        -------
        self : DistillationAggregator
            The fitted aggregator.

        Raises
        ------
        TypeError
            If a local estimator is not a classifier.
        ValueError
            If the input is not usable. The message names the node.
        """
        distillation = DistillationFit.from_aggregator(self)
        rows = DistillationRows.read(
            self,
            X,
            y=y,
            nodes=nodes,
            held_out=held_out,
            groups=groups,
        )
        self._publish(**distillation.attributes(rows))
        return self

    def to_estimator(self) -> BaseEstimator:
        """Return the student as a plain fitted classifier.

        Returns
        -------
        estimator : classifier
            A copy of ``student_``, which does not need this library. If there is a
            ``threshold_``, it is in a FixedThresholdClassifier.
        """
        check_is_fitted(self)
        student = deepcopy(self.student_)
        if hasattr(self, "feature_names_in_") and hasattr(student, "n_features_in_"):
            student.feature_names_in_ = self.feature_names_in_
        return self._with_threshold(student)

    def to_module(self) -> "torch.nn.Sequential":
        """Return the student as a torch module.

        Returns
        -------
        module : torch.nn.Sequential
            Linear layers and activations, from rows to one logit per class.

        Raises
        ------
        ImportError
            If torch is not installed.
        TypeError
            If the student is neither a linear classifier nor a chain of dense layers.
        """
        check_is_fitted(self)
        student = local_model(self.student_, name="student").network
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
