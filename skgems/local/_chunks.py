"""A node whose rows come in chunks, read twice: counts and a few rows, then sums.

The first pass counts rows by class and draws some of them. The factor on the model's
logits and the centers of clusters are found by these. The second pass adds up the
moments of all rows, each in the cluster whose center is nearest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..moments import (
    CLUSTER_ROWS,
    SHARED,
    Centers,
    ClassMoments,
    class_moments,
    inverse_deviations,
    large_classes,
    median_of_rows,
    merge_moments,
    moments_kind,
)
from . import _moments, _samples
from ._classifiers import Rows, at_node, indices_of
from ._constants import warn_of_lost_features
from ._member import Member
from ._seeds import seed_of_rows
from ._tails import CombinationTails

# Label: how many rows of its class learn, and how many are held out.
Tally = dict[object, tuple[int, int]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ChunkedMember(Member):
    """A member whose rows come in chunks; ``X`` and ``y`` are a few that were drawn."""

    # Each call begins a pass over all rows: chunks of rows, labels, and a mask of rows
    # that are held out or None.
    read: Callable[[], Iterator[tuple]] = field(default=None, repr=False)
    tally: Tally = field(default_factory=dict)
    # Label: rows that were drawn of its class. Empty: none were to be drawn.
    drawn: dict[object, Rows] = field(default_factory=dict, repr=False)

    @classmethod
    def read_once(
        cls,
        name: str,
        estimator: object,
        read: Callable[[], Iterator[tuple]],
        *,
        n_drawn: int = 0,
        least: int = 1,
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
        """
        member = cls.of(name, estimator, None, None, read=read)
        if not n_drawn:
            return replace(member, tally=_count_rows(read()))
        factor_sample = _EvenSample(
            labels=set() if estimator is None else set(member.own_linear()[1]),
            n_rows=_moments.TEMPERATURE_ROWS,
            min_class_size=least,
        )
        # One for each class: rows of one change nothing that is drawn of another.
        class_samples: dict[object, _EvenSample] = {}
        tally: Tally = {}
        for X, y, held_out in read():
            _add_to_tally(tally, y, held_out)
            if held_out is not None:
                X, y = X[~held_out], y[~held_out]
            labels, codes = np.unique(y, return_inverse=True)
            factor_sample.add(X, y, labels=labels.tolist(), codes=codes)
            for c, label in enumerate(labels.tolist()):
                if label not in class_samples:
                    class_samples[label] = _EvenSample(labels={label}, n_rows=n_drawn)
                rows = np.flatnonzero(codes == c)
                class_samples[label].add_of_class(X[rows], y[rows], label)
            del X, y, held_out  # before the next chunk is in memory
        class_rows = {label: sample.rows() for label, sample in class_samples.items()}
        X = factor_sample.rows()
        if X is None and class_rows:  # no row has a class of the model
            X = next(iter(class_rows.values()))[:0]
        return replace(
            member, X=X, y=factor_sample.labels_of_rows(), tally=tally, drawn=class_rows
        )

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

    def of_large_classes(self, min_rows: int) -> "ChunkedMember":
        """See `Member.of_large_classes`; no row is read."""
        small_classes = self._small_classes(min_rows)
        if not small_classes:
            return self
        member = replace(self, left_out=np.array(sorted(small_classes)))
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

    def learning_rows(self) -> Iterator[tuple[Rows, np.ndarray]]:
        """Rows that learn and labels, chunk by chunk; ValueError if they changed."""
        sent_labels = self._sent_labels()
        tally: Tally = {}
        for X, y, held_out in self.read():
            _add_to_tally(tally, y, held_out)
            if set(tally) - set(self.tally):  # a class that was not there before
                break
            learns = np.full(len(y), True) if held_out is None else ~held_out
            if self.left_out is not None:
                learns &= np.isin(y, sent_labels)
            if not learns.all():
                X, y = X[learns], y[learns]
            if len(y):
                yield X, y
            del X, y, held_out, learns  # before the next chunk is in memory
        if tally != self.tally:
            raise ValueError(
                f"Node {self.name!r}: chunks() gave other rows in the second pass: the "
                f"rows per class were {_n_rows_by_label(tally)} instead of "
                f"{_n_rows_by_label(self.tally)}. It must give the same rows in each "
                "pass."
            )


def _count_rows(chunks: Iterable[tuple]) -> Tally:
    tally: Tally = {}
    for _, y, held_out in chunks:
        _add_to_tally(tally, y, held_out)
    return tally


def _add_to_tally(tally: Tally, y: np.ndarray, held_out: np.ndarray | None) -> None:
    """Count the rows of a chunk; ``held_out`` is a mask of them, None: none is."""
    labels, codes = np.unique(y, return_inverse=True)
    if held_out is None:
        held_out = np.zeros(len(y), dtype=bool)
    n_learning = np.bincount(codes[~held_out], minlength=len(labels)).tolist()
    n_held_out = np.bincount(codes[held_out], minlength=len(labels)).tolist()
    for c, label in enumerate(labels.tolist()):
        n_learning_before, n_held_out_before = tally.get(label, (0, 0))
        tally[label] = (
            n_learning_before + n_learning[c],
            n_held_out_before + n_held_out[c],
        )


