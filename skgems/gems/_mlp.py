# SPDX-License-Identifier: BSD-3-Clause
"""GEMS for neural networks: layers merged neuron by neuron, from the bottom up."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from ..base._aggregator import BaseAggregator, Federation, Node
from ..base._export import NetworkAggregateMixin
from ..federation._nodes import PUBLIC, hold_out
from ..local._retraining import retrain_upper
from ..networks import align_outputs
from ..networks._classes import rows_with_output
from ..networks._logits import linear_logits
from ..networks._network import ACTIVATIONS
from ..neurons._merging import MergedLayer, merge_neurons
from ..neurons._spaces import build_neuron_spaces
from ..tuning._network import FineTunedNetwork, fine_tune_network, train_plainly
from ..tuning._training import hidden_activations
from ._logistic import GEMSLogisticAggregator

# Activations whose neurons may be scaled: g(a x) = a g(x) for a > 0.
HOMOGENEOUS = {"relu", "identity"}
# Parameters that the last layer's aggregator shares.
_OF_LAST_LAYER = (
    "geometry",
    "construction",
    "criterion",
    "epsilon",
    "intersection",
    "node_weight",
    "on_empty",
    "scale_logits",
    "unseen_margin",
    "unseen_weight",
    "ridge",
    "fisher_floor",
    "fisher_damping",
    "n_directions",
    "max_radius",
    "fine_tuning",
    "memory",
    "n_jobs",
    "verbose",
    "random_state",
)


class GEMSMLPAggregator(NetworkAggregateMixin, BaseAggregator):
    """One neural network that is good enough for every node.

    From the lowest layer up, every neuron of every node gets a *good-enough space*:
    the weights with which its activation stays close on the node's rows. Neurons
    whose spaces meet become one; the others are kept as they are. Each node then
    retrains the layers above on its own rows, with its own trainer. The last layer
    is a linear model of the activations, merged as in
    :class:`GEMSLogisticAggregator`. The local estimators are never altered.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted networks, one per node: MLPClassifier, or skorch nets around a chain
        of Linear layers and activations, also in pipelines of affine steps,
        FrozenEstimator or fitted searches. They may differ in width and classes, not
        in depth and activations. Unfitted ones, or a single one, are cloned and
        trained on each node's rows (simulation). None stands for a small
        ``MLPClassifier``.

    epsilon_hidden : float or array-like of shape (n_hidden_layers,), default=0.05
        How far the activation of a hidden neuron may move on the node's rows: root
        mean square of the change, relative to that of the activation. (GEMS 2019,
        Eq. 3, divides a norm by the number of rows n: its epsilon is this one times
        the root mean square activation, divided by the root of n.)

    construction_hidden : {"certified", "sampled"}, default="certified"
        Whether neurons inside a space provably stay that close, or did on a sample
        of directions.

    ridge_hidden : float, default=0.3
        With ``geometry="gram"``: `ridge` of the hidden layers' spaces.

    include_outgoing : bool, default=False
        Whether neurons of the last hidden layer are compared by their outgoing
        weights too (GEMS 2018).

    n_clusters : int, default=None
        k-means clusters within which neurons are compared; None compares all.

    max_units : int, default=None
        Largest number of units of a hidden layer: beyond it neurons are merged,
        cheapest first, whether or not their spaces meet. None sets no bound.

    retrain_epochs : int, default=5
        Epochs for which the nodes retrain the layers above a merged one.

    geometry : {"gram", "ellipsoid", "ball"}, default="gram"
        Shape of the spaces: by how much a change moves a neuron or logit on the
        node's rows (second moments, n_inputs^2 numbers), by the diagonal Fisher
        information, or round.

    construction : {"sampled", "certified"}, default="sampled"
        Construction of the last layer's spaces.

    criterion : {"accuracy", "log_loss"}, default="accuracy"
        What "good enough" means for the last layer.

    epsilon : "auto", float or array-like of shape (n_nodes,), default="auto"
        Level that the last layer must reach on a node's rows.

    intersection : {"consensus", "deepest", "hinge"}, default="consensus"
        Which point of the last layer's spaces.

    node_weight : {"equal", "n_samples"} or array-like of shape (n_nodes,), \
