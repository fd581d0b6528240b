"""A node whose rows come in chunks, read twice: counts and a few rows, then sums.

The first pass counts rows by class and draws some, by which the factor on the model's
logits and the centers of clusters are found. The second one sums moments of all rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..moments import (
    CLUSTER_ROWS,
    SHARED,
    Centers,
    ClassMoments,
    block_bytes,
    class_moments,
    drawn_noise,
    inverse_deviations,
    large_classes,
    median_of_rows,
    merge_moments,
    moments_kind,
    row_blocks,
    weighted_mean,
    with_noise,
)
from ..networks import as_labels
from ..spaces import MOST_ROWS
from . import _moments, _samples
from ._chunk_rule import ChunkRule, CodeColumns, RareCells
from ._classifiers import Rows, indices_of, naming_node
from ._constants import warn_of_lost_features
from ._member import Member
from ._seeds import seed_of_rows
from ._tails import CombinationTails
from ._told_clusters import ClusterEnds

# Label: how many rows of its class learn, and how many are held out.
Tally = dict[object, tuple[int, int]]


class _Pass:
    """What one pass over the chunks has read: rows by class, and their checksums.

    The checksums do not depend on how the rows are cut into chunks. They are no secret
    and stay at the node, so that the fastest ones will do.
    """

    def __init__(self) -> None:
        self.tally: Tally = {}
        self._numbers: dict[object, int] = {}  # of labels, in the order they came in
        self._sums = {"rows": 0, "columns": 0, "lengths": 0, "labels": 0, "held_out": 0}
        self._sums["weights"] = 0

    @property
    def checksums(self) -> tuple:
        """Checksums of the rows, in their order, with their labels and roles."""
        return *self._sums.values(), *self._numbers

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        held_out: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> None:
        """Count the rows of a chunk; ``held_out`` is a mask of them, None: none is."""
        labels, codes = np.unique(y, return_inverse=True)
        if held_out is None:
            held_out = np.zeros(len(y), dtype=bool)
        n_learning = np.bincount(codes[~held_out], minlength=len(labels)).tolist()
        n_held_out = np.bincount(codes[held_out], minlength=len(labels)).tolist()
        for c, label in enumerate(labels.tolist()):
            n_learning_before, n_held_out_before = self.tally.get(label, (0, 0))
            self.tally[label] = (
                n_learning_before + n_learning[c],
                n_held_out_before + n_held_out[c],
            )
        for label in y[np.sort(np.unique(codes, return_index=True)[1])].tolist():
            self._numbers.setdefault(label, len(self._numbers))
        numbers = np.array([self._numbers[label] for label in labels.tolist()])
        self._check_in("labels", numbers[codes])
        self._check_in("held_out", held_out)
        if weights is not None:
            self._check_in("weights", weights)
        if sparse.issparse(X):
            self._check_in("rows", X.data)
            self._check_in("columns", X.indices.astype(np.int64))
            self._check_in("lengths", np.diff(X.indptr).astype(np.int64))
            return
        bytes_per_row = X[:1].nbytes
        for rows in row_blocks(X, bytes_per_row, block_bytes()):
            self._check_in("rows", np.ascontiguousarray(X[rows]))

    def _check_in(self, name: str, values: np.ndarray) -> None:
        self._sums[name] = crc32(np.ascontiguousarray(values).data, self._sums[name])


@dataclass(frozen=True, eq=False, kw_only=True)
class ChunkedMember(Member):
    """A member whose rows come in chunks; ``X`` and ``y`` are a few that were drawn."""

    # Each call begins a pass over all rows: chunks of rows, labels, a mask of rows that
    # are held out or None, and weights of rows or None.
    read: Callable[[], Iterator[tuple]] = field(default=None, repr=False)
    tally: Tally = field(default_factory=dict)
    # Of the first pass, as `_Pass` has them.
    checksums: tuple = ()
    n_features: int = 0
    # Label: rows that were drawn of its class. Empty: none were to be drawn.
    drawn: dict[object, Rows] = field(default_factory=dict, repr=False)
    # Label: weights of the rows that were drawn, and of all rows that learn. Empty:
    # rows have no weights.
    drawn_weights: dict[object, np.ndarray] = field(default_factory=dict, repr=False)
    total_weights: dict[object, float] = field(default_factory=dict, repr=False)
    # What `RareCells.by_label` has of the rows that learn.
    rare_cells: dict = field(default_factory=dict, repr=False)
    # What may be told of the rows; None until they have passed the rule of disclosure.
    rule: ChunkRule | None = field(default=None, repr=False)

    @classmethod
    def read_once(
        cls,
        name: str,
        estimator: object,
        read: Callable[[], Iterator[tuple]],
        *,
        n_drawn: int = 0,
        least: int = 1,
        cell: int = 1,
    ) -> "ChunkedMember":
        """A member whose rows have been counted, and drawn from, in a first pass.

        Parameters
        ----------
        name : str
        estimator : object or None
        read : callable
            See the field.
        n_drawn : int, default=0
            How many rows of each class are drawn at most.
        least : int, default=1
            Classes of fewer rows are not sent. They do not change which rows of other
            classes are drawn to fit the factor on the model's logits.
        cell : int, default=1
            Values of a column that fewer rows of a class have are found.
        """
        member = cls.from_estimator(name, estimator, None, None, read=read)
        first_pass = _Pass()
        total_weights: dict[object, float] = {}
        factor_sample = _EvenSample(
            labels=set() if estimator is None else set(member.own_linear()[1]),
            n_rows=MOST_ROWS,
            min_class_size=least,
        )
        class_samples = _ClassSamples(n_rows=n_drawn)
        rare_cells = RareCells(cell)
        n_features = 0
        for X, y, held_out, weights in read():
            first_pass.add(X, y, held_out, weights)
            n_features = X.shape[1]
            _add_weights(total_weights, y, held_out, weights)
            if n_drawn:
                rows = _RowsThatLearn.from_chunk(X, y, held_out, weights)
                factor_sample.add(rows)
                class_samples.add(rows)
                if cell > 1:
                    rare_cells.add(rows.X, rows.codes, rows.labels)
                del rows
            del X, y, held_out, weights  # before the next chunk is in memory
        member = replace(
            member,
            tally=first_pass.tally,
            checksums=first_pass.checksums,
            n_features=n_features,
            total_weights=total_weights,
            rare_cells=rare_cells.by_label(),
        )
        if not n_drawn:
            return member
        drawn = class_samples.rows()
        X = factor_sample.rows()
        if X is None and drawn:  # no row has a class of the model
            X = next(iter(drawn.values()))[:0]
        member = replace(member, X=X, y=factor_sample.labels_of_rows(), drawn=drawn)
        if not total_weights:
            return member
        return replace(
            member,
            weights=factor_sample.weights_of_rows(),
            drawn_weights=class_samples.weights(),
        )

    @property
    def has_all_rows(self) -> bool:
        """See `Member.has_all_rows`."""
        return False

    def _sent_labels(self) -> list:
        """Labels of classes that are not left out, sorted."""
        left_out = () if self.left_out is None else self.left_out.tolist()
        return sorted(set(self.tally) - set(left_out))

    def class_sizes(self) -> dict:
        """See `Member.class_sizes`."""
        sizes = {}
        for label in self._sent_labels():
            n_learning, n_held_out = self.tally[label]
            sizes[label] = n_learning or n_held_out
        return sizes

    def drop_small_classes(self, min_rows: int | None = None) -> "ChunkedMember":
        """See `Member.drop_small_classes`; no row is read."""
        min_rows = self.min_rows if min_rows is None else min_rows
        small_classes = self._small_classes(min_rows)
        if not small_classes:
            return self
        member = replace(self, left_out=as_labels(sorted(small_classes)))
        _, counts_by_role = member.row_counts()
        for role, counts in counts_by_role.items():
            if not counts.sum():
                self._raise_too_few(small_classes, min_rows=min_rows, role=role)
        return member

    def row_counts(self) -> tuple[list, dict[str, np.ndarray]]:
        """See `Member.row_counts`."""
        labels = self._sent_labels()
        counts = np.array([self.tally[label] for label in labels]).reshape(-1, 2)
        n_learning, n_held_out = counts.T
        # If any row is held out, even of a class that is not sent, only held out rows
        # judge models.
        has_held_out = any(n_held_out for _, n_held_out in self.tally.values())
        counts_by_role = {
            "judging": n_held_out if has_held_out else n_learning,
            "moments": n_learning,
            "training": n_learning,
        }
        return labels, counts_by_role

    def sampled_rows(self, *, of_model: bool) -> tuple[Rows, np.ndarray]:
        """See `Member.sampled_rows`."""
        if of_model or not self.drawn:
            return self.X, self.y
        labels = np.array(list(self.drawn))
        sizes = [rows.shape[0] for rows in self.drawn.values()]
        return stacked(self.drawn.values()), np.repeat(labels, sizes)

    def weights_by_label(self) -> np.ndarray | None:
        """See `Member.weights_by_label`."""
        if not self.total_weights:
            return None
        return np.array(
            [self.total_weights.get(label, 0.0) for label in self._sent_labels()]
        )

    def learning_rows(self) -> Iterator[tuple[Rows, np.ndarray, np.ndarray | None]]:
        """Rows that learn, labels and weights, by chunk; ValueError if they changed.

        Under a rule they are as they may be told of.
        """
        if self.rule is None:
            return self._learning_rows()
        return self.rule.applied(self._learning_rows())

    def _learning_rows(self) -> Iterator[tuple[Rows, np.ndarray, np.ndarray | None]]:
        """Rows that learn, as they are."""
        for X, y, held_out, weights in self._checked_rows():
            if held_out is not None and held_out.any():
                learns = ~held_out
                X, y = X[learns], y[learns]
                weights = None if weights is None else weights[learns]
            if len(y):
                yield X, y, weights
            # Before the next chunk is in memory.
            del X, y, held_out, weights

    def with_all_rows(self) -> Member:
        """Return the same node with all rows of the classes that are sent in memory."""
        chunks = list(self._checked_rows())
        y = np.concatenate([y for _, y, _, _ in chunks])
        held_out = np.concatenate(
            [
                np.zeros(len(y), dtype=bool) if mask is None else mask
                for _, y, mask, _ in chunks
            ]
        )
        learning = slice(None)
        judging = slice(None)
        if any(n_held_out for _, n_held_out in self.tally.values()):
            learning = np.flatnonzero(~held_out)
            judging = np.flatnonzero(held_out)
        weights = None
        if self.total_weights:
            weights = np.concatenate([weights for _, _, _, weights in chunks])
        return Member(
            name=self.name,
            model=self.model,
            X=stacked(X for X, _, _, _ in chunks),
            y=y,
            judging=judging,
            moments=learning,
            training=learning,
            weights=weights,
            left_out=self.left_out,
            disclosure=self.disclosure,
            is_changed=self.is_changed,
            n_raw_columns=self.n_raw_columns,
            dropped=self.dropped,
        )

    def _checked_rows(self) -> Iterator[tuple]:
        """Rows of the classes that are sent, labels, masks and weights, by chunk.

        ValueError if they are other rows than in the first pass.
        """
        sent_labels = self._sent_labels()
        this_pass = _Pass()
        for X, y, held_out, weights in self.read():
            this_pass.add(X, y, held_out, weights)
            if set(this_pass.tally) - set(self.tally):  # a class that was not there
                break
            if self.left_out is not None:
                is_sent = np.isin(y, sent_labels)
                X, y = X[is_sent], y[is_sent]
                held_out = None if held_out is None else held_out[is_sent]
                weights = None if weights is None else weights[is_sent]
            if len(y):
                yield X, y, held_out, weights
            # Before the next chunk is in memory.
            del X, y, held_out, weights
        if this_pass.tally != self.tally:
            raise ValueError(
                f"Node {self.name!r}: chunks() gave other rows in the second pass: the "
                f"rows per class were {_n_rows_by_label(this_pass.tally)} instead of "
                f"{_n_rows_by_label(self.tally)}. It must give the same rows in each "
                "pass."
            )
        if this_pass.checksums != self.checksums:
            raise ValueError(
                f"Node {self.name!r}: chunks() gave other rows in the second pass, or "
                "the same ones in another order, though as many of each class. It must "
                "give the same rows in the same order in each pass: sort the files or "
                "the query that it reads, and draw nothing at random."
            )


def _add_weights(
    total_weights: dict[object, float],
    y: np.ndarray,
    held_out: np.ndarray | None,
    weights: np.ndarray | None,
) -> None:
    """Add the weights of the rows of a chunk that learn, if it has any, by label."""
    if weights is None:
        return
    if held_out is not None:
        y, weights = y[~held_out], weights[~held_out]
    labels, codes = np.unique(y, return_inverse=True)
    sums = np.bincount(codes, weights, minlength=len(labels))
    for label, weight in zip(labels.tolist(), sums.tolist(), strict=True):
        total_weights[label] = total_weights.get(label, 0.0) + weight


def _n_rows_by_label(tally: Tally) -> dict:
    return {label: sum(counts) for label, counts in sorted(tally.items())}


@dataclass(frozen=True, eq=False, kw_only=True)
class _RowsThatLearn:
    """The rows of one chunk that are not held out."""

    X: Rows
    y: np.ndarray
    weights: np.ndarray  # (n_rows,), 1 where rows have none
    labels: list  # sorted, each once
    codes: np.ndarray  # (n_rows,), the index of the label of each row

    @classmethod
    def from_chunk(
        cls,
        X: Rows,
        y: np.ndarray,
        held_out: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> "_RowsThatLearn":
        """Keep a chunk's rows that are not held out; mask and weights may be None."""
        if weights is None:
            weights = np.ones(len(y))
        if held_out is not None:
            X = X[~held_out]
            y = y[~held_out]
            weights = weights[~held_out]
        labels, codes = np.unique(y, return_inverse=True)
        return cls(X=X, y=y, weights=weights, labels=labels.tolist(), codes=codes)

    def select_class(self, c: int) -> "_RowsThatLearn":
        """Return the rows of one class, by the index of its label."""
        rows = np.flatnonzero(self.codes == c)
        return _RowsThatLearn(
            X=self.X[rows],
            y=self.y[rows],
            weights=self.weights[rows],
            labels=[self.labels[c]],
            codes=np.zeros(len(rows), dtype=int),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _RankedRows:
    """Rows of one chunk that are in a sample."""

    X: Rows
    y: np.ndarray
    weights: np.ndarray  # (n_rows,)
    ranks: np.ndarray  # (n_rows,), how many rows of its class came before each

    def every(self, step: int) -> "_RankedRows":
        """Every ``step``-th row of each class."""
        rows = self.ranks % step == 0
        return _RankedRows(
            X=self.X[rows],
            y=self.y[rows],
            weights=self.weights[rows],
            ranks=self.ranks[rows],
        )


class _EvenSample:
    """A sample of rows that come in chunks: every 2**k-th row of each class.

    It has the rows that `_samples.spread` takes where all rows are there at once,
    however they are cut into chunks. So k grows as rows come, and thins out the rows
    that it has.

    Parameters
    ----------
    labels : set
        Rows of other classes are not taken.
    n_rows : int
        How many rows it has at most, but one of each class.
    min_class_size : int, default=1
        Rows of smaller classes are taken too, but do not count towards ``n_rows``.
    """

    def __init__(self, *, labels: set, n_rows: int, min_class_size: int = 1) -> None:
        self.labels = labels
        self.n_rows = n_rows
        self.min_class_size = min_class_size
        self.step = 1
        self.class_sizes: dict = {}  # label: rows that have come
        self.chunks: list[_RankedRows] = []

    def add(self, rows: _RowsThatLearn) -> None:
        """Take from the rows of a chunk."""
        labels = rows.labels
        codes = rows.codes
        is_sampled = np.array([label in self.labels for label in labels], dtype=bool)
        sizes_before = [self.class_sizes.get(label, 0) for label in labels]
        sizes_before = np.array(sizes_before, dtype=int)
        ranks = sizes_before[codes] + _samples.ranks(codes)
        chosen = np.flatnonzero(is_sampled[codes] & (ranks % self.step == 0))
        self.chunks.append(
            _RankedRows(
                X=rows.X[chosen],
                y=rows.y[chosen],
                weights=rows.weights[chosen],
                ranks=ranks[chosen],
            )
        )
        sizes = sizes_before + np.bincount(codes, minlength=len(labels))
        for label, size in zip(labels, sizes.tolist(), strict=True):
            if label in self.labels:
                self.class_sizes[label] = size
        self._thin_out()

    def _thin_out(self) -> None:
        """Keep every other row of each class until there are ``n_rows`` at most."""
        sizes = [n for n in self.class_sizes.values() if n >= self.min_class_size]
        step = _samples.stride(np.array(sizes, dtype=int), self.n_rows)
        if step > self.step:
            self.step = step
            self.chunks = [chunk.every(step) for chunk in self.chunks]
        self.chunks = [chunk for chunk in self.chunks if len(chunk.y)]

    def rows(self) -> Rows | None:
        """The sample; None if it has no row, whose features nobody knows then."""
        if not self.chunks:
            return None
        return stacked(chunk.X for chunk in self.chunks)

    def labels_of_rows(self) -> np.ndarray:
        if not self.chunks:
            return np.zeros(0)
        return np.concatenate([chunk.y for chunk in self.chunks])

    def weights_of_rows(self) -> np.ndarray:
        if not self.chunks:
            return np.zeros(0)
        return np.concatenate([chunk.weights for chunk in self.chunks])


class _ClassSamples:
    """A sample of each class: rows of one change nothing that is drawn of another."""

    def __init__(self, *, n_rows: int) -> None:
        self.n_rows = n_rows  # of each class, at most
        self.samples: dict[object, _EvenSample] = {}

    def add(self, rows: _RowsThatLearn) -> None:
        """Take from the rows of a chunk."""
        for c, label in enumerate(rows.labels):
            if label not in self.samples:
                self.samples[label] = _EvenSample(labels={label}, n_rows=self.n_rows)
            self.samples[label].add(rows.select_class(c))

    def rows(self) -> dict[object, Rows]:
        """The rows of each class, by its label."""
        return {label: sample.rows() for label, sample in self.samples.items()}

    def weights(self) -> dict[object, np.ndarray]:
        """The weights of these rows."""
        return {
            label: sample.weights_of_rows() for label, sample in self.samples.items()
        }


def stacked(chunks: Iterable[Rows]) -> Rows:
    """Rows of several chunks in one array or CSR matrix; a single one is not copied."""
    chunks = list(chunks)
    if len(chunks) == 1:
        return chunks[0]
    if sparse.issparse(chunks[0]):
        return sparse.vstack(chunks, "csr")
    return np.vstack(chunks)


def moments_of_chunks(
    member: ChunkedMember,
    *,
    kind: str,
    n_components: int,
    min_cluster_size: int,
    penalty: bool = False,
    model: str | None = None,
    class_weight: str | Sequence | None = None,
) -> dict:
    """Return the reply of `moments`, by a second pass; drawn rows give the clusters."""
    classes, sizes = _classes_and_sizes(member)
    n_features = next(iter(member.drawn.values())).shape[1]
    rule = member.rule
    kind = moments_kind(
        kind,
        n_features=n_features,
        n_classes=len(classes),
        # Fewer rows than features are never told of by roots under a rule.
        n_rows=sizes.sum() if rule is None else np.inf,
    )
    if kind == "roots":
        # There are fewer rows than features, so all of them take less memory than one
        # matrix would.
        return _moments.moments(
            member.with_all_rows(),
            kind="auto",
            n_components=n_components,
            min_cluster_size=min_cluster_size,
            penalty=penalty,
            model=model,
            class_weight=class_weight,
        )
    with naming_node(member.name, "its rows cannot be summed"):
        is_large = large_classes(sizes, min_cluster_size)
    min_rows = max(min_cluster_size, CLUSTER_ROWS, member.min_rows)
    class_rows = {
        c: member.drawn[classes[c].item()] for c in np.flatnonzero(sizes).tolist()
    }
    parts = _Parts(
        classes=classes,
        is_large=is_large,
        centers=_find_centres(
            class_rows,
            weights_by_class={
                c: member.drawn_weights.get(classes[c].item()) for c in class_rows
            },
            n_clusters=np.clip(sizes // min_rows, 1, n_components),
            seed=seed_of_rows(sizes),
        ),
        n_components=n_components,
    )
    rows = stacked([class_rows[c] for c in np.flatnonzero(is_large).tolist()])
    origin = median_of_rows(rows, np.arange(rows.shape[0]))
    gradient = _moments.OwnGradient(
        member,
        classes=classes,
        in_sums=is_large,
        origin=origin,
        model=model if rule is None or rule.residuals is not None else None,
        class_weight=class_weight,
    )
    gradient.fit_factor(member.X, member.y, member.weights)
    tails = None
    if model == "own":
        tails = CombinationTails(list(class_rows.items()), len(classes))
    with naming_node(member.name, "its rows cannot be summed"):
        watched = _Watched.from_member(member, parts, kind=kind)
        sums, n_rows_of_parts = _sum_parts(
            member,
            parts,
            kind=kind,
            gradient=gradient,
            tails=tails,
            watched=watched,
        )
        part_numbers = np.array(list(n_rows_of_parts))
        merged_into = _merge_small_clusters(
            sums,
            sizes=np.array(list(n_rows_of_parts.values()), dtype=float),
            cluster_numbers=part_numbers % n_components,
            centers=parts.centers,
            min_rows=min_rows,
        )
        sums = sums.merged_parts(watched.told_parts(merged_into))
    if rule is None:
        sums = _drop_small_classes(
            sums,
            origin=origin,
            n_classes=len(classes),
            n_large=is_large.sum(),
            with_shared_scatter=sizes[~is_large].sum() >= min_cluster_size,
        )
    else:
        sums = watched.with_noise(sums, classes=classes)
        sums = _as_told(sums, tells_products=rule.tells_products)
        gradient.move_to(sums.origin)
    if n_components == 1:
        sums = replace(sums, part_squares=None)
    if rule is None or not rule.is_withheld.any():  # columns that are constant for it
        warn_of_lost_features(member, sums)
    reply = _moments.reply_of_sums(
        member,
        classes=classes,
        sums=sums,
        penalty=penalty,
        withholds=rule is not None
        and rule.withholds(kind, has_classifier=member.has_classifier),
    )
    if tails is not None:
        reply |= _moments.reply_of_tails(member, tails)
    return reply | gradient.reply(sums)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Watched:
    """What is watched of rows under a rule while they are summed; None: nothing is."""

    rule: ChunkRule | None
    ends: ClusterEnds | None = None
    code_columns: CodeColumns | None = None

    @classmethod
    def from_member(
        cls, member: ChunkedMember, parts: "_Parts", *, kind: str
    ) -> "_Watched":
        """Return the watchers of a member's rows, by its rule of disclosure."""
        rule = member.rule
        if rule is None:
            return cls(rule=None)
        ends = None
        if parts.centers:
            ends = ClusterEnds(told=rule, rule=member.disclosure, kind=kind)
        code_columns = None
        if kind != "diagonal":
            code_columns = CodeColumns(rule, kind=kind)
        return cls(rule=rule, ends=ends, code_columns=code_columns)

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray | None,
        *,
        numbers: np.ndarray,
    ) -> None:
        """Add rows, with the numbers of their parts."""
        codes = indices_of(y, self.rule.labels)
        if self.ends is not None:
            self.ends.add(X, y, weights, codes=codes, numbers=numbers)
        if self.code_columns is not None:
            self.code_columns.add(X, codes)

    def told_parts(self, merged_into: np.ndarray) -> np.ndarray:
        """For each part the one that it becomes one with, under the rule."""
        return merged_into if self.ends is None else self.ends.told_parts(merged_into)

    def with_noise(self, sums: ClassMoments, *, classes: np.ndarray) -> ClassMoments:
        """Sums in which products of two columns of codes have noise of one row."""
        if self.code_columns is None:
            return sums
        rng = np.random.default_rng(self.rule.noise_seed)
        scatter = sums.scatter.copy()
        codes = indices_of(classes, self.rule.labels)
        for place, group in enumerate(sums.groups.tolist()):
            name = SHARED if group == SHARED else int(codes[group])
            units = self.code_columns.units(name)
            noise = drawn_noise(len(units), rng)
            scatter[place] = with_noise(scatter[place], units, noise)
        return replace(sums, scatter=scatter)


def _as_told(sums: ClassMoments, *, tells_products: bool) -> ClassMoments:
    """Sums about a mean, which is no row, and with products that may be told alone."""
    sums = sums.with_origin(weighted_mean(sums.origin + sums.means, sums.counts))
    sums = replace(sums, squares=None)
    if SHARED not in sums.groups:
        return sums
    sums = replace(sums, part_squares=None)
    if tells_products or sums.is_diagonal:
        return sums
    return sums.keep_products_of(np.zeros(sums.n_features, dtype=bool))


def _classes_and_sizes(member: ChunkedMember) -> tuple[np.ndarray, np.ndarray]:
    """Sorted labels of classes that learn or were left out, and rows of each.

    Classes that were left out have a place in the reply, and no rows.
    """
    labels, counts_by_role = member.row_counts()
    counts = counts_by_role["moments"].tolist()
    size_of_label = dict(zip(labels, counts, strict=True))
    classes = as_labels([label for label in labels if size_of_label[label]])
    if member.left_out is not None:
        classes = np.union1d(classes, member.left_out)
    sizes = [size_of_label.get(label, 0) for label in classes.tolist()]
    return classes, np.array(sizes)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Parts:
    """Into which parts, and columns of the sums, rows go.

    A part is a cluster, or a class that is not divided. Classes that are too small for
    a mean of their own have a part each, and together the one column after all classes.
    """

    classes: np.ndarray  # (n_classes,), sorted labels
    is_large: np.ndarray  # (n_classes,), bool
    centers: Mapping[int, Centers]  # of classes that are divided, by index
    n_components: int  # the most clusters of a class

    @property
    def are_classes(self) -> bool:
        """Report whether each part is a whole class, and no class is small."""
        return self.n_components == 1 and bool(self.is_large.all())

    def numbers(self, X: Rows, codes: np.ndarray) -> np.ndarray:
        """(n_rows,), the number of each row's part; ``codes`` index the classes.

        Part numbers of class c begin at ``c * n_components``, those of small classes
        after the ones of all classes: so parts are in the order of columns.
        """
        n_classes = len(self.classes)
        numbers_of_classes = np.where(self.is_large, 0, n_classes) + np.arange(
            n_classes
        )
        numbers = self.n_components * numbers_of_classes[codes]
        for c in set(np.unique(codes).tolist()) & set(self.centers):
            rows = np.flatnonzero(codes == c)
            numbers[rows] += np.argmin(self.centers[c].distances(X, rows), axis=1)
        return numbers

    def columns(self, codes: np.ndarray) -> np.ndarray:
        """(n_rows,), the column of each row in the sums."""
        n_classes = len(self.classes)
        return np.where(self.is_large, np.arange(n_classes), n_classes)[codes]


def _sum_parts(
    member: ChunkedMember,
    parts: _Parts,
    *,
    kind: str,
    gradient: "_moments.OwnGradient",
    tails: CombinationTails | None,
    watched: "_Watched",
) -> tuple[ClassMoments, dict[int, int]]:
    """Sums of all rows that learn; these are added to the others on the way.

    Returns
    -------
    sums : ClassMoments
    n_rows_of_parts : dict
        How many rows each part of the sums has, by its number, as `_Parts` has them;
        sorted.
    """
    sums = None
    part_numbers = np.zeros(0, dtype=np.intp)
    n_rows_of_parts: Counter[int] = Counter()
    rule = member.rule
    has_own = None
    if rule is not None:
        # Of the classes in the reply, those that were left out have no rows.
        has_own = np.zeros(len(parts.classes), dtype=bool)
        has_own[indices_of(np.array(rule.labels), parts.classes)] = rule.owns(kind)
    for X, y, weights in member.learning_rows():
        if rule is not None and not parts.is_large.all():
            # A server that asks for larger classes is told of no others.
            is_told = parts.is_large[indices_of(y, parts.classes)]
            X, y = X[is_told], y[is_told]
            weights = None if weights is None else weights[is_told]
            if not len(y):
                continue
        codes = indices_of(y, parts.classes)
        numbers = parts.numbers(X, codes)
        if rule is not None:
            watched.add(X, y, weights, numbers=numbers)
            X = rule.without_columns(X, y, kind=kind)
        sums_of_chunk = class_moments(
            X,
            parts.columns(codes),
            kind=kind,
            parts=None if parts.are_classes else numbers,
            weights=weights,
            has_own=has_own,
        )
        sums = sums_of_chunk if sums is None else merge_moments([sums, sums_of_chunk])
        # Parts of one number, of this chunk and of those before it, become one.
        present, n_rows_of_chunk = np.unique(numbers, return_counts=True)
        part_numbers = np.append(part_numbers, present)
        order = np.argsort(part_numbers)
        sums = sums.some_parts(order).merged_parts(part_numbers[order])
        part_numbers = np.unique(part_numbers)
        n_rows_of_parts.update(
            dict(zip(present.tolist(), n_rows_of_chunk.tolist(), strict=True))
        )
        gradient.add(X, codes, weights)
        if tails is not None:
            tails.add(X, codes)
        # Before the next chunk is in memory.
        del X, y, weights, codes, numbers, sums_of_chunk
    return sums, dict(sorted(n_rows_of_parts.items()))


def _drop_small_classes(
    sums: ClassMoments,
    *,
    origin: np.ndarray,
    n_classes: int,
    n_large: int,
    with_shared_scatter: bool,
) -> ClassMoments:
    """Return sums without the column of small classes; their scatter if it may be sent.

    The scatter of a few rows would say what these are. Where small classes together
    have enough rows, their scatter is of no class, `SHARED`.
    """
    is_of_class = sums.groups < n_classes
    is_sent = is_of_class | with_shared_scatter
    return replace(
        sums.some_parts(np.flatnonzero(sums.columns < n_classes)).with_origin(origin),
        groups=np.where(is_of_class, sums.groups, SHARED)[is_sent],
        group_counts=sums.group_counts[is_sent],
        scatter=sums.scatter[is_sent],
        squares=None if sums.squares is None else sums.squares[:n_large],
    )


def _find_centres(
    class_rows: Mapping[int, Rows],
    *,
    weights_by_class: Mapping[int, np.ndarray | None],
    n_clusters: np.ndarray,
    seed: int,
) -> dict[int, Centers]:
    """Centers of the clusters of each class that is divided, by its index.

    Parameters
    ----------
    class_rows : mapping from int to rows
        Rows that were drawn of each class, by its index.
    weights_by_class : mapping from int to ndarray, or None
        The weights of these rows; None where rows have none.
    n_clusters : ndarray of shape (n_classes,)
        The most clusters of each class; classes of one are not divided.
    seed : int
        Of the k-means.
    """
    indices = list(class_rows)
    if n_clusters[indices].max() == 1:
        return {}
    codes = np.repeat(indices, [rows.shape[0] for rows in class_rows.values()])
    weights = list(weights_by_class.values())
    inverse = inverse_deviations(
        stacked(class_rows.values()),
        codes,
        None if weights[0] is None else np.concatenate(weights),
    )
    # All classes begin at one seed: none depends on how many others there are.
    kmeans_seed = check_random_state(seed).randint(2**31 - 1)
    return {
        c: Centers(
            rows,
            n_clusters=n_clusters[c],
            inverse=inverse,
            seed=kmeans_seed,
            weights=weights_by_class[c],
        )
        for c, rows in class_rows.items()
        if n_clusters[c] > 1
    }


def _merge_small_clusters(
    sums: ClassMoments,
    *,
    sizes: np.ndarray,
    cluster_numbers: np.ndarray,
    centers: Mapping[int, Centers],
    min_rows: int,
) -> np.ndarray:
    """For each part of the sums the part that it becomes one with.

    A cluster of fewer than ``min_rows`` rows joins the nearest one of its class, the
    smallest first. ``sizes`` (n_parts,) are their rows, whatever these weigh, and
    ``cluster_numbers`` (n_parts,) say which cluster of its class a part is. Other parts
    stay as they are.
    """
    merged_into = np.arange(len(cluster_numbers))
    for c, centres_of_class in centers.items():
        parts = np.flatnonzero(sums.columns == c)
        if not len(parts):
            continue
        positions = centres_of_class.centers[cluster_numbers[parts]]
        class_sizes = sizes[parts]  # infinite where a cluster has joined another
        while np.isfinite(class_sizes).sum() > 1:
            smallest = int(np.argmin(class_sizes))
            n_rows = class_sizes[smallest]
            if n_rows >= min_rows:
                break
            class_sizes[smallest] = np.inf
            distances = ((positions - positions[smallest]) ** 2).sum(axis=1)
            distances[np.isinf(class_sizes)] = np.inf
            nearest = int(np.argmin(distances))
            class_sizes[nearest] += n_rows
            merged_into[merged_into == parts[smallest]] = parts[nearest]
    return merged_into
