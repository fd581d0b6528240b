"""Fronts: transformers one after the other and side by side, fitted step by step."""

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from ..compat import get_column_indices, safe_indexing
from ..networks import is_fitted, is_skorch, read_network, unwrap
from ._backbone import Backbone, head_of
from ._columns import (
    INFINITE,
    NUMBERS,
    REMEDIES,
    TEXTS,
    Columns,
    ColumnsError,
    as_rows,
    labels_by_kind,
    labels_of_infinite,
    with_nan,
)
from ._columns_of import ColumnsOf, has_columns_of, with_columns_listed
from ._contradictions import NodeRows
from ._identifiers import column_roles
from ._kind import Kind, NotPooledError
from ._kinds import KINDS
from ._statistics import (
    STATISTICS,
    categories_told,
    check_kinds_of_categories,
    identifiers_told,
)

_BY_NAME = {kind.__name__: kind for kind in KINDS}
_WORDS = ("passthrough", "drop")
# What the content of a front may have.
_FIELDS = {"tree", "bounds", "drop_identifiers", "columns", "states", "fitted"}
# Parameters of a ColumnTransformer that are sent.
_COLUMN_PARAMS = ("sparse_threshold", "verbose_feature_names_out")
# Steps that may be within each other.
_DEEPEST = 16


