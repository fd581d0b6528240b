"""A node's classifier and rows, checked: all rows at once, or chunk by chunk."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ..base import (
    PUBLIC_NAME,
    BaseAggregator,
    named_members,
    split_by_state,
    warn_user,
)
from ..compat import num_samples
from ..datasets import missing_labels
from ..local import (
    ChunkedMember,
    LocalModel,
    Member,
    Picklable,
    at_node,
    fit_local,
    local_model,
    net_seed,
)
from ..messages import naming
from ..networks import Network, is_fitted
from ..steps import ColumnsError, as_rows
from . import _nodes
from ._labels import check_labels_of


class AnyRows(BaseAggregator):
    """Rows of whatever dimensions a node's classifier takes."""

    _allow_nd = _takes_rows_alone = True

    def __init__(self, estimators=None):
        self.estimators = estimators

    def _logits(self, X):
        raise NotImplementedError


def member_of(aggregator, estimator, X, y, *, name: str, held_out=None) -> Member:
    """A node's fitted classifier and rows, validated; ``held_out`` rows only score."""
    check_node(aggregator, estimator, name)
    if aggregator._agreed_front is not None:
        estimator = aggregator._agreed_front.left_of(estimator, name)
    X, y, mask, (_, names) = _checked_rows(aggregator, estimator, name, X, y, held_out)
    if aggregator._agreed_front is not None and estimator is not None:
        warn_of_another_front(local_model(estimator, name=name), X, y)
    if estimator is None:
        estimator = Network.of_rows(y, X, names)
    roles = _nodes.roles_of(name, np.arange(X.shape[0]), mask, None)
    own = {role: rows for role, rows in roles.items() if len(rows) < X.shape[0]}
    member = Member.of(name, estimator, X, y, **own)
    check_labels_of(member)
    return member


def column_member(name: str, X, mask=None, min_rows: int = 1) -> Member:
    X, learning = as_rows(X), slice(None) if mask is None else np.flatnonzero(~mask)
    roles = {"moments": learning, "training": learning, "min_rows": min_rows}
    return Member.of(name, None, X, np.zeros(X.shape[0]), **roles)


def fitted_at_node(name: str, estimator, X, y, held_out=None):
    if estimator is None or is_fitted(estimator):
        return estimator
    X, y = np.asarray(X) if not sparse.issparse(X) else X, column_or_1d(y)
    if held_out is not None:
        kept = ~_nodes.as_mask(held_out, X)
        X, y = X[kept], y[kept]
    with at_node(name, f"{type(estimator).__name__} cannot be fitted to its rows"):
        own = clone(estimator)
        return fit_local(own, X, y, np.unique(y), net_seed(own, check_random_state(0)))


def check_is_behind_front(name: str, estimator, X) -> None:
    """Raise ValueError for a classifier of other features than come out of a front."""
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features not in (None, X.shape[1]):
        raise ValueError(
            f"Node {name!r}: its classifier was fitted on {n_features} features, but "
            f"{X.shape[1]} come out of the front. Fit it to what comes out, behind the "
            "fitted front in a pipeline, or give it unfitted, or give None."
        )


def warn_of_another_front(model: LocalModel, X, y) -> None:
    """Warn where a classifier seems to be of rows before the front."""
    labels, codes = np.unique(y, return_inverse=True)
    if len(labels) < 2 or not getattr(model.estimator, "has_classifier", True):
        return
    right = np.mean(model.votes(X, labels) == codes)
    if right < np.bincount(codes).max() / len(codes):
        warn_user(
            f"Node {model.name!r}: after the front its classifier labels {right:.2f} "
            "of its rows right, fewer than one that always says the same. Was it "
            "fitted to rows before the front? Fit it to what comes out, behind the "
            "fitted front in a pipeline, or give it unfitted."
        )


def check_node(aggregator, estimator, name) -> None:
    if not isinstance(name, str) or not name or name == PUBLIC_NAME:
        raise ValueError(f"name must be a text that names the node, got {name!r}.")
    pairs, known = [(name, estimator)], aggregator._get_param_names()
    if not split_by_state(*named_members(pairs, parameter_names=known)):
        raise ValueError(f"Node {name!r}: the classifier is not fitted; fit it first.")
    if estimator is None and not aggregator._takes_rows_alone:
        _nodes.raise_without_classifier(aggregator, name)


def check_no_label_missing_at(name: str, y) -> None:
    missing = missing_labels(y)
    if missing.any():
        raise ValueError(
            f"Node {name!r}: y has no label (it is None, NaN or NA) for "
            f"{missing.sum()} of its {len(missing)} rows. Leave these rows out, or "
            "give them their labels: keep = pandas.notna(y), then X[keep] and y[keep]."
        )