default="equal"
        Weight of each node's distance in the consensus of the last layer.

    on_empty : {"warn", "raise", "ignore"}, default="warn"
        What to do if the last layer's spaces do not intersect.

    scale_logits : "auto" or bool, default="auto"
        Whether logits of the nodes are brought to one scale.

    unseen_margin : float, default=1.5
        With ``geometry="gram"``: how far below its mean logit a node scores a class
        it never saw.

    unseen_weight : float, default=0.15
        With ``geometry="gram"``: weight of the logits of classes a node never saw.

    ridge : float, default=0.001
        With ``geometry="gram"``: what is added to the diagonal of the second
        moments of the last layer's inputs, relative to it.

    fisher_floor : float, default=0.1
        With ``geometry="ellipsoid"``: shortest axis relative to the longest.

    fisher_damping : float, default=1.0
        With ``geometry="ellipsoid"``: added to the Fisher information, relative to
        its mean.

    n_directions : int, default=500
        Directions drawn per node and layer by sampled constructions.

    max_radius : float, default=1e4
        Bound on every radius, in units of the geometry.

    fine_tuning : {"penalized", "plain"}, default="penalized"
        How public rows are used on the last layer, see
        :class:`GEMSLogisticAggregator`.

    validation_fraction : float, default=0.2
        Share of each node's rows that make the last layer's spaces; the upper layers
        are retrained on the others. Hidden layers' spaces need no labels and use
        all. With 0, or where a class has too few rows, the same rows serve for both.

    memory : str or object with the joblib.Memory interface, default=None
        Where to keep what does not depend on epsilon, and clones trained in
        simulation.

    n_jobs : int, default=None
        Nodes treated in parallel. Results do not depend on it.

    verbose : bool or int, default=0
        Whether to print progress.

    random_state : int, RandomState instance or None, default=None
        Source of directions, of held-out rows and of the order of rows in training.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
        Weights, as in MLPClassifier: two classes have one output.
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Biases.
    activation_ : tuple of str
        Activation of each hidden layer.
    layer_report_ : list of dict
        For each hidden layer: ``n_in`` neurons came in, of which ``kept`` were kept,
        ``merged`` at a common point, ``forced`` together to keep to `max_units` and
        ``dropped`` since they are 0 on all of their node's rows; ``n_units`` came
        out; ``members`` holds for each unit the (node name, neuron) pairs in it and
        ``dropped_neurons`` those of the dropped; ``radii`` has an array per node.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Names of the nodes.
    spaces_ : list of GoodEnoughSpace
        Of the last layer, one per node.
    intersection_ : Intersection
        Of the last layer's spaces.
    node_scores_ : dict of lists
        See :class:`GEMSLogisticAggregator`; "local" is the node's own last layer on
        the merged hidden layers.
    fine_tuning_ : FineTuned or None
        How public rows were used on the last layer.
    fine_tuning_all_ : FineTunedNetwork or None
        How the last call of `fine_tune` trained all layers; its ``share`` of the
        way is 0 where training would have lost. None where only the last layer
        learned.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has them.

    See Also
    --------
    GEMSLogisticAggregator : The same for linear models.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019,
    section 3.2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skgems import GEMSMLPAggregator
    >>> from skgems.datasets import partition_by_label
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X / 16
    >>> train, val, test = slice(0, 1000), slice(1000, 1400), slice(1400, None)
    >>> nodes = partition_by_label(y[train], 2)
    >>> locals_ = [
    ...     MLPClassifier(20, solver="lbfgs", alpha=0.1, random_state=k).fit(
    ...         X[train][nodes == k], y[train][nodes == k]
    ...     )
    ...     for k in range(2)
    ... ]
    >>> agg = GEMSMLPAggregator(locals_, random_state=0).fit(X[val], y[val])
    >>> alone = [clf.score(X[test], y[test]) for clf in locals_]
    >>> bool(agg.score(X[test], y[test]) > max(alone) + 0.25)
    True
    """

    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "epsilon_hidden": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "construction_hidden": [StrOptions({"certified", "sampled"})],
        "ridge_hidden": [Interval(Real, 0, None, closed="left")],
        "include_outgoing": ["boolean"],
        "n_clusters": [None, Interval(Integral, 1, None, closed="left")],
        "max_units": [None, Interval(Integral, 1, None, closed="left")],
        "retrain_epochs": [Interval(Integral, 0, None, closed="left")],
        **{
            name: GEMSLogisticAggregator._parameter_constraints[name]
            for name in _OF_LAST_LAYER
            if name not in BaseAggregator._parameter_constraints
        },
        "memory": [None, str, HasMethods("cache")],
    }

    def __init__(
        self,
        estimators=None,
        *,
        epsilon_hidden=0.05,
        construction_hidden="certified",
        ridge_hidden=0.3,
        include_outgoing=False,
        n_clusters=None,
        max_units=None,
        retrain_epochs=5,
        geometry="gram",
        construction="sampled",
        criterion="accuracy",
        epsilon="auto",
        intersection="consensus",
        node_weight="equal",
        on_empty="warn",
        scale_logits="auto",
        unseen_margin=1.5,
        unseen_weight=0.15,
        ridge=0.001,
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
        self.epsilon_hidden = epsilon_hidden
        self.construction_hidden = construction_hidden
        self.ridge_hidden = ridge_hidden
        self.include_outgoing = include_outgoing
        self.n_clusters = n_clusters
        self.max_units = max_units
        self.retrain_epochs = retrain_epochs
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
        return MLPClassifier(20, solver="lbfgs", alpha=0.1, max_iter=2000)

    # ---- fitting ----------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, nodes=None) -> GEMSMLPAggregator:
        """Merge the local networks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the nodes; in simulation also those they are fitted on.
        y : array-like of shape (n_samples,)
            Labels.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; -1 or "public" for public
            rows, which fine-tune the last layer. With None a row belongs to every
            node that has seen its label.

        Returns
        -------
        self : GEMSMLPAggregator

        Raises
        ------
        ValueError
            If the networks differ in depth or activations, a node has no rows, a
            label is known to no node, or the input is otherwise not usable; the
            message names the node.
        """
        federation = self._read_federation(X, y, nodes)
        self._warn_of_shared_rows(federation)
        seed = self._seed()
        self.activation_ = _common_activations(federation.nodes)
        depth = len(self.activation_)
        epsilons = self._check_epsilon_hidden(depth)
        judging, training = self._split_rows(federation, seed)
        members = [node.network.with_empty_layers(depth) for node in federation.nodes]
        Z = federation.X
        hidden_coefs, hidden_intercepts, self.layer_report_ = [], [], []
        for layer, epsilon in enumerate(epsilons):
            merged, spaces = self._merge_layer(
                federation, members, Z, layer, epsilon, seed
            )
            hidden_coefs.append(merged.W[:-1])
            hidden_intercepts.append(merged.W[-1])
            self.layer_report_.append(self._report(merged, spaces))
            Z = _activate(Z, merged.W, self.activation_[layer])
            members = self._retrain(
                federation, members, merged, Z, layer, training, seed
            )
        self._fit_last_layer(federation, members, Z, judging, seed)
        self._set_layers(hidden_coefs, hidden_intercepts)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fine_tune(self, X, y, *, layers="last") -> GEMSMLPAggregator:
        """Fine-tune the fitted aggregate on public rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Public rows.
        y : array-like of shape (n_samples,)
            Their labels, all of ``classes_``.
        layers : {"last", "all"}, default="last"
            Whether only the last layer learns, as `fine_tuning` says, or then the
            whole network, by scikit-learn's Adam in batches of 32. With
            ``fine_tuning="penalized"`` weights go from where they are towards the
            trained ones: the smallest share of the way that is within a standard
            error of the best cross-validated log-loss (0 if training does not help),
            and the last layer is scaled so that probabilities are calibrated on
            held-out rows. With "plain", 5 epochs and nothing before.

        Returns
        -------
        self : GEMSMLPAggregator
            With new weights.
        """
        check_is_fitted(self)
        if layers not in ("last", "all"):
            raise ValueError(f'layers must be "last" or "all", got {layers!r}.')
        X, codes = self._validated_public_rows(X, y)
        coefs, intercepts = list(self.coefs_[:-1]), list(self.intercepts_[:-1])
        tuned = None
        if layers == "all":
            tuned = self._fine_tune_all(X, codes)
            coefs, intercepts = tuned.coefs[:-1], tuned.intercepts[:-1]
            self._last._set_weights(np.vstack([tuned.coefs[-1], tuned.intercepts[-1]]))
        else:
            self._last.fine_tune(self._hidden(X), self.classes_[codes])
        self._set_layers(coefs, intercepts)
        self.fine_tuning_all_ = tuned
        return self

    def _fine_tune_all(self, X, codes) -> FineTunedNetwork:
        before = self._last
        last = before._weights()
        layers = [*self.coefs_[:-1], last[:-1]], [*self.intercepts_[:-1], last[-1]]
        rng = check_random_state(self.random_state)
        if self.fine_tuning == "plain":
            return train_plainly(X, codes, *layers, self.activation_, rng)
        fitted = []

        def tune_last(Z, y):
            # A copy each time: the folds must not learn from each other.
            fitted.append(copy.copy(before))
            return fitted[-1].fine_tune(Z, self.classes_[y])._weights()

        result = fine_tune_network(
            X,
            codes,
            *layers,
            self.activation_,
            tune_last,
            random_state=rng,
            log=self._log,
        )
        self._last = fitted[0]  # that of all rows
        return result

    # ---- steps of fit -----------------------------------------------------

    def _seed(self):
        """One seed for all nodes, so that their order does not matter."""
        rng = check_random_state(self.random_state)
        return int(rng.randint(2**31 - 1))

    def _warn_of_shared_rows(self, federation: Federation) -> None:
        if federation.rows_are_shared:
            warnings.warn(
                "nodes is not given and nodes share classes, so they share rows: "
                "layers are retrained on pooled rows, and geometry='gram' cannot "
                "tell the nodes' rows apart. Give fit the node of each row, fit(X, "
                "y, nodes=nodes).",
                UserWarning,
                stacklevel=4,
            )

    def _check_epsilon_hidden(self, depth: int) -> np.ndarray:
        try:
            epsilons = np.asarray(self.epsilon_hidden, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"epsilon_hidden must hold numbers, got {self.epsilon_hidden!r}."
            ) from None
        if epsilons.ndim == 0:
            epsilons = np.full(depth, epsilons)
        if epsilons.shape != (depth,) or not np.all(
            (epsilons > 0) & np.isfinite(epsilons)
        ):
            raise ValueError(
                f"epsilon_hidden must be one number above 0, or one for each of the "
                f"{depth} hidden layers; got {self.epsilon_hidden!r}."
            )
        return epsilons

    def _split_rows(self, federation: Federation, seed):
        """Rows that judge and rows that train, a pair of arrays for each node."""
        judging, training = [], []
        nodes = federation.nodes
        if federation.rows_are_shared:
            owned = np.unique(np.concatenate([node.rows for node in nodes]))
            held = np.zeros(len(federation.y), dtype=bool)
            held[owned] = hold_out(federation.y[owned], self.validation_fraction, seed)
        for node in nodes:
            if not np.array_equal(node.rows, node.training_rows):
                mask = None  # simulation has split them already
            elif federation.rows_are_shared:
                mask = held[node.rows]
            else:
                mask = hold_out(federation.y[node.rows], self.validation_fraction, seed)
            if mask is None or not mask.any():
                judging.append(node.rows)
                training.append(node.training_rows)
            else:
                judging.append(node.rows[mask])
                training.append(node.rows[~mask])
        return judging, training

    def _merge_layer(self, federation, members, Z, layer, epsilon, seed):
        activation = self.activation_[layer]
        only = len(members) == 1 and self.max_units is None

        def build(node, member):
            rows = np.union1d(node.rows, node.training_rows)
            W = np.vstack([member.coefs[0], member.intercepts[0]])
            return build_neuron_spaces(
                Z[rows],
                W,
                activation,
                epsilon=epsilon,
                geometry=self.geometry,
                construction=self.construction_hidden,
                ridge=self.ridge_hidden,
                floor=self.fisher_floor,
                damping=self.fisher_damping,
                n_directions=self.n_directions,
                max_radius=self.max_radius,
                random_state=seed,
            )

        spaces = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(build)(node, member)
            for node, member in zip(federation.nodes, members, strict=True)
        )
        if only:
            return _as_it_is(spaces[0]), spaces
        outgoing = None
        if self.include_outgoing and layer == len(self.activation_) - 1:
            outgoing = [
                align_outputs(member, self.classes_)[0].T * space.sizes
                for member, space in zip(members, spaces, strict=True)
            ]
        merged = merge_neurons(
            spaces,
            homogeneous=activation in HOMOGENEOUS,
            outgoing=outgoing,
            n_clusters=self.n_clusters,
            max_units=self.max_units,
            random_state=seed,
        )
        counts = merged.counts()
        self._log(
            f"hidden layer {layer + 1} of {len(self.activation_)}: "
            f"{len(merged.node)} neurons to {merged.n_units} units ("
            + ", ".join(f"{n} {what}" for what, n in counts.items())
            + ")"
        )
        return merged, spaces

    def _report(self, merged: MergedLayer, spaces) -> dict:
        starts = np.searchsorted(merged.node, np.arange(len(self.node_names_)))
        neurons = [
            (self.node_names_[k], int(i - starts[k])) for i, k in enumerate(merged.node)
        ]
        members = [[] for _ in range(merged.n_units)]
        dropped = []
        for neuron, unit in zip(neurons, merged.unit, strict=True):
            (members[unit] if unit >= 0 else dropped).append(neuron)
        return {
            "n_in": len(neurons),
            "n_units": merged.n_units,
            **merged.counts(),
            "members": members,
            "dropped_neurons": dropped,
            "radii": [space.radii for space in spaces],
        }

    def _retrain(self, federation, members, merged, Z, layer, training, seed):
        """Each node's network above the merged layer, retrained on its rows."""
        upper_activation = self.activation_[layer + 1 :]
        retrain = self.retrain_epochs if len(members) > 1 else 0

        def one(index, node, member, rows):
            coefs = [merged.outgoing(index, member.coefs[1]), *member.coefs[2:]]
            intercepts = member.intercepts[1:]
            if retrain and member.coefs[0].shape[1]:
                known, columns = rows_with_output(
                    member, self.classes_, federation.y[rows]
                )
                coefs, intercepts = retrain_upper(
                    node.estimator,
                    coefs,
                    intercepts,
                    upper_activation,
                    Z[rows[known]],
                    columns,
                    epochs=retrain,
                    random_state=seed,
                )
            return replace(
                member,
                coefs=tuple(coefs),
                intercepts=tuple(intercepts),
                activation=upper_activation,
                n_features_in=merged.n_units,
            )

        jobs = zip(
            range(len(members)), federation.nodes, members, training, strict=True
        )
        return Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(one)(*job) for job in jobs
        )

    def _fit_last_layer(self, federation, members, Z, judging, seed) -> None:
        nodes = federation.nodes
        codes = np.full(len(federation.y), PUBLIC - 1)
        codes[federation.public_rows] = PUBLIC
        for index, rows in enumerate(judging):
            codes[rows] = index
        used = codes != PUBLIC - 1
        settings = {name: getattr(self, name) for name in _OF_LAST_LAYER}
        settings["random_state"] = seed
        self._last = GEMSLogisticAggregator(
            [
                (node.name, replace(member, feature_names_in=None))
                for node, member in zip(nodes, members, strict=True)
            ],
            **settings,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "nodes is not given")
            self._last.fit(
                Z[used],
                self.classes_[federation.y[used]],
                nodes=None if federation.rows_are_shared else codes[used],
            )
        self.spaces_ = self._last.spaces_
        self.intersection_ = self._last.intersection_
        self.node_scores_ = self._last.node_scores_

    # ---- weights ----------------------------------------------------------

    def _set_layers(self, coefs, intercepts) -> None:
        """Store the hidden layers and, from its aggregator, the last one."""
        last = self._last
        self.coefs_ = [*coefs, np.ascontiguousarray(last.coef_.T)]
        self.intercepts_ = [*intercepts, last.intercept_.copy()]
        self.fine_tuning_ = last.fine_tuning_
        self.fine_tuning_all_ = None

    def _hidden(self, X):
        return hidden_activations(X, self.coefs_, self.intercepts_, self.activation_)

    def _logits(self, X) -> np.ndarray:
        return self._last._logits(self._hidden(X))