@dataclass(frozen=True, eq=False)
class Front:
    """A transformer, columns, ``bounds`` and, by path, ``states`` of its steps."""

    transformer: object
    bounds: object = None
    columns: Columns | None = None
    states: Mapping[str, Mapping] = field(default_factory=dict)
    # Whether steps are not given the columns that identify rows, as nodes find them.
    drop_identifiers: bool = False

    @classmethod
    def of(cls, transformer) -> "Front":
        """That of a transformer; of fitted backbones, the columns are known."""
        own, columns = backbones_of(transformer), None
        whole = not isinstance(transformer, Pipeline)  # steps before may be unfitted
        if whole and own and hasattr(own[0], "net_"):
            n, names = own[0].n_features_in_, getattr(own[0], "feature_names_in_", None)
            names = None if names is None else tuple(names)
            columns = Columns(n, names, (False,) * n, "float64")
        return cls(transformer, columns=columns)

    @property
    def agreed(self) -> dict:
        bounds = self.bounds
        if isinstance(bounds, Mapping):
            bounds = [[column, *map(float, own)] for column, own in bounds.items()]
        elif bounds is not None and not isinstance(bounds, str):
            bounds = list(map(float, bounds))
        agreed = {"tree": as_tree(self.transformer), "bounds": bounds}
        return agreed | ({"drop_identifiers": True} if self.drop_identifiers else {})

    @property
    def settings(self) -> dict:
        return self.agreed | ({} if self.columns is None else {"fitted": self.digest})

    @property
    def chooses_columns(self) -> bool:
        """Whether steps take columns by what they hold, and not by name alone."""
        return has_columns_of(self.transformer)

    @property
    def most_messages(self) -> int:
        """One for each step, and one if columns are in different orders."""
        return 1 + max(_depth(self.transformer), 1)

    @cached_property
    def digest(self) -> str:
        columns = "" if self.columns is None else self.columns.as_content()
        return joblib.hash([columns, *sorted((k, v) for k, v in self.states.items())])

    @classmethod
    def beside(cls, pipelines: list, *, drop_identifiers: bool = False) -> "Front":
        """Several pipelines that are fitted at once; :meth:`branch` has each."""
        named = [(str(k), pipeline) for k, pipeline in enumerate(pipelines)]
        return cls(FeatureUnion(named), drop_identifiers=drop_identifiers)

    def branch(self, k: int, pipeline: Pipeline) -> "Front":
        start = f"0/{k}/"
        states = {
            f"0/{path.removeprefix(start)}": state
            for path, state in self.states.items()
            if path.startswith(start)
        }
        return replace(self, transformer=pipeline, states=states)

    @property
    def asks(self) -> bool:
        return _depth(self.transformer) > 0

    def as_content(self) -> dict:
        columns = {} if self.columns is None else {"columns": self.columns.as_content()}
        states = {path: dict(own) for path, own in self.states.items()}
        return {**self.agreed, "states": states, **columns}

    @classmethod
    def from_content(cls, content: Mapping) -> "Front":
        """The front that `as_content` gave; ValueError if it can be none."""
        try:
            columns, bounds = content.get("columns"), content.get("bounds")
            columns = None if columns is None else Columns.from_content(columns)
            if isinstance(bounds, list) and bounds and isinstance(bounds[0], list):
                bounds = {column: (low, high) for column, low, high in bounds}
            states = dict(content.get("states", {}))
            drop_identifiers = content.get("drop_identifiers", False)
            odd = [own for own in states.values() if not isinstance(own, Mapping)]
            more = set(content) - _FIELDS
            if odd or more or not isinstance(drop_identifiers, bool):
                raise ValueError(f"it has {odd or more or drop_identifiers}")
            transformer = from_tree(content["tree"])
            check_tree(transformer)
            if drop_identifiers:
                check_takes_any_columns(transformer)
            _check_states(transformer, states)
            front = cls(transformer, bounds, columns, states, drop_identifiers)
            front.limits(Columns(1, None, (False,), "float64"))
        except (TypeError, KeyError, AttributeError, ValueError) as exc:
            raise ValueError(f"is no front: {exc!s:.200}") from None
        return front

    def limits(self, columns: Columns) -> np.ndarray:
        """Agreed bounds of some columns, (2, n_columns), NaN where there are none."""
        found, bounds = np.full((2, columns.n), np.nan), self.bounds
        if bounds is None or isinstance(bounds, str):
            if bounds not in (None, "tell"):
                raise ValueError(f"bounds are {bounds!r:.40}, which is no word.")
            return found
        places = {name: j for j, name in enumerate(columns.names or range(columns.n))}
        if not isinstance(bounds, Mapping):
            bounds = dict.fromkeys(places, bounds)
        for column, (low, high) in bounds.items():
            if column in places:
                found[:, places[column]] = float(low), float(high)
        return found

    def rows(self, X):
        """Rows as a node has them, their columns in the order of all."""
        X = as_rows(X)
        if self.columns is None:
            return Columns.of(X).of_rows(X)
        names, n = self.columns.names, self.columns.n
        if hasattr(X, "columns"):
            _check_columns(X, sorted(names or ()))
        elif X.shape[1] != n:
            raise ColumnsError(f"X has {X.shape[1]} columns, the front {n} columns.")
        elif names is not None:
            import pandas as pd

            X = pd.DataFrame(X, columns=list(names))
        return self.columns.of_rows(X)

    @cached_property
    def _digests(self) -> dict[str, str]:
        parts = {"": [self.agreed, self.columns], **self.states}
        return {path: joblib.hash(own) for path, own in parts.items()}

    def tell(self, X, *, min_rows: int, memo: dict | None = None) -> dict:
        """What the next steps need of a node's rows: "columns", and "parts" by path."""
        memo = {} if memo is None else memo  # of a node, from one message to the next
        if not memo.get("digests", {}).items() <= self._digests.items():
            memo.clear()
        memo["digests"], known = self._digests, memo.setdefault("tables", {})
        X = memo["rows"] = self.rows(X) if "rows" not in memo else memo["rows"]
        seen_columns, parts = Columns.of(X), {}
        told = {"columns": seen_columns.as_content(), "parts": parts}
        columns = self.columns or seen_columns
        if self.drop_identifiers and self.columns is None:
            roles = column_roles(X)
            told["columns"]["roles"] = list(roles)
            columns = seen_columns.without_identifiers(roles)
        ready = self._ready(columns)

        def leaf(own, tables, path):
            (table,) = tables
            if path in ready.leaves:
                step = ready.leaves[path]
                if path not in known:
                    known[path] = _transformed(step, own, table)
                return None, (known[path],)
            waits = ready.pending.get(path)
            if waits is None or not waits.can_tell(self.bounds == "tell"):
                return None
            (low, high), name = waits.bounds, waits.statistic
            grid = {"low": low, "high": high} if name == "histogram" else {}
            if name != "categories":
                # Texts such as "45", and dates, would be taken for numbers.
                _check_numbers(own, table)
            with _no_values(own, table):
                told = STATISTICS[name].tell(table, min_rows, **grid)
            parts[path] = {"statistic": name, **told}
            return None

        try:
            self._walk_rows(X, leaf, columns)
        except ValueError:
            if self.columns is not None:
                raise
            # Columns may stand in another order elsewhere; then it is asked again.
            return {**told, "again": True}
        return told

    def _walk_rows(self, X, leaf: Callable, columns: Columns) -> None:
        """Take a node's rows through the steps, as far as ``leaf`` leads."""
        if columns.kept is not columns:
            X = safe_indexing(X, columns.kept_places, axis=1)
        steps = with_columns_listed(self.transformer, columns.kept)
        walk(steps, (X,), "0", leaf, dict(self._ready(columns).is_sparse))

    def contradiction(self, X, *, min_rows: int) -> str:
        """Why the states cannot be of a node's rows among others; "" if they can.

        ``X`` are the rows of which the node told, and nothing of fewer than
        ``min_rows``.
        """
        if not self.states:
            return ""
        X = self.rows(X)
        columns = self.columns or Columns.of(X)
        ready, texts = self._ready(columns), []

        def leaf(step, tables, path):
            (table,) = tables
            if path not in ready.leaves:
                return None
            fitted, state = ready.leaves[path], self.states.get(path)
            text = ""
            if state:  # without one it is fitted to nothing that the server said
                rows = NodeRows(
                    table=table, bounds=ready.bounds[path], min_rows=min_rows
                )
                text = KINDS[type(step)].contradiction(fitted, state, rows)
            if text:
                texts.append(f"{type(step).__name__}: {text}")
                return None
            return None, (_transformed(fitted, step, table),)

        self._walk_rows(X, leaf, columns)
        return texts[0] if texts else ""

    def exposed_columns(self, reply: Mapping) -> list:
        """Columns of which a reply, made by :meth:`tell`, has values of single rows."""
        columns = self.columns or Columns.from_content(reply["columns"])
        if self.columns is None and "roles" in reply["columns"]:
            columns = columns.without_identifiers(reply["columns"]["roles"])
        pending, labels = self._ready(columns).pending, []
        for path, part in reply["parts"].items():
            if part["statistic"] == "categories":
                labels += identifiers_told([part], pending[path].labels)
        return labels

    @lru_cache(maxsize=4)  # noqa: B019
    def _ready(self, columns: Columns) -> "Advanced":
        found = replace(self, columns=columns).advanced({})
        pairs = zip(columns.names or (), columns.text, strict=False)
        text = {name for name, own in pairs if own}
        for step in found.leaves.values():
            names = getattr(step, "feature_names_in_", None)
            encodes = hasattr(step, "categories_")
            if names is not None and not encodes and text.isdisjoint(names):
                del step.feature_names_in_
        return found

    def advanced(self, parts: Mapping[str, Mapping]) -> "Advanced":
        """This front after what nodes told, by path and name of the node."""
        states, pending, errors, leaves = dict(self.states), {}, {}, {}
        bounds: dict[str, np.ndarray] = {}
        empty: list = []
        identifiers: dict[str, tuple[str, list]] = {}

        def leaf(own, tables, path):
            kind, (example, limits) = KINDS[type(own)], tables
            name = kind.statistic_for(own)
            low, high = limits
            agreed = np.isfinite(limits).all() and (low < high).all()
            if name == "extremes" and agreed:  # whatever a server says that they are
                states[path] = kind.state(own, {"low": low, "high": high})
            if path not in states and name is not None:
                if path not in parts:
                    pending[path] = Pending(own, name, limits, _labels_of(example))
                    return None
                labels = _labels_of(example)
                pooled = _pooled(name, parts[path], labels)
                kind.check_pooled(own, pooled, labels)
                single = kind.identifiers(parts[path].values(), labels)
                if single:
                    identifiers[path] = (type(own).__name__, single)
                if name == "histogram":
                    pooled |= {"low": low, "high": high}
                if name in ("powers", "box_powers"):
                    pooled |= {"precision": _precision(example)}
                states[path] = kind.state(own, pooled)
            state = states.get(path, {})
            fitted = leaves[path] = kind.fit(own, example, state)
            bounds[path] = limits
            empty.extend(_labels_of(example)[j] for j in kind.empty_columns(own, state))
            if error := kind.error(own, state):
                errors[path] = (type(own).__name__, error)
            return fitted, _shown(fitted, kind, example, limits)

        kept = self.columns.kept
        shown = kept.example(), self.limits(self.columns)[:, self.columns.kept_places]
        steps = with_columns_listed(self.transformer, kept)
        is_sparse: dict[str, bool | None] = {}
        found = walk(steps, shown, "0", leaf, is_sparse)
        fitted = None if found is None else self._of_all_columns(*found)
        return Advanced(
            front=replace(self, states=states),
            fitted=fitted,
            pending=pending,
            errors=errors,
            leaves=leaves,
            bounds=bounds,
            empty=empty,
            identifiers=identifiers,
            is_sparse=is_sparse,
        )

    def _of_all_columns(self, fitted, shown: tuple):
        """What steps make of the columns they are given, as a transformer of all."""
        if not any(self.columns.left_out):
            return fitted
        kept = [self.columns.labels[j] for j in self.columns.kept_places]
        whole = ColumnTransformer(
            [("columns", self.transformer, kept)],
            sparse_threshold=1.0,  # as it comes out of the steps
            verbose_feature_names_out=False,
        )
        return _assembled(whole, {"columns": (fitted, shown)}, self.columns.example())

    def check_texts(self, nodes: Mapping[str, Columns]) -> None:
        """ColumnsError where texts would enter a step that takes numbers.

        ``nodes`` has what each told of its columns; those of all are known by now.
        """
        taken: dict[str, dict] = {}  # columns of texts, each once, by kind of step

        def leaf(own, tables, path):
            (example,) = tables
            texts = np.flatnonzero(Columns.of(example).text)
            labels = _labels_of(example)
            kind = KINDS[type(own)]
            if len(texts) and not kind.takes_texts(own):
                columns = taken.setdefault(type(own).__name__, {})
                columns.update(dict.fromkeys(labels[j] for j in texts))
            # An imputer hands texts on; what comes out of others is numbers.
            return (None, tables) if len(texts) and kind.by_column else None

        kept = self.columns.kept
        steps = with_columns_listed(self.transformer, kept)
        walk(steps, (kept.example(),), "0", leaf, {})
        for kind, columns in taken.items():
            whose = [node for node, own in nodes.items() if own.has_text(columns)]
            raise ColumnsError(
                f"Nodes {whose[:5]}: {kind} takes numbers, but the columns "
                f"{list(columns)[:5]} hold texts. {REMEDIES[TEXTS]}"
            )

    @cached_property
    def fitted(self):
        """The plain fitted transformer; ValueError while a step is not."""
        found = self.advanced({})
        if found.fitted is None:
            steps = [type(own.step).__name__ for own in found.pending.values()]
            raise ValueError(f"these steps of the front are not fitted yet: {steps}.")
        return found.fitted

    def left_of(self, member, name="estimator"):
        """What comes after this front in a pipeline; the member, where it has none."""
        own = member.estimator if isinstance(member, FrozenEstimator) else member
        if is_skorch(unwrap(own)) and is_fitted(own):
            return self._left_of_net(unwrap(own), name)
        if not isinstance(own, Pipeline):
            return member
        first = own.steps[0][1]
        first = first.estimator if isinstance(first, FrozenEstimator) else first
        same = first is self.fitted
        if hasattr(first, "as_front"):
            same = first.as_front().digest == self.digest
        return own[1:] if same and len(own) > 1 else member

    @cached_property
    def _layers(self) -> tuple[list[Backbone], list[str]]:
        """The backbones that it ends with, and their digests."""
        beside = backbones_of(self.fitted)
        return beside, [step.digest_ for step in beside]

    def _left_of_net(self, net, name):
        """The last layer of a net that has layers of this front; another net itself."""
        if self.columns is None or not backbones_of(self.transformer):
            return net
        (beside, known), own = self._layers, Backbone(net)
        digest = own.digest_
        if digest not in known:
            return _of_features(net, digest, known, name)
        widths = [step._n_features_out for step in beside]
        before = sum(widths[: known.index(digest)])
        own = own.fit(np.ones((1, beside[0].n_features_in_)))
        return head_of(own, before, sum(widths))

    def transform(self, X):
        X = self.rows(X)
        with _no_values(self.transformer), self._naming_new_texts(X):
            return self.fitted.transform(X)

    @contextmanager
    def _naming_new_texts(self, X) -> Iterator[None]:
        """Name columns of texts that held none when it was fitted, if steps fail."""
        try:
            yield
        except (ValueError, TypeError) as exc:
            columns = zip(
                self.columns.labels, Columns.of(X).text, self.columns.text, strict=True
            )
            labels = [
                label for label, is_text, was_text in columns if is_text > was_text
            ]
            if not labels:
                raise
            raise ColumnsError(
                f"Columns {labels[:5]} hold texts, but the front was fitted to "
                "numbers there. Make numbers of the texts, or let the columns hold "
                "texts at all nodes."
            ) from exc


