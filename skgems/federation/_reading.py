"""Read what a user gave to ``fit`` into a Federation."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from ..base import (
    BaseAggregator,
    Features,
    check_no_label_missing,
    encode_labels,
    is_channel,
    is_named,
    keeps_warnings,
    named_members,
    split_by_state,
    warn_user,
)
from ..compat import num_samples, safe_indexing
from ..local import LocalModel, local_model
from ..messages import Agreement
from ..networks import Network, union_of_classes
from ..progress import say, shown, tracked
from ..spaces import EmptyIntersectionError, NoSpaceError
from ..steps import DocumentFront, Front, as_rows, front_of_content
from . import _nodes
from ._channel import as_channel
from ._federation import Federation, Node
from ._fronts import fit_front, front_plan, through_front
from ._labels import check_labels, shown_labels
from ._rows import check_is_behind_front, warn_of_another_front
from ._run import NodesLostError, Run
from ._simulation import Simulation, simulate
from ._summarizing import first_request
from ._summary import Summary, is_path

_UNFITTED = (
    "The front is not fitted, and there are no rows to fit it on: fit a "
    "PooledTransformer to what nodes tell, and give `front` that"
)
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
    X, y, nodes, held_out : array-like, default=None
        Rows and whose they are, as ``fit`` of an aggregator takes them.
    simulation : Simulation, default=None
        How nodes are simulated if their classifiers are not fitted.
    weights : bool, default=True
        Whether to read the weights of the members, or no more than their classes.

    Returns
    -------
    federation : Federation

    Raises
    ------
    ValueError, TypeError
        If a node has no rows where they are needed, or other features, a label is known
        to no node, or a member cannot be read; the message names the node.

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
    estimators, joined = aggregator.estimators, None
    if estimators is None:
        estimators = _default_members(aggregator, X, nodes)
    if is_channel(estimators):
        joined, estimators = _joined(aggregator, estimators)
    names, members, summaries = read_members(aggregator, estimators, joined)
    fitted = split_by_state(names, members)
    features = codes = mask = drawn = front = None
    asked, shared = [], False
    if y is not None:
        check_no_label_missing(y, nodes)
    if aggregator.front is not None:
        X = None if X is None else _rows_for(aggregator._agreed_front, X)
        front, asked = _front_for(aggregator, X, nodes, held_out, joined)
    if X is None:
        if y is not None or nodes is not None or held_out is not None:
            raise ValueError("y, nodes and held_out say something about rows; give X.")
        if not fitted:
            raise ValueError("Local estimators are not fitted: fit them, or give X, y.")
    else:
        X = X if front is None else through_front(front, X, nodes)
        (X, y), features = aggregator._validated_for_fit(X, y)
        check_classification_targets(y)
        mask = _nodes.as_mask(held_out, X)
    if not fitted:
        how = simulation or Simulation()
        names, members, codes, drawn = simulate(names, members, X, y, nodes, mask, how)
        summaries = [None] * len(names)
    elif nodes is not None:
        reached = names if joined is None else joined.reached
        place = {name: k for k, name in enumerate(names)}
        # The last is that of public rows, which have the code -1.
        places = [*(place.get(own, _LEFT_OUT) for own in reached), _nodes.PUBLIC]
        codes = np.array(places)[_nodes.node_codes(nodes, reached, X.shape[0])]
        kept = codes != _LEFT_OUT
        if not kept.all():
            X, y, codes = X[kept], y[kept], codes[kept]
            mask = None if mask is None else mask[kept]
    if front is not None and aggregator._looks_at_members:
        members = list(map(front.left_of, members, names))
        for name, member in zip(names, members, strict=True):
            if X is not None and not isinstance(member, Network):
                check_is_behind_front(name, member, X)
    members = _with_rows_alone(names, members, codes, X, y, features)
    models = [local_model(m, name=n) for n, m in zip(names, members, strict=True)]
    descriptions = _described(aggregator, models, weights, features)
    if front is not None and not aggregator._looks_at_members:
        descriptions = [_without_features(own, features) for own in descriptions]
    features = _common_features(names, descriptions, features)
    classes = union_of_classes(descriptions, names=names)
    seen = [np.isin(classes, own.classes[own.seen]) for own in descriptions]
    public_rows = spare_rows = none = np.empty(0, dtype=np.intp)
    owned = [none] * len(names)
    if X is not None:
        if y.dtype.kind in ("O", classes.dtype.kind):
            # As np.unique(y): an MLPClassifier cuts objects to texts of its own width.
            classes = classes.astype(np.result_type(classes, y))
        if fitted and codes is not None:
            _check_labels_of_nodes(models, descriptions, summaries, y, codes)
        y = encode_labels(y, classes, advice_on_nets=_about_nets(models))
        if codes is None:
            # Whoever is not here has sent its statistics; these are rows of others.
            here = np.array([summary is None for summary in summaries])
            known = np.stack(seen) & here[:, None]
            owned = [np.flatnonzero(own[y]) for own in known]
            spare_rows = np.flatnonzero(~known.any(axis=0)[y])
            shared = bool(np.any(known.sum(axis=0) > 1))
        else:
            owned = [np.flatnonzero(codes == k) for k in range(len(names))]
            public_rows = np.flatnonzero(codes == _nodes.PUBLIC)
            if mask is not None:
                public_rows = public_rows[~mask[public_rows]]
    _check_labels_of_summaries(summaries, classes)
    nodes = []
    for k, (name, summary) in enumerate(zip(names, summaries, strict=True)):
        rows, kind = owned[k], type(models[k].estimator if summary is None else summary)
        if summary is not None:
            roles = {"judging": rows, "moments": none, "training": none}
            counts, n_rows = summary.row_counts, summary.n_rows
        else:
            if X is not None and not len(rows):
                known = classes[seen[k]].tolist() if codes is None else None
                _nodes.raise_without_rows(name, known)
            roles = _nodes.roles_of(name, rows, mask, drawn)
            counts = _row_counts(none if X is None else y, classes, roles)
            n_rows = len(roles["training"])
            is_of_front = front is not None and aggregator._looks_at_members
            if is_of_front and fitted and n_rows:
                warn_of_another_front(
                    models[k], safe_indexing(X, rows), classes[y[rows]]
                )
        given = models[k], descriptions[k], seen[k], *roles.values()
        nodes.append(Node(name, *given, summary, counts))
        text = f"{kind.__name__}, {seen[k].sum()} classes, {n_rows} rows"
        say(f"node {name}: {text}")
    rows = X, y, public_rows, shared, spare_rows
    federation = Federation(nodes, classes, features, *rows, joined, front, asked)
    _warn_of_alike_labels(federation)
    return federation


def _rows_for(front: Front, X):
    return front.rows(X) if isinstance(front, DocumentFront) else as_rows(X)


def _check_labels_of_nodes(
    models: list[LocalModel],
    descriptions: list,
    summaries: list[Summary | None],
    y: np.ndarray,
    codes: np.ndarray,
) -> None:
    """Raise ValueError where a node's classifier has seen no label of its rows."""
    for k, (model, description) in enumerate(zip(models, descriptions, strict=True)):
        labels = np.unique(y[codes == k]).tolist()
        # Rows of a node that is not here itself only score the aggregate.
        if not labels or summaries[k] is not None:
            continue
        # That it has seen some is enough: classes are those of all nodes.
        seen_classes = description.classes[description.seen].tolist()
        check_labels(model.name, labels, seen_classes, about_net=model.advice_on_labels)