def _n_rows_by_label(tally: Tally) -> dict:
    return {label: sum(counts) for label, counts in sorted(tally.items())}


@dataclass(frozen=True, eq=False, kw_only=True)
class _RankedRows:
    """Rows of one chunk that are in a sample."""

    X: Rows
    y: np.ndarray
    ranks: np.ndarray  # (n_rows,), how many rows of its class came before each

    def every(self, step: int) -> "_RankedRows":
        """Every ``step``-th row of each class."""
        rows = self.ranks % step == 0
        return _RankedRows(X=self.X[rows], y=self.y[rows], ranks=self.ranks[rows])


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

    def add(self, X: Rows, y: np.ndarray, *, labels: list, codes: np.ndarray) -> None:
        """Take from the rows of a chunk, whose labels ``y`` are ``labels[codes]``."""
        is_sampled = np.array([label in self.labels for label in labels], dtype=bool)
        sizes_before = [self.class_sizes.get(label, 0) for label in labels]
        sizes_before = np.array(sizes_before, dtype=int)
        ranks = sizes_before[codes] + _samples.ranks(codes)
        rows = np.flatnonzero(is_sampled[codes] & (ranks % self.step == 0))
        self.chunks.append(_RankedRows(X=X[rows], y=y[rows], ranks=ranks[rows]))
        sizes = sizes_before + np.bincount(codes, minlength=len(labels))
        for label, size in zip(labels, sizes.tolist(), strict=True):
            if label in self.labels:
                self.class_sizes[label] = size
        self._thin_out()

    def add_of_class(self, X: Rows, y: np.ndarray, label: object) -> None:
        """Take from rows of a chunk that are all of one class."""
        self.add(X, y, labels=[label], codes=np.zeros(len(y), dtype=int))

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
    """What `moments` replies, by a second pass; clusters are those of rows drawn."""
    classes, sizes = _classes_and_sizes(member)
    n_features = next(iter(member.drawn.values())).shape[1]
    kind = moments_kind(
        kind, n_features=n_features, n_classes=len(classes), n_rows=sizes.sum()
    )
    if kind == "roots":
        # There are fewer rows than features, so all of them take less memory than one
        # matrix would.
        return _moments.moments(
            _with_all_rows(member),
            kind="auto",
            n_components=n_components,
            min_cluster_size=min_cluster_size,
            penalty=penalty,
            model=model,
            class_weight=class_weight,
        )
    with at_node(member.name, "its rows cannot be summed"):
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
            n_clusters=np.clip(sizes // min_rows, 1, n_components),
            seed=seed_of_rows(sizes),
        ),
        n_components=n_components,
    )
    rows = stacked([class_rows[c] for c in np.flatnonzero(is_large).tolist()])
    origin = median_of_rows(
        rows, rows=np.arange(rows.shape[0]), whole=min_cluster_size > 1
    )
    gradient = _moments.OwnGradient(
        member,
        classes=classes,
        in_sums=is_large,
        origin=origin,
        model=model,
        class_weight=class_weight,
    )
    gradient.fit_factor(member.X, member.y)
    tails = None
    if model == "own":
        tails = CombinationTails(list(class_rows.items()), len(classes))
    with at_node(member.name, "its rows cannot be summed"):
        sums, part_numbers = _sum_parts(
            member, parts, kind=kind, gradient=gradient, tails=tails
        )
        sums = sums.merged_parts(
            _merge_small_clusters(
                sums,
                cluster_numbers=part_numbers % n_components,
                centers=parts.centers,
                min_rows=min_rows,
            )
        )
    is_shared_scatter_sent = sizes[~is_large].sum() >= min_cluster_size
    sums = _without_small_classes(
        sums,
        origin=origin,
        n_classes=len(classes),
        n_large=is_large.sum(),
        with_shared_scatter=is_shared_scatter_sent,
    )
    if n_components == 1:
        sums = replace(sums, part_squares=None)
    warn_of_lost_features(member, sums)
    reply = _moments.reply_of_sums(member, classes=classes, sums=sums, penalty=penalty)
    if tails is not None:
        reply |= _moments.reply_of_tails(member, tails)
    return reply | gradient.reply(sums)


def _classes_and_sizes(member: ChunkedMember) -> tuple[np.ndarray, np.ndarray]:
    """Sorted labels of classes that learn or were left out, and rows of each.

    Classes that were left out have a place in the reply, and no rows.
    """
    labels, counts_by_role = member.row_counts()
    counts = counts_by_role["moments"].tolist()
    size_of_label = dict(zip(labels, counts, strict=True))
    classes = np.array([label for label in labels if size_of_label[label]])
    if member.left_out is not None:
        classes = np.union1d(classes, member.left_out)
    sizes = [size_of_label.get(label, 0) for label in classes.tolist()]
    return classes, np.array(sizes)