def backbones_of(transformer) -> list[Backbone]:
    """Backbones, side by side, that it ends with; none where it ends otherwise."""
    if isinstance(transformer, Pipeline):
        return backbones_of(transformer.steps[-1][1])
    found = [transformer]
    if isinstance(transformer, FeatureUnion):
        found = [step for _, step in transformer.transformer_list]
    return found if all(isinstance(step, Backbone) for step in found) else []


def _of_features(net, own: str, known: list[str], name: str):
    """A net of other layers than a front, which can be one of what comes out of it."""
    try:
        read_network(net, name=name)
        return net
    except TypeError:
        alike = own.split("-")[0] in [digest.split("-")[0] for digest in known]
        why = "weights are equal, but not the statistics of batch normalisation: these "
        why += "layers were not in eval() mode while the last one learnt"
        raise ValueError(
            f"Node {name!r}: the layers of its net below the last are not those of the "
            f"front, {own} and not {' or '.join(known)}"
            f"{f' ({why})' if alike else ''}. Give all nodes the same layers; or take "
            "those of several nets side by side, front=FeatureUnion([(name, "
            "Backbone(net)), ...]); or let EnsembleAggregator stack the nets."
        ) from None


def _transformed(fitted, step, table):
    """What a fitted step makes of a node's table, without its values in an error."""
    # Arrays are quicker, and the same where all columns are numbers.
    if hasattr(table, "columns") and not hasattr(fitted, "feature_names_in_"):
        table = with_nan(table.to_numpy())
    with _no_values(step, table):
        return fitted.transform(table)