def _check_labels_of_summaries(
    summaries: list[Summary | None], classes: np.ndarray
) -> None:
    """Raise ValueError where rows of a summary have a label that no node has seen."""
    for summary in summaries:
        labels = [] if summary is None else summary.row_counts["labels"]
        unseen = [label for label in labels if label not in set(classes.tolist())]
        if unseen:
            raise ValueError(
                f"node {summary.name!r} has rows of the classes "
                f"{shown_labels(unseen)}, which no node's classifier has seen; these "
                f"have seen {shown_labels(classes.tolist())}. Have the node leave "
                "these rows out, or write their labels as the classifiers were fitted "
                "on them; or add a node whose classifier has seen these classes."
            )


def _front_for(aggregator, X, nodes, held_out, joined) -> tuple[Front, list[dict]]:
    if joined is not None:
        return front_of_content(joined.front), []
    front = aggregator._agreed_front
    if front.columns is not None:
        return front, []
    if X is None:
        raise ValueError(f"{_UNFITTED}.")
    mask = _nodes.as_mask(held_out, X)
    found, asked = fit_front(front, X, nodes, mask, aggregator.n_jobs)
    return found.front, asked


def _without_features(description, features: Features | None):
    """What a classifier says of its classes, not of rows before a front."""
    if isinstance(description, Network) or features is None:
        return description
    n_features = features.n_features_in
    return replace(description, n_features_in=n_features, feature_names_in=None)


