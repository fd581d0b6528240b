"""Fronts: transformers one after the other and side by side, fitted step by step.

A front goes back and forth between a server and its nodes until all its steps are
fitted. Each time a node tells (`Front.tell`) what the next steps need of its rows, and
the server makes states of it (`Front.advanced`), which come back in the front's
content. A step is found by its *path*: "0" is the transformer, "0/2" what is third in
it.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from ..compat import safe_indexing
from ..networks import (
    columns_dropped_by,
    is_fitted,
    is_skorch,
    read_network,
    unwrap,
)
from ._at_nodes import (
    ContradictionVisitor,
    JoiningVisitor,
    RowsVisitor,
    TellingVisitor,
    TextsVisitor,
    no_values_in_errors,
)
from ._backbone import Backbone, fit_without_rows, head_of
from ._bins import Cells, JoinedBins
from ._branches import check_has_columns
from ._columns import REMEDIES, TEXTS, Columns, ColumnsError, Table, as_rows
from ._columns_of import has_columns_of, with_columns_listed
from ._fitting import Example, Fitted, FittingVisitor, Pending, assemble
from ._identifiers import NOT_USED, column_roles
from ._kinds import KINDS
from ._trees import (
    Step,
    as_tree,
    check_states,
    check_takes_any_columns,
    check_tree,
    from_tree,
    n_steps_of_rows,
    statistics_by_path,
    steps_by_path,
)

# What the content of a front may have.
_FIELDS = {"tree", "bounds", "drop_identifiers", "columns", "states", "fitted"}
# (low, high) of all columns, or by column; None: none.
Bounds = Mapping[str | int, Sequence[float]] | Sequence[float] | None


@dataclass(frozen=True, eq=False)
class Front:
    """A transformer that all parties have in common, and what is known of it so far.

    ``columns`` are those of all nodes, None until these have told theirs. ``states``
    are what steps are fitted to, by path.
    """

    transformer: Step
    bounds: Bounds = None
    columns: Columns | None = None
    states: Mapping[str, Mapping] = field(default_factory=dict)
    # Whether steps are not given the columns that identify rows, as nodes find them.
    drop_identifiers: bool = False
    # Types of steps that a method adds by itself, for trees or as a candidate. Users
    # did not ask for these, so nobody is warned that one is not that of all rows.
    unasked: tuple[type, ...] = ()

    # ---- made of a transformer, or of others -----------------------------------------

    @classmethod
    def from_transformer(cls, transformer: Step) -> "Front":
        """Make the front of a transformer; fitted backbones say which columns enter."""
        backbones = backbones_of(transformer)
        # Steps of a pipeline before its backbones may be unfitted.
        is_pipeline = isinstance(transformer, Pipeline)
        if is_pipeline or not backbones or not hasattr(backbones[0], "net_"):
            return cls(transformer)
        n_columns = backbones[0].n_features_in_
        names = getattr(backbones[0], "feature_names_in_", None)
        columns = Columns(
            n=n_columns,
            names=None if names is None else tuple(names),
            text=(False,) * n_columns,
            dtype="float64",
        )
        return cls(transformer, columns=columns)

    @property
    def learns_nothing(self) -> bool:
        """Report whether all steps are backbones, which learn only their columns."""
        is_pipeline = isinstance(self.transformer, Pipeline)
        return not is_pipeline and bool(backbones_of(self.transformer))

    def fit_backbones(self, X: Any = None) -> "Front | None":
        """Return the fitted front of backbones, for the columns of rows.

        Without rows these are the columns that the nets take. None where it has other
        steps, or where there are no rows, and nets take rows of several widths.
        """
        if not self.learns_nothing:
            return None
        transformer = clone(self.transformer)
        backbones = backbones_of(transformer)
        if X is None:
            if not fit_without_rows(backbones):
                return None
        else:
            row = safe_indexing(as_rows(X), [0])
            for backbone in backbones:
                backbone.fit(row)
        columns = Front.from_transformer(transformer).columns
        return replace(self, transformer=transformer, columns=columns)

    @classmethod
    def from_pipelines(
        cls,
        pipelines: list,
        *,
        drop_identifiers: bool = False,
        unasked: tuple[type, ...] = (),
    ) -> "Front":
        """Make one front of several pipelines; :meth:`branch` returns each."""
        named = [(str(k), pipeline) for k, pipeline in enumerate(pipelines)]
        return cls(
            FeatureUnion(named), drop_identifiers=drop_identifiers, unasked=unasked
        )

    def branch(self, k: int, pipeline: Pipeline) -> "Front":
        """The front of the k-th of the pipelines side by side, with its states."""
        start = f"0/{k}/"
        states = {
            f"0/{path.removeprefix(start)}": state
            for path, state in self.states.items()
            if path.startswith(start)
        }
        return replace(self, transformer=pipeline, states=states)

    # ---- in messages -----------------------------------------------------------------

    @property
    def agreed(self) -> dict:
        """Return all that parties agree on before a row is read, as JSON has it."""
        agreed = {
            "tree": as_tree(self.transformer),
            "bounds": _bounds_as_json(self.bounds),
        }
        if self.drop_identifiers:
            agreed["drop_identifiers"] = True
        return agreed

    @property
    def settings(self) -> dict:
        """Return what is agreed, with the digest of a front that comes fitted."""
        if self.columns is None:
            return self.agreed
        return {**self.agreed, "fitted": self.digest}

    @property
    def chooses_columns(self) -> bool:
        """Report whether steps choose columns by their content, not by name alone."""
        return has_columns_of(self.transformer)

    @property
    def uses_columns(self) -> np.ndarray:
        """Return which columns a fitted front does not drop, (n_columns,), bool."""
        is_used = ~columns_dropped_by(self.fitted, self.columns.n)
        if self.columns.left_out:
            is_used &= ~np.array(self.columns.left_out)
        return is_used

    @property
    def most_messages(self) -> int:
        """Bound the messages: one a step, and one for another order of columns."""
        return 1 + max(n_steps_of_rows(self.transformer), 1)

    @property
    def asks_nodes(self) -> bool:
        """Report whether a step is fitted to statistics of the nodes' rows."""
        return n_steps_of_rows(self.transformer) > 0

    @cached_property
    def digest(self) -> str:
        """A hash of columns and states, which two equal fits have in common."""
        columns = "" if self.columns is None else self.columns.as_content()
        return joblib.hash([columns, *sorted(self.states.items())])

    @cached_property
    def statistics(self) -> dict[str, str]:
        """Hashes of what steps are fitted to that nodes tell, by path.

        They are of all that decides about the rows that enter a step. If one step is in
        two fronts, its hashes are equal if these rows are.
        """
        terms = [_bounds_as_json(self.bounds), self.drop_identifiers]
        return {
            path: joblib.hash([terms, entering])
            for path, entering in statistics_by_path(self.transformer, self.states)
        }

    def untold(self, told: Container[str]) -> list[str]:
        """Return the types of steps with a state of which a node told no part.

        ``told`` has the hashes of the statistics that it told; see :attr:`statistics`.
        """
        steps = dict(steps_by_path(self.transformer))
        return [
            type(steps[path]).__name__
            for path, statistic in self.statistics.items()
            if path in self.states and statistic not in told
        ]

    def as_content(self) -> dict:
        """Fields of a message."""
        content = self.agreed
        content["states"] = {path: dict(state) for path, state in self.states.items()}
        if self.columns is not None:
            content["columns"] = self.columns.as_content()
        return content

    @classmethod
    def from_content(cls, content: Mapping) -> "Front":
        """The front that `as_content` gave; ValueError if it can be none."""
        try:
            front = cls._from_unknown(content)
            # Of any columns: bounds that are none raise.
            front.limits(Columns(n=1, names=None, text=(False,), dtype="float64"))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ValueError(f"is not a front: {error!s:.200}") from None
        return front

    @classmethod
    def _from_unknown(cls, content: Any) -> "Front":
        """Make the front of unchecked content; wrong content may raise any error."""
        _check_fields(content)
        columns = content.get("columns")
        if columns is not None and not isinstance(columns, Mapping):
            raise ValueError(f"its columns are {columns!r:.40}, and have no fields")
        bounds = _bounds_from_json(content.get("bounds"))
        states = content.get("states", {})
        _check_are_states(states)
        drop_identifiers = content.get("drop_identifiers", False)
        if not isinstance(drop_identifiers, bool):
            raise ValueError("drop_identifiers must be a truth value")
        transformer = from_tree(content["tree"])
        check_tree(transformer)
        if drop_identifiers:
            check_takes_any_columns(transformer)
        check_states(transformer, states)
        return cls(
            transformer,
            bounds=bounds,
            columns=None if columns is None else Columns.from_content(columns),
            states=states,
            drop_identifiers=drop_identifiers,
        )

    # ---- columns and rows ------------------------------------------------------------

    def limits(self, columns: Columns) -> np.ndarray:
        """Agreed bounds of some columns, (2, n_columns), NaN where there are none."""
        limits = np.full((2, columns.n), np.nan)
        bounds = self.bounds
        if bounds is None:
            return limits
        places = {label: j for j, label in enumerate(columns.labels)}
        if not isinstance(bounds, Mapping):
            bounds = dict.fromkeys(places, bounds)
        for label, (low, high) in bounds.items():
            if label in places:
                limits[:, places[label]] = float(low), float(high)
        return limits

    def rows(self, X: Any) -> Table:
        """Rows as a node has them, their columns in the order of all."""
        X = as_rows(X)
        if self.columns is None:
            return Columns.from_table(X).arranged(X)
        names = self.columns.names
        if hasattr(X, "columns"):
            check_has_columns(X, sorted(names or ()))
        elif X.shape[1] != self.columns.n:
            raise ColumnsError(
                f"X has {X.shape[1]} columns, but the front takes {self.columns.n}. "
                "Give the columns that all nodes have, in the same order."
            )
        elif names is not None:
            import pandas as pd

            X = pd.DataFrame(X, columns=list(names))
        return self.columns.arranged(X)

    # ---- at a node -------------------------------------------------------------------

    @cached_property
    def _digests(self) -> dict[str, str]:
        """Hashes of the states by path, and at "" of all that is no state."""
        contents = {"": [self.agreed, self.columns], **self.states}
        return {path: joblib.hash(content) for path, content in contents.items()}

    def tell(
        self,
        X: Any,
        *,
        min_rows: int,
        memo: dict | None = None,
        dropped: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        check_products: Callable[[Table], None] | None = None,
    ) -> dict:
        """Return statistics of a node's rows: "columns", and "parts" by path of a step.

        ``memo`` is a dict of the node, empty at first. The next message of the same
        front finds rows, and what came out of fitted steps, in it again. ``dropped``
        are columns of X that the node's classifier drops by name, (n_columns,), bool.
        ``weights`` (n_rows,) say how much each row counts; None: once.
        ``check_products`` raises an error for a table of which products of columns may
        not be told.
        """
        memo = {} if memo is None else memo
        if not memo.get("digests", {}).items() <= self._digests.items():
            memo.clear()  # it is of another front
        memo["digests"] = self._digests
        tables = memo.setdefault("tables", {})
        if "rows" not in memo:
            memo["rows"] = self.rows(X)
        X = memo["rows"]
        columns, told_of_columns = self._columns_and_content(X, dropped)
        reply: dict = {"columns": told_of_columns}
        ready = self._ready(columns)
        visitor = TellingVisitor(
            leaves=ready.leaves,
            pending=ready.pending,
            is_sparse=ready.is_sparse,
            tables=tables,
            min_rows=min_rows,
            weights=weights,
            check_products=check_products,
        )
        reply["parts"] = visitor.parts
        try:
            self._visit_rows(visitor, X=X, columns=columns)
        except ValueError:
            if self.columns is not None or visitor.is_refused:
                raise
            # Columns may stand in another order elsewhere; then it is asked again.
            reply["again"] = True
        return reply

    def _columns_and_content(
        self, X: Table, dropped: np.ndarray | None
    ) -> tuple[Columns, dict]:
        """Return the columns that enter the steps, and what is told of all columns."""
        columns_of_rows = Columns.from_table(X)
        content = columns_of_rows.as_content()
        if self.columns is not None or not self.drop_identifiers:
            return self.columns or columns_of_rows, content
        roles = np.array(column_roles(X), dtype=object)
        if dropped is not None:
            roles[dropped] = NOT_USED
        content["roles"] = roles.tolist()
        return columns_of_rows.leave_out_identifiers(roles), content

    def _visit_rows(
        self, visitor: RowsVisitor, *, X: Table, columns: Columns
    ) -> Table | None:
        """Have a visitor take rows of some columns through the steps."""
        if columns.kept is not columns:
            X = safe_indexing(X, columns.kept_places, axis=1)
        return visitor.visit(with_columns_listed(self.transformer, columns.kept), X)

    def contradiction(
        self, X: Any, *, min_rows: int, weights: np.ndarray | None = None
    ) -> str:
        """Say why the states cannot be of a node's rows and others'; "" if they can.

        ``X`` are the rows of which the node told, with their ``weights``, and nothing
        of fewer than ``min_rows``.
        """
        if not self.states:
            return ""
        X = self.rows(X)
        columns = self.columns or Columns.from_table(X)
        ready = self._ready(columns)
        visitor = ContradictionVisitor(
            leaves=ready.leaves,
            states=self.states,
            bounds=ready.bounds,
            is_sparse=ready.is_sparse,
            min_rows=min_rows,
            weights=weights,
        )
        self._visit_rows(visitor, X=X, columns=columns)
        return visitor.contradictions[0] if visitor.contradictions else ""

    # Every message to a node asks for the same columns. The cache is of all fronts, of
    # which four are kept alive meanwhile; that is what B019 warns of.
    @lru_cache(maxsize=4)  # noqa: B019
    def _ready(self, columns: Columns) -> "Advanced":
        """The steps of which states are known, for rows of some columns."""
        advanced = replace(self, columns=columns).advanced({})
        names_of_texts = {
            name
            for name, is_text in zip(columns.names or (), columns.text, strict=False)
            if is_text
        }
        # Without names a step takes arrays, which is quicker; see `transformed`.
        for step in advanced.leaves.values():
            names = getattr(step, "feature_names_in_", None)
            is_encoder = hasattr(step, "categories_")
            if (
                names is not None
                and not is_encoder
                and names_of_texts.isdisjoint(names)
            ):
                del step.feature_names_in_
        return advanced

    # ---- at the server ---------------------------------------------------------------

    def advanced(self, parts: Mapping[str, Mapping]) -> "Advanced":
        """Fit the next steps to what nodes told, by path and name of the node."""
        columns = self.columns.kept
        example = Example(
            row=columns.example(),
            limits=self.limits(self.columns)[:, self.columns.kept_places],
        )
        visitor = FittingVisitor(states=self.states, parts=parts)
        fitted = visitor.visit(with_columns_listed(self.transformer, columns), example)
        return Advanced(
            front=replace(self, states=visitor.states),
            fitted=None if fitted is None else self._step_of_all_columns(fitted),
            pending=visitor.pending,
            errors=visitor.errors,
            doubts=visitor.doubts,
            leaves=visitor.leaves,
            bounds=visitor.bounds,
            empty=visitor.empty,
            identifiers=visitor.identifiers,
            is_sparse=visitor.is_sparse,
        )

    def _step_of_all_columns(self, fitted: Fitted) -> Step:
        """Return the fitted steps as a transformer of all columns, left out or not."""
        if not any(self.columns.left_out):
            return fitted.step
        labels = [self.columns.labels[j] for j in self.columns.kept_places]
        transformer = ColumnTransformer(
            [("columns", self.transformer, labels)],
            sparse_threshold=1.0,  # as it comes out of the steps
            verbose_feature_names_out=False,
        )
        return assemble(
            transformer,
            branches={"columns": fitted},
            example_row=self.columns.example(),
        )

    def check_texts(self, nodes: Mapping[str, Columns]) -> None:
        """ColumnsError where texts would enter a step that takes numbers.

        ``nodes`` has what each told of its columns; those of all are known by now.
        """
        columns = self.columns.kept
        visitor = TextsVisitor()
        visitor.visit(with_columns_listed(self.transformer, columns), columns.example())
        for kind, labels in visitor.refused.items():
            names = [
                node
                for node, node_columns in nodes.items()
                if node_columns.has_text(labels)
            ]
            raise ColumnsError(
                f"Nodes {names[:5]}: {kind} takes numbers, but the columns "
                f"{list(labels)[:5]} hold texts. {REMEDIES[TEXTS]}"
            )

    @cached_property
    def fitted(self) -> Step:
        """The plain fitted transformer; ValueError while a step is not."""
        advanced = self.advanced({})
        if advanced.fitted is None:
            kinds = [
                type(pending.step).__name__ for pending in advanced.pending.values()
            ]
            raise ValueError(f"these steps of the front are not fitted yet: {kinds}.")
        return advanced.fitted

    # ---- once it is fitted -----------------------------------------------------------

    def rest_of(self, member: BaseEstimator, *, name: str = "estimator") -> Any:
        """Return the steps after this front in a pipeline; the member if it has none.

        ``name`` is that of the node, for errors.
        """
        classifier = thawed(member)
        if is_skorch(unwrap(classifier)) and is_fitted(classifier):
            return self._head_of_net(unwrap(classifier), name)
        if not isinstance(classifier, Pipeline):
            return member
        first_step = thawed(classifier.steps[0][1])
        is_this_front = first_step is self.fitted
        if hasattr(first_step, "as_front"):
            is_this_front = first_step.as_front().digest == self.digest
        if is_this_front and len(classifier) > 1:
            return classifier[1:]
        return member

    @cached_property
    def _backbones(self) -> list[Backbone]:
        """The fitted backbones that it ends with."""
        return backbones_of(self.fitted)

    @cached_property
    def _digests_of_backbones(self) -> list[str]:
        return [backbone.digest_ for backbone in self._backbones]

    def _head_of_net(self, net: BaseEstimator, name: str) -> BaseEstimator:
        """The last layer of a net that has layers of this front; another net itself."""
        if self.columns is None or not backbones_of(self.transformer):
            return net
        digests = self._digests_of_backbones
        layers = Backbone(net)
        digest = layers.digest_
        if digest not in digests:
            _check_takes_features(
                net, digest=digest, digests_of_front=digests, name=name
            )
            return net
        widths = [backbone._n_features_out for backbone in self._backbones]
        n_features_before = sum(widths[: digests.index(digest)])
        layers = layers.fit(np.ones((1, self._backbones[0].n_features_in_)))
        return head_of(layers, start=n_features_before, width=sum(widths))

    def transform(
        self, X: Any, *, cells: Cells | None = None, joined: JoinedBins | None = None
    ) -> Table:
        """Return rows as they come out of the fitted steps.

        ``cells`` says which rows are summed together, and how many of them are in a bin
        at least; fewer join a neighbor. None: bins stay as they are. ``joined`` is
        what :meth:`joined_bins` found of all parts of a table; None: X is all of it.
        """
        X = self.rows(X)
        with no_values_in_errors(self.transformer), self._naming_new_texts(X):
            joined = self.joined_bins_of(X, cells) if joined is None else joined
            if cells is None or not joined.has_joined:
                return self.fitted.transform(X)
            return self._visited_by_joining(X, cells=cells, joined=joined)

    def joined_bins_of(self, X: Any, cells: Cells | None) -> JoinedBins:
        """Return which bins join which in a table that is all in one part."""
        if cells is None or not self._edged_paths:
            return JoinedBins(cell=1)
        X = self.rows(X)
        with no_values_in_errors(self.transformer), self._naming_new_texts(X):
            return self.joined_bins(lambda: [(X, cells)], cell=cells.cell)

    @property
    def _edged_paths(self) -> list[str]:
        """Paths of steps that lay edges into columns, so that rows are in bins."""
        return [
            path
            for path, step in steps_by_path(self.transformer)
            if KINDS[type(step)].lays_edges
        ]

    def joined_bins(
        self, parts: Callable[[], Iterable[tuple[Any, Cells]]], *, cell: int
    ) -> JoinedBins:
        """Return which bins join which, so that none has fewer than ``cell`` rows.

        ``parts`` gives all parts of a table each time it is called: once, and once more
        for each step that lays edges behind another.
        """
        joined = JoinedBins(cell)
        paths = self._edged_paths
        has_counted = bool(paths)
        while has_counted and not all(map(joined.is_settled, paths)):
            for X, cells in parts():
                self._visited_by_joining(self.rows(X), cells=cells, joined=joined)
            has_counted = joined.settle()
        return joined

    def _visited_by_joining(
        self, X: Table, *, cells: Cells, joined: JoinedBins
    ) -> Table | None:
        """Return rows behind all steps; None where some bins are counted only."""
        ready = self._ready(self.columns)
        visitor = JoiningVisitor(
            leaves=ready.leaves, is_sparse=ready.is_sparse, joined=joined, cells=cells
        )
        return self._visit_rows(visitor, X=X, columns=self.columns)

    @contextmanager
    def _naming_new_texts(self, X: Table) -> Iterator[None]:
        """Name columns of texts that held none when it was fitted, if steps fail."""
        try:
            yield
        except (ValueError, TypeError) as error:
            columns = zip(
                self.columns.labels,
                Columns.from_table(X).text,
                self.columns.text,
                strict=True,
            )
            labels = [
                label for label, is_text, was_text in columns if is_text > was_text
            ]
            if not labels:
                raise
            raise ColumnsError(
                f"Columns {labels[:5]} hold texts, but the front was fitted to numbers "
                "there. Turn the texts into numbers, or let the columns hold texts at "
                "all nodes."
            ) from error