@contextmanager
def _no_values(step, table=None) -> Iterator[None]:
    """Keep values of rows out of errors that a server may see; the cause has them.

    Where columns of a table are not such as the step takes, these are named.
    """
    try:
        yield
    except ColumnsError:
        raise
    except (ValueError, TypeError) as exc:
        if table is not None and not hasattr(step, "handle_unknown"):
            _check_numbers(step, table, exc)
        raise ColumnsError(
            f"{type(step).__name__} cannot take values of some rows "
            f"({type(exc).__name__})."
        ) from exc


def _check_numbers(step, table, cause: Exception | None = None) -> None:
    """Raise ColumnsError for columns of a table that hold no numbers, by their names.

    After a failure, its cause, columns of infinite numbers are looked for, too.
    """
    by_kind = labels_by_kind(table)
    if cause is not None:
        by_kind[INFINITE] = labels_of_infinite(table)
    for kind, labels in by_kind.items():
        if kind != NUMBERS and labels:
            remedy = REMEDIES.get(kind, "Leave them out, or make numbers of them.")
            raise ColumnsError(
                f"{type(step).__name__} takes numbers, but the columns {labels[:5]} "
                f"hold {kind}. {remedy}"
            ) from cause


def _labels_of(table) -> list:
    """Names of the columns of a table, or their places where they have no names."""
    return list(table.columns if hasattr(table, "columns") else range(table.shape[1]))