def _default_members(aggregator: BaseAggregator, X, nodes):
    """What stands for ``estimators=None``: one for all nodes, or none of any."""
    default = aggregator._default_estimator()
    if default is not None or X is None or nodes is None:
        return default
    return [(name, None) for name in _nodes.node_names_of(nodes, num_samples(X))]


def _with_rows_alone(names, members, codes, X, y, features) -> list:
    """Members, where None is what stands for a classifier of the node's rows."""
    found = list(members)
    for k, name in enumerate(names):
        if members[k] is not None:
            continue
        if X is None or (codes is None and len(members) > 1):
            raise ValueError(
                f"Node {name!r} has no classifier, so fit has to be told its rows: "
                "fit(X, y, nodes=nodes)."
            )
        own = y if codes is None else y[codes == k]
        if not len(own):
            _nodes.raise_without_rows(name)
        found[k] = Network.of_rows(own, X, features.feature_names_in)
    return found


def _joined(aggregator: BaseAggregator, channel) -> tuple[Run, list[Summary]]:
    if not aggregator._asks_nodes:
        raise TypeError(
            f"{type(aggregator).__name__} needs the classifiers themselves, not a "
            "channel to them: give it the fitted estimators."
        )
    aggregator._validate_params()
    run = getattr(aggregator, "_begun", None)
    if run is None:
        channel = as_channel(channel)
        if channel.agreement is None:  # later fits are of the same exchange
            channel.agreement = Agreement.of(aggregator, min_rows=channel.min_rows)
        run = Run(
            channel,
            keeps=True,
            may_lose=True,
            rows_alone=not aggregator._looks_at_members,
        )
    front = aggregator._agreed_front
    if front is not None and run.front is None:
        if front.columns is None:
            front = run(front_plan(front)).front
        run.front = front.as_content()
    request = first_request(aggregator, aggregator._first_requests())
    return run, [Summary(reply) for _, reply in run.ask(request)]


def begins_again(fit: Callable) -> Callable:
    """A fit that begins again without nodes behind a channel that it loses."""

    @keeps_warnings
    @wraps(fit)
    def begun(aggregator, *args, **kwargs):
        try:
            while True:
                try:
                    return shown(fit)(aggregator, *args, **kwargs)
                except NodesLostError as lost:
                    aggregator._begun = lost.run  # who is left, and the history
                except (NoSpaceError, EmptyIntersectionError) as error:
                    # A search prints the traceback of each fit that fails, and what
                    # is called in here says nothing of a level that is too high.
                    raise error.with_traceback(None) from None
        finally:
            vars(aggregator).pop("_begun", None)

    return begun


def read_members(aggregator, given, joined: Run | None = None) -> tuple:
    """Names, classifiers (Networks of summaries), and summaries, given as paths too."""
    known = aggregator._get_param_names()
    if isinstance(given, tuple) and given and all(map(is_path, given)):
        raise TypeError(
            f"estimators is a tuple of texts, {given[:3]!r}: a name and a path, or "
            "paths? Give a list of them."
        )
    alone = not isinstance(given, list | tuple) or is_named([given])
    listed = [given] if alone else given
    listed = [own if is_named([own]) else (None, own) for own in listed]
    if not any(isinstance(own, Summary) or is_path(own) for _, own in listed):
        names, members = named_members(given, parameter_names=known)
        return names, members, [None] * len(names)
    pairs = []
    for name, own in tracked(listed, "files"):
        named = str(len(pairs)) if name is None else name
        if is_path(own):
            own = _opened(own, named)
        if isinstance(own, Summary):
            if name not in (None, own.name):
                raise ValueError(
                    f"Node {name!r} has a summary whose name is {own.name!r}; leave "
                    "the name out, or give the node's own."
                )
            if joined is None:
                _check_settings(aggregator, own)
            named = own.name
        pairs.append((named, own))
    names, members = named_members(pairs, parameter_names=known)
    _check_kinds_of_labels(names, members)
    summaries = [own if isinstance(own, Summary) else None for own in members]
    members = [own.network if isinstance(own, Summary) else own for own in members]
    return names, members, summaries


def _opened(path, name: str) -> Summary:
    try:
        return Summary.at(path)
    except FileNotFoundError:
        text = f"{os.fspath(path)!r} is taken for the file of a summary; there is none."
        raise FileNotFoundError(f"Node {name!r}: {text}") from None


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