@dataclass(frozen=True, eq=False, kw_only=True)
class Advanced:
    """A front, as a plain transformer once all is fitted, and what it waits for."""

    front: Front
    fitted: Step  # None while a step waits
    # All by path of the step:
    pending: Mapping[str, Pending]
    # Names of kinds, and how far what was fitted may be off.
    errors: Mapping[str, tuple[str, float]]
    # Types of steps, and why these may be far from those of all rows, in words.
    doubts: list[tuple[type, str]]
    leaves: Mapping[str, BaseEstimator]  # steps that are fitted
    bounds: Mapping[str, np.ndarray]  # of the columns of each, (2, n_columns)
    # Kinds of encoders, and the columns among theirs that identify rows.
    identifiers: Mapping[str, tuple[str, list]]
    # Whether sparse rows come out of what stands side by side there.
    is_sparse: Mapping[str, bool | None]
    # Columns that an encoder leaves out, since nodes told no category.
    empty: list


def _bounds_as_json(bounds: Bounds) -> list | None:
    if bounds is None:
        return bounds
    if isinstance(bounds, Mapping):
        return [[label, *map(float, pair)] for label, pair in bounds.items()]
    return [float(bound) for bound in bounds]


def _check_fields(content: Any) -> None:
    """Raise ValueError for content with other fields than a front has."""
    if not isinstance(content, Mapping):
        raise ValueError(f"it is {content!r:.40}, and has no fields")
    if "tree" not in content:
        raise ValueError("it has no tree of steps")
    unknown = sorted(set(content) - _FIELDS)
    if unknown:
        raise ValueError(f"it has the fields {unknown}, which a front does not have")