class Pending(NamedTuple):
    """A step that waits for a statistic of nodes, with bounds of its columns."""

    step: object
    statistic: str
    bounds: np.ndarray
    labels: list  # names of its columns, or places

    def can_tell(self, extremes: bool) -> bool:
        if self.statistic == "extremes":
            return extremes
        return self.statistic != "histogram" or bool(np.isfinite(self.bounds).all())


class Advanced(NamedTuple):
    """A front, as a plain transformer once all is fitted, and what it waits for."""

    front: Front
    fitted: object
    pending: Mapping[str, Pending]
    errors: Mapping[str, tuple]
    leaves: Mapping[str, object]
    # By path of each fitted step, agreed bounds of its columns, (2, n_columns).
    bounds: Mapping[str, np.ndarray]
    # Columns that an encoder leaves out, since nodes told no category.
    empty: list
    # Kinds of encoders, and the columns among theirs that identify rows.
    identifiers: Mapping[str, tuple[str, list]]
    # By path of what stands side by side, whether sparse rows come out of it.
    is_sparse: Mapping[str, bool | None]


def _pooled(name: str, told: Mapping[str, Mapping], labels: list) -> dict:
    """The statistic of all rows, of columns with these labels, by what nodes told."""
    for node, part in told.items():
        if part["statistic"] != name:
            raise ValueError(f"Node {node!r} told {part['statistic']!r}, not {name!r}.")
        widths = {
            part[key].shape[-1] for key in ("counts", "mean", "low") if key in part
        }
        if name == "categories":
            widths = {len(categories_told(part))}
        if name == "histogram":
            widths = {len(part["cumulative"])}
        if widths != {len(labels)}:
            raise ValueError(
                f"Node {node!r} told of {widths} columns, not of {len(labels)}."
            )
    if name == "categories":
        check_kinds_of_categories(told, labels)
    parts = [
        {key: value for key, value in part.items() if key != "statistic"}
        for part in told.values()
    ]
    return STATISTICS[name].pool(parts)


def _precision(example) -> float:
    """Of the numbers in the rows of an example, next to 1."""
    dtypes = example.dtypes if hasattr(example, "columns") else [example.dtype]
    single = all(dtype == np.float32 for dtype in dtypes)
    return float(np.finfo(np.float32 if single else np.float64).eps)