def _check_settings(aggregator: BaseAggregator, summary) -> None:
    method, made_for = type(aggregator).__name__, summary.method
    expected, node = aggregator._settings_at_nodes(), f"Node {summary.name!r}"
    if aggregator._node_settings() is None:
        raise TypeError(
            f"{node} is a summary, but {method} needs the classifiers themselves: give "
            "it the fitted estimators."
        )
    if made_for != method:
        raise ValueError(f"{node} was summarized for {made_for}, not for {method}.")
    for name in sorted(set(expected) | set(summary.settings)):
        here, there = (own.get(name) for own in (expected, summary.settings))
        if here != there:
            if name == "front" and here is not None and "fitted" not in here:
                raise ValueError(f"{_UNFITTED}.")
            raise ValueError(
                f"{node} was summarized with {name}={_in_words(there)}, but the "
                f"aggregator has {name}={_in_words(here)}. That is decided at the "
                "nodes, so it cannot be changed or searched over here: set the "
                "aggregator's to theirs, or have the nodes summarize again."
            )


def _in_words(value) -> str:
    if isinstance(value, dict) and "tree" in value:
        return f"{front_of_content(value).transformer} fitted to {value['fitted']}"
    if isinstance(value, dict) and "name" in value:
        params = [f"{k}={v!r}" for k, v in value.items() if k != "name"]
        return f"{value['name']}({', '.join(params)})"
    return repr(value)


def _about_nets(models: list[LocalModel]) -> str:
    """What to do where the classes of a node's net are numbers of its outputs."""
    advice = ((model.name, model.advice_on_labels) for model in models)
    return next((f" Node {name!r}: {text}" for name, text in advice if text), "")


def _row_counts(y: np.ndarray, classes: np.ndarray, roles: dict) -> dict:
    own = np.unique(y[np.concatenate(list(roles.values()))])
    codes = {role: np.searchsorted(own, y[rows]) for role, rows in roles.items()}
    counts = {
        role: np.bincount(code, minlength=len(own)) for role, code in codes.items()
    }
    return {"labels": classes[own].tolist(), **counts}


def _described(
    aggregator, models: list[LocalModel], weights: bool, features: Features | None
) -> list:
    found = [model.network() if weights else model.description for model in models]
    for model, own in zip(models, found, strict=True):
        alone = isinstance(own, Network) and not own.has_classifier
        if alone and not aggregator._takes_rows_alone:
            _nodes.raise_without_classifier(aggregator, model.name)
        rows_are_documents = features is not None and features.n_features_in is None
        if rows_are_documents and own.n_features_in is not None:
            raise ValueError(
                f"X holds documents, one text or dict a row, but the classifier of "
                f"node {model.name!r} was fitted on rows of {own.n_features_in} "
                "features. Give all nodes pipelines that begin with a vectorizer, or X "
                "as these features."
            )
    # Who does not say how many features there are has as many as the others.
    known = [own.n_features_in for own in found if own.n_features_in is not None]
    for k, own in enumerate(found):
        if own.n_features_in is None and known:
            found[k] = replace(own, n_features_in=known[0])
    return found


def _warn_of_alike_labels(federation: Federation) -> None:
    """Warn of texts that differ in case or blanks only, unless a node knows both."""
    owners: dict[str, dict[str, str]] = {}  # of a label's bare form: labels, nodes
    together = set()
    for node in federation.nodes:
        own = set()
        for label in federation.classes[node.seen].tolist():
            if isinstance(label, str):
                bare = " ".join(label.split()).casefold()
                owners.setdefault(bare, {}).setdefault(label, node.name)
                together |= own & {bare}
                own.add(bare)
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
            "fit the local estimators on labels written alike."
        )


def _common_features(names, descriptions, given: Features | None) -> Features:
    numbers = [own.n_features_in for own in descriptions]
    if len(set(numbers)) > 1:
        raise ValueError(
            "The local estimators were fitted on different numbers of features: "
            f"{dict(zip(names, numbers, strict=True))}. Nodes must describe their "
            "rows by the same features."
        )
    if given is not None and numbers[0] not in (None, given.n_features_in):
        raise ValueError(
            f"X has {given.n_features_in} features, but the local estimators "
            f"were fitted on {numbers[0]} features."
        )
    _nodes.check_feature_names(names, descriptions, given and given.feature_names_in)
    features = given or Features(n_features_in=numbers[0])
    features = features.or_names_of(own.feature_names_in for own in descriptions)
    return features if given else replace(features, named_by_nodes=False)