def _check_are_states(states: Any) -> None:
    """Raise ValueError for other than dicts by step."""
    if not isinstance(states, Mapping):
        raise ValueError(f"its states are {states!r:.40}, not states by step")
    for path, state in states.items():
        if not isinstance(state, Mapping):
            raise ValueError(f"its state at {path!r:.40} has no fields")


def _bounds_from_json(bounds: Any) -> Any:
    """Inverse of `_bounds_as_json`; ValueError for what can be no bounds."""
    if bounds is None:
        return bounds
    if isinstance(bounds, list) and bounds and isinstance(bounds[0], list):
        for entry in bounds:
            _check_bounds_of_column(entry)
        return {label: (low, high) for label, low, high in bounds}
    if not isinstance(bounds, list) or not _are_two_numbers(bounds):
        raise ValueError(f"its bounds are {bounds!r:.40}, not two numbers")
    return bounds


def _check_bounds_of_column(entry: Any) -> None:
    """Raise ValueError for bounds of a column that are not a label and two numbers."""
    if (
        not isinstance(entry, list)
        or len(entry) != 3
        or not isinstance(entry[0], str | int)
        or not _are_two_numbers(entry[1:])
    ):
        raise ValueError(
            f"its bounds have {entry!r:.40}, not a column, a low and a high number"
        )