def _shown(fitted, kind: Kind, example, limits) -> tuple:
    if hasattr(fitted, "categories_"):
        known = [[labels[0] for labels in fitted.categories_]]
        if hasattr(example, "columns"):
            example = example.astype(object)
            example.iloc[0] = known[0]
        else:
            example = np.array(known, dtype=example.dtype)
    shown = fitted.transform(example)
    nothing = np.full((2, shown.shape[1]), np.nan)
    if not kind.by_column or nothing.shape != limits.shape or np.isnan(limits).all():
        return shown, nothing
    rows = limits
    if hasattr(example, "columns"):
        rows = example.iloc[[0, 0]].reset_index(drop=True)
        for j in np.flatnonzero(~np.isnan(limits).any(axis=0)):
            rows[rows.columns[j]] = limits[:, j]
    moved = np.asarray(fitted.transform(rows), dtype=object)
    return shown, np.where(np.isnan(limits), np.nan, moved).astype(float)


def walk(own, tables: tuple, path: str, leaf: Callable, is_sparse: dict):
    """Fit each step by ``leaf(step, tables, path)``; None where one cannot be.

    ``is_sparse`` gets, and keeps, by path whether what stands side by side is sparse.
    """
    if own is None or (isinstance(own, str) and own == "passthrough"):
        return "passthrough", tables
    if isinstance(own, Pipeline):
        steps = []
        for k, (name, step) in enumerate(own.steps):
            found = walk(step, tables, f"{path}/{k}", leaf, is_sparse)
            if found is None:
                return None
            fitted, tables = found
            steps.append((name, fitted))
        return Pipeline(steps), tables
    if not isinstance(own, (ColumnTransformer, FeatureUnion)):
        return leaf(own, tables, path)
    return _walk_branches(own, tables, path, leaf, is_sparse)


def _walk_branches(own, tables: tuple, path: str, leaf: Callable, is_sparse: dict):
    """`walk` for a ColumnTransformer or a FeatureUnion."""
    found = []
    for k, (name, step, columns) in enumerate(_branches(own, tables[0])):
        if isinstance(step, str) and step == "drop":
            continue
        part = tables
        if columns is not None:
            part = tuple(safe_indexing(table, columns, axis=1) for table in tables)
        found.append((name, walk(step, part, f"{path}/{k}", leaf, is_sparse)))
    if any(done is None for _, done in found):
        return None
    whole = None
    if all(fitted is not None for _, (fitted, _) in found):  # not at a node
        whole = _assembled(own, dict(found), tables[0])
        is_sparse.setdefault(path, getattr(whole, "sparse_output_", None))
    branches_of_tables = zip(*(branch for _, (_, branch) in found), strict=True)
    after = (_beside(list(side), is_sparse.get(path)) for side in branches_of_tables)
    return whole, tuple(after)


def _check_states(transformer, states: Mapping[str, Mapping]) -> None:
    """Raise ValueError for states that are not those of the steps at their paths."""
    steps = dict(_steps_by_path(transformer, "0"))
    for path, state in states.items():
        if path not in steps:
            raise ValueError(f"it has a state at {path!r:.40}, where no step is")
        KINDS[type(steps[path])].check_state(steps[path], state)


def _steps_by_path(transformer, path: str) -> Iterator[tuple[str, object]]:
    """Steps of a checked transformer that are fitted, by the paths of `walk`."""
    if transformer is None or isinstance(transformer, str):
        return
    if isinstance(transformer, Pipeline):
        parts = [step for _, step in transformer.steps]
    elif isinstance(transformer, FeatureUnion):
        parts = [step for _, step in transformer.transformer_list]
    elif isinstance(transformer, ColumnTransformer):
        # The remainder has a path where columns are left, always the last.
        parts = [step for _, step, _ in transformer.transformers]
        parts.append(transformer.remainder)
    else:
        yield path, transformer
        return
    for k, part in enumerate(parts):
        yield from _steps_by_path(part, f"{path}/{k}")


def _depth(own) -> int:
    """Steps one after the other that may look at rows."""
    if own is None or isinstance(own, str):
        return 0
    if isinstance(own, Pipeline):
        return sum(_depth(step) for _, step in own.steps)
    if isinstance(own, ColumnTransformer):
        steps = [step for _, step, _ in own.transformers]
        return max(map(_depth, [*steps, own.remainder]))
    if isinstance(own, FeatureUnion):
        return max(_depth(step) for _, step in own.transformer_list)
    return int(KINDS[type(own)].statistic_for(own) is not None)


def _branches(own, X) -> list[tuple]:
    """Name, transformer and columns, None of all, of what stands side by side."""
    if isinstance(own, FeatureUnion):
        return [(name, step, None) for name, step in own.transformer_list]
    found, used = [], set()
    for name, step, columns in own.transformers:
        if hasattr(X, "columns"):
            listed = [columns] if isinstance(columns, str) else columns
            _check_columns(X, [c for c in listed if isinstance(c, str)])
        chosen = get_column_indices(X, columns)
        used |= set(chosen)
        found.append((name, step, chosen))
    rest = sorted(set(range(X.shape[1])) - used)
    if rest:
        found.append(("remainder", own.remainder, rest))
    return found


