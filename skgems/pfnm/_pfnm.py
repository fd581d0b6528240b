"""Probabilistic federated neural matching: one network of matched hidden units."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..base import (
    BaseAggregator,
    TunedNetworkMixin,
    is_named,
    keeps_warnings,
    layer_attributes,
)
from ..compat import Interval, StrOptions, fit_context
from ..federation import (
    MOST_GRIDS,
    Federation,
    ReportMixin,
    Run,
    Simulation,
    SummarizingMixin,
    ask_counts,
    begins_again,
    check_feature_names,
    read_federation,
    warn_of_many_rows,
)
from ..gems import (
    GEMSLogisticAggregator,
    LastLayer,
    calibration_plan,
    last_layer_of_settings,
    last_layer_settings,
    settled_last_layer,
)
from ..local import Description
from ..matching import NetworkMatch, match_again, match_networks, merged_layers
from ..messages import Message
from ..networks import (
    Coordinates,
    HiddenLayers,
    Layers,
    one_per_layer,
    to_mlp_classifier,
    union_of_classes,
)
from ..progress import say, shown
from ..tuning import fine_tune_network
from ._rounds import (
    Stream,
    activations_of,
    as_layers,
    check_rounds,
    class_shares,
    drawn_units,
    match_in_rounds,
)

_SCALES = ("sigma", "sigma0", "gamma0")
_AUTO = StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")


class PFNMAggregator(SummarizingMixin, TunedNetworkMixin, ReportMixin, BaseAggregator):
    """One network whose hidden units are matched units of the nodes' networks.

    Hidden units may be permuted without changing what a network computes, so weights
    cannot be averaged as they are. Here nodes' units are noisy copies of common
    *atoms*, of which every node uses some; which unit is a copy of which atom, and how
    many there are, is inferred under a Beta-Bernoulli process. ``fit()`` needs no rows.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        Fitted networks, one per node: MLPClassifier, skorch nets of Linear layers,
        pipelines of affine steps around them, with equal activations; widths and
        classes may differ. Unfitted ones, or a single one, are cloned and trained on
        each node's rows (simulation). None: ``MLPClassifier((32,))``, rate 0.01.
    sigma : "auto", float or sequence of floats, default="auto"
        Standard deviation of a node's weights about their atom's, per hidden layer: the
        larger, the more is matched. "auto" is a tenth of the median norm of units.
    sigma0 : "auto", float or sequence of floats, default="auto"
        Standard deviation of atoms about zero. "auto" is sigma.
    gamma0 : "auto", float or sequence of floats, default="auto"
        Mass of the beta process: the larger, the more readily new atoms are opened.
        "auto" goes by the weights alone: small, and up to 1 while matched units have
        less than two thirds of their squared norm in common. With a mass too large
        for `sigma` nothing is matched, as `n_units_` shows.
    max_iter : int, default=100
        Most sweeps over all nodes after the first pass, per layer.
    tol : float, default=1e-3
        Stop when a sweep gains less than this share of the objective; 0: nothing.
    max_units : int, None or sequence of these, default=None
        Most units of a hidden layer, at least as many as any node has.
    new_atom_cost : {"exchangeable", "paper"}, default="exchangeable"
        Whether a node's new atoms cost the same each, so that no sweep lowers the
        objective, or more and more. The first starts from the better of both.
    class_precision : {"counts", "equal"}, default="counts"
        Whether a node's share of what is known of a class goes by its rows of that
        class, where ``fit`` knows them, or is the same for each node that has seen it.
    layer_order : {"bottom_up", "top_down"}, default="bottom_up"
        Whether the first or, as in the paper, the last hidden layer is matched first.
        What goes into units says more; from the top there are fewer of them.
    n_rounds : int, default=1
    n_epochs : int, default=5
        How often to match. Before each time but the first, every node trains the merged
        network so many epochs on its rows, at a tenth of its estimator's learning rate.
    round_units : {"all", "own"}, default="all"
        Which units of the merged network a node gets then: all, or those that its own
        became part of, which is less to send, and much worse where nodes share few.
    last_layer : GEMSLogisticAggregator or None, default=None
        Merges the last layers anew, over the matched units: each node answers with the
        moments of what comes out of these on its rows, in one more message. It sees
        what each class needs where nodes know different ones, and its probabilities
        are calibrated. Its ``estimators`` must be None; its parameters are searched as
        ``last_layer__C``. None keeps the matched weights.
    dtype : {"float64", "float32"} or None, default=None
        Type of the numbers to match with. None keeps the networks' own.
    validation_fraction : float, default=0.1
        In simulation, the share of each node's rows that its clone is not trained on,
        but that calibrate the probabilities.
    front : transformer, default=None
    n_jobs : int, default=None
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`.
    random_state : int, RandomState instance or None, default=None
        Source of the order of nodes in a sweep, the dealing of rows and all seeds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted union of the classes the nodes know.
    coefs_ : list of ndarray, layer i of shape (n_in_i, n_out_i)
    intercepts_ : list of ndarray, layer i of shape (n_out_i,)
        Weights and biases, laid out as in MLPClassifier.
    activation_ : tuple of str
    n_units_ : tuple of int
        Activation and units of each hidden layer.
    assignments_ : list of lists of ndarray of shape (n_units_of_node,)
        For each hidden layer and node, the merged unit that each of the node's units
        became part of; after rounds, of its units of the last, if it was there.
    popularity_ : list of ndarray of shape (n_nodes, n_units)
        For each hidden layer, how often each node has used each unit: 0 or 1 per step.
    posterior_ : list of Atoms
        For each hidden layer, mean and precision of the units' numbers: incoming
        weights, bias, and in the last layer outgoing weights. Those of the first layer
        are of features in ``input_coordinates_``.
    input_coordinates_ : Coordinates or None
        Centre and scale of the features in which units of the first layer are
        compared: mean and median of those after the affine steps of the nodes'
        pipelines, of the first batch that knows a feature. None: the features as they
        are, where no node of the first has such steps.
    sigma_ : list of float
    sigma0_ : list of float
    gamma0_ : list of float
        What was taken for each hidden layer.
    objective_ : list of ndarray of shape (n_sweeps + 1,)
        For each hidden layer, log-posterior, up to a constant, before and after sweeps.
    n_iter_ : int
    n_steps_ : int
        Most sweeps of any layer; batches taken in, by ``fit`` and ``update``.
    history_ : list of dict
        As of :class:`PooledAggregator`. A node left out of a round is not matched in
        it; one that alone knows a class stays as it was.
    estimators_ : list of classifiers
    node_names_ : list of str
        The fitted local estimators, of the last batch; names of all nodes so far.
    last_layer_ : GEMSLogisticAggregator or None
        Fitted clone of `last_layer`, on what comes out below. None after `update`.
    fine_tuning_ : FineTunedNetwork or None
        How public rows were used; ``strength`` is infinite where they changed nothing.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features; their names, if the nodes' estimators or X have them.

    See Also
    --------
    skgems.plotting.MatchingDisplay : Draw which units form which.

    Notes
    -----
    One node's rows dealt over several nodes with the same classifier give another
    model: probabilities of single rows differ by up to 1, by 0.04 on average (digits).

    References
    ----------
    M. Yurochkin et al.: Probabilistic Federated Neural Matching, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neural_network import MLPClassifier
    >>> from skgems import PFNMAggregator
    >>> X, y = load_digits(return_X_y=True)
    >>> net = MLPClassifier((40,), learning_rate_init=0.01, tol=1e-2)
    >>> agg = PFNMAggregator([net] * 3, random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> agg.n_units_[0] < 120, agg.score(X[1200:] / 16, y[1200:]) > 0.85  # of 3 * 40
    (True, True)
    """

    _asks_nodes = True
    _merges_layers = True
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        **dict.fromkeys(_SCALES, [*_AUTO, "array-like"]),
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_units": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "new_atom_cost": [StrOptions({"exchangeable", "paper"})],
        "class_precision": [StrOptions({"counts", "equal"})],
        "layer_order": [StrOptions({"bottom_up", "top_down"})],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "round_units": [StrOptions({"all", "own"})],
        "last_layer": [None, GEMSLogisticAggregator],
        "dtype": [None, StrOptions({"float32", "float64"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        estimators=None,
        *,
        sigma="auto",
        sigma0="auto",
        gamma0="auto",
        max_iter=100,
        tol=1e-3,
        max_units=None,
        new_atom_cost="exchangeable",
        class_precision="counts",
        layer_order="bottom_up",
        n_rounds=1,
        n_epochs=5,
        round_units="all",
        last_layer=None,
        dtype=None,
        validation_fraction=0.1,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.sigma = sigma
        self.sigma0 = sigma0
        self.gamma0 = gamma0
        self.max_iter = max_iter
        self.tol = tol
        self.max_units = max_units
        self.new_atom_cost = new_atom_cost
        self.class_precision = class_precision
        self.layer_order = layer_order
        self.n_rounds = n_rounds
        self.n_epochs = n_epochs
        self.round_units = round_units
        self.last_layer = last_layer
        self.dtype = dtype
        self.validation_fraction = validation_fraction
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self):
        return MLPClassifier((32,), learning_rate_init=0.01, tol=1e-3, max_iter=1000)

    @fit_context(prefer_skip_nested_validation=False)
    @begins_again
    def fit(
        self, X=None, y=None, nodes=None, held_out=None, *, n_class_samples=None
    ) -> "PFNMAggregator":
        """Match the nodes' networks.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            As of :meth:`GEMSLogisticAggregator.fit`: rows for the shares of classes,
            the confidence of probabilities and rounds; in simulation networks are
            trained on them. Fitted networks need none. Those held out calibrate the
            probabilities, and are neither counted nor trained on.
        n_class_samples : array-like of shape (n_nodes, n_classes), default=None
            Rows of each class that each node was fitted on, columns as ``classes_``.
            None counts those of X; without, nodes that have seen a class count alike.

        Returns
        -------
        self : PFNMAggregator

        Raises
        ------
        ValueError
            If activations differ, or the input is not usable; it names the node.
        TypeError
            If a node's estimator is not a network.
        """
        simulated = Simulation.of(self)
        federation = read_federation(self, X, y, nodes, held_out, simulation=simulated)
        networks = [node.network for node in federation.nodes]
        depth = len(activations_of(federation.nodes))
        counts = self._given_counts(federation.seen, n_class_samples)
        if self.n_rounds > 1:
            check_rounds(federation)
        run = federation.run(n_jobs=self.n_jobs)
        by_count = self.class_precision == "counts"
        if federation.can_reply and n_class_samples is None and by_count:
            counts = run(ask_counts(federation.classes)) * federation.seen
            # A last layer made of moments warns by itself.
            if not federation.rows_are_shared and self.last_layer is None:
                warn_of_many_rows(federation.names, counts.sum(axis=1))
        rng = check_random_state(self.random_state)
        coordinates = _coordinates_of(networks, trained=self.n_rounds > 1)
        unused = (np.zeros((0, 0), dtype=np.int64),) * depth
        class_rows = np.zeros(len(federation.classes))
        stream = Stream((), unused, 0, class_rows, coordinates)
        networks = stream.taken_in(networks)
        match, rows = self._match(networks, federation.classes, counts, rng, stream)
        if self.n_rounds > 1 and depth:

            def rematch(networks, present, again):
                own = None if counts is None else counts[present]
                given = networks, federation.classes, own, rng, stream
                return self._match(*given, again=again)[0]

            by_name = dict(zip(federation.names, networks, strict=True))
            given = by_name, match, rematch, federation.classes, rng
            match = run(match_in_rounds(*given, self, stream.coordinates))
        stream = stream.then(match, federation.names, rows)
        layers = self._merged(stream, federation.features.n_features_in)
        layers = stream.given_back(layers)
        history, last_layer, tuned = run.history, None, None
        if self.last_layer is not None and len(federation.classes) > 1:
            layers, last_layer = self._with_last_layer(federation, run, layers, rng)
            history = last_layer.history_
        elif federation.can_reply:
            layers = self._calibrated(federation, run, layers)
        if federation.has_public_rows:
            rows = federation.public_rows
            public = federation.X[rows], federation.y[rows]
            tuned = self._tuned(*public, layers, None, stream.coordinates, True)
            layers = tuned.layers
        found = federation.attributes() | self._attributes(stream, layers, tuned)
        if self.dtype is not None:
            found["_dtype"] = np.dtype(self.dtype)
        self._publish(**found, last_layer_=last_layer, history_=history)
        return self

    @fit_context(prefer_skip_nested_validation=False)
    @keeps_warnings
    @shown
    def update(self, estimators, *, n_class_samples=None):
        """Take in the next batch of fitted networks of a stream.

        What is known so far is the prior of the match. What :meth:`fine_tune` or the
        confidence fitted on rows did to weights is not kept.

        Parameters
        ----------
        estimators : list of (name, classifier) tuples
            Fitted networks, known again by their names; those of a ``fit`` without
            names are "0", "1" and so on. New nodes and new classes may come.
        n_class_samples : array-like of shape (n_nodes, n_classes), default=None
            Rows of each class behind each of these networks, columns as ``classes_``
            will be. A network then counts for a class by its rows over those of all
            steps, if all were counted. None: those that have seen a class count the
            same, and this step as much as any before.

        Returns
        -------
        self : PFNMAggregator

        Raises
        ------
        ValueError
            If networks have no names, or do not fit those of earlier steps.
        """
        check_is_fitted(self)
        before = self._stream
        if not is_named(estimators):
            raise ValueError(
                "update got networks without names, but a stream knows a node by its "
                'name. Name them, update([("name", network), ...]), new nodes by new '
                f"names. Nodes so far are {list(before.names)}; a fit without names "
                "calls its nodes '0', '1' and so on, in the order of its list."
            )
        federation = read_federation(PFNMAggregator(estimators))
        n_features, known = self.n_features_in_, Description.of(self, self.classes_)
        found = federation.features.n_features_in
        if found != n_features:
            earlier = f"but those of earlier steps took {n_features}"
            raise ValueError(f"The networks take {found} features, {earlier}.")
        networks, names = [node.network for node in federation.nodes], federation.names
        check_feature_names(["of earlier steps", *names], [known, *networks], None)
        activation = activations_of(federation.nodes)
        if activation and activation != self.activation_:
            raise ValueError(
                "The hidden layers of earlier steps had activations "
                f"{self.activation_}, those of these networks have {activation}."
            )
        classes = union_of_classes([known, *networks])
        if len(classes) > len(self.classes_):
            places = np.searchsorted(classes, self.classes_)
            before = before.widened(places, len(classes))
        if before.match.n_nodes == 1 and not np.isnan(before.class_rows).any():
            before = before.centred()
        seen = np.stack([network.aligned(classes).seen for network in networks])
        if before.coordinates is not None and activation:
            # Nothing so far has a weight of a feature that nobody knew.
            coordinates = before.coordinates.filled(_coordinates_of(networks))
            before = replace(before, coordinates=coordinates)
        counts = self._given_counts(seen, n_class_samples)
        rng, taken_in = check_random_state(self.random_state), before.taken_in(networks)
        match, rows = self._match(taken_in, classes, counts, rng, before, names=names)
        stream = before.then(match, names, rows)
        kept = {"classes_": classes, "estimators_": federation.estimators}
        if self.dtype is None:
            having = (own.dtype for own in networks if not own.is_constant)
            kept["_dtype"] = np.result_type(self._dtype, *having)
        if hasattr(self, "feature_names_in_"):
            kept["feature_names_in_"] = self.feature_names_in_
        layers = stream.given_back(self._merged(stream, n_features))
        found = self._attributes(stream, layers, None)
        self._publish(**kept, **found, n_features_in_=n_features, last_layer_=None)
        return self

    def node_init(self, node, n_units=None, *, n_fresh=None) -> MLPClassifier:
        """Weights for a node to start its next step of a stream from.

        They are the merged network, or as many of its units as ``n_units`` says, drawn
        by how often the node has used them, and fresh units of small random weights.

        Parameters
        ----------
        node : int or str
            Index in ``node_names_``, or name.
        n_units : int or sequence of int, default=None
            Units of each hidden layer, fresh ones included. None: all, and the fresh.
        n_fresh : int, default=None
            How many of a layer's units are fresh. None: a tenth of `n_units`, if given.

        Returns
        -------
        estimator : MLPClassifier
            Fitted with these weights; ``partial_fit`` goes on from them. A tenth of
            the usual ``learning_rate_init`` keeps what was merged.
        """
        check_is_fitted(self)
        names, depth = self.node_names_, len(self.n_units_)
        if node not in names and node not in range(len(names)):
            raise ValueError(f"{node!r} is no node; known are {names}, or an index.")
        if n_fresh is not None and n_fresh < 0:
            raise ValueError(f"n_fresh must not be negative; got {n_fresh}.")
        rng = check_random_state(self.random_state)
        layers = self._merged(self._stream, self.n_features_in_)
        if n_units is not None or n_fresh:
            if n_units is None:
                n_units = [n + n_fresh for n in self.n_units_]
            widths = [n_units] * depth if np.isscalar(n_units) else list(n_units)
            if len(widths) != depth or min(widths) < max(1, n_fresh or 0):
                what = f"one number, or one per hidden layer ({depth}), of at least 1"
                got = f"and n_fresh units; got {n_units!r}"
                raise ValueError(f"n_units must be {what} {got}.")
            used = self._stream.used(node if isinstance(node, str) else names[node])
            layers = drawn_units(layers, used, widths, n_fresh, rng)
        layers = self._stream.given_back(layers)
        names = getattr(self, "feature_names_in_", None)
        made = to_mlp_classifier(layers, self.classes_, feature_names_in=names)
        return made.set_params(random_state=rng.randint(2**31 - 1))

    def _node_settings(self) -> dict:
        return {}

    def _further_settings(self) -> dict:
        if self.last_layer is None:
            return {}
        return {"last_layer": last_layer_settings(self.last_layer, self)}

    @classmethod
    def _of_settings(
        cls, settings: Mapping, further_settings: Mapping
    ) -> "PFNMAggregator":
        if "last_layer" not in further_settings:
            return cls()
        return cls(last_layer=last_layer_of_settings(further_settings["last_layer"]))

    def _later_requests(self) -> list[Message]:
        if self.last_layer is None:
            return []
        last_layer = settled_last_layer(self.last_layer, self)
        return [last_layer._moments_request(), *last_layer._later_requests()]

    def _asks_at_most(self, n_hidden_layers: int) -> dict[str, int]:
        asked = {"retrain": self.n_rounds - 1, "evaluate": MOST_GRIDS}
        if self.last_layer is not None:
            asked |= {"moments": 1, **self.last_layer._asks_at_most(0)}
        return asked

    def _check_one_message(self) -> None:
        what = "a summary holds all at once: set {}, or use skgems.Exchange."
        if self.n_rounds > 1:
            asks = f"n_rounds={self.n_rounds} asks nodes more than once"
            raise ValueError(f"{asks}, {what.format('n_rounds=1')}")
        if self.last_layer is not None:
            asks = "last_layer asks nodes once more, when units are matched"
            raise ValueError(f"{asks}, {what.format('last_layer=None')}")

    def _given_counts(self, seen, given) -> np.ndarray | None:
        """Rows of each class at each node, if they are given and matter."""
        if given is None:
            return None
        counts = np.asarray(given, dtype=np.float64)
        if counts.shape != seen.shape or not np.all((counts >= 0) & (counts < np.inf)):
            what = "n_class_samples must hold one count, finite and not negative"
            each = f"for each of {seen.shape[0]} nodes and {seen.shape[1]} classes"
            raise ValueError(f"{what}, {each}; got an array of shape {counts.shape}.")
        return np.where(seen, counts, 0.0) if self.class_precision == "counts" else None

    def _match(
        self, networks, classes, counts, rng, stream: Stream, *, names=(), again=None
    ) -> tuple[NetworkMatch, np.ndarray]:
        depth, previous = len(stream.popularity), stream.match
        centre = len(networks) > 1 or previous is not None
        how = {"depth": depth, "centre": centre, "dtype": self.dtype}
        start = None if again is None else merged_layers(again).last
        networks = as_layers(networks, classes, start=start, **how)
        seen = np.stack([own.seen for own in networks])
        shares, previous_share, rows = class_shares(counts, seen, stream.class_rows)
        same = ("max_iter", "tol", "new_atom_cost", "layer_order")
        settings = {name: getattr(self, name) for name in same}
        for name in (*_SCALES, "max_units"):
            usual = None if name == "max_units" else "auto"
            settings[name] = one_per_layer(name, getattr(self, name), depth, usual)
        for layer, most in enumerate(settings["max_units"]):
            widest = max(own.widths[layer] for own in networks)
            if most is not None and most < widest:
                has = f"a node has {widest} units in hidden layer {layer}"
                what = f"{has}; all units of one node stay apart"
                raise ValueError(f"max_units is {most}, but {what}.")
        settings["random_state"] = rng
        if again is not None:
            del settings["sigma"], settings["sigma0"]  # those of the first match
            return match_again(networks, shares, again, **settings), rows
        used = [stream.used(name) for name in names]
        settings["counts"] = [np.stack(own) for own in zip(*used, strict=True)]
        settings |= {"previous": previous, "previous_share": previous_share}
        match = match_networks(networks, shares, n_steps=stream.n_steps, **settings)
        return match, rows

    @staticmethod
    def _merged(stream: Stream, n_features) -> Layers:
        """What was matched, in the stream's coordinates, before rows change it."""
        if stream.match.layers:
            return merged_layers(stream.match)
        # Constant models only.
        shares = stream.match.class_share
        last = np.zeros((n_features + 1, len(shares)))
        last[-1] = stream.match.bias / np.where(shares > 0, shares, 1.0)
        return Layers.of([last])

    def _attributes(self, stream: Stream, layers: Layers, tuned) -> dict:
        match = stream.match
        found = {
            "node_names_": list(stream.names),
            "activation_": layers.activation,
            "n_units_": tuple(len(layer.atoms) for layer in match.layers),
            # Copies: the stream goes on from its own.
            "assignments_": deepcopy([layer.assignments for layer in match.layers]),
            "popularity_": [own.copy() for own in stream.popularity],
            "posterior_": [deepcopy(layer.atoms) for layer in match.layers],
            **{f"{name}_": list(getattr(match, name)) for name in _SCALES},
            "objective_": [layer.objective for layer in match.layers],
            "n_iter_": max([1, *(layer.n_iter for layer in match.layers)]),
            "n_steps_": stream.n_steps,
            "input_coordinates_": stream.coordinates,
            "_coordinates": stream.coordinates,
            "fine_tuning_": tuned,
            "_stream": stream,
            "_layers": layers,
        }
        say(
            f"{found['n_units_']} units in the hidden layers, "
            f"{[sum(map(len, own)) for own in found['assignments_']]} before matching"
        )
        return found | layer_attributes(layers)

    def _logits(self, X) -> np.ndarray:
        return self._layers.logits(X)

    def _with_last_layer(self, federation, run: Run, layers: Layers, rng) -> tuple:
        seed = rng.randint(2**31 - 1)
        last = LastLayer.of(self.last_layer, self, federation, run, seed=seed)
        if last.stage.merges_models:
            last = last.with_models(dict.fromkeys(federation.names, layers.last))
        merged = last.over(HiddenLayers.of(layers))
        return merged.layers.with_last(last.publish(merged)), last.aggregator

    def _calibrated(self, federation: Federation, run: Run, layers: Layers) -> Layers:
        if len(federation.nodes) == 1 or len(federation.classes) == 1:
            return layers
        columns = {node.name: federation.columns_of(node) for node in federation.nodes}
        given = columns, federation.classes, HiddenLayers.of(layers)
        factor = run(calibration_plan(layers.last, *given))
        return layers if factor is None else layers.scaled(factor)

    def _tuned(self, X, y, layers: Layers, last_layer, coordinates, hidden):
        how = {"coordinates": coordinates, "hidden": hidden}
        rng = check_random_state(self.random_state)
        return fine_tune_network(X, y, layers, **how, random_state=rng)


def _coordinates_of(networks, *, trained=False) -> Coordinates | None:
    """What networks with weights are to be compared in, to stay if they are trained."""
    having = [own.coordinates for own in networks if not own.is_constant]
    found = Coordinates.common(having)
    return found.filled() if trained and found is not None else found