def _are_two_numbers(values: list) -> bool:
    return len(values) == 2 and all(isinstance(value, int | float) for value in values)


def thawed(estimator: BaseEstimator) -> BaseEstimator:
    """Return the estimator inside a FrozenEstimator; any other estimator as it is."""
    if isinstance(estimator, FrozenEstimator):
        return estimator.estimator
    return estimator


def backbones_of(transformer: Step) -> list[Backbone]:
    """Backbones, side by side, that it ends with; none where it ends otherwise."""
    if isinstance(transformer, Pipeline):
        return backbones_of(transformer.steps[-1][1])
    last_steps = [transformer]
    if isinstance(transformer, FeatureUnion):
        last_steps = [step for _, step in transformer.transformer_list]
    return last_steps if all(isinstance(step, Backbone) for step in last_steps) else []


def _check_takes_features(
    net: BaseEstimator, *, digest: str, digests_of_front: list[str], name: str
) -> None:
    """Raise ValueError for a net of other layers than those of a front.

    A net of dense layers is let pass: it can be one of what comes out of the front.
    """
    # The parts of a digest are of weights, of other numbers, and of what comes out.
    parts = digest.split("-")
    parts_of_front = [other.split("-") for other in digests_of_front]
    if parts[:2] in [other[:2] for other in parts_of_front]:
        raise ValueError(
            f"Node {name!r}: the layers of its net below the last have the weights of "
            f"the front's, but give other outputs, {digest} and not "
            f"{' or '.join(digests_of_front)}: its forward has another activation, "
            "attribute, branch, dtype or hook. Give all nodes the same module; or let "
            "EnsembleAggregator stack the nets."
        )
    try:
        read_network(net, name=name)
    except TypeError:
        if parts[0] in [other[0] for other in parts_of_front]:
            raise ValueError(
                f"Node {name!r}: the layers of its net below the last are not those of "
                f"the front, {digest} and not {' or '.join(digests_of_front)} (weights "
                "are equal, but not the statistics of batch normalization: these "
                "layers were not in eval() mode while the last one was trained). Give "
                "all nodes the same layers; or use those of several nets side by side, "
                "front=FeatureUnion([(name, Backbone(net)), ...]); or let "
                "EnsembleAggregator stack the nets."
            ) from None
        raise ValueError(
            f"Node {name!r}: the layers of its net below the last are not those of the "
            f"front, {digest} and not {' or '.join(digests_of_front)}. Give all nodes "
            "the same layers; or use those of several nets side by side, "
            "front=FeatureUnion([(name, Backbone(net)), ...]); or let "
            "EnsembleAggregator stack the nets."
        ) from None