def _check_columns(X, names) -> None:
    known = set(X.columns)
    missing = [name for name in names if name not in known]
    if missing:
        raise ColumnsError(f"X lacks the columns {missing[:10]}.")


def _beside(tables: list, is_sparse: bool | None):
    """Columns of several tables; None: sparse if those of one are."""
    if is_sparse is not False and any(map(sparse.issparse, tables)):
        return sparse.hstack(tables).tocsr()
    tables = [
        table.toarray() if sparse.issparse(table) else np.asarray(table)
        for table in tables
    ]
    return np.hstack(tables) if len(tables) > 1 else tables[0]


class _Given(TransformerMixin, BaseEstimator):
    """Stands for a fitted transformer while a ColumnTransformer is put together."""

    def __init__(self, shown=None):
        self.shown = shown

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.shown

    def __sklearn_is_fitted__(self):
        return True


def _assembled(own, found: Mapping[str, tuple], example):
    if isinstance(own, FeatureUnion):
        steps = [
            (name, step if isinstance(step, str) else FrozenEstimator(found[name][0]))
            for name, step in own.transformer_list
        ]
        union = FeatureUnion(steps).fit(example)
        fitted = union.transformer_list
        union.transformer_list = [(n, getattr(s, "estimator", s)) for n, s in fitted]
        return union

    def given(name, step):
        return step if isinstance(step, str) else _Given(found[name][1][0])

    parts = [(name, given(name, step), c) for name, step, c in own.transformers]
    params = own.get_params(deep=False) | {"transformers": parts}
    if "remainder" in found:
        params["remainder"] = given("remainder", own.remainder)
    whole = type(own)(**params).fit(example)
    whole.transformers_ = [
        (name, found[name][0] if isinstance(step, _Given) else step, columns)
        for name, step, columns in whole.transformers_
    ]
    return whole.set_params(remainder=own.remainder, transformers=own.transformers)


def check_tree(own, depth: int = 0, *, sees_rows: bool = True) -> None:
    """Raise NotPooledError unless a transformer can be fitted without rows.

    ``sees_rows``: whether it gets columns of the rows as they are at the nodes.
    """
    if depth > _DEEPEST:
        raise NotPooledError(f"steps are more than {_DEEPEST} within each other.")
    if own is None or (isinstance(own, str) and own in _WORDS):
        return
    if isinstance(own, Pipeline):
        for k, (_, step) in enumerate(own.steps):
            check_tree(step, depth + 1, sees_rows=sees_rows and k == 0)
        return
    if isinstance(own, (ColumnTransformer, FeatureUnion)):
        if own.transformer_weights is not None:
            raise NotPooledError(f"{type(own).__name__} cannot have weights.")
        steps = getattr(own, "transformers", None) or own.transformer_list
        for name, step, *columns in steps:
            for chosen in columns:
                _check_chosen(name, chosen, sees_rows=sees_rows)
            check_tree(step, depth + 1, sees_rows=sees_rows)
        check_tree(getattr(own, "remainder", None), depth + 1, sees_rows=False)
        return
    if type(own) not in KINDS:
        known = ", ".join(sorted(_BY_NAME))
        raise NotPooledError(
            f"{type(own).__name__} is no function of sums, so it cannot be fitted "
            f"without rows at one place. These can: {known}, in Pipeline, "
            "ColumnTransformer and FeatureUnion. In place of Nystroem take "
            "RandomFeatures or RBFSampler."
        )
    KINDS[type(own)].check(own)
    own._validate_params()


def _check_chosen(name: str, chosen, *, sees_rows: bool) -> None:
    """Raise NotPooledError for columns of a branch that nodes could take otherwise."""
    if isinstance(chosen, ColumnsOf):
        if sees_rows:
            return
        raise NotPooledError(
            f"columns of {name!r} are {chosen!r}, which chooses among the columns of "
            "the rows, but another step comes before. Make the ColumnTransformer the "
            "first step."
        )
    if callable(chosen) or isinstance(chosen, (str, int, slice)):
        raise NotPooledError(
            f"columns of {name!r} must be a list of names or places, or "
            "ColumnsOf('numbers') or ColumnsOf('texts') of skgems.steps, so that all "
            f"nodes take the same; got {chosen!r}."
        )


