# SPDX-License-Identifier: BSD-3-Clause
"""Read what a user gave to ``fit`` into a Federation."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from ..base import (
    BaseAggregator,
    Features,
    encode_labels,
    is_channel,
    is_named,
    named_members,
    split_by_state,
    warn_user,
)
from ..local import LocalModel, local_model
from ..networks import union_of_classes
from ._federation import Federation, Node
from ._nodes import (
    PUBLIC,
    as_mask,
    check_feature_names,
    node_codes,
    raise_without_rows,
    roles_of,
)
from ._run import NodesLost, Run
from ._simulation import Simulation, simulate
from ._summarizing import first_request
from ._summary import Summary, is_path

# Code of rows of nodes behind a channel that take no part.
_LEFT_OUT = -2


def read_federation(
    aggregator: BaseAggregator,
    X=None,
    y=None,
    nodes=None,
    held_out=None,
    *,
    simulation: Simulation | None = None,
    weights: bool = True,
) -> Federation:
    """Validate the input of ``fit``; the aggregator is not changed.

    Parameters
    ----------
    aggregator : BaseAggregator
        Whose ``estimators`` these are; summaries and their paths are read.
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Rows. None: fitted members are enough.
    y : array-like of shape (n_samples,), default=None
        Labels.
    nodes : array-like of shape (n_samples,), default=None
        Index or name of the node that owns each row; -1 or "public" for public rows.
        With None a row belongs to every node that has seen its label.
    held_out : array-like of shape (n_samples,), dtype bool, default=None
        Rows that only score.
    simulation : Simulation, default=None
        How nodes are simulated if their classifiers are not fitted; None: as a
        `Simulation` without arguments says.
    weights : bool, default=True
        Whether to read the weights of the members, or no more than their classes.

    Returns
    -------
    federation : Federation

    Raises
    ------
    ValueError
        If there are no rows where some are needed, a node has none, a label is known
        to no node, or nodes describe their rows by other features; the message names
        the node.
    TypeError
        If a member cannot be read.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.federation import read_federation
    >>> X, y = [[0.0], [1.0], [2.0]], ["a", "b", "c"]
    >>> members = [LogisticRegression().fit(X[k:k + 2], y[k:k + 2]) for k in range(2)]
    >>> federation = read_federation(GEMSLogisticAggregator(members), X, y)
    >>> federation.classes.tolist(), federation.seen.tolist()
    (['a', 'b', 'c'], [[True, True, False], [False, True, True]])
    """
    estimators = aggregator.estimators
    if estimators is None:
        estimators = aggregator._default_estimator()
    joined = None
    if is_channel(estimators):
        joined, estimators = _joined(aggregator, estimators)
    names, members, summaries = read_members(
        aggregator, estimators, joined=joined is not None
    )
    fitted = split_by_state(names, members)
    if X is None:
        if y is not None or nodes is not None or held_out is not None:
            raise ValueError(
                "y, nodes and held_out say something about rows; give X with them."
            )
        if not fitted:
            raise ValueError(
                "The local estimators are not fitted. Fit them, or give fit the rows "
                "X, y to train them on."
            )
        federation = _read_without_rows(aggregator, names, members, summaries, weights)
        _warn_of_alike_labels(federation)
        return replace(federation, joined=joined)
    (X, y), features = aggregator._validated_for_fit(X, y)
    check_classification_targets(y)
    mask = None if held_out is None else as_mask(held_out, X)
    if fitted:
        codes = drawn = None
        if nodes is not None and joined is None:
            codes = node_codes(nodes, names, X.shape[0])
        elif nodes is not None:
            codes = _codes_of_joined(nodes, names, joined.reached, X.shape[0])
            kept = codes != _LEFT_OUT
            X, y, codes = X[kept], y[kept], codes[kept]
            mask = None if mask is None else mask[kept]
    else:
        simulated = simulate(
            names, members, X, y, nodes, mask, simulation or Simulation()
        )
        names, members, codes = simulated.names, simulated.members, simulated.codes
        summaries = [None] * len(names)
        drawn = simulated.held_out if mask is None else None
    models = [local_model(m, name=n) for n, m in zip(names, members, strict=True)]
    descriptions = _described(models, weights)
    n_features = _common_features(names, descriptions)
    if n_features not in (None, features.n_features_in):
        raise ValueError(
            f"X has {features.n_features_in} features, but the local estimators "
            f"were fitted on {n_features} features."
        )
    check_feature_names(names, descriptions, features.feature_names_in)
    features = features.or_names_of(own.feature_names_in for own in descriptions)
    classes = union_of_classes(descriptions, names=names)
    if y.dtype.kind in ("O", classes.dtype.kind):
        # As np.unique(y): an MLPClassifier cuts objects to texts of its own width.
        classes = classes.astype(np.result_type(classes, y))
    y = encode_labels(y, classes)
    seen = [_seen(own, classes) for own in descriptions]
    public_rows = spare_rows = np.empty(0, dtype=np.intp)
    here = np.array([summary is None for summary in summaries])
    if codes is None:
        # Whoever is not here has sent its statistics; these are rows of others.
        known = np.stack(seen) & here[:, None]
        owned = [np.flatnonzero(own[y]) for own in known]
        spare_rows = np.flatnonzero(~known.any(axis=0)[y])
        shared = bool(np.any(known.sum(axis=0) > 1))
    else:
        owned = [np.flatnonzero(codes == k) for k in range(len(names))]
        public_rows, shared = np.flatnonzero(codes == PUBLIC), False
    nodes = []
    for k, rows in enumerate(owned):
        if not len(rows) and here[k]:
            raise_without_rows(
                names[k], classes[seen[k]].tolist() if codes is None else None
            )
        roles = (rows, rows[:0], rows[:0])
        if here[k]:
            roles = roles_of(names[k], rows, mask, drawn)
        nodes.append(
            Node(
                names[k],
                models[k],
                descriptions[k],
                seen[k],
                *roles,
                summaries[k],
                _row_counts(y, classes, roles) if here[k] else summaries[k].row_counts,
            )
        )
    if mask is not None:
        public_rows = public_rows[~mask[public_rows]]
    _log_nodes(aggregator, nodes)
    federation = Federation(
        nodes, classes, features, X, y, public_rows, shared, spare_rows, joined
    )
    _warn_of_alike_labels(federation)
    return federation


def _joined(aggregator: BaseAggregator, channel) -> tuple[Run, list[Summary]]:
    """Send the first message over a channel: the run, and what nodes sent."""
    if not aggregator._asks_nodes:
        raise TypeError(
            f"{type(aggregator).__name__} needs the classifiers themselves, not a "
            "channel to them: give it the fitted estimators."
        )
    aggregator._validate_params()
    run = getattr(aggregator, "_begun", None)
    if run is None:
        run = Run(channel, keeps=True, may_lose=True, log=aggregator._log)
    request = first_request(aggregator, aggregator._first_requests())
    return run, [Summary(reply) for _, reply in run.ask(request)]


def begins_again(fit: Callable) -> Callable:
    """A fit that begins again without nodes behind a channel that it loses."""

    @wraps(fit)
    def begun(aggregator, *args, **kwargs):
        try:
            while True:
                try:
                    return fit(aggregator, *args, **kwargs)
                except NodesLost as lost:
                    aggregator._begun = lost.run  # who is left, and the history
        finally:
            vars(aggregator).pop("_begun", None)

    return begun


def _codes_of_joined(nodes, names: list, reached: list, n_samples: int) -> np.ndarray:
    """Whose rows they are, of nodes that have joined; _LEFT_OUT of others."""
    places = [names.index(own) if own in names else _LEFT_OUT for own in reached]
    # The last is that of public rows, which have the code -1.
    return np.array([*places, PUBLIC])[node_codes(nodes, reached, n_samples)]


def read_members(
    aggregator: BaseAggregator, estimators, *, joined: bool = False
) -> tuple[list, list, list]:
    """Names, classifiers and summaries of nodes, which may be given as paths too.

    A summary's member is its Network; a classifier's summary is None. Those that
    ``joined`` over a channel have its settings. ValueErrors name node and parameter.
    """
    known, given = aggregator._get_param_names(), estimators
    if isinstance(given, tuple) and given and all(map(is_path, given)):
        raise TypeError(
            f"estimators is a tuple of texts, {given[:3]!r}: a name and a path, or "
            "paths? Give a list of them."
        )
    alone = not isinstance(given, list | tuple) or is_named([given])
    listed = [given] if alone else given
    if not any(_summary_of(member) for member in listed):
        names, members = named_members(given, parameter_names=known)
        return names, members, [None] * len(names)
    pairs = []
    for k, member in enumerate(listed):
        name, own = member if is_named([member]) else (None, member)
        if is_path(own):
            own = _opened(own, str(k) if name is None else name)
        if isinstance(own, Summary):
            if name not in (None, own.name):
                raise ValueError(
                    f"Node {name!r} has a summary whose name is {own.name!r}; leave "
                    "the name out, or give the node's own."
                )
            if not joined:
                check_settings(aggregator, own)
            name = own.name
        pairs.append((str(k) if name is None else name, own))
    names, members = named_members(pairs, parameter_names=known)
    _check_kinds_of_labels(names, members)
    summaries = [own if isinstance(own, Summary) else None for own in members]
    members = [own.network if isinstance(own, Summary) else own for own in members]
    return names, members, summaries


def _opened(path, name: str) -> Summary:
    try:
        return Summary.at(path)
    except FileNotFoundError as exc:
        raise FileNotFoundError(
            f"Node {name!r}: {os.fspath(path)!r} is taken for the file of a summary, "
            "and there is no such file."
        ) from exc


def _check_kinds_of_labels(names: list, members: list) -> None:
    """Raise ValueError where truth values and numbers would be taken for each other."""
    kinds = {}
    for name, own in zip(names, members, strict=True):
        if isinstance(own, Summary):
            kinds.setdefault(own.network.classes.dtype.kind == "b", name)
    if len(kinds) > 1:
        raise ValueError(
            f"Node {kinds[True]!r} has truth values for labels, node {kinds[False]!r} "
            "has others, of which 0 and 1 would be taken for the same. Give all nodes "
            "labels of one type."
        )


def _summary_of(member):
    own = member[1] if is_named([member]) else member
    return own if isinstance(own, Summary) or is_path(own) else None


def check_settings(aggregator: BaseAggregator, summary) -> None:
    """Raise unless a summary was made for an aggregator, with its settings."""
    method = type(aggregator).__name__
    expected = aggregator._node_settings()
    if expected is None:
        raise TypeError(
            f"Node {summary.name!r} is a summary, but {method} needs the classifiers "
            "themselves: give it the fitted estimators."
        )
    if summary.method != method:
        raise ValueError(
            f"Node {summary.name!r} was summarized for {summary.method}, not for "
            f"{method}."
        )
    for name in sorted(set(expected) | set(summary.settings)):
        here, there = (own.get(name) for own in (expected, summary.settings))
        if here != there:
            raise ValueError(
                f"Node {summary.name!r} was summarized with {name}={_in_words(there)}, "
                f"but the aggregator has {name}={_in_words(here)}. That is decided at "
                "the nodes, so it cannot be changed or searched over here: set the "
                "aggregator's to theirs, or have the nodes summarize again."
            )


def _in_words(value) -> str:
    if isinstance(value, dict) and "name" in value:
        params = [f"{k}={v!r}" for k, v in value.items() if k != "name"]
        return f"{value['name']}({', '.join(params)})"
    return repr(value)


def _read_without_rows(aggregator, names, members, summaries, weights) -> Federation:
    models = [local_model(m, name=n) for n, m in zip(names, members, strict=True)]
    descriptions = _described(models, weights)
    n_features = _common_features(names, descriptions)
    check_feature_names(names, descriptions, None)
    classes = union_of_classes(descriptions, names=names)
    known_names = [own.feature_names_in for own in descriptions]
    known_names = [own for own in known_names if own is not None]
    features = Features(n_features, known_names[0] if known_names else None)
    none = np.empty(0, dtype=np.intp)
    nodes = [
        Node(
            model.name,
            model,
            own,
            _seen(own, classes),
            *(none, none, none),
            summary,
            _row_counts(none, classes, (none, none, none))
            if summary is None
            else summary.row_counts,
        )
        for model, own, summary in zip(models, descriptions, summaries, strict=True)
    ]
    _log_nodes(aggregator, nodes)
    return Federation(nodes, classes, features)


def _row_counts(y: np.ndarray, classes: np.ndarray, roles) -> dict:
    """How many rows of which label a node has, as it would describe itself."""
    own = np.unique(y[np.concatenate(roles)])
    counts = [
        np.bincount(np.searchsorted(own, y[rows]), minlength=len(own)) for rows in roles
    ]
    named = dict(zip(("judging", "moments", "training"), counts, strict=True))
    return {"labels": classes[own].tolist(), **named}


def _log_nodes(aggregator, nodes: list[Node]) -> None:
    for node in nodes:
        own = node.local.estimator if node.record is None else node.record
        n_rows = len(node.training_rows) if node.record is None else own.n_rows
        aggregator._log(
            f"node {node.name}: {type(own).__name__}, "
            f"{int(node.seen.sum())} classes, {n_rows} rows"
        )


def _described(models: list[LocalModel], weights: bool) -> list:
    descriptions = [
        model.network() if weights else model.description for model in models
    ]
    # Who does not say how many features there are has as many as the others.
    known = [own.n_features_in for own in descriptions if own.n_features_in is not None]
    return [
        replace(own, n_features_in=known[0])
        if known and own.n_features_in is None
        else own
        for own in descriptions
    ]


def _seen(description, classes: np.ndarray) -> np.ndarray:
    return np.isin(classes, description.classes[description.seen])


def _warn_of_alike_labels(federation: Federation) -> None:
    """Warn of texts that differ in case or blanks only, unless a node knows both."""
    owners: dict[str, dict[str, str]] = {}  # of a label's bare form: labels, nodes
    together = set()
    for node in federation.nodes:
        own: dict[str, list] = {}
        for label in federation.classes[node.seen].tolist():
            if isinstance(label, str):
                bare = " ".join(label.split()).casefold()
                owners.setdefault(bare, {}).setdefault(label, node.name)
                own.setdefault(bare, []).append(label)
        together |= {bare for bare, labels in own.items() if len(labels) > 1}
    alike = [
        " and ".join(f"{label!r} (node {name!r})" for label, name in labels.items())
        for bare, labels in owners.items()
        if len(labels) > 1 and bare not in together
    ]
    if alike:
        more = f", and {len(alike) - 5} others" if len(alike) > 5 else ""
        warn_user(
            "Labels of nodes differ only in case or in blanks, and are taken for "
            f"different classes: {'; '.join(alike[:5])}{more}. If they mean the same, "
            "fit the local estimators on labels written alike.",
        )


def _common_features(names, descriptions) -> int | None:
    n_features = [own.n_features_in for own in descriptions]
    if len(set(n_features)) > 1:
        raise ValueError(
            "The local estimators were fitted on different numbers of features: "
            f"{dict(zip(names, n_features, strict=True))}. Nodes must describe their "
            "rows by the same features."
        )
    return n_features[0]
