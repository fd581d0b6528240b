"""Standard errors of an aggregate: what nodes told, or moments in their place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..evaluation import (
    Dependence,
    Heterogeneity,
    Inference,
    NewtonStep,
    NodeSums,
    SingularError,
    assembled,
    dependence_of,
    heterogeneity_of,
    inverse_of,
    matrix_of_triangle,
    newton_step,
    robust_covariance,
    site_covariance,
)
from ..messages import listed
from ..parties import Node
from ..steps import RawColumn
from ..tasks import InferenceReply
from ._moment_sums import MomentSums, contrasts_of, places_of_nodes

# Nodes from which on their scores show how sites vary: with ten the plain sandwich
# covers 0.88 to 0.91 in place of 0.95.
LEAST_SITES = 40
# Share of rows whose nodes may be silent, so that moments stand in for these nodes.
_MOST_SILENT = 0.1
# Share of the variation between sites that is no chance, from which the common
# coefficient is doubted: "considerable" in the handbook of Cochrane.
_DOUBTFUL_I2 = 0.75
# Standard errors by which a step may move a coefficient: what is left of the distance
# to the pooled coefficient is about the square of it times a tenth, 0.02 here.
_LONG_STEP = 0.5
# Part by which weights of the columns of a category may differ by rounding.
_IN_RATIO = 1e-3
# Sum of p (1 - p) over all rows, below which these decide nothing: one row of which a
# model is 99 % sure. Coefficients of as many rows as columns need more than this.
_LEAST_UNDECIDED = 0.01
# Standard error of a column of unit deviation, from which nearly no row tells of it.
_RUNAWAY = 1.0


@dataclass(frozen=True, kw_only=True)
class CountsOfFit:
    """How many rows of a node a fit was to."""

    n_rows: int
    weight: float  # the sum of their weights; the number of rows if they have none
    has_weights: bool  # whether the node's owner gave weights

    @classmethod
    def from_node(cls, node: Node) -> "CountsOfFit":
        """Return what the description of a node's rows says."""
        n_rows = node.n_in_moments
        weight = float(np.sum(node.row_counts.get("weights", n_rows)))
        return cls(
            n_rows=n_rows, weight=weight, has_weights="weights" in node.row_counts
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class TrustOfFit:
    """Which nodes a fit kept, if some may lie, and how many of their rows count."""

    names: list[str]  # of the nodes that are kept
    left_out: list[str] = field(default_factory=list)
    # By the name of a node, the part of its rows that counts, where this is below 1.
    factors: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_table(
        cls, trust: Mapping[str, list] | None, names: Sequence[str]
    ) -> "TrustOfFit":
        """Read the table ``trust_``; None: all nodes are trusted."""
        if trust is None:
            return cls(names=list(names))
        kept = []
        left_out = []
        factors = {}
        for name, n_rows, n_counted, reason in zip(
            trust["node"],
            trust["rows"],
            trust["counted"],
            trust["left_out_by"],
            strict=True,
        ):
            if reason:
                left_out.append(name)
                continue
            kept.append(name)
            if n_counted < n_rows:
                factors[name] = n_counted / n_rows
        return cls(names=kept, left_out=left_out, factors=factors)


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedNode:
    """What a node told, as far as it did."""

    name: str
    has_one_class: bool = False  # whether its rows are all of one class
    lacks_classes: bool = False  # whether it has no rows of some class
    gradient: np.ndarray | None = None  # (m,), of the log-likelihood
    information: np.ndarray | None = None  # (m, m)
    middle: np.ndarray | None = None  # (m, m)
    count: float = 0.0
    n_rows: float = 0.0
    is_weighted: bool = False
    has_groups: bool = False
    has_rule: bool = False  # whether small classes may have been left out

    @property
    def sums(self) -> NodeSums:
        """Return the sums of a node that told its information."""
        return NodeSums(
            gradient=self.gradient, information=self.information, middle=self.middle
        )

    def counting(self, factor: float) -> "AskedNode":
        """Return a node of which only a part of the rows counts."""
        if factor == 1.0:
            return self

        def part_of(sums: np.ndarray | None) -> np.ndarray | None:
            return None if sums is None else factor * sums

        return replace(
            self,
            gradient=part_of(self.gradient),
            information=part_of(self.information),
            middle=part_of(self.middle),
            count=factor * self.count,
            n_rows=factor * self.n_rows,
        )

    @classmethod
    def from_reply(
        cls, name: str, reply: InferenceReply, *, n_classes: int, n_of_all: int
    ) -> "AskedNode":
        """Read the reply to "inference" of a node with rows of so many classes."""
        gradient = reply.gradient
        matrices = {}
        if gradient is not None:
            gradient = -gradient[:, 1:].T.ravel()
            for part in ("information", "middle"):
                triangle = getattr(reply, part)
                if triangle is not None:
                    matrices[part] = matrix_of_triangle(triangle, len(gradient))
        return cls(
            name=name,
            has_one_class=n_classes < 2,
            lacks_classes=n_classes < n_of_all,
            gradient=gradient,
            count=reply.count,
            n_rows=reply.n_rows,
            is_weighted=reply.is_weighted,
            has_groups=reply.has_groups,
            has_rule=reply.rule is not None,
            **matrices,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptSums:
    """What a pickle keeps for approximate errors: sums of all rows, of no node."""

    sums: NodeSums
    dependence: Dependence
    skewed_columns: list[int]
    n_rows: float

    @classmethod
    def from_moments(cls, moments: MomentSums, W: np.ndarray) -> "KeptSums":
        """Return the expected sums at a model, and what is said about columns."""
        return cls(
            sums=moments.sums_of_all(W),
            dependence=dependence_of(moments.products(), moments.n_columns),
            skewed_columns=moments.skewed_columns(),
            n_rows=moments.likelihood.n_rows,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class InferenceFit:
    """A fitted aggregate, and what is known of the rows at it."""

    models: np.ndarray  # (n_nodes, n_columns + 1, n_classes), at which nodes are asked
    names: list[str]  # of the nodes
    classes: np.ndarray
    columns: list[RawColumn]
    has_penalty: bool
    has_class_weights: bool
    site_intercepts: bool = False
    moments: MomentSums | None = None  # None: the fit does not have them any more
    kept_sums: KeptSums | None = None  # what it has in their place
    nodes: list[AskedNode] = field(default_factory=list)  # empty: nobody was asked
    rows_are_shared: bool = False
    # Whether rows had weights in the fit, of which nobody is asked again.
    rows_of_fit_have_weights: bool = False
    trust: TrustOfFit | None = None

    @property
    def n_columns(self) -> int:
        return self.models.shape[1] - 1

    @property
    def n_intercepts(self) -> int:
        """Return how many intercepts each class has."""
        return len(self.names) if self.site_intercepts else 1

    @property
    def n_of_class(self) -> int:
        """Return how many parameters each class has, before columns are left out."""
        return self.n_columns + self.n_intercepts

    @property
    def n_contrasts(self) -> int:
        return len(self.classes) - 1

    # ---- sums of nodes -------------------------------------------------------------

    @cached_property
    def sums(self) -> list[NodeSums]:
        """Return the sums of each node; one entry for all where few told theirs.

        What moments expect of a node is off by the covariances that all nodes share.
        This cancels in the sum of all: with the sums of few nodes it would not.
        """
        if not self.uses_gradients:
            return self._expected_at_start
        if self.uses_information or self.site_intercepts:
            return [self._sums_of_node(k) for k in range(len(self.names))]
        gradient = sum(self._gradient_of_node(k) for k in range(len(self.names)))
        return [replace(self.expected.sums, gradient=gradient)]

    def _share_without(self, part: str) -> float:
        """Return the share of rows of nodes that did not tell a part of the sums."""
        lacks = np.array([getattr(node, part) is None for node in self.nodes])
        if not lacks.any():
            return 0.0
        return float(self.moments.likelihood.shares_of_nodes @ lacks)

    @cached_property
    def uses_gradients(self) -> bool:
        """Report whether nodes with nearly all rows told gradients."""
        return bool(self.nodes) and self._share_without("gradient") <= _MOST_SILENT

    @cached_property
    def uses_information(self) -> bool:
        """Report whether nodes with nearly all rows told their information."""
        return bool(self.nodes) and self._share_without("information") <= _MOST_SILENT

    @cached_property
    def expected(self) -> KeptSums:
        """Return what is expected of all rows together, without asking a node."""
        if self.moments is None:
            return self.kept_sums
        return KeptSums.from_moments(self.moments, self.models[0])

    @cached_property
    def _expected_at_start(self) -> list[NodeSums]:
        """Return what moments expect where nodes are asked, as `_expected_at` does."""
        if self.site_intercepts:
            return self._expected_at(self.models)
        return [self.expected.sums]

    def _gradient_of_node(self, k: int) -> np.ndarray:
        gradient = self.nodes[k].gradient
        if gradient is not None:
            return gradient
        return self.moments.sums_of_node(self.models[k], k).gradient

    def _sums_of_node(self, k: int) -> NodeSums:
        node = self.nodes[k]
        if node.information is not None:
            return node.sums
        of_moments = self.moments.sums_of_node(self.models[k], k)
        if node.gradient is None:
            return of_moments
        return replace(of_moments, gradient=node.gradient)

    @property
    def is_approximate(self) -> bool:
        """Report whether a gradient is missing, so that coefficients are expected."""
        return not self.nodes or any(node.gradient is None for node in self.nodes)

    @property
    def has_weighted_rows(self) -> bool:
        """Report whether rows have sampling weights, or weights by class."""
        if self.rows_are_shared:  # these have the weights of their nodes
            return self.has_class_weights
        if not self.nodes:
            return self.has_class_weights or self.rows_of_fit_have_weights
        return self.has_class_weights or any(node.is_weighted for node in self.nodes)

    @property
    def has_groups(self) -> bool:
        """Report whether some rows belong to one group, such as a patient."""
        return any(node.has_groups for node in self.nodes)

    @property
    def names_without_information(self) -> list[str]:
        return [node.name for node in self.nodes if node.information is None]

    @property
    def has_all_information(self) -> bool:
        return bool(self.nodes) and all(
            node.information is not None for node in self.nodes
        )

    @property
    def has_all_middles(self) -> bool:
        return bool(self.nodes) and all(node.middle is not None for node in self.nodes)

    @cached_property
    def _all_places(self) -> list[np.ndarray]:
        """Return places of the nodes' parameters, before columns are left out."""
        return places_of_nodes(
            n_columns=self.n_columns,
            n_classes=len(self.classes),
            n_intercepts=self.n_intercepts,
            n_nodes=len(self.names),
        )

    @cached_property
    def _separates_all(self) -> bool:
        """Report whether the model is sure of the class of nearly every row."""
        n_undecided = 0.0
        for sums in self.sums:
            variances = np.diag(sums.information).reshape(self.n_contrasts, -1)
            n_undecided += variances[:, -1].sum()
        return not self.has_penalty and n_undecided < _LEAST_UNDECIDED

    @cached_property
    def dependence(self) -> Dependence:
        """Return which columns are left out; none where a penalty decides them."""
        if self.has_penalty or self._separates_all:
            return Dependence(
                left_out=[], combined_with=[], vectors=np.zeros((0, self.n_of_class))
            )
        if self.has_all_information:
            products = np.zeros((self.n_of_class, self.n_of_class))
            n_of_node = self.n_columns + 1
            for node, places in zip(self.sums, self._all_places, strict=True):
                where = places[:n_of_node]
                for k in range(self.n_contrasts):
                    of_k = slice(k * n_of_node, (k + 1) * n_of_node)
                    products[np.ix_(where, where)] += node.information[of_k, of_k]
            return dependence_of(products, self.n_columns)
        expected = self.expected.dependence
        if not self.site_intercepts:
            return expected
        of_sites = np.repeat(expected.vectors[:, [-1]], self.n_intercepts, axis=1)
        vectors = np.hstack([expected.vectors[:, :-1], of_sites])
        return replace(expected, vectors=vectors)

    @cached_property
    def estimated(self) -> np.ndarray:
        """Return the parameters that are estimated, among all."""
        is_estimated = np.ones((self.n_contrasts, self.n_of_class), dtype=bool)
        is_estimated[:, self.dependence.left_out] = False
        return np.flatnonzero(is_estimated.ravel())

    @property
    def places(self) -> list[np.ndarray]:
        """Return where the parameters of each of the sums are among those estimated."""
        return self._places_of(len(self.sums))

    def _places_of(self, n_sums: int) -> list[np.ndarray]:
        """Return the same of each node, or of the first, which has those of all."""
        new = np.full(self.n_contrasts * self.n_of_class, -1)
        new[self.estimated] = np.arange(len(self.estimated))
        return [new[of_node] for of_node in self._all_places[:n_sums]]

    @cached_property
    def start(self) -> np.ndarray:
        """Return the parameters at which the sums are, of columns that are kept."""
        by_class = np.zeros((self.n_contrasts, self.n_of_class))
        for k in range(self.n_intercepts):
            of_node = contrasts_of(self.models[k]).reshape(self.n_contrasts, -1)
            by_class[:, : self.n_columns] = of_node[:, :-1]
            by_class[:, self.n_columns + k] = of_node[:, -1]
        return self.dependence.drop_left_out(by_class).ravel()[self.estimated]

    @cached_property
    def step(self) -> NewtonStep:
        """Take the Newton step; ValueError where rows do not decide a parameter."""
        penalty = None
        if self.has_penalty:
            penalty = np.zeros((self.n_contrasts * self.n_of_class,) * 2)
            where = self._all_places[0]
            penalty[np.ix_(where, where)] = self.moments.penalty()
        try:
            if self._separates_all:
                raise SingularError(list(range(len(self.estimated))))
            step = newton_step(
                self.sums, self.places, start=self.start, penalty=penalty
            )
            return self._with_information_after(step, penalty)
        except SingularError as error:
            names = dict.fromkeys(self.names_of_params[i] for i in error.params)
            n_of_class = len(self.estimated) // self.n_contrasts
            labels = dict.fromkeys(
                self.classes.tolist()[i // n_of_class + 1] for i in error.params
            )
            raise ValueError(
                f"The rows do not decide the coefficients of {listed(names)} for the "
                f"classes {listed(map(repr, labels))}. Columns separate these from "
                f"{self.classes.tolist()[0]!r} at all nodes, so that coefficients run "
                "away, or a class has no rows. Leave columns out, or set C to a "
                "number, so that a penalty decides them."
            ) from None

    def _with_information_after(
        self, step: NewtonStep, penalty: np.ndarray | None
    ) -> NewtonStep:
        """Return the step with the information at its end, as moments expect a change.

        Nodes told it at the start, which may be a part of a standard error away.
        """
        if self.moments is None or not self.uses_gradients:
            return step
        by_class = np.zeros(self.n_contrasts * self.n_of_class)
        by_class[self.estimated] = step.change
        change = by_class.reshape(self.n_contrasts, -1)
        moved = self.models.copy()
        for k in range(len(moved)):
            intercept = self.n_columns + (k if self.n_intercepts > 1 else 0)
            moved[k, :-1, 1:] += change[:, : self.n_columns].T
            moved[k, -1, 1:] += change[:, intercept]
        changes = [
            after.information - before.information
            for before, after in zip(
                self._expected_at_start, self._expected_at(moved), strict=True
            )
        ]
        places = self.places[: len(changes)]
        information = step.information + assembled(changes, places, len(step.params))
        total = information if penalty is None else information + penalty
        try:
            inverse = inverse_of(total)
        except SingularError:  # moments say too little of so long a step
            return step
        return replace(step, information=information, inverse=inverse)

    def _expected_at(self, models: np.ndarray) -> list[NodeSums]:
        """Return what moments expect at models: of all rows, or of each node's."""
        if not self.site_intercepts:
            return [self.moments.sums_of_all(models[0])]
        return [self.moments.sums_of_node(W, k) for k, W in enumerate(models)]

    # ---- the table -----------------------------------------------------------------

    @property
    def names_of_params(self) -> list[str]:
        """Return the names of all parameters that are estimated."""
        intercepts = ["intercept"]
        if self.site_intercepts:
            intercepts = [f"intercept of {name}" for name in self.names]
        of_class = [*(column.name for column in self.columns), *intercepts]
        return [(of_class * self.n_contrasts)[i] for i in self.estimated.tolist()]

    @cached_property
    def _to_units(self) -> np.ndarray:
        """Return the matrix that takes parameters to those of raw units."""
        of_class = np.eye(self.n_of_class)
        for j, column in enumerate(self.columns):
            of_class[j, j] = 1.0 / column.scale
            of_class[self.n_columns :, j] = -column.offset / column.scale
        whole = np.kron(np.eye(self.n_contrasts), of_class)
        return whole[np.ix_(self.estimated, self.estimated)]

    def _to_reference(self, reference: int) -> np.ndarray:
        """Return the matrix of contrasts against a class, by the order of others."""
        outputs = np.vstack([np.zeros(self.n_contrasts), np.eye(self.n_contrasts)])
        others = [k for k in range(len(self.classes)) if k != reference]
        between = outputs[others] - outputs[reference]
        n_estimated = len(self.estimated) // self.n_contrasts
        return np.kron(between, np.eye(n_estimated))

    def covariance_of(self, cov_type: str) -> np.ndarray:
        """Return the covariance of the parameters after the step."""
        if cov_type == "robust":
            return robust_covariance(self.step, self.sums, self.places)
        if cov_type == "site":
            return site_covariance(self.step, self.sums, self.places)
        return self.step.model_covariance

    def table(
        self, *, level: float, reference: int, cov_type: str, notes: Sequence[str]
    ) -> Inference:
        """Return the table of coefficients."""
        to_table = self._to_reference(reference) @ self._to_units
        covariance = to_table @ self.covariance_of(cov_type) @ to_table.T
        labels = self.classes.tolist()
        n_estimated = len(self.estimated) // self.n_contrasts
        others = [label for k, label in enumerate(labels) if k != reference]
        table = Inference(
            names=self.names_of_params,
            classes=[label for label in others for _ in range(n_estimated)],
            reference=labels[reference],
            params=to_table @ self.step.params,
            covariance=covariance,
            level=level,
            cov_type=cov_type,
            is_approximate=self.is_approximate,
            has_tests=not (self.is_approximate or self.has_penalty),
            n_rows=self._n_rows_of_table,
            nodes=list(self.names),
            heterogeneity=self._heterogeneity(to_table),
            change=to_table @ self.step.change,
        )
        doubts = self._doubts(table)
        return replace(table, notes=(*notes, *doubts))

    @property
    def _n_rows_of_table(self) -> float:
        if not self.nodes:
            return self.expected.n_rows
        return sum(node.count for node in self.nodes)

    def _heterogeneity(self, to_table: np.ndarray) -> Heterogeneity | None:
        """Return estimates by node in the units of the table, where these are told."""
        of_nodes = [
            None if node.has_one_class or node.information is None else node.sums
            for node in self.nodes
        ]
        n_told = sum(sums is not None for sums in of_nodes)
        if n_told < 2 or self.has_penalty:
            return None
        return heterogeneity_of(
            of_nodes,
            self._places_of(len(of_nodes)),
            start=self.start,
            to_table=to_table,
            is_common=self._is_of_column,
        )

    @property
    def _is_of_column(self) -> np.ndarray:
        """Report of each parameter whether it is that of a column, (n_params,)."""
        return self.estimated % self.n_of_class < self.n_columns

    # ---- notes ---------------------------------------------------------------------

    def _doubts(self, table: Inference) -> list[str]:
        """Return sentences on coefficients that are to be read with care."""
        return [
            *self._notes_on_columns(),
            *self._notes_on_separation(),
            *self._notes_on_levels(),
            *_note_on_step(table, self.uses_gradients),
            *_note_on_sites(table, self._is_of_column),
        ]

    def _notes_on_columns(self) -> list[str]:
        notes = []
        names = [column.name for column in self.columns]
        for column, others in zip(
            self.dependence.left_out, self.dependence.combined_with, strict=True
        ):
            if self._is_of_category(column, others):
                notes.append(
                    f"Column {names[column]!r} follows from "
                    f"{listed(repr(names[j]) for j in others)}, so that it is the "
                    "reference: coefficients of these are differences from it."
                )
            elif others:
                notes.append(
                    f"Column {names[column]!r} follows from "
                    f"{listed(repr(names[j]) for j in others)}, and has no "
                    "coefficient: those of the others are as if it were not there."
                )
            else:
                notes.append(
                    f"Column {names[column]!r} is constant and has no coefficient."
                )
        others = [column.name for column in self.columns if not column.is_raw]
        if others:
            notes.append(
                f"Columns {listed(map(repr, others))} are in units of the front, which "
                "makes more of a raw column than a change of its scale."
            )
        return notes

    def _is_of_category(self, column: int, others: list[int]) -> bool:
        """Report whether a column and others, in raw units, sum to a constant."""
        vector = self.dependence.vectors[self.dependence.left_out.index(column)]
        scales = np.array([self.columns[j].scale for j in [column, *others]])
        weights = vector[[column, *others]] / scales
        return len(others) > 0 and np.allclose(weights, weights[0], rtol=_IN_RATIO)

    def _notes_on_levels(self) -> list[str]:
        """Name nodes whose own intercepts no rows decide."""
        lacking = [node.name for node in self.nodes if node.lacks_classes]
        if not self.site_intercepts or self.has_penalty or not lacking:
            return []
        return [
            f"Nodes {listed(map(repr, lacking))} have no rows of some class, so that "
            "their intercepts run away: these mean nothing. Other coefficients do not "
            "use rows of a node with a single class."
        ]

    def _notes_on_separation(self) -> list[str]:
        """Name columns whose coefficients run away, and nodes where these vary."""
        if self.moments is None or self.has_penalty:
            return []
        separated = set(self.moments.separated_columns())
        errors = np.sqrt(np.diag(self.step.model_covariance))
        scales = self.moments.likelihood.scales
        for i, param in enumerate(self.estimated.tolist()):
            j = param % self.n_of_class
            if j < self.n_columns and errors[i] * scales[j] > _RUNAWAY:
                separated.add(j)
        columns_of_nodes: dict[tuple[int, ...], list[str]] = {}
        for j in sorted(separated - set(self.dependence.left_out)):
            nodes = tuple(self.moments.nodes_of_column(j))
            columns_of_nodes.setdefault(nodes, []).append(self.columns[j].name)
        return [
            f"Columns {listed(map(repr, names))} separate classes: they are the same "
            "in all rows of some class, or nearly no row is undecided about them "
            f"(nodes {listed(repr(self.names[k]) for k in nodes)}). Their coefficients "
            "run away, and errors mean little. Firth's penalty needs leverages of "
            "rows, which are no sums; set C to a number for finite coefficients."
            for nodes, names in columns_of_nodes.items()
        ]


def _note_on_step(table: Inference, are_asked: bool) -> list[str]:
    """Say that a step was long, so that another one would still move something."""
    if not are_asked:
        return []
    moved = np.abs(table.change) / table.bse
    if not np.nanmax(moved, initial=0.0) > _LONG_STEP:
        return []
    j = int(np.nanargmax(moved))
    return [
        f"The message moved the coefficient of {table.names[j]!r} by "
        f"{moved[j]:.1f} standard errors. Another one would move it again: fit with "
        "n_rounds=3 before, so that the step is short."
    ]


def _note_on_sites(table: Inference, is_of_column: np.ndarray) -> list[str]:
    """Name coefficients that differ between nodes by more than chance."""
    if table.heterogeneity is None:
        return []
    I2 = np.where(is_of_column, table.heterogeneity.I2, np.nan)
    doubtful = [table.names[j] for j in np.flatnonzero(I2 > _DOUBTFUL_I2).tolist()]
    if not doubtful:
        return []
    return [
        f"Doubt: nodes differ in the coefficients of {listed(map(repr, doubtful))} by "
        f"more than chance (I2 above {_DOUBTFUL_I2:.0%}), so that one number for all "
        "nodes may mislead. See heterogeneity, and skgems.plotting.ForestDisplay."
    ]