def check_takes_any_columns(own) -> None:
    """Raise NotPooledError for steps that cannot do without columns of their rows."""
    if isinstance(own, Pipeline | FeatureUnion):
        steps = own.steps if isinstance(own, Pipeline) else own.transformer_list
        for _, step in steps:
            check_takes_any_columns(step)
    if isinstance(own, ColumnTransformer) and _chooses_all_columns(own):
        for _, step, _ in own.transformers:
            check_takes_any_columns(step)
    elif isinstance(own, ColumnTransformer | Backbone):
        raise NotPooledError(
            "drop_identifiers leaves columns out before all steps, but "
            f"{type(own).__name__} needs the columns that it was made for. Set "
            "drop_identifiers=False, and list the columns that are to be kept; or "
            "choose them by ColumnsOf of skgems.steps."
        )


def _chooses_all_columns(own: ColumnTransformer) -> bool:
    """Whether each branch takes columns by what they hold, and not by their places."""
    return all(
        isinstance(chosen, ColumnsOf)
        and all(isinstance(column, str) for column in chosen.without)
        for _, _, chosen in own.transformers
    )


def as_tree(own):
    """A transformer as JSON has it: kinds, and parameters that are not defaults."""
    if own is None or isinstance(own, str):
        return own or "passthrough"
    name = type(own).__name__
    if isinstance(own, Pipeline | FeatureUnion):
        steps = own.steps if isinstance(own, Pipeline) else own.transformer_list
        return {"kind": name, "steps": [[n, as_tree(s)] for n, s in steps]}
    if isinstance(own, Backbone):
        return {"kind": name, "params": {"net": own.digest_}}
    params = own.get_params(deep=False)
    if isinstance(own, ColumnTransformer):
        listed = own.transformers
        steps = [[n, as_tree(s), _as_chosen(c)] for n, s, c in listed]
        more = {word: params[word] for word in _COLUMN_PARAMS}
        remainder = as_tree(own.remainder)
        return {"kind": name, "steps": steps, "remainder": remainder, **more}
    usual = type(own)().get_params(deep=False)
    changed = {k: v for k, v in params.items() if repr(v) != repr(usual[k])}
    return {"kind": name, "params": {k: _plain(v) for k, v in changed.items()}}


def _as_chosen(columns):
    if isinstance(columns, ColumnsOf):
        return columns._as_content()
    return np.asarray(columns).tolist()


def _plain(value):
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, type):
        return np.dtype(value).name
    if isinstance(value, float) and value != value:
        return {"is": "nan"}
    if isinstance(value, tuple):
        return {"tuple": [_plain(own) for own in value]}
    if isinstance(value, list):
        return [_plain(own) for own in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotPooledError(f"the parameter {value!r:.80} cannot be sent.")


def _param(value):
    if isinstance(value, dict):
        if value == {"is": "nan"}:
            return np.nan
        return tuple(_param(own) for own in value["tuple"])
    if isinstance(value, list):
        return [_param(own) for own in value]
    return value


def _chosen(columns):
    return ColumnsOf._from_content(columns) if isinstance(columns, Mapping) else columns


def from_tree(tree, depth: int = 0):
    """The unfitted transformer of a tree, of known kinds only; not checked."""
    if depth > _DEEPEST:
        raise ValueError(f"steps are more than {_DEEPEST} within each other.")
    if tree in _WORDS:
        return tree
    name, deeper = tree["kind"], depth + 1
    if name in ("Pipeline", "FeatureUnion"):
        steps = [(n, from_tree(step, deeper)) for n, step in tree["steps"]]
        return (Pipeline if name == "Pipeline" else FeatureUnion)(steps)
    if name == "ColumnTransformer":
        steps = [(n, from_tree(s, deeper), _chosen(c)) for n, s, c in tree["steps"]]
        more = {word: tree[word] for word in _COLUMN_PARAMS}
        remainder = from_tree(tree["remainder"], deeper)
        return ColumnTransformer(steps, remainder=remainder, **more)
    if name not in _BY_NAME:
        raise ValueError(f"there is no transformer {name!r:.40} in fronts.")
    params = {key: _param(value) for key, value in tree["params"].items()}
    return _BY_NAME[name](**params)


def front_of_text(text: str):
    """The transformer of "StandardScaler() | PCA(5)", say; nothing in it is run."""
    steps = []
    for part in text.split("|"):
        try:
            call = ast.parse(part.strip(), mode="eval").body
            call = ast.Call(call, [], []) if isinstance(call, ast.Name) else call
            kind = _BY_NAME[call.func.id]
            args = [ast.literal_eval(own) for own in call.args]
            named = {own.arg: ast.literal_eval(own.value) for own in call.keywords}
            steps.append(kind(*args, **named))
        except (SyntaxError, KeyError, AttributeError, TypeError, ValueError):
            what = "write StandardScaler, PCA(5) or others, with | between steps"
            given = f"{part.strip()!r} is no transformer of a front"
            raise ValueError(f"{given}: {what}.") from None
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)
