"""Probabilistic federated neural matching: one network of matched hidden units."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
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
    Federation,
    ReportMixin,
    Run,
    SummarizingMixin,
    ask_counts,
    check_feature_names,
    federated_fit,
    read_federation,
    warn_of_many_rows,
)
from ..gems import (
    GEMSLogisticAggregator,
    LastLayer,
    calibration_plan,
    settled_last_layer,
)
from ..local import Description
from ..matching import NetworkMatch, match_again, match_networks, merged_layers
from ..networks import (
    Coordinates,
    HiddenLayers,
    Layers,
    Network,
    one_per_layer,
    to_mlp_classifier,
    union_of_classes,
)
from ..progress import say, shown
from ..tuning import FineTunedNetwork, fine_tune_network
from ._parameters import Matching
from ._rounds import SEEDS_BELOW, MatchingRounds, check_rounds, drawn_units
from ._stream import ClassShares, Stream, activations_of, aligned_networks
from ._terms import MatchingTerms

_AUTO = StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Batch:
    """Networks as they are matched in one step, and settings for each hidden layer."""

    networks: list[Network]
    shares: ClassShares
    sigma: list
    sigma0: list
    gamma0: list
    max_units: list


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
    max_units : int, None or sequence of these, default=None
        Most units of a hidden layer, at least as many as any node has.
    n_rounds : int, default=1
    local_epochs : int, default=5
        How often to match. Before each time but the first, every node trains the merged
        network so many epochs on its rows, at a tenth of its estimator's learning rate.
    last_layer : GEMSLogisticAggregator or None, default=None
        Merges the last layers anew, over the matched units: each node answers with the
        moments of what comes out of these on its rows, in one more message. It sees
        what each class needs where nodes know different ones, and its probabilities
        are calibrated. Its ``estimators`` must be None; its parameters are searched as
        ``last_layer__C``. None keeps the matched weights.
    matching : Matching or None, default=None
        Details of the search: sweeps, costs of new atoms, the order of layers and the
        type of numbers, as :class:`~skgems.pfnm.Matching` says. None: its defaults.
        Searched as ``matching__tol``.
    round_units : {"all", "own"}, default="all"
        Which units of the merged network a node gets before it trains in a round: all,
        or those that its own became part of, which is less to send, and much worse
        where nodes share few.
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

    _parts = {"matching": Matching}
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "sigma": [*_AUTO, "array-like"],
        "sigma0": [*_AUTO, "array-like"],
        "gamma0": [*_AUTO, "array-like"],
        "max_units": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "local_epochs": [Interval(Integral, 1, None, closed="left")],
        "last_layer": [None, GEMSLogisticAggregator],
        "round_units": [StrOptions({"all", "own"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        estimators=None,
        *,
        sigma="auto",
        sigma0="auto",
        gamma0="auto",
        max_units=None,
        n_rounds=1,
        local_epochs=5,
        last_layer=None,
        matching=None,
        round_units="all",
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
        self.max_units = max_units
        self.n_rounds = n_rounds
        self.local_epochs = local_epochs
        self.last_layer = last_layer
        self.matching = matching
        self.round_units = round_units
        self.validation_fraction = validation_fraction
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _default_estimator(self) -> MLPClassifier:
        return MLPClassifier((32,), learning_rate_init=0.01, tol=1e-3, max_iter=1000)

    @federated_fit
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
        matching = self._part("matching")
        federation = read_federation(self, X, y, nodes, held_out)
        depth = len(activations_of(federation.nodes))
        counts = self._counts_of_samples(n_class_samples, seen=federation.seen)
        if self.n_rounds > 1:
            check_rounds(federation)
        run = federation.run(n_jobs=self.n_jobs)
        by_rows = matching.class_precision == "counts"
        if federation.can_reply and n_class_samples is None and by_rows:
            counts = self._ask_counts(federation, run)
        rng = check_random_state(self.random_state)
        stream = self._first_step(
            federation, depth=depth, counts=counts, run=run, rng=rng
        )
        layers = self._merged(stream, federation.features.n_features_in)
        layers = stream.on_features(layers)
        history = run.history
        last_layer = None
        if self.last_layer is not None and len(federation.classes) > 1:
            layers, last_layer = self._with_last_layer(
                layers, federation=federation, run=run, rng=rng
            )
            history = last_layer.history_
        elif federation.can_reply:
            layers = self._calibrated(layers, federation=federation, run=run)
        fine_tuning = self._tuned_on_public_rows(
            layers, federation=federation, coordinates=stream.coordinates
        )
        if fine_tuning is not None:
            layers = fine_tuning.layers
        attributes = {
            **federation.attributes(),
            **self._attributes(stream, layers=layers, fine_tuning=fine_tuning),
            "last_layer_": last_layer,
            "history_": history,
        }
        if matching.dtype is not None:
            attributes["_dtype"] = np.dtype(matching.dtype)
        self._publish(**attributes)
        return self

    @fit_context(prefer_skip_nested_validation=False)
    @keeps_warnings
    @shown
    def update(self, estimators, *, n_class_samples=None) -> "PFNMAggregator":
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
        federation = self._read_batch(estimators)
        networks = [node.network for node in federation.nodes]
        activation = activations_of(federation.nodes)
        self._check_activation(activation)
        classes = union_of_classes([self._description, *networks])
        stream = self._stream_for_batch(
            networks, classes=classes, has_units=bool(activation)
        )
        seen = np.stack([network.aligned(classes).seen for network in networks])
        counts = self._counts_of_samples(n_class_samples, seen=seen)
        batch = self._batch(
            stream.in_coordinates(networks), classes, counts=counts, stream=stream
        )
        match = self._match(
            batch,
            stream=stream,
            names=federation.names,
            rng=check_random_state(self.random_state),
        )
        stream = stream.after(
            match, names=federation.names, class_rows=batch.shares.class_rows
        )
        layers = stream.on_features(self._merged(stream, self.n_features_in_))
        attributes = {
            **self._attributes(stream, layers=layers, fine_tuning=None),
            "classes_": classes,
            "estimators_": federation.estimators,
            "n_features_in_": self.n_features_in_,
            "last_layer_": None,
        }
        if self._part("matching").dtype is None:
            # Constant models have no weights that a type could cost digits.
            dtypes = [network.dtype for network in networks if not network.is_constant]
            attributes["_dtype"] = np.result_type(self._dtype, *dtypes)
        if hasattr(self, "feature_names_in_"):
            attributes["feature_names_in_"] = self.feature_names_in_
        self._publish(**attributes)
        return self

    @property
    def _description(self) -> Description:
        """Features and classes of all steps so far, as those of a classifier."""
        return Description.of(self, self.classes_)

    def _read_batch(self, estimators: object) -> Federation:
        """The next networks of the stream; an error if they are not of its features."""
        if not is_named(estimators):
            raise ValueError(
                "update got networks without names, but a stream knows a node by its "
                'name. Name them, update([("name", network), ...]), new nodes by new '
                f"names. Nodes so far are {list(self._stream.names)}; a fit without "
                "names calls its nodes '0', '1' and so on, in the order of its list."
            )
        federation = read_federation(PFNMAggregator(estimators))
        n_features = federation.features.n_features_in
        if n_features != self.n_features_in_:
            raise ValueError(
                f"The networks take {n_features} features, but those of earlier steps "
                f"took {self.n_features_in_}. Give networks of the same features."
            )
        networks = [node.network for node in federation.nodes]
        check_feature_names(
            ["of earlier steps", *federation.names],
            [self._description, *networks],
            reference=None,
        )
        return federation

    def _check_activation(self, activation: tuple[str, ...]) -> None:
        # Constant models have none, and fit any.
        if activation and activation != self.activation_:
            raise ValueError(
                "The hidden layers of earlier steps had activations "
                f"{self.activation_}, those of these networks have {activation}. Give "
                "networks with those of earlier steps."
            )

    def _stream_for_batch(
        self, networks: Sequence[Network], *, classes: np.ndarray, has_units: bool
    ) -> Stream:
        """The stream so far, with the classes and the coordinates of a new batch."""
        stream = self._stream
        if len(classes) > len(self.classes_):
            places = np.searchsorted(classes, self.classes_)
            stream = stream.with_classes(places, len(classes))
        was_alone = stream.match.n_nodes == 1
        if was_alone and not np.isnan(stream.class_rows).any():
            stream = stream.centred()
        if stream.coordinates is not None and has_units:
            # Nothing so far has a weight of a feature that nobody knew.
            coordinates = stream.coordinates.filled(_common_coordinates(networks))
            stream = replace(stream, coordinates=coordinates)
        return stream

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
        name = self._name_of_node(node)
        if n_fresh is not None and n_fresh < 0:
            raise ValueError(
                f"n_fresh must not be negative; got {n_fresh}. Give a number of units, "
                "or None for a tenth of them."
            )
        rng = check_random_state(self.random_state)
        layers = self._merged(self._stream, self.n_features_in_)
        if n_units is not None or n_fresh:
            layers = drawn_units(
                layers,
                uses=self._stream.uses_by(name),
                widths=self._widths_to_draw(n_units, n_fresh),
                n_fresh=n_fresh,
                rng=rng,
            )
        estimator = to_mlp_classifier(
            self._stream.on_features(layers),
            self.classes_,
            feature_names_in=getattr(self, "feature_names_in_", None),
        )
        return estimator.set_params(random_state=rng.randint(SEEDS_BELOW))

    def _name_of_node(self, node: int | str) -> str:
        names = self.node_names_
        if node not in names and node not in range(len(names)):
            raise ValueError(
                f"{node!r} is no node. Give one of the names {names}, or the index of "
                "one."
            )
        return node if isinstance(node, str) else names[node]

    def _widths_to_draw(
        self, n_units: int | Sequence[int] | None, n_fresh: int | None
    ) -> list[int]:
        """Units of each hidden layer, with fresh ones."""
        depth = len(self.n_units_)
        if n_units is None:
            return [n + n_fresh for n in self.n_units_]
        widths = [n_units] * depth if np.isscalar(n_units) else list(n_units)
        if len(widths) != depth or min(widths) < max(1, n_fresh or 0):
            raise ValueError(
                f"n_units must be one number, or one per hidden layer ({depth}), of at "
                f"least 1 and at least n_fresh; got {n_units!r}."
            )
        return widths

    def _terms(self) -> MatchingTerms:
        last_layer = None
        if self.last_layer is not None:
            last_layer = settled_last_layer(self.last_layer, self)._terms()
        return MatchingTerms(last_layer=last_layer, n_rounds=self.n_rounds)

    def _check_one_message(self) -> None:
        if self.n_rounds > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds} asks nodes more than once, but a summary "
                "holds all at once: set n_rounds=1, or use skgems.Exchange."
            )
        if self.last_layer is not None:
            raise ValueError(
                "last_layer asks nodes once more, when units are matched, but a "
                "summary holds all at once: set last_layer=None, or use "
                "skgems.Exchange."
            )

    def _counts_of_samples(
        self, n_class_samples: object, *, seen: np.ndarray
    ) -> np.ndarray | None:
        """Rows of each class at each node, if they are given and matter.

        ``seen``, (n_nodes, n_classes), is whether the node's network has seen a class.
        """
        if n_class_samples is None:
            return None
        counts = np.asarray(n_class_samples, dtype=np.float64)
        if counts.shape != seen.shape or not np.all((counts >= 0) & (counts < np.inf)):
            raise ValueError(
                "n_class_samples must hold one count, finite and not negative, for "
                f"each of {seen.shape[0]} nodes and {seen.shape[1]} classes; got an "
                f"array of shape {counts.shape}."
            )
        if self._part("matching").class_precision != "counts":
            return None
        return np.where(seen, counts, 0.0)

    def _first_step(
        self,
        federation: Federation,
        *,
        depth: int,
        counts: np.ndarray | None,
        run: Run,
        rng: np.random.RandomState,
    ) -> Stream:
        """A stream of one step, which may be of several rounds."""
        networks = [node.network for node in federation.nodes]
        stream = Stream.before_any(
            depth=depth,
            n_classes=len(federation.classes),
            coordinates=_common_coordinates(networks, are_trained=self.n_rounds > 1),
        )
        networks = stream.in_coordinates(networks)
        batch = self._batch(networks, federation.classes, counts=counts, stream=stream)
        match = self._match(batch, stream=stream, names=(), rng=rng)
        if self.n_rounds > 1 and depth:
            rounds = self._rounds(
                federation.classes, counts=counts, stream=stream, rng=rng
            )
            network_by_name = dict(zip(federation.names, networks, strict=True))
            match = run(rounds.plan(network_by_name, match))
        return stream.after(
            match, names=federation.names, class_rows=batch.shares.class_rows
        )

    def _ask_counts(self, federation: Federation, run: Run) -> np.ndarray:
        """Rows of each class at each node, (n_nodes, n_classes), as nodes say."""
        counts = run(ask_counts(federation.classes)) * federation.seen
        # A last layer made of moments warns by itself.
        if not federation.rows_are_shared and self.last_layer is None:
            warn_of_many_rows(federation.names, counts.sum(axis=1))
        return counts

    def _batch(
        self,
        networks: Sequence[Network],
        classes: np.ndarray,
        *,
        counts: np.ndarray | None,
        stream: Stream,
        start: np.ndarray | None = None,
    ) -> _Batch:
        """Networks ready to be matched.

        ``start`` are the last weights that all were trained from, (n_in + 1,
        n_classes), or None.
        """
        depth = len(stream.popularity)
        aligned = aligned_networks(
            networks,
            classes,
            depth=depth,
            start=start,
            # One network alone is to come back as it is.
            centre=len(networks) > 1 or stream.match is not None,
            dtype=self._part("matching").dtype,
        )
        batch = _Batch(
            networks=aligned,
            shares=ClassShares.of(
                counts,
                seen=np.stack([network.seen for network in aligned]),
                earlier_rows=stream.class_rows,
            ),
            sigma=one_per_layer("sigma", self.sigma, depth, "auto"),
            sigma0=one_per_layer("sigma0", self.sigma0, depth, "auto"),
            gamma0=one_per_layer("gamma0", self.gamma0, depth, "auto"),
            max_units=one_per_layer("max_units", self.max_units, depth, None),
        )
        for layer, max_units in enumerate(batch.max_units):
            widest = max(network.widths[layer] for network in aligned)
            if max_units is not None and max_units < widest:
                raise ValueError(
                    f"max_units is {max_units}, but a node has {widest} units in "
                    f"hidden layer {layer}; all units of one node stay apart. Set "
                    f"max_units to at least {widest}."
                )
        return batch

    def _match(
        self,
        batch: _Batch,
        *,
        stream: Stream,
        names: Sequence[str],
        rng: np.random.RandomState,
    ) -> NetworkMatch:
        """The match of a step, with all steps before it as its prior.

        ``names`` are those of the nodes; of a first step, which has no prior, none.
        """
        matching = self._part("matching")
        uses_by_node = [stream.uses_by(name) for name in names]
        return match_networks(
            batch.networks,
            batch.shares.of_nodes,
            sigma=batch.sigma,
            sigma0=batch.sigma0,
            gamma0=batch.gamma0,
            max_units=batch.max_units,
            layer_order=matching.layer_order,
            previous=stream.match,
            previous_share=batch.shares.of_earlier,
            counts=[np.stack(uses) for uses in zip(*uses_by_node, strict=True)],
            n_steps=stream.n_steps,
            max_iter=matching.max_iter,
            tol=matching.tol,
            new_atom_cost=matching.new_atom_cost,
            random_state=rng,
        )

    def _rounds(
        self,
        classes: np.ndarray,
        *,
        counts: np.ndarray | None,
        stream: Stream,
        rng: np.random.RandomState,
    ) -> MatchingRounds:
        matching = self._part("matching")

        def rematch(
            networks: list[Network], nodes: list[int], start: NetworkMatch | None
        ) -> NetworkMatch:
            batch = self._batch(
                networks,
                classes,
                counts=None if counts is None else counts[nodes],
                stream=stream,
                start=None if start is None else merged_layers(start).last,
            )
            if start is None:
                return self._match(batch, stream=stream, names=(), rng=rng)
            return match_again(
                batch.networks,
                batch.shares.of_nodes,
                merged=start,  # whose sigma and sigma0 stay
                gamma0=batch.gamma0,
                max_units=batch.max_units,
                layer_order=matching.layer_order,
                max_iter=matching.max_iter,
                tol=matching.tol,
                new_atom_cost=matching.new_atom_cost,
                random_state=rng,
            )

        return MatchingRounds(
            n_rounds=self.n_rounds,
            local_epochs=self.local_epochs,
            only_own_units=self.round_units == "own",
            classes=classes,
            stream=stream,
            rematch=rematch,
            rng=rng,
        )

    @staticmethod
    def _merged(stream: Stream, n_features: int) -> Layers:
        """What was matched, in the stream's coordinates, before rows change it."""
        if stream.match.layers:
            return merged_layers(stream.match)
        # Constant models only.
        shares = stream.match.class_share
        last = np.zeros((n_features + 1, len(shares)))
        last[-1] = stream.match.bias / np.where(shares > 0, shares, 1.0)
        return Layers.of([last])

    def _attributes(
        self,
        stream: Stream,
        *,
        layers: Layers,
        fine_tuning: FineTunedNetwork | None,
    ) -> dict[str, object]:
        match = stream.match
        n_units = tuple(len(layer.atoms) for layer in match.layers)
        # Copies: the stream goes on from its own.
        assignments = deepcopy([layer.assignments for layer in match.layers])
        n_before = [sum(map(len, by_node)) for by_node in assignments]
        say(f"{n_units} units in the hidden layers, {n_before} before matching")
        return {
            "node_names_": list(stream.names),
            "activation_": layers.activation,
            "n_units_": n_units,
            "assignments_": assignments,
            "popularity_": [uses.copy() for uses in stream.popularity],
            "posterior_": [deepcopy(layer.atoms) for layer in match.layers],
            "sigma_": list(match.sigma),
            "sigma0_": list(match.sigma0),
            "gamma0_": list(match.gamma0),
            "objective_": [layer.objective for layer in match.layers],
            "n_iter_": max([1, *(layer.n_iter for layer in match.layers)]),
            "n_steps_": stream.n_steps,
            "input_coordinates_": stream.coordinates,
            "fine_tuning_": fine_tuning,
            "_coordinates": stream.coordinates,
            "_stream": stream,
            "_layers": layers,
            **layer_attributes(layers),
        }

    def _logits(self, X: np.ndarray) -> np.ndarray:
        return self._layers.logits(X)

    def _with_last_layer(
        self,
        layers: Layers,
        *,
        federation: Federation,
        run: Run,
        rng: np.random.RandomState,
    ) -> tuple[Layers, GEMSLogisticAggregator]:
        """Layers with a last one that is merged over the matched units."""
        last_layer = LastLayer.of(
            self.last_layer,
            outer=self,
            federation=federation,
            run=run,
            seed=rng.randint(SEEDS_BELOW),
        )
        if last_layer.stage.merges_models:
            # All nodes have the same units now, and the same model over them.
            weights = dict.fromkeys(federation.names, layers.last)
            last_layer = last_layer.with_models(weights)
        merged = last_layer.over(HiddenLayers.of(layers))
        W = last_layer.publish(merged)
        return merged.layers.with_last(W), last_layer.aggregator

    def _calibrated(
        self, layers: Layers, *, federation: Federation, run: Run
    ) -> Layers:
        """Layers whose logits have the factor that is likeliest at the nodes."""
        # One network alone is to come back as it is.
        if len(federation.nodes) == 1 or len(federation.classes) == 1:
            return layers
        factor = run(
            calibration_plan(
                layers.last,
                at={
                    node.name: federation.columns_of(node) for node in federation.nodes
                },
                classes=federation.classes,
                hidden=HiddenLayers.of(layers),
            )
        )
        return layers if factor is None else layers.scaled(factor)

    def _tuned_on_public_rows(
        self,
        layers: Layers,
        *,
        federation: Federation,
        coordinates: Coordinates | None,
    ) -> FineTunedNetwork | None:
        if not federation.has_public_rows:
            return None
        rows = federation.public_rows
        return self._tuned(
            federation.X[rows],
            federation.y[rows],
            layers=layers,
            last_layer=None,
            coordinates=coordinates,
            hidden=True,
        )

    def _tuned(
        self,
        X: np.ndarray,
        y: np.ndarray,
        *,
        layers: Layers,
        last_layer: GEMSLogisticAggregator | None,
        coordinates: Coordinates | None,
        hidden: bool,
    ) -> FineTunedNetwork:
        """Layers tuned on public rows; ``last_layer`` decides nothing here."""
        return fine_tune_network(
            X,
            y,
            layers=layers,
            hidden=hidden,
            coordinates=coordinates,
            random_state=check_random_state(self.random_state),
        )


def _common_coordinates(
    networks: Sequence[Network], *, are_trained: bool = False
) -> Coordinates | None:
    """What networks are compared in; of features if None.

    Where networks are trained in them, features that no network knows have a weight
    too, and so a centre and a scale.
    """
    coordinates = Coordinates.common(
        [network.coordinates for network in networks if not network.is_constant]
    )
    if are_trained and coordinates is not None:
        return coordinates.filled()
    return coordinates