def _activate(Z, W, activation) -> np.ndarray:
    """Activations of one layer, in the dtype of what enters it."""
    return ACTIVATIONS[activation](linear_logits(Z, W))


def _as_it_is(space) -> MergedLayer:
    """The layer of the only node."""
    n_neurons = space.centers.shape[1]
    return MergedLayer(
        space.centers,
        np.arange(n_neurons),
        np.zeros(n_neurons, dtype=np.intp),
        np.ones(n_neurons),
        np.zeros(n_neurons, dtype=bool),
    )


def _common_activations(nodes: list[Node]) -> tuple[str, ...]:
    """Activations of the hidden layers, which must be the same at every node."""
    first = None
    for node in nodes:
        # A node that saw one class may have a model without any layers.
        if node.network.is_constant:
            continue
        if first is None:
            first = node
        one, other = first.network.activation, node.network.activation
        if len(one) != len(other):
            raise ValueError(
                f"node {node.name!r} has {len(other)} hidden layers and node "
                f"{first.name!r} has {len(one)}; networks may differ in width, not in "
                "depth."
            )
        if one != other:
            raise ValueError(
                f"node {node.name!r} has the activations {list(other)} and node "
                f"{first.name!r} has {list(one)}; they must be the same."
            )
    return () if first is None else first.network.activation