def _checked_rows(aggregator, estimator, name, X, y, held_out) -> tuple:
    """Rows, labels and mask, or None, validated; type of labels, names of features."""
    check_no_label_missing_at(name, y)
    front = aggregator._agreed_front
    if front is not None:
        if front.columns is None:
            raise ValueError(
                f"Node {name!r}: the front is not fitted, which takes what all nodes "
                "tell: give `front` a fitted PooledTransformer, or Backbone, the same "
                "at each node."
            )
    try:
        X = X if front is None else front.transform(X)
        (X, y), features = aggregator._validated_for_fit(X, y)
    except ColumnsError as exc:  # the server may see it, and it has no value of a row
        raise ColumnsError(f"Node {name!r}: {exc}") from exc.__cause__
    y = column_or_1d(y)
    check_classification_targets(y)
    kinds = {type(label) for label in np.unique(y).tolist()}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        _raise_of_types(name, kinds)
    if estimator is not None and front is not None:
        check_is_behind_front(name, estimator, X)
    if estimator is not None:
        description = local_model(estimator, name=name).network()
        if description.n_features_in not in (None, features.n_features_in):
            raise ValueError(
                f"X has {features.n_features_in} features, but the classifier of node "
                f"{name!r} was fitted on {description.n_features_in}."
            )
        _nodes.check_feature_names([name], [description], features.feature_names_in)
    return X, y, _nodes.as_mask(held_out, X), (kinds.pop(), features.feature_names_in)


def _raise_of_types(name: str, kinds: set) -> None:
    raise TypeError(
        f"Node {name!r}: labels are of the types "
        f"{sorted(kind.__name__ for kind in kinds)}; a summary can hold texts, "
        "integers, floats or truth values, all of one type."
    )


def chunked_member_of(aggregator, estimator, chunks, *, name: str, **sample):
    """A node's rows in chunks after the first pass; ``sample``: of `read_once`."""
    if not callable(chunks):
        raise TypeError(
            "chunks must be a function without parameters that gives an iterator over "
            f"(X, y) each time it is called, once a pass; got {type(chunks).__name__}."
        )
    if aggregator._agreed_front is not None:
        estimator = aggregator._agreed_front.left_of(estimator, name)
    read = _reader(aggregator, estimator, chunks, name)
    member = ChunkedMember.read_once(name, estimator, read, **sample)
    if not member.tally:
        raise ValueError(f"Node {name!r}: chunks() gave no rows.")
    if estimator is None and member.drawn:
        some = next(iter(member.drawn.values()))
        of_rows = Network.of_rows(sorted(member.tally), some)
        member = replace(member, picklable=Picklable(of_rows))
    if not any(learning for learning, _ in member.tally.values()):
        _nodes.raise_all_held_out(name)
    if estimator is not None:
        check_labels_of(member)
    return member


def _reader(aggregator, estimator, chunks, name) -> Callable[[], Iterator[tuple]]:
    first: dict = {}  # what the first rows were

    def read() -> Iterator[tuple]:
        given = iter(chunks())
        for number in count():
            try:
                chunk = next(given)
            except StopIteration:
                return
            except Exception as exc:
                exc.add_note(f"Node {name!r}: chunk {number} could not be read.")
                raise
            node = f"Node {name!r}"
            with naming(f"{node}, chunk {number}", instead_of=f"{node}: "):
                rows = _parts_of(chunk)
                del chunk
                if not rows:
                    continue
                with warnings.catch_warnings():
                    # There may be few rows in a chunk.
                    warnings.filterwarnings("ignore", "The number of unique classes")
                    *rows, (kind, _) = _checked_rows(aggregator, estimator, name, *rows)
                X = rows[0]
                of_labels = first.setdefault("labels", kind)
                if kind is not of_labels:
                    _raise_of_types(name, {kind, of_labels})
                form = "sparse" if sparse.issparse(X) else "dense"
                found = X.shape[1:], str(X.dtype), form
                if first.setdefault("rows", found) != found:
                    raise ValueError(
                        "all chunks must have as many features, one dtype, and be "
                        f"sparse or not; got {found} after {first['rows']}."
                    )
            del X
            yield tuple(rows)
            del rows  # before the next one comes

    return read


def _parts_of(chunk) -> tuple:
    """X, y and mask of a chunk; none of one without rows."""
    if not isinstance(chunk, tuple | list) or len(chunk) not in (2, 3):
        what = "a chunk must be a pair (X, y), or (X, y, held_out)"
        raise TypeError(f"{what}, got {type(chunk).__name__}.")
    X, y, held_out = (*chunk, None)[:3]
    return () if num_samples(X) == 0 and len(y) == 0 else (X, y, held_out)
