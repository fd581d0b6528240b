"""GEMS for neural networks: layers merged neuron by neuron, from the bottom up."""

from numbers import Integral

import numpy as np
from scipy.sparse import sparray, spmatrix
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator, TunedNetworkMixin
from ..compat import Interval
from ..federation import ReportMixin, federated_fit, read_federation
from ._layers_fit import LayersFit, long_last_layer, terms_of_layers, tuned_network
from ._logistic import GEMSLogisticAggregator
from ._node_scores import ask_scores
from ._parameters import (
    HiddenLayers,
)
from ._terms import MergedLayersTerms

_POSITIVE = Interval(Integral, 1, None, closed="left")
Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features)


class GEMSMLPAggregator(TunedNetworkMixin, ReportMixin, BaseAggregator):
    """One neural network that is good enough for every node.

    From the lowest layer up, every neuron gets a *good-enough space*: the weights with
    which its activation stays close on its node's rows. Neurons whose spaces meet
    become one; others are kept. Each node then retrains the layers above on its rows,
    with its own trainer. The last layer, a linear model of the activations, is merged
    as by :class:`GEMSLogisticAggregator`. Local estimators are never altered.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted networks, one per node: MLPClassifier, or skorch nets around a chain of
        Linear layers and activations (in pipelines of affine steps, FrozenEstimator or
        searches), of one depth and equal activations. Unfitted ones, or one, are
        trained on each node's rows (simulation). None: a small ``MLPClassifier``.
    epsilon : "auto", float, array-like of shape (n_nodes,), or None, default=None
        Level of the last layer, in place of ``last_layer.epsilon`` unless None.
    hidden_layers : HiddenLayers or {"gram", "ellipsoid", "ball"}, default="gram"
        How hidden layers are merged: a word for the shape of neurons' spaces, or more
        by :class:`~skgems.gems.HiddenLayers`. Searched as ``hidden_layers__epsilon``.
    last_layer : GEMSLogisticAggregator or None, default=None
        Merges the last layers. Its ``estimators`` must be None; ``n_jobs``,
        ``verbose``, ``memory`` and ``random_state`` are this one's where not set. None:
        ``GEMSLogisticAggregator()``. Here "gram" stands for ``Gram(ridge=0.001,
        unseen_weight=0.15)``; with hidden layers, ``C="members"`` stands for 1.0.
        Searched as ``last_layer__spaces__geometry``.
    n_rounds : int, default=1
        In each after the first nodes train the network, also on rows drawn from
        clusters that others send once, and the mean of theirs is the next; then the
        last layer is merged anew. Unless nodes' loss became lower, the merged network
        stays. `last_layer` has an ``n_rounds`` of its own.
    local_epochs : int, default=5
        Epochs in which nodes retrain layers above a merged one, or in rounds all.
    validation_fraction : float, default=0.2
        In simulation, share of each node's rows that judge the last layer alone. Else
        all rows do all, unless ``fit`` has `held_out`.
    memory : str or object with the joblib.Memory interface, default=None
        Where replies are cached.
    front : transformer, default=None
        Before all, as of :class:`GEMSLogisticAggregator`.
    n_jobs : int, default=None
        Nodes treated in parallel; results do not depend on it.
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`.
    random_state : int, RandomState instance or None, default=None
        Source of directions, of held-out rows and of the order of rows in training.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Weights and biases, as in MLPClassifier: two classes have one output.
    activation_ : tuple of str
        Activation of each hidden layer.
    layer_report_ : list of dict
        For each hidden layer: of ``n_in`` neurons ``kept`` were kept, ``merged`` at a
        common point, ``forced`` together by ``max_units`` and ``dropped`` as 0 on all
        rows of their node (``dropped_neurons``). ``n_units`` came out, of (node name,
        neuron) pairs in ``members``; ``radii`` has an array per node.
    history_ : list of dict
        As of :class:`GEMSLogisticAggregator`. Nodes "left_out" failed to retrain and
        keep what they had; "loss": by name, of the network sent in a further round.
    estimators_ : list of classifiers
    node_names_ : list of str
        The fitted local estimators, and the names of the nodes.
    last_layer_ : GEMSLogisticAggregator
        Fitted clone of `last_layer`, on what comes out of the hidden layers.
    hidden_geometry_ : Geometry
        What the geometry of `hidden_layers` stands for.
    spaces_ : list of GoodEnoughSpace or None
        Spaces of the last layer, one per node. None where they bound nothing.
    intersection_ : Intersection or None
        The point of the last layer's spaces.
    node_scores_ : dict of lists
        As of :class:`GEMSLogisticAggregator`; "local": own last layers on merged ones.
    fine_tuning_ : FineTunedNetwork or None
        The last fine-tuning: ``strength`` is infinite where it changed nothing.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features; their names, if X or the local estimators have them.

    Notes
    -----
    One node's rows dealt over several give another model, since units are merged by
    node: probabilities differ by 0.03 on average, by up to 0.8 (digits).

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019, 3.2.

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

    _parts = {"hidden_layers": HiddenLayers}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "epsilon": [None, *GEMSLogisticAggregator._parameter_constraints["epsilon"]],
        "last_layer": [None, GEMSLogisticAggregator],
        "n_rounds": [_POSITIVE],
        "local_epochs": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimators=None,
        *,
        epsilon=None,
        hidden_layers="gram",
        last_layer=None,
        n_rounds=1,
        local_epochs=5,
        validation_fraction=0.2,
        memory=None,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.epsilon = epsilon
        self.hidden_layers = hidden_layers
        self.last_layer = last_layer
        self.n_rounds = n_rounds
        self.local_epochs = local_epochs
        self.validation_fraction = validation_fraction
        self.memory = memory
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self) -> MLPClassifier:
        return MLPClassifier(20, solver="lbfgs", alpha=0.1, max_iter=2000)

    def _terms(self) -> MergedLayersTerms:
        return terms_of_layers(self)

    @federated_fit
    def fit(self, X=None, y=None, nodes=None, held_out=None) -> "GEMSMLPAggregator":
        """Merge the local networks.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            As of :meth:`GEMSLogisticAggregator.fit`. Rows not held out retrain, too.

        Returns
        -------
        self : GEMSMLPAggregator

        Raises
        ------
        ValueError
            If networks differ in depth or activations, a node has no rows, no node
            knows a label, or input is not usable; the message names the node.
        """
        layers_fit = LayersFit.of(self)
        federation = read_federation(self, X, y, nodes, held_out)
        self._publish(**layers_fit.attributes(self, federation))
        return self

    def ask_scores(self) -> "GEMSMLPAggregator":
        """As :meth:`GEMSLogisticAggregator.ask_scores`.

        Returns
        -------
        self : GEMSMLPAggregator
        """
        check_is_fitted(self)
        self.node_scores_ = ask_scores(self.last_layer_, self.estimators)
        self.history_ = self.last_layer_.history_
        return self

    def _long_form(self, name: str, value: object) -> object:
        if name == "last_layer" and isinstance(value, GEMSLogisticAggregator | None):
            return long_last_layer(value)
        return super()._long_form(name, value)

    def _tuned(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        last_layer: GEMSLogisticAggregator,
        **network: object,
    ) -> object:
        return tuned_network(
            X,
            y,
            fine_tuning=last_layer.fine_tuning,
            random_state=self.random_state,
            **network,
        )