def _with_all_rows(member: ChunkedMember) -> Member:
    """The same node with all rows that learn in memory."""
    chunks = list(member.learning_rows())
    return Member(
        name=member.name,
        model=member.model,
        X=stacked(X for X, _ in chunks),
        y=np.concatenate([y for _, y in chunks]),
        left_out=member.left_out,
        min_rows=member.min_rows,
    )


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
        """Whether parts are nothing but the columns."""
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
) -> tuple[ClassMoments, np.ndarray]:
    """Sums of all rows that learn; these are added to gradient and tails on the way.

    Returns
    -------
    sums : ClassMoments
    part_numbers : ndarray of shape (n_parts,)
        The number of each part of the sums, as `_Parts` has them; sorted.
    """
    sums = None
    part_numbers = np.zeros(0, dtype=np.intp)
    for X, y in member.learning_rows():
        codes = indices_of(y, parts.classes)
        numbers = parts.numbers(X, codes)
        sums_of_chunk = class_moments(
            X,
            parts.columns(codes),
            kind=kind,
            parts=None if parts.are_classes else numbers,
        )
        sums = sums_of_chunk if sums is None else merge_moments([sums, sums_of_chunk])
        # Parts of one number, of this chunk and of those before it, become one.
        part_numbers = np.append(part_numbers, np.unique(numbers))
        order = np.argsort(part_numbers)
        sums = sums.some_parts(order).merged_parts(part_numbers[order])
        part_numbers = np.unique(part_numbers)
        gradient.add(X, codes)
        if tails is not None:
            tails.add(X, codes)
        del X, y, codes, numbers, sums_of_chunk  # before the next chunk is in memory
    return sums, part_numbers


def _without_small_classes(
    sums: ClassMoments,
    *,
    origin: np.ndarray,
    n_classes: int,
    n_large: int,
    with_shared_scatter: bool,
) -> ClassMoments:
    """Sums without the column of small classes, and their scatter if it may be sent.

    The scatter of a few rows would say what these are. Where small classes together
    have enough rows, their scatter is of no class, `SHARED`.
    """
    is_of_class = sums.groups < n_classes
    is_sent = is_of_class | with_shared_scatter
    return replace(
        sums.some_parts(np.flatnonzero(sums.columns < n_classes)).about(origin),
        groups=np.where(is_of_class, sums.groups, SHARED)[is_sent],
        group_counts=sums.group_counts[is_sent],
        scatter=sums.scatter[is_sent],
        squares=None if sums.squares is None else sums.squares[:n_large],
    )


def _find_centres(
    class_rows: Mapping[int, Rows], *, n_clusters: np.ndarray, seed: int
) -> dict[int, Centers]:
    """Centers of the clusters of each class that is divided, by its index.

    Parameters
    ----------
    class_rows : mapping from int to rows
        Rows that were drawn of each class, by its index.
    n_clusters : ndarray of shape (n_classes,)
        The most clusters of each class; classes of one are not divided.
    seed : int
        Of the k-means.
    """
    indices = list(class_rows)
    if n_clusters[indices].max() == 1:
        return {}
    codes = np.repeat(indices, [rows.shape[0] for rows in class_rows.values()])
    inverse = inverse_deviations(stacked(class_rows.values()), codes)
    # All classes begin at one seed: none depends on how many others there are.
    kmeans_seed = check_random_state(seed).randint(2**31 - 1)
    return {
        c: Centers(rows, n_clusters=n_clusters[c], inverse=inverse, seed=kmeans_seed)
        for c, rows in class_rows.items()
        if n_clusters[c] > 1
    }


def _merge_small_clusters(
    sums: ClassMoments,
    *,
    cluster_numbers: np.ndarray,
    centers: Mapping[int, Centers],
    min_rows: int,
) -> np.ndarray:
    """For each part of the sums the part that it becomes one with.

    A cluster of fewer than ``min_rows`` rows joins the nearest one of its class, the
    smallest first. ``cluster_numbers`` (n_parts,) say which cluster of its class a part
    is. Other parts stay as they are.
    """
    merged_into = np.arange(len(cluster_numbers))
    for c, centres_of_class in centers.items():
        parts = np.flatnonzero(sums.columns == c)
        if not len(parts):
            continue
        positions = centres_of_class.centers[cluster_numbers[parts]]
        sizes = sums.counts[parts]  # infinite where a cluster has joined another
        while np.isfinite(sizes).sum() > 1:
            smallest = int(np.argmin(sizes))
            n_rows = sizes[smallest]
            if n_rows >= min_rows:
                break
            sizes[smallest] = np.inf
            distances = ((positions - positions[smallest]) ** 2).sum(axis=1)
            distances[np.isinf(sizes)] = np.inf
            nearest = int(np.argmin(distances))
            sizes[nearest] += n_rows
            merged_into[merged_into == parts[smallest]] = parts[nearest]
    return merged_into
