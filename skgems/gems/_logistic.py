# SPDX-License-Identifier: BSD-3-Clause
"""GEMS for linear classifiers: one model in the intersection of good-enough spaces."""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from ..base._aggregator import BaseAggregator, Federation, Node
from ..local._cache import recall
from ..local._space import NodeModel, model_node
from ..networks import align_outputs, to_logistic_regression
from ..networks._logits import (
    fit_inverse_temperature,
    linear_logits,
    mean_log_loss,
    on_one_scale,
)
from ..spaces import GoodEnoughSpace, combine_metrics, intersect
from ..tuning._linear import fine_tune_linear
from ..tuning._training import PLAIN_EPOCHS, train_layers

# epsilon="auto": these shares of what the local model itself reaches on its rows.
AUTO_ACCURACY = 0.5
AUTO_LOSS = 2.0
# scale_logits="auto": the ratio of logit sizes from which trainers, not data, differ.
AUTO_SCALE_RATIO = 3.0


class GEMSLogisticAggregator(BaseAggregator):
    """One linear classifier that is good enough for every node.

    Every node's model gets a *good-enough space*: the models around it that still
    reach ``epsilon`` on the node's rows. The aggregate is a point in the
    intersection of all spaces, or, with a proof that there is none, the point that
    misses it least. No node's rows are needed by another, and no local estimator is
    ever refitted or altered.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted linear classifiers (any with ``coef_`` and ``intercept_``, skorch
        nets of one Linear layer, pipelines of affine steps around them,
        FrozenEstimator, fitted searches), one per node; they may know different
        classes. Unfitted classifiers, or a single one, are cloned and trained on
        each node's rows (simulation). None stands for ``LogisticRegression()``.

    geometry : {"gram", "ellipsoid", "ball"}, default="gram"
        Shape of the spaces: by how much a change moves the node's logits
        (second moments of its rows, n_features^2 numbers), by the diagonal Fisher
        information, or round.

    construction : {"sampled", "certified"}, default="sampled"
        Whether the models of a space reached epsilon in a sample of directions
        (GEMS 2019, Algorithm 2), or provably all do. Certified spaces are small.

    criterion : {"accuracy", "log_loss"}, default="accuracy"
        What "good enough" means: accuracy of at least epsilon, or mean log-loss of
        at most epsilon.

    epsilon : "auto", float or array-like of shape (n_nodes,), default="auto"
        Level that a model must reach on a node's rows. "auto" takes half of the
        local model's own accuracy, or twice its own log-loss.

    intersection : {"consensus", "deepest", "hinge"}, default="consensus"
        Which point: the one that moves all nodes least, the one deepest inside all
        spaces, or the first one met from the average (GEMS 2019, Eq. 2).

    node_weight : {"equal", "n_samples"} or array-like of shape (n_nodes,), \
default="equal"
        Weight of each node's distance in the consensus.

    on_empty : {"warn", "raise", "ignore"}, default="warn"
        What to do if the spaces do not intersect.

    scale_logits : "auto" or bool, default="auto"
        Whether to centre each node's logits over classes and divide them by their
        root mean square on its rows, so that no node wins by regularising less.
        "auto" does so with ``geometry="gram"``, and with the others where the
        nodes' logits differ in size more than threefold: below that their size
        says more about how well a node's classes separate than about its trainer.

    unseen_margin : float, default=1.5
        With ``geometry="gram"``: how far below its mean logit a node scores a class
        it never saw, on its own rows, in units of the root mean square logit. The
        other geometries leave such classes free.

    unseen_weight : float, default=0.2
        With ``geometry="gram"``: weight of the logits of classes a node never saw,
        against 1 for those it knows.

    ridge : float, default=0.2
        With ``geometry="gram"``: what is added to the diagonal of the second
        moments, relative to it.

    fisher_floor : float, default=0.1
        With ``geometry="ellipsoid"``: shortest axis relative to the longest, the c
        of GEMS 2019, Eq. 5.

    fisher_damping : float, default=1.0
        With ``geometry="ellipsoid"``: added to the Fisher information, relative to
        its mean.

    n_directions : int, default=500
        Directions drawn per node by the sampled construction.

    max_radius : float, default=1e4
        Bound on every radius, in units of the geometry.

    fine_tuning : {"penalized", "plain"}, default="penalized"
        How public rows are used: held to the nodes' knowledge by a penalty whose
        strength is cross-validated on the public rows, or 5 epochs of Adam as in
        the papers.

    validation_fraction : float, default=0.2
        In simulation, the share of each node's rows that its clone is not trained
        on and that make its space.

    memory : str or object with the joblib.Memory interface, default=None
        Where to keep what does not depend on epsilon. None keeps it in the process,
        within a quarter of ``working_memory``; give a folder to share it between
        processes and to keep the clones trained in simulation too.

    n_jobs : int, default=None
        Nodes treated in parallel. Results do not depend on it.

    verbose : bool or int, default=0
        Whether to print progress.

    random_state : int, RandomState instance or None, default=None
        Source of the directions, of the dealing of rows and of clones' seeds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the aggregate.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts of the aggregate.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Names of the nodes.
    spaces_ : list of GoodEnoughSpace
        One per node, outputs in the order of ``classes_``.
    intersection_ : Intersection
        The point, whether it is in all spaces, and the bounds that prove it.
    node_scores_ : dict of lists
        For each node: its epsilon, the score of its own model and of the aggregate
        on its rows (the criterion's), radius, and the aggregate's distance. A
        ``pandas.DataFrame`` can be made of it. With the log-loss, the score of its
        own model under ``geometry="gram"`` counts the classes it never saw, too.
    fine_tuning_ : FineTuned or None
        How public rows were used by the last fine-tuning with a penalty.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has them.

    See Also
    --------
    skgems.spaces.build_space : Build one space alone.
    skgems.spaces.intersect : Intersect spaces.

    Notes
    -----
    A search over ``epsilon`` computes what does not depend on it (second moments or
    Fisher information, random directions and the margins of all rows along them)
    once per fold and process; see ``memory``.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.utils import shuffle
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.datasets import partition_by_label
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> X = X / 16
    >>> train, val, test = slice(0, 1000), slice(1000, 1400), slice(1400, None)
    >>> nodes = partition_by_label(y[train], 5)
    >>> locals_ = [
    ...     LogisticRegression().fit(X[train][nodes == k], y[train][nodes == k])
    ...     for k in range(5)
    ... ]
    >>> agg = GEMSLogisticAggregator(locals_, random_state=0)
    >>> agg.fit(X[val], y[val]).score(X[test], y[test]) > 0.85
    True
    """

    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "geometry": [StrOptions({"gram", "ellipsoid", "ball"})],
        "construction": [StrOptions({"sampled", "certified"})],
        "criterion": [StrOptions({"accuracy", "log_loss"})],
        "epsilon": [
            StrOptions({"auto"}),
            "array-like",
            Interval(Real, 0, None, closed="left"),
        ],
        "intersection": [StrOptions({"consensus", "deepest", "hinge"})],
        "node_weight": [StrOptions({"equal", "n_samples"}), "array-like"],
        "on_empty": [StrOptions({"warn", "raise", "ignore"})],
        "scale_logits": [StrOptions({"auto"}), "boolean"],
        "unseen_margin": [Interval(Real, 0, None, closed="left")],
        "unseen_weight": [Interval(Real, 0, None, closed="neither")],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "fisher_floor": [Interval(Real, 0, 1, closed="right")],
        "fisher_damping": [Interval(Real, 0, None, closed="left")],
        "n_directions": [Interval(Integral, 1, None, closed="left")],
        "max_radius": [Interval(Real, 0, None, closed="neither")],
        "fine_tuning": [StrOptions({"penalized", "plain"})],
        "memory": [None, str, HasMethods(["cache"])],
    }

    def __init__(
        self,
        estimators=None,
        *,
        geometry="gram",
        construction="sampled",
        criterion="accuracy",
        epsilon="auto",
        intersection="consensus",
        node_weight="equal",
        on_empty="warn",
        scale_logits="auto",
        unseen_margin=1.5,
        unseen_weight=0.2,
        ridge=0.2,
        fisher_floor=0.1,
        fisher_damping=1.0,
        n_directions=500,
        max_radius=1e4,
        fine_tuning="penalized",
        validation_fraction=0.2,
        memory=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.geometry = geometry
        self.construction = construction
        self.criterion = criterion
        self.epsilon = epsilon
        self.intersection = intersection
        self.node_weight = node_weight
        self.on_empty = on_empty
        self.scale_logits = scale_logits
        self.unseen_margin = unseen_margin
        self.unseen_weight = unseen_weight
        self.ridge = ridge
        self.fisher_floor = fisher_floor
        self.fisher_damping = fisher_damping
        self.n_directions = n_directions
        self.max_radius = max_radius
        self.fine_tuning = fine_tuning
        self.validation_fraction = validation_fraction
        self.memory = memory
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self):
        return LogisticRegression()

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, nodes=None) -> GEMSLogisticAggregator:
        """Build the nodes' spaces from their rows and intersect them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows on which models are judged, best rows the local estimators were not
            fitted on; in simulation also the rows they are fitted on.
        y : array-like of shape (n_samples,)
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; -1 or "public" for public
            rows, which fine-tune the aggregate. With None a row belongs to every
            node that has seen its label.

        Returns
        -------
        self : GEMSLogisticAggregator

        Raises
        ------
        ValueError
            If a local model does not reach its epsilon, a node has no rows, a label
            is known to no node, or the input is otherwise not usable; the message
            names the node.
        """
        federation = self._read_federation(X, y, nodes)
        epsilons = self._check_epsilon(len(federation.nodes))
        weights = self._check_node_weight(federation)
        self._warn_of_shared_rows(federation)
        models = self._model_nodes(federation)
        self.spaces_ = [
            self._space(node, model, epsilon)
            for node, model, epsilon in zip(
                federation.nodes, models, epsilons, strict=True
            )
        ]
        self.intersection_ = intersect(
            self.spaces_, method=self.intersection, node_weight=weights
        )
        self._report_empty()
        point = self.intersection_.point
        judged = np.unique(np.concatenate([node.rows for node in federation.nodes]))
        if len(federation.nodes) > 1:
            point = point * fit_inverse_temperature(
                linear_logits(federation.X[judged], point), federation.y[judged]
            )
        self._set_weights(point)
        self.fine_tuning_ = None
        if len(federation.public_rows):
            rows = federation.public_rows
            self._fine_tune(federation.X[rows], federation.y[rows])
        self.node_scores_ = self._score_nodes(federation, models)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fine_tune(self, X, y) -> GEMSLogisticAggregator:
        """Fine-tune the fitted aggregate on public rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Public rows.
        y : array-like of shape (n_samples,)
            Their labels, all of ``classes_``.

        Returns
        -------
        self : GEMSLogisticAggregator
            With new ``coef_`` and ``intercept_``. ``node_scores_`` remains what
            ``fit`` measured, since the nodes' rows are not kept.
        """
        self._fine_tune(*self._validated_public_rows(X, y))
        return self

    def to_estimator(self) -> LogisticRegression:
        """The aggregate as a plain fitted ``LogisticRegression``.

        Returns
        -------
        estimator : LogisticRegression
            Predicts the same labels and probabilities; knows nothing of this
            library.
        """
        check_is_fitted(self)
        return to_logistic_regression(
            self.coef_,
            self.intercept_,
            self.classes_,
            n_features_in=self.n_features_in_,
            feature_names_in=getattr(self, "feature_names_in_", None),
        )

    # ---- steps of fit -----------------------------------------------------

    def _check_epsilon(self, n_nodes: int) -> list:
        if isinstance(self.epsilon, str):
            return ["auto"] * n_nodes
        epsilons = _as_numbers(self.epsilon, "epsilon")
        if epsilons.ndim == 0:
            epsilons = np.full(n_nodes, epsilons)
        if epsilons.shape != (n_nodes,):
            raise ValueError(
                f"epsilon has shape {epsilons.shape}, but there are {n_nodes} nodes; "
                "give one number, or one per node."
            )
        upper = 1.0 if self.criterion == "accuracy" else np.inf
        if not np.all((epsilons >= 0) & (epsilons <= upper)):
            raise ValueError(
                f"epsilon must be between 0 and {upper:g} with criterion="
                f"{self.criterion!r}, got {self.epsilon!r}."
            )
        return epsilons.tolist()

    def _check_node_weight(self, federation: Federation):
        if isinstance(self.node_weight, str):
            if self.node_weight == "equal":
                return None
            weights = [len(node.rows) for node in federation.nodes]
        else:
            weights = self.node_weight
        weights = _as_numbers(weights, "node_weight")
        n_nodes = len(federation.nodes)
        if weights.shape != (n_nodes,) or not (
            np.isfinite(weights).all() and (weights > 0).all()
        ):
            raise ValueError(
                "node_weight must hold one finite positive number per node "
                f"({n_nodes}), got {self.node_weight!r}."
            )
        return weights / weights.mean()

    def _warn_of_shared_rows(self, federation: Federation) -> None:
        if federation.rows_are_shared and self.geometry == "gram":
            warnings.warn(
                "nodes is not given and nodes share classes, so they share rows: "
                "geometry='gram' cannot tell their rows apart and comes close to "
                "the plain mean. Give fit the node of each row, fit(X, y, "
                "nodes=nodes).",
                UserWarning,
                stacklevel=4,
            )

    def _model_nodes(self, federation: Federation) -> list[NodeModel]:
        # One seed for all nodes: their order must not matter. Without one any draw is
        # as good as another, so an earlier one will do.
        seed = None
        if self.random_state is not None:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
        options = {
            "geometry": self.geometry,
            "construction": self.construction,
            "criterion": self.criterion,
            "scale_logits": self._decide_scaling(federation),
            "unseen_margin": self.unseen_margin,
            "unseen_weight": self.unseen_weight,
            "ridge": self.ridge,
            "fisher_floor": self.fisher_floor,
            "fisher_damping": self.fisher_damping,
            "n_directions": self.n_directions,
        }
        jobs = (
            delayed(self._model_node)(node, federation, options, seed)
            for node in federation.nodes
        )
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        models = []
        for node, model in zip(federation.nodes, parallel(jobs), strict=True):
            models.append(model)
            self._log(
                f"node {len(models)} of {len(federation.nodes)} ({node.name}): "
                f"{len(node.rows)} rows, {self.criterion} {model.profile.score:.3f}"
            )
        return models

    def _decide_scaling(self, federation: Federation) -> bool:
        if len(federation.nodes) == 1:
            return False
        if self.scale_logits != "auto":
            return self.scale_logits
        if self.geometry == "gram":
            return True
        scales = []
        for node in federation.nodes:
            W, seen = self._own_weights(node)
            # A constant model has no scale to compare.
            if np.ptp(W[:, seen], axis=1).any():
                scales.append(on_one_scale(W, seen, federation.X[node.rows])[1])
        return bool(scales) and max(scales) > AUTO_SCALE_RATIO * min(scales)

    def _own_weights(self, node: Node) -> tuple[np.ndarray, np.ndarray]:
        """The node's weights in the order of ``classes_``, and which it has seen."""
        if not node.network.is_linear:
            raise TypeError(
                f"node {node.name!r} is a network with "
                f"{node.network.n_hidden_layers} hidden layers; "
                "GEMSLogisticAggregator merges linear models only."
            )
        coef, intercept, _, seen = align_outputs(node.network, self.classes_)
        return np.vstack([coef, intercept]), seen

    def _model_node(self, node: Node, federation: Federation, options, seed):
        W, seen = self._own_weights(node)
        y = federation.y[node.rows]
        if not seen[y].any():
            raise ValueError(
                f"node {node.name!r} has no row of a class that it knows "
                f"({self.classes_[seen].tolist()}), so no model can be judged there."
            )
        try:
            return recall(
                model_node,
                self.memory,
                W=W,
                known=seen,
                X=federation.X[node.rows],
                y=y,
                seed=seed,
                **options,
            )
        except ValueError as error:
            raise ValueError(f"node {node.name!r}: {error}") from error

    def _space(self, node: Node, model: NodeModel, epsilon) -> GoodEnoughSpace:
        profile = model.profile
        if epsilon == "auto":
            share = AUTO_ACCURACY if self.criterion == "accuracy" else AUTO_LOSS
            epsilon = share * profile.score
        radius = profile.radius(epsilon, self.max_radius)
        if not radius > 0:
            raise ValueError(
                f"node {node.name!r} has no good-enough space: its own model has "
                f"{self.criterion} {profile.score:.4g} on its {len(node.rows)} rows, "
                f"and epsilon is {epsilon:.4g}. Choose an epsilon that its model "
                "reaches with some room, or epsilon='auto'."
            )
        return GoodEnoughSpace(
            center=model.center,
            metric=model.metric,
            radius=radius,
            epsilon=epsilon,
            criterion=self.criterion,
            construction=self.construction,
            outputs=model.outputs,
            score=profile.score,
        )

    def _report_empty(self) -> None:
        found = self.intersection_
        if found.found or self.on_empty == "ignore":
            return
        pairs = [(self.node_names_[i], self.node_names_[j]) for i, j in found.conflicts]
        which = (
            f"these pairs of nodes conflict: {pairs}"
            if pairs
            else "any two nodes agree, but not all of them together"
        )
        relax = "Lower" if self.criterion == "accuracy" else "Raise"
        message = (
            "The good-enough spaces do not intersect (the best point is at a squared "
            f"distance of {found.max_distance:.4g} times a squared radius, and none "
            f"is below {found.lower_bound:.4g}); {which}. {relax} epsilon, or "
            "leave a node out."
        )
        if self.on_empty == "raise":
            raise ValueError(message)
        warnings.warn(
            f"{message} The point that misses the spaces least is used.",
            UserWarning,
            stacklevel=4,
        )

    def _score_nodes(self, federation: Federation, models) -> dict:
        spaces = self.spaces_
        scores = []
        for node in federation.nodes:
            logits = self._logits(federation.X[node.rows])
            y = federation.y[node.rows]
            if self.criterion == "accuracy":
                scores.append(float(np.mean(np.argmax(logits, axis=1) == y)))
            else:
                scores.append(mean_log_loss(logits, y))
        return {
            "node": list(self.node_names_),
            "n_rows": [len(node.rows) for node in federation.nodes],
            "epsilon": [space.epsilon for space in spaces],
            "local": [float(model.profile.score) for model in models],
            "aggregate": scores,
            "radius": [space.radius for space in spaces],
            "distance": [
                float(space.distance(self.intersection_.point)) for space in spaces
            ],
        }

    # ---- weights ----------------------------------------------------------

    def _set_weights(self, W: np.ndarray) -> None:
        """Store weights of shape (n_features + 1, n_classes) as scikit-learn does."""
        if W.shape[1] == 2:
            W = W[:, 1:] - W[:, :1]
        self.coef_ = np.ascontiguousarray(W[:-1].T)
        self.intercept_ = W[-1].copy()

    def _weights(self) -> np.ndarray:
        """The same back, one column per class."""
        W = np.vstack([self.coef_.T, self.intercept_])
        return W * [-0.5, 0.5] if len(self.classes_) == 2 else W

    def _logits(self, X) -> np.ndarray:
        return linear_logits(X, self._weights())

    def _fine_tune(self, X, y) -> None:
        rng = check_random_state(self.random_state)
        if self.fine_tuning == "plain":
            W, seed = self._weights(), rng.randint(2**31 - 1)
            coefs, intercepts = train_layers(
                X, y, [W[:-1]], [W[-1]], (), PLAIN_EPOCHS, seed
            )
            self._set_weights(np.vstack([*coefs, *intercepts]))
            return
        weights = self.intersection_.weights
        if not (self.intersection == "consensus" and self.intersection_.found):
            # These weigh squared distances that are divided by the radius.
            weights = weights / np.array([space.radius for space in self.spaces_]) ** 2
            weights = weights / weights.sum()
        combined = combine_metrics([space.metric for space in self.spaces_], weights)
        result = fine_tune_linear(
            X,
            y,
            self._weights(),
            combined.diagonal().mean(axis=1),
            random_state=rng,
            log=self._log,
        )
        self._log(f"fine-tuning: strength {result.strength:.3g}")
        self._set_weights(result.W)
        self.fine_tuning_ = result


def _as_numbers(values, name: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold a number, or one per node, got {values!r}."
        ) from None
