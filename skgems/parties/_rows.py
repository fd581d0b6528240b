"""A node's classifier and rows, checked: all rows at once, or chunk by chunk."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ..base import (
    PUBLIC_NAME,
    Allows,
    BaseAggregator,
    Features,
    Method,
    Takes,
    split_by_state,
    validated_for_fit,
    warn_user,
)
from ..compat import num_samples, safe_indexing
from ..datasets import as_groups, missing_labels
from ..disclosure import Disclosure
from ..local import (
    ChunkedMember,
    LocalModel,
    Member,
    fit_local,
    local_model,
    naming_node,
    net_seed,
)
from ..messages import Message, naming
from ..networks import Network, dropped_in_table, is_fitted, zero_dropped
from ..steps import Cells, ColumnsError, Front, JoinedBins, are_documents, as_rows
from . import _nodes
from ._front_states import check_states
from ._labels import check_labels_of
from ._nodes import Rows, RowsLike, WeightedRows, weighted_rows
from ._ruled import RuledTable, table_under
from ._terms import allows_missing

# Types of labels that JSON, and so a message, can hold.
_LABEL_TYPES = frozenset({str, int, float, bool})


class _RowsOfOne(Method):
    """What is read of a node by itself: rows, and a classifier if it has one."""

    takes = Takes(rows_alone=True)


class AnyRows(BaseAggregator):
    """Rows of whatever dimensions a node's classifier takes."""

    _method_class = _RowsOfOne
    _allows = Allows(more_dimensions=True)

    def __init__(self, estimators=None):
        self.estimators = estimators

    def _logits(self, X: Rows) -> NoReturn:
        raise NotImplementedError  # it only validates, and is never fitted


class AnyRowsWithMissing(AnyRows):
    """The same of rows in which values may be missing."""

    _allows = Allows(more_dimensions=True, missing_values=True)


def any_rows_for(request: Message) -> AnyRows:
    """Return what reads the rows that answer a request, which may lack values."""
    return AnyRowsWithMissing() if allows_missing(request) else AnyRows()


def member_of(
    aggregator: BaseAggregator,
    estimator: object,
    X: RowsLike,
    y: ArrayLike,
    *,
    name: str,
    held_out: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    dropped: np.ndarray | None = None,
    disclosure: Disclosure | None = None,
) -> Member:
    """A node's fitted classifier and rows, validated; ``held_out`` rows only score.

    Rows of one of the ``groups``, (n_rows,), stay together when rows are divided.
    ``dropped`` says which features a classifier drops by name that is left aside, and
    ``disclosure`` how many rows are in a bin of the front at least.
    """
    check_node(aggregator, estimator, name)
    given = weighted_rows(
        X, y, sample_weight, held_out=held_out, groups=groups, name=name
    )
    front = aggregator._agreed_front
    cells = None
    joined = None
    ruled = None
    if front is not None:
        estimator = front.rest_of(estimator, name=name)
        check_no_label_missing_at(name, given.y)
        cells = cells_of(
            disclosure,
            given.y,
            held_out=_nodes.as_mask(given.held_out, given.X),
            groups=as_groups(given.groups, given.X),
        )
        ruled = _table_before_front(given, disclosure)
        if ruled is not None:
            _check_front_of_rows(front, ruled, name=name, disclosure=disclosure)
            given = replace(given, X=ruled.X, weights=ruled.weights)
        if front.columns is not None:  # else the rows are refused
            joined = front.joined_bins_of(given.X, cells)
    checked = _checked_rows(
        aggregator,
        estimator,
        given.X,
        given.y,
        name=name,
        held_out=given.held_out,
        dropped=dropped,
        cells=cells,
        joined=joined,
    )
    if front is not None and estimator is not None:
        warn_of_another_front(local_model(estimator, name=name), checked.X, checked.y)
    if estimator is None:
        estimator = Network.from_rows(
            checked.y, checked.X, checked.feature_names_in, dropped=dropped
        )
    n_rows = checked.X.shape[0]
    roles = _nodes.roles_of(name, np.arange(n_rows), held_out=checked.held_out)
    member = Member.from_estimator(
        name,
        estimator,
        checked.X,
        checked.y,
        judging=_slice_if_all(roles.judging, n_rows),
        moments=_slice_if_all(roles.moments, n_rows),
        training=_slice_if_all(roles.training, n_rows),
        groups=as_groups(given.groups, checked.X),
        weights=given.weights,
        is_changed=joined is not None and joined.has_joined,
    )
    if front is not None and ruled is not None:
        member = replace(
            member,
            is_ruled=True,
            weights_are_given=sample_weight is not None,
            is_changed=member.is_changed or ruled.is_changed,
            n_raw_columns=np.shape(X)[1],
        )
    check_labels_of(member)
    return member


