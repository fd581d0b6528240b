# SPDX-License-Identifier: BSD-3-Clause
"""What all aggregators share: local estimators, the rows of nodes, and prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, check_memory, validate_data

from ..federation._nodes import PUBLIC, deal_rows, hold_out, node_codes, node_names_of
from ..local._fitting import fit_local, in_parcel, net_seed
from ..networks import Network, read_network, union_of_classes
from ._members import (
    MemberParametersMixin,
    named_members,
    seeded_clone,
    split_by_state,
)

try:
    from sklearn.utils._repr_html.estimator import _VisualBlock
except ImportError:  # scikit-learn < 1.8
    from sklearn.utils._estimator_html_repr import _VisualBlock


@dataclass(frozen=True)
class Node:
    """A party of the federation, as ``fit`` sees it.

    Attributes
    ----------
    name : str
    estimator : classifier
        The fitted local estimator.
    network : Network
        The same as plain arrays.
    seen : ndarray of shape (n_classes,), bool
        The aggregate's classes that this node has seen.
    rows : ndarray of int
        Rows of X that judge models for this node.
    training_rows : ndarray of int
        Rows of X the node may train on: all it owns, or in simulation those its
        estimator was fitted on.
    """

    name: str
    estimator: object
    network: Network
    seen: np.ndarray
    rows: np.ndarray
    training_rows: np.ndarray


@dataclass(frozen=True)
class Federation:
    """Validated input of ``fit``: the nodes, and data with labels as class indices."""

    nodes: list[Node]
    X: object
    y: np.ndarray
    public_rows: np.ndarray
    rows_are_shared: bool


class BaseAggregator(ClassifierMixin, MemberParametersMixin):
    """Base of classifiers made of a list of local estimators.

    A subclass names its parameters in ``__init__``, sets ``_default_estimator``,
    and implements ``fit`` (from :meth:`_read_federation`) and ``_logits``.
    """

    _parameter_constraints: dict = {
        "estimators": "no_validation",  # named_members and read_network check it
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "n_jobs": [None, int],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _default_estimator(self):
        """The unfitted classifier that ``estimators=None`` stands for."""

    @abstractmethod
    def _logits(self, X) -> np.ndarray:
        """Logits of validated rows, one column per class."""

    # Whether rows may be arrays of more dimensions, as images for convolutions.
    _allow_nd = False

    # ---- reading what the user gave ---------------------------------------

    def _validate(self, *arrays, reset=True):
        """Validated rows, and labels if they are given."""
        return validate_data(
            self,
            *arrays,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            allow_nd=self._allow_nd,
        )

    def _read_federation(self, X=None, y=None, nodes=None) -> Federation:
        """Validate the input of ``fit``; without X, fitted members are enough.

        Sets ``estimators_``, ``node_names_``, ``classes_``, ``n_features_in_`` and
        ``feature_names_in_``.
        """
        estimators = self.estimators
        if estimators is None:
            estimators = self._default_estimator()
        names, members = named_members(
            estimators, parameter_names=self._get_param_names()
        )
        fitted = split_by_state(names, members)
        if X is None:
            return self._read_without_rows(names, members, fitted, y, nodes)
        X, y = self._validate(X, y)
        check_classification_targets(y)
        if fitted:
            codes = None if nodes is None else node_codes(nodes, names, X.shape[0])
            held_out = None
        else:
            names, members, codes, held_out = self._simulate(
                names, members, X, y, nodes
            )
        return self._assemble(names, members, X, y, codes, held_out)

    def _read_without_rows(self, names, members, fitted, y, nodes) -> Federation:
        if y is not None or nodes is not None:
            raise ValueError("y and nodes say something about rows; give X with them.")
        if not fitted:
            raise ValueError(
                "The local estimators are not fitted. Fit them, or give fit the rows "
                "X, y to train them on."
            )
        descriptions = self._describe(names, members)
        n_features = _common_features(names, descriptions)
        check_feature_names(names, descriptions, None)
        classes = union_of_classes(descriptions, names=names)
        self.n_features_in_ = n_features
        known_names = [d.feature_names_in for d in descriptions]
        known_names = [own for own in known_names if own is not None]
        if known_names:
            self.feature_names_in_ = known_names[0]
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        none = np.empty(0, dtype=np.intp)
        nodes = [
            Node(name, member, description, _seen(description, classes), none, none)
            for name, member, description in zip(
                names, members, descriptions, strict=True
            )
        ]
        self._publish(names, members, classes)
        return Federation(nodes, None, None, none, False)

    def _describe(self, names, members) -> list[Network]:
        """Read every member; what comes back has the attributes of a Network.

        At least ``classes``, ``seen``, ``n_features_in`` and ``feature_names_in``.
        """
        return [
            read_network(member, name=name)
            for name, member in zip(names, members, strict=True)
        ]

    def _publish(self, names, members, classes) -> None:
        self.estimators_ = list(members)
        self.node_names_ = list(names)
        self.classes_ = classes

    def _simulate(self, names, members, X, y, nodes):
        """Train a clone for each node on its rows, less some held out."""
        rng = check_random_state(self.random_state)
        if nodes is None:
            codes = deal_rows(y, len(members), rng)
        else:
            if len(members) == 1:
                names = node_names_of(nodes, X.shape[0])
                members = members * len(names)
            codes = node_codes(nodes, names, X.shape[0])
        _raise_on_nodes_without_rows(codes, names)
        held_out = np.zeros(X.shape[0], dtype=bool)
        jobs = []
        for index, member in enumerate(members):
            rows = np.flatnonzero(codes == index)
            mask = hold_out(y[rows], self.validation_fraction, rng)
            held_out[rows[mask]] = True
            own = self._member_rng(rng)
            fresh = seeded_clone(member, own)
            jobs.append((fresh, rows[~mask], net_seed(fresh, own)))
        classes = np.unique(y)
        fit = self._local_fit(classes)
        if getattr(self, "memory", None) is not None:
            fit = check_memory(self.memory).cache(fit)
        parcels = Parallel(n_jobs=self.n_jobs)(
            delayed(in_parcel)(fit, estimator, X[rows], y[rows], classes, seed)
            for estimator, rows, seed in jobs
        )
        return names, [parcel.estimator for parcel in parcels], codes, held_out

    def _member_rng(self, rng) -> np.random.RandomState:
        """What the seeds of a node's clone are drawn from."""
        return rng

    def _local_fit(self, classes) -> Callable:
        """How nodes train their clones, with the parameters of ``fit_local``.

        ``classes`` are the labels of all nodes.
        """
        return fit_local

    def _assemble(self, names, members, X, y, codes, held_out) -> Federation:
        networks = self._describe(names, members)
        n_features = _common_features(names, networks)
        if n_features != self.n_features_in_:
            raise ValueError(
                f"X has {self.n_features_in_} features, but the local estimators "
                f"were fitted on {n_features} features."
            )
        check_feature_names(names, networks, getattr(self, "feature_names_in_", None))
        classes = union_of_classes(networks, names=names)
        y = encode_labels(y, classes)
        seen = [_seen(network, classes) for network in networks]
        if codes is None:
            owned = [np.flatnonzero(known[y]) for known in seen]
            public_rows = np.empty(0, dtype=np.intp)
        else:
            owned = [np.flatnonzero(codes == k) for k in range(len(names))]
            public_rows = np.flatnonzero(codes == PUBLIC)
        for name, known, rows in zip(names, seen, owned, strict=True):
            if not len(rows):
                _raise_on_node_without_rows(name, codes is None, classes[known])
        nodes = []
        for k, rows in enumerate(owned):
            judging = training = rows
            if held_out is not None and held_out[rows].any():
                # Where none could be held out, the same rows serve for both.
                judging, training = rows[held_out[rows]], rows[~held_out[rows]]
            nodes.append(
                Node(names[k], members[k], networks[k], seen[k], judging, training)
            )
        self._publish(names, members, classes)
        shared = codes is None and np.any(np.sum(seen, axis=0) > 1)
        return Federation(nodes, X, y, public_rows, bool(shared))

    def _validated_public_rows(self, X, y):
        """Public rows for a fitted aggregate, labels as indices of ``classes_``."""
        check_is_fitted(self)
        X, y = self._validate(X, y, reset=False)
        return X, encode_labels(y, self.classes_)

    # ---- prediction -------------------------------------------------------

    def _validated_logits(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self._logits(self._validate(X, reset=False))

    def decision_function(self, X) -> np.ndarray:
        """Logits of the aggregate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,)
            One column per class; with two classes the logit of ``classes_[1]``
            against ``classes_[0]``.
        """
        logits = self._validated_logits(X)
        if logits.shape[1] == 2:
            return logits[:, 1] - logits[:, 0]
        return logits

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return softmax(self._validated_logits(X), axis=1)

    def predict(self, X) -> np.ndarray:
        """Most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        winners = np.argmax(self._validated_logits(X), axis=1)
        return self.classes_[winners]

    # ---- scikit-learn's protocols -----------------------------------------

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _sk_visual_block_(self):
        estimators = self.estimators
        if estimators is None:
            estimators = self._default_estimator()
        names, members = named_members(estimators)
        return _VisualBlock(
            "parallel",
            members,
            names=[f"node {name}" for name in names],
            name_details=[str(member) for member in members],
        )

    def _log(self, message: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {message}", flush=True)


def _seen(network, classes: np.ndarray) -> np.ndarray:
    return np.isin(classes, network.classes[network.seen])


def _common_features(names, networks) -> int:
    n_features = [network.n_features_in for network in networks]
    if len(set(n_features)) > 1:
        raise ValueError(
            "The local estimators were fitted on different numbers of features: "
            f"{dict(zip(names, n_features, strict=True))}. Nodes must describe their "
            "rows by the same features."
        )
    return n_features[0]


def check_feature_names(names, networks, reference) -> None:
    """Raise ValueError unless all nodes have the features of the reference, if any."""
    origin = "X"
    for name, network in zip(names, networks, strict=True):
        own = network.feature_names_in
        if own is None:
            continue
        if reference is None:
            reference, origin = own, f"node {name!r}"
        elif not np.array_equal(own, reference):
            raise ValueError(
                f"node {name!r} was fitted on features {list(own[:5])}..., in another "
                f"order or with other names than {origin}: {list(reference[:5])}... "
                "Columns must be the same, in the same order, at every node."
            )


def encode_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Indices of the labels in ``classes``."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y holds labels that no node knows: {unknown[:10].tolist()}. The nodes "
            f"know the classes {classes.tolist()}; leave these rows out, or add a "
            "node that was fitted on them."
        )
    return np.searchsorted(classes, y)


def _raise_on_nodes_without_rows(codes, names) -> None:
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    for name, count in zip(names, counts, strict=True):
        if count == 0:
            _raise_on_node_without_rows(name, False, None)


def _raise_on_node_without_rows(name, by_label, known) -> None:
    if by_label:
        raise ValueError(
            f"node {name!r} has no rows: y holds none of the classes it knows, "
            f"{known.tolist()}. Give rows of these classes, or leave the node out."
        )
    raise ValueError(
        f"node {name!r} has no rows: nodes never names it. Give it rows, or leave it "
        "out. In cross-validation, stratify the folds by node and label together, "
        "e.g. StratifiedKFold().split(X, [f'{n}:{c}' for n, c in zip(nodes, y)])."
    )
