"""GEMS for neural networks: layers merged neuron by neuron, from the bottom up."""

from numbers import Integral

import numpy as np
from scipy.sparse import sparray, spmatrix
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from ..asking import ReportMixin, federated_fit, fit_method
from ..base import BaseAggregator, TunedNetworkMixin
from ..compat import Interval, StrOptions
from ._layers_fit import LayersMethod, long_last_layer, tuned_network
from ._logistic import GEMSLogisticAggregator
from ._node_scores import ask_scores
from ._parameters import HiddenLayers

_POSITIVE = Interval(Integral, 1, None, closed="left")
_FROM_0 = Interval(Integral, 0, None, closed="left")
Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features)


class GEMSMLPAggregator(TunedNetworkMixin, ReportMixin, BaseAggregator):
    """One neural network that is good enough for every node.

    Each node has rows and a fitted network. The networks are merged layer by layer,
    from the lowest one up:

    1. Every neuron gets a *good-enough space*: the weights with which its activation
       stays close to what it was on the node's rows.
    2. Neurons whose spaces meet become one unit, and other neurons are kept.
    3. Each node retrains the layers above on its rows, with its own trainer. Nodes do
       not retrain a last layer that is made of moments.

    The last layer is a linear model of the activations. It is merged as by
    :class:`GEMSLogisticAggregator`. Local estimators are never altered.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        The local estimators, one per node. They are fitted networks with the same depth
        and activations; their widths and classes may differ. They may be MLPClassifier,
        or skorch nets around a chain of Linear layers and activations. They may be in
        pipelines of affine steps, in FrozenEstimator or in searches. Unfitted networks,
        or a single one, are trained on the rows of each node (simulation). None stands
        for a small ``MLPClassifier``.
    epsilon : "auto", float, array-like of shape (n_nodes,), or None, default=None
        The level that the last layer has to reach on each node's rows. Unless it is
        None, it takes the place of ``last_layer.epsilon``. Give a number if a network
        that fails at some node is of no use.
    hidden_layers : HiddenLayers or {"gram", "ellipsoid", "ball"}, default="gram"
        How hidden layers are merged. A word stands for the shape of the neurons'
        spaces; :class:`~skgems.gems.HiddenLayers` has more options, among them the
        largest number of units. Its parameters can be searched as
        ``hidden_layers__epsilon``.
    n_common_units : "auto" or int, default="auto"
        Number of hidden units that are not made of neurons. They stand beside the
        merged units. Their weights are drawn by `random_state`, along directions in
        which the features of all nodes vary most. With "auto" there are eight for each
        unit of the widest local layer, but at most 400, and fewer or none if the nodes
        have few rows or features. There are none with "auto" if ``max_units`` is a
        number, there is one node, or the last layer is not made of moments. Set 0 for a
        small network. Set a larger number for a higher accuracy, if the nodes can send
        larger moments. See :ref:`common_units`.
    last_layer : GEMSLogisticAggregator or None, default=None
        The aggregator that merges the last layers. None stands for
        ``GEMSLogisticAggregator()``. Its ``estimators`` must be None. Its ``n_jobs``,
        ``verbose``, ``memory`` and ``random_state`` are those of this aggregator unless
        they are set. Here "gram" stands for ``Gram(ridge=0.001, unseen_weight=0.15)``,
        and ``C="members"`` stands for "auto" if there are hidden layers, since the
        penalty of a network is no guide to that of its last layer. Its parameters can
        be searched as ``last_layer__spaces__geometry``.
    n_rounds : int, default=1
        Number of rounds. In the first round the layers are merged. In each further
        round nodes train the merged network, and the mean of their networks is the next
        one. They train on their rows, and on rows drawn from clusters that the other
        nodes send once. Then the last layer is merged anew. The merged network stays as
        it was unless the nodes' loss became lower. Take 2 or 3 if nodes can be asked
        several times. `last_layer` has an ``n_rounds`` of its own.
    local_epochs : int, default=5
        Number of epochs in which nodes retrain the layers above a merged one, or all
        layers in further rounds.
    validation_fraction : float, default=0.2
        In simulation, the share of each node's rows that its network is not trained on.
        These rows alone judge the last layer. Otherwise all rows both train and judge,
        unless ``fit`` has `held_out`.
    memory : str or object with the joblib.Memory interface, default=None
        Where the nodes' replies are kept for the next fit. Give a folder if several
        processes should share them.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, as for
        :class:`~skgems.GEMSLogisticAggregator`.
    front : transformer, default=None
        Transformers that all nodes apply before the network, as in
        :class:`GEMSLogisticAggregator`.
    n_jobs : int, default=None
        Number of nodes that are treated in parallel. Results do not depend on it.
    verbose : bool or int, default=0
        Whether to print progress.
    random_state : int, RandomState instance or None, default=None
        Source of the common units, of the directions in which spaces are measured, of
        the rows that simulation holds out, and of the order of rows in training. Give
        an int for the same results in each call.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes that the nodes know.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Weights and biases of each layer, as in MLPClassifier. With two classes there is
        one output.
    activation_ : tuple of str
        Activation of each hidden layer.
    layer_report_ : list of dict
        What became of the neurons, with one entry for each hidden layer:

        - "n_in": number of neurons of all nodes;
        - "kept": number of neurons that are units of their own;
        - "merged": number of neurons that were merged at a common point of their
          spaces;
        - "forced": number of neurons that were merged because of ``max_units``;
        - "dropped": number of neurons that were left out, since they are 0 on all rows
          of their node. They are listed in "dropped_neurons";
        - "n_units": number of merged units;
        - "common": number of common units, which come after the merged ones;
        - "members": for each unit, a list of its neurons as (node name, index);
        - "radii": one array per node, with the radius of each neuron's space.
    history_ : list of dict
        One entry for each message to the nodes, as in :class:`GEMSLogisticAggregator`.
        The nodes in "left_out" failed to retrain and keep what they had. "loss" has, by
        node, the loss of the network that was sent to it in a further round.
    estimators_ : list of classifiers
        The fitted local estimators.
    node_names_ : list of str
        Names of the nodes.
    last_layer_ : GEMSLogisticAggregator
        Fitted clone of `last_layer`. Its features are the outputs of the hidden layers.
        Its ``likelihood_`` is None once fine-tuning has changed the hidden layers.
    hidden_geometry_ : Geometry
        The object that the geometry of `hidden_layers` stands for.
    spaces_ : list of GoodEnoughSpace or None
        Spaces of the last layer, one per node. None if they do not bound it.
    intersection_ : Intersection or None
        The point in the intersection of the last layer's spaces. None without spaces.
    node_scores_ : dict of lists
        A table with one entry per node in each list, as in
        :class:`GEMSLogisticAggregator`. "local" is the score of the node's own network
        or, if spaces were built, of its retrained last layer over the merged hidden
        layers.
    fine_tuning_ : FineTunedNetwork or None
        How public rows were used in the last fine-tuning. Its ``last_layer`` tells how
        they were used beside the moments of the last layer; it is None if there are no
        moments of the present units. ``last_layer.strength`` is the weight of each
        public row, 0 if they did not change it. Its ``strength`` is that of the last
        penalty with which layers learned, infinite if none did.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X or the local estimators have them.
    features_used_ : list or None
        Names of the features that the aggregate uses, or their places if they have no
        names. They are all features but those that the nodes' classifiers, or the
        front, drop by name. None if nobody knows their number.

    Notes
    -----
    It matters how rows are dealt over nodes, since units are merged by node. If the
    rows of one node are dealt over several nodes, the aggregate is another model: on
    digits, probabilities differ by 0.03 on average and by up to 0.8.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019, 3.2.

    Examples
    --------
    Two nodes know five digits each, so neither network is right more often than for
    half of all digits. The merged network knows all ten:

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

    _method_class = LayersMethod
    _parts = {"hidden_layers": HiddenLayers}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "epsilon": [None, *GEMSLogisticAggregator._parameter_constraints["epsilon"]],
        "last_layer": [None, GEMSLogisticAggregator],
        "n_common_units": [StrOptions({"auto"}), _FROM_0],
        "n_rounds": [_POSITIVE],
        "local_epochs": [_FROM_0],
    }

    def __init__(
        self,
        estimators=None,
        *,
        epsilon=None,
        hidden_layers="gram",
        n_common_units="auto",
        last_layer=None,
        n_rounds=1,
        local_epochs=5,
        validation_fraction=0.2,
        memory=None,
        disclosure="auto",
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.epsilon = epsilon
        self.hidden_layers = hidden_layers
        self.n_common_units = n_common_units
        self.last_layer = last_layer
        self.n_rounds = n_rounds
        self.local_epochs = local_epochs
        self.validation_fraction = validation_fraction
        self.memory = memory
        self.disclosure = disclosure
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self) -> MLPClassifier:
        return MLPClassifier(20, solver="lbfgs", alpha=0.1, max_iter=2000)

    @federated_fit
    def fit(
        self,
        X=None,
        y=None,
        nodes=None,
        held_out=None,
        *,
        groups=None,
    ) -> "GEMSMLPAggregator":
        """Merge the local networks.

        Parameters
        ----------
        X, y, nodes, held_out, groups : array-like, default=None
            Rows of the nodes, as for :meth:`GEMSLogisticAggregator.fit`. Rows that are
            not held out are also used to retrain networks.

        Returns
        -------
        self : GEMSMLPAggregator
            The fitted aggregate.

        Raises
        ------
        ValueError
            If networks differ in depth or activations, a node has no rows, no node
            knows a label, or the input cannot be used. The message names the node.
        """
        return fit_method(self, X, y, nodes, held_out, groups=groups)

    def ask_scores(self) -> "GEMSMLPAggregator":
        """Ask the nodes behind a channel how good the aggregate is for them.

        See :meth:`GEMSLogisticAggregator.ask_scores` for what it changes and raises.

        Returns
        -------
        self : GEMSMLPAggregator
            With ``node_scores_`` as the nodes have replied.
        """
        check_is_fitted(self)
        self.node_scores_ = ask_scores(self.last_layer_, self.estimators)
        self.history_ = self.last_layer_.history_
        return self

    def _long_form(self, name: str, value: object) -> object:
        if name == "last_layer" and isinstance(value, GEMSLogisticAggregator | None):
            return long_last_layer(value)
        return super()._long_form(name, value)

    def _tuned(self, X: Rows, y: np.ndarray, **network: object) -> object:
        return tuned_network(X, y, random_state=self.random_state, **network)