def _table_before_front(
    given: WeightedRows, disclosure: Disclosure | None
) -> RuledTable | None:
    """Return rows under a rule as they are before a front; None: they are none."""
    return table_under(
        disclosure,
        given.X,
        given.y,
        held_out=_nodes.as_mask(given.held_out, given.X),
        groups=as_groups(given.groups, given.X),
        weights=given.weights,
        halves=None,
    )


def _check_front_of_rows(
    front: Front, ruled: RuledTable, *, name: str, disclosure: Disclosure
) -> None:
    """Raise NotAgreedError for a fitted front that rows contradict, under a rule.

    Rows are compared as they are under the rule: what nodes told is of these, or of
    more rows where a front was fitted from files, which have no classes.
    """
    if not front.states:
        return
    rows = np.flatnonzero(~ruled.is_left_out)
    check_states(
        front,
        safe_indexing(ruled.X, rows),
        name=name,
        min_rows=disclosure.min_rows,
        weights=None if ruled.weights is None else ruled.weights[rows],
    )


def cells_of(
    disclosure: Disclosure | None,
    y: ArrayLike,
    *,
    held_out: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    halves: np.ndarray | None = None,
    numbers: dict | None = None,
) -> Cells | None:
    """Return which rows are summed together, and the least in a bin, under a rule.

    These are the rows of a class, or of each of its ``halves``; rows that are held out
    are apart. Rows of one of the ``groups`` count as one. All are (n_rows,).
    ``numbers`` has those that classes got in earlier parts of a table.
    """
    if disclosure is None:
        return None
    # A label that is missing is an error later on, which says so.
    numbers = {} if numbers is None else numbers
    labels = column_or_1d(y).tolist()
    sums = np.array([numbers.setdefault(label, len(numbers)) for label in labels])
    for parts in (held_out, halves):
        if parts is not None:
            sums = sums * 3 + np.asarray(parts, dtype=int)  # -1, 0 or 1
    return Cells(cell=disclosure.cell, sums=sums, units=groups)


def _slice_if_all(rows: np.ndarray, n_rows: int) -> np.ndarray | slice:
    """Indices of rows; a slice, by which nothing is copied, where they are all rows."""
    return rows if len(rows) < n_rows else slice(None)


def column_member(
    name: str,
    X: RowsLike,
    *,
    held_out: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    disclosure: Disclosure | None = None,
    estimator: object = None,
    weights: np.ndarray | None = None,
) -> Member:
    """A node's columns as they are, without classifier and labels, for a front.

    ``held_out`` marks rows that only score, shape (n_rows,): a front is not fitted to
    them. ``groups`` has a number for the group of each row, (n_rows,). Columns that
    the ``estimator`` drops by name are marked. ``weights`` say how much each row counts
    under the rule, (n_rows,); None: once.
    """
    X = as_rows(X)
    learning = slice(None) if held_out is None else np.flatnonzero(~held_out)
    return Member.from_estimator(
        name,
        None,
        X,
        np.zeros(X.shape[0]),  # a member has labels, which no front looks at
        moments=learning,
        training=learning,
        groups=groups,
        disclosure=disclosure,
        weights=weights,
        dropped=dropped_in_table(estimator, X),
    )


def ruled_column_member(
    name: str,
    X: RowsLike,
    y: ArrayLike | None = None,
    *,
    held_out: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    disclosure: Disclosure | None = None,
) -> Member:
    """Return the same under a rule, which rows and weights have passed.

    ``y`` are labels of rows: those of classes that are too small are held out, as they
    would follow from sums with them and without.
    """
    ruled = table_under(
        disclosure, X, y, held_out=held_out, groups=groups, weights=None, halves=None
    )
    if ruled is not None:
        X = ruled.X
        held_out = ruled.is_left_out
    return column_member(
        name,
        X,
        held_out=held_out,
        groups=groups,
        disclosure=disclosure,
        weights=None if ruled is None else ruled.weights,
    )


def fitted_at_node(
    name: str,
    estimator: object,
    X: Rows,
    y: ArrayLike,
    *,
    held_out: ArrayLike | None = None,
    weights: np.ndarray | None = None,
) -> object:
    """The classifier, or a clone fitted to the rows that are not held out."""
    if estimator is None or is_fitted(estimator):
        return estimator
    if not sparse.issparse(X):
        X = np.asarray(X)
    y = column_or_1d(y)
    if held_out is not None:
        learning = ~_nodes.as_mask(held_out, X)
        X = X[learning]
        y = y[learning]
        weights = None if weights is None else weights[learning]
    with naming_node(name, f"{type(estimator).__name__} cannot be fitted to its rows"):
        unfitted = clone(estimator)
        # The same seed at each call, so that a request asked again gets the same reply.
        seed = net_seed(unfitted, check_random_state(0))
        return fit_local(
            unfitted, X, y, classes=np.unique(y), seed=seed, weights=weights
        )


def check_is_behind_front(name: str, estimator: object, X: Rows) -> None:
    """Raise ValueError for a classifier of other features than come out of a front."""
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features not in (None, X.shape[1]):
        raise ValueError(
            f"Node {name!r}: its classifier was fitted on {n_features} features, but "
            f"{X.shape[1]} come out of the front. Fit it to the output of the front, "
            "or in a pipeline behind the fitted front, or give it unfitted, or give "
            "None."
        )


def warn_of_another_front(model: LocalModel, X: Rows, y: np.ndarray) -> None:
    """Warn where a classifier seems to be of rows before the front.

    Behind the front it is often worse than a constant, which a classifier hardly ever
    is on the rows that it was fitted to.
    """
    labels, codes = np.unique(y, return_inverse=True)
    if len(labels) < 2 or not getattr(model.estimator, "has_classifier", True):
        return
    accuracy = np.mean(model.votes(X, labels) == codes)
    accuracy_of_constant = np.bincount(codes).max() / len(codes)
    if accuracy < accuracy_of_constant:
        warn_user(
            f"Node {model.name!r}: after the front its classifier labels "
            f"{accuracy:.2f} of its rows right, fewer than a classifier that always "
            "predicts the same class. Was it fitted to rows before the front? Fit it "
            "to the output of the front, or in a pipeline behind the fitted front, or "
            "give it unfitted."
        )


def check_node(aggregator: BaseAggregator, estimator: object, name: str) -> None:
    """Raise where a node has no name, an unfitted classifier, or none but needs one."""
    if not isinstance(name, str) or not name or name == PUBLIC_NAME:
        raise ValueError(f"name must be a text that names the node, got {name!r}.")
    if not split_by_state([name], [estimator]):
        raise ValueError(f"Node {name!r}: the classifier is not fitted; fit it first.")
    if estimator is None and not aggregator._method().takes.rows_alone:
        _nodes.raise_without_classifier(type(aggregator).__name__, name)


def check_no_label_missing_at(name: str, y: ArrayLike) -> None:
    missing = missing_labels(y)
    if missing.any():
        raise ValueError(
            f"Node {name!r}: y has no label (it is None, NaN or NA) for "
            f"{missing.sum()} of its {len(missing)} rows. Leave these rows out, or "
            "give them their labels: keep = pandas.notna(y), then X[keep] and y[keep]."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _CheckedRows:
    """A node's rows that passed all checks."""

    X: Rows  # behind the front, if there is one
    y: np.ndarray  # (n_rows,)
    held_out: np.ndarray | None  # (n_rows,), bool; None: no row only scores
    label_type: type  # of all labels, one of _LABEL_TYPES
    feature_names_in: np.ndarray | None


def _checked_rows(
    aggregator: BaseAggregator,
    estimator: object,
    X: RowsLike,
    y: ArrayLike,
    *,
    name: str,
    held_out: ArrayLike | None,
    dropped: np.ndarray | None = None,
    cells: Cells | None = None,
    joined: JoinedBins | None = None,
) -> _CheckedRows:
    """A node's rows behind the front, of the features that its classifier knows.

    Features that the classifier drops by name have no values, nor have those that are
    ``dropped`` by one that is left aside. Bins of the front join by ``cells``, and by
    what all chunks together have ``joined``.
    """
    check_no_label_missing_at(name, y)
    X, y, features = _validated_behind_front(
        aggregator, X, y, name=name, cells=cells, joined=joined
    )
    y = column_or_1d(y)
    check_classification_targets(y)
    label_types = {type(label) for label in np.unique(y).tolist()}
    if len(label_types) != 1 or not label_types <= _LABEL_TYPES:
        _raise_of_label_types(name, label_types)
    if estimator is not None:
        if aggregator._agreed_front is not None:
            check_is_behind_front(name, estimator, X)
        _check_has_features(aggregator, estimator, features, name=name)
        dropped = local_model(estimator, name=name).dropped
    return _CheckedRows(
        X=zero_dropped(X, dropped),
        y=y,
        held_out=_nodes.as_mask(held_out, X),
        label_type=label_types.pop(),
        feature_names_in=features.feature_names_in,
    )


def _validated_behind_front(
    aggregator: BaseAggregator,
    X: RowsLike,
    y: ArrayLike,
    *,
    name: str,
    cells: Cells | None,
    joined: JoinedBins | None,
) -> tuple[Rows, np.ndarray, Features]:
    """Rows that went through the fitted front, labels, and what the features are."""
    front = aggregator._agreed_front
    if front is not None and front.columns is None:
        if front.learns_nothing:  # chunks are read one after the other
            raise ValueError(
                f"Node {name!r}: the front is not fitted, and the number of columns "
                "that its Backbone takes cannot be seen from its module. Fit it to a "
                "single row, as Backbone(net).fit(X[:1])."
            )
        raise ValueError(
            f"Node {name!r}: the front is not fitted, and fitting it takes statistics "
            "of all nodes. Set front to a fitted PooledTransformer, the same at each "
            "node."
        )
    try:
        if front is not None:
            X = front.transform(X, cells=cells, joined=joined)
        (X, y), features = validated_for_fit(aggregator, X, y)
    except ColumnsError as exc:  # the server may see it, and it has no value of a row
        raise ColumnsError(f"Node {name!r}: {exc}") from exc.__cause__
    return X, y, features


def _check_has_features(
    aggregator: BaseAggregator, estimator: object, features: Features, *, name: str
) -> None:
    """Raise ValueError where a classifier was fitted on other features than these.

    TypeError where the aggregator needs the weights of layers, and it has none.
    """
    model = local_model(estimator, name=name)
    network = model.network if aggregator._method().takes.networks else model.described
    if network.n_features_in not in (None, features.n_features_in):
        raise ValueError(
            f"X has {features.n_features_in} features, but the classifier of node "
            f"{name!r} was fitted on {network.n_features_in}. Give the node's rows the "
            "features that its classifier was fitted on."
        )
    _nodes.check_feature_names([name], [network], features.feature_names_in)


def _raise_of_label_types(name: str, label_types: Iterable[type]) -> NoReturn:
    raise TypeError(
        f"Node {name!r}: labels are of the types "
        f"{sorted(kind.__name__ for kind in label_types)}; a summary can hold texts, "
        "integers, floats or truth values, all of one type. Write others, such as "
        "dates, as texts at all nodes alike: y.astype(str)."
    )


def chunked_member_of(
    aggregator: BaseAggregator,
    estimator: object,
    chunks: Callable[[], Iterable],
    *,
    name: str,
    n_drawn: int = 0,
    least: int = 1,
    dropped: np.ndarray | None = None,
    disclosure: Disclosure | None = None,
) -> ChunkedMember:
    """A node's rows in chunks after the first pass.

    ``n_drawn`` rows of each class that has at least ``least`` are drawn meanwhile; see
    `ChunkedMember.read_once`. ``disclosure`` says how many rows are in a bin of the
    front at least, for which there is a pass before the first where it has bins.
    """
    if not callable(chunks):
        raise TypeError(
            "chunks must be a function without parameters that gives an iterator over "
            f"(X, y) each time it is called, once a pass; got {type(chunks).__name__}."
        )
    if aggregator._agreed_front is not None:
        estimator = aggregator._agreed_front.rest_of(estimator, name=name)
    reader = _ChunkReader(
        aggregator=aggregator,
        estimator=estimator,
        chunks=chunks,
        name=name,
        dropped=dropped,
        disclosure=disclosure,
    )
    reader.join_bins()
    member = ChunkedMember.read_once(
        name,
        estimator,
        reader,
        n_drawn=n_drawn,
        least=least,
        cell=1 if disclosure is None else disclosure.cell,
    )
    _check_has_learning_rows(member)
    if estimator is None and member.drawn:
        member = _with_model_of_rows(member, reader)
    if estimator is not None:
        check_labels_of(member)
    if reader.joined is not None and reader.joined.has_joined:
        member = replace(member, is_changed=True)
    return replace(member, n_raw_columns=reader.n_raw_columns)


def _check_has_learning_rows(member: ChunkedMember) -> None:
    if not member.tally:
        raise ValueError(
            f"Node {member.name!r}: chunks() gave no rows. Have it give at least one "
            "chunk that is not empty."
        )
    if not any(n_learning for n_learning, _ in member.tally.values()):
        _nodes.raise_all_held_out(member.name)


def _with_model_of_rows(member: ChunkedMember, reader: "_ChunkReader") -> ChunkedMember:
    """Return a member without a classifier with the model that stands for its rows."""
    rows_of_one_class = next(iter(member.drawn.values()))
    network = Network.from_rows(
        sorted(member.tally),
        rows_of_one_class,
        reader.feature_names_in,
        dropped=reader.dropped,
    )
    return replace(member, model=local_model(network, name=member.name))


@dataclass(eq=False, kw_only=True)
class _ChunkReader:
    """Reads a node's chunks and checks each; every call is a pass over all of them.

    Chunks of all passes must be of the kind of the very first one.
    """

    aggregator: BaseAggregator
    estimator: object
    chunks: Callable[[], Iterable]
    name: str
    dropped: np.ndarray | None  # by a classifier that is left aside
    disclosure: Disclosure | None
    joined: JoinedBins | None = None  # bins of the front, as all chunks have them
    numbers: dict = field(default_factory=dict)  # of classes, in the order of chunks
    has_compared: bool = False  # whether the front was compared with the rows
    label_type: type | None = None  # that of the first chunk, once it was read
    has_weights: bool | None = None  # whether that one has weights of rows
    layout: tuple | None = None  # its shape without rows, dtype, "sparse" or "dense"
    feature_names_in: np.ndarray | None = None  # of the first chunk
    columns: list | None = None  # the names of its columns, before the front
    # How many columns it has before the front; None: there is no front, or documents.
    n_raw_columns: int | None = None

    def __call__(self) -> Iterator[tuple]:
        """X, y, mask and weights, or None, of each chunk that has rows."""
        for given, number in self._given():
            with self._naming(number):
                if not self.has_compared:
                    self._check_front(given)
                checked = self._checked(given)
            yield checked.X, checked.y, checked.held_out, given.weights
            # Memory holds one chunk at a time: each is let go before the next comes.
            del given, checked
        self.has_compared = True

    def _check_front(self, given: WeightedRows) -> None:
        """Raise NotAgreedError for a fitted front that a chunk contradicts alone."""
        front = self.aggregator._agreed_front
        if front is None or self.disclosure is None or not front.states:
            return
        check_no_label_missing_at(self.name, given.y)
        ruled = _table_before_front(given, self.disclosure)
        if ruled is not None:
            _check_front_of_rows(
                front, ruled, name=self.name, disclosure=self.disclosure
            )

    def join_bins(self) -> None:
        """Find which bins of the front join which, in a pass over all chunks.

        Nothing is read without a rule, or where the front has no bins.
        """
        front = self.aggregator._agreed_front
        if front is None or front.columns is None or self.disclosure is None:
            return
        self.joined = front.joined_bins(
            lambda: ((given.X, self._cells(given)) for given, _ in self._given()),
            cell=self.disclosure.cell,
        )

    def _cells(self, given: WeightedRows) -> Cells | None:
        """Return which rows of a chunk are summed together."""
        if self.disclosure is None:
            return None
        check_no_label_missing_at(self.name, given.y)
        return cells_of(
            self.disclosure,
            given.y,
            held_out=_nodes.as_mask(given.held_out, given.X),
            numbers=self.numbers,
        )

    def _given(self) -> Iterator[tuple[WeightedRows, int]]:
        """Yield each chunk that has rows, and its number."""
        chunks = iter(self.chunks())
        for number in count():
            try:
                chunk = next(chunks)
            except StopIteration:
                return
            except Exception as exc:
                exc.add_note(f"Node {self.name!r}: chunk {number} could not be read.")
                raise
            with self._naming(number):
                given = self._weighted(chunk)
            del chunk
            if given is not None:
                yield given, number
            del given

    def _naming(self, number: int) -> AbstractContextManager:
        """Return a context in which errors name the node and the chunk."""
        return naming(
            f"Node {self.name!r}, chunk {number}", instead_of=f"Node {self.name!r}: "
        )

    def _weighted(self, chunk: tuple) -> WeightedRows | None:
        """The rows of a chunk that weigh something; None where it has none."""
        X, y, held_out, sample_weight = _parts_of(chunk)
        if num_samples(X) == 0 and len(y) == 0:
            return None
        X = self._in_order_of_first(X)
        if self.has_weights is None:
            self.has_weights = sample_weight is not None
        if self.has_weights != (sample_weight is not None):
            raise ValueError(
                "some chunks have weights of rows, and others have none. Give all "
                "chunks weights, or none of them."
            )
        if sample_weight is not None and not np.any(sample_weight):
            return None
        return weighted_rows(X, y, sample_weight, held_out=held_out, name=self.name)

    def _checked(self, given: WeightedRows) -> _CheckedRows:
        front = self.aggregator._agreed_front
        if front is not None and not are_documents(given.X):
            self.n_raw_columns = as_rows(given.X).shape[1]
        with warnings.catch_warnings():
            # There may be few rows in a chunk.
            warnings.filterwarnings("ignore", "The number of unique classes")
            checked = _checked_rows(
                self.aggregator,
                self.estimator,
                given.X,
                given.y,
                name=self.name,
                held_out=given.held_out,
                dropped=self.dropped,
                cells=self._cells(given),
                joined=self.joined,
            )
        self._check_is_like_first(checked)
        return checked

    def _in_order_of_first(self, X: RowsLike) -> RowsLike:
        """The rows with the columns of the first chunk, found by their names."""
        columns = list(X.columns) if hasattr(X, "columns") else None
        if self.layout is None:
            self.columns = columns
        if columns == self.columns:
            return X
        if columns is None or self.columns is None:
            named = "names" if self.columns is None else "no names"
            raise ValueError(
                f"its columns have {named}, unlike those of the first chunk. Give all "
                "chunks as data frames with the same columns, or all as arrays."
            )
        if Counter(columns) != Counter(self.columns):
            self._raise_of_other_columns(columns)
        return X[self.columns]

    def _raise_of_other_columns(self, columns: list) -> NoReturn:
        missing = [name for name in self.columns if name not in columns]
        others = [name for name in columns if name not in self.columns]
        raise ColumnsError(
            f"its columns are not those of the first chunk: {missing[:5]} are "
            f"missing, and {others[:5]} are new. Give all chunks the same columns; "
            "their order does not matter."
        )

    def _check_is_like_first(self, checked: _CheckedRows) -> None:
        X = checked.X
        form = "sparse" if sparse.issparse(X) else "dense"
        layout = (X.shape[1:], str(X.dtype), form)
        if self.label_type is None:
            self.label_type = checked.label_type
        if checked.label_type is not self.label_type:
            _raise_of_label_types(self.name, {checked.label_type, self.label_type})
        if self.layout is None:
            self.layout = layout
            self.feature_names_in = checked.feature_names_in
        if layout != self.layout:
            raise ValueError(
                "all chunks must have the same number of features, one dtype, and be "
                f"sparse or not; got {layout} after {self.layout}."
            )


def _parts_of(
    chunk: tuple,
) -> tuple[RowsLike, ArrayLike, ArrayLike | None, ArrayLike | None]:
    """X, y, mask and weights of a chunk, as a node gave it; these two may be None."""
    if not isinstance(chunk, tuple | list) or len(chunk) not in (2, 3, 4):
        raise TypeError(
            "a chunk must be a pair (X, y), or (X, y, held_out), or (X, y, held_out, "
            f"sample_weight) with held_out=None if no row is; got "
            f"{type(chunk).__name__}."
        )
    X, y = chunk[:2]
    held_out = chunk[2] if len(chunk) > 2 else None
    sample_weight = chunk[3] if len(chunk) > 3 else None
    return X, y, held_out, sample_weight
