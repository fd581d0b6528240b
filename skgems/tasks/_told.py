"""How many numbers replies with sums tell, and of how many rows each is a sum."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..messages import ToldNumbers, pairs_in, told_numbers
from ..moments import ClassMoments

if TYPE_CHECKING:
    from ._class_sums import ClassSumsReply
    from ._evaluate import EvaluateReply
    from ._front import FrontReply
    from ._inference import InferenceReply
    from ._join import JoinReply
    from ._moments import MomentsReply
    from ._neurons import NeuronsReply
    from ._space import SpaceReply


def told_of_moments(reply: "MomentsReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that means, products and gradients of classes are."""
    moments = ClassMoments.from_arrays(reply.moments)
    labels = list(reply.labels)
    weights = moments.class_counts(len(labels))
    # Weights of a user may be of any size.
    n_rows = weights if reply.n_rows is None else np.minimum(weights, reply.n_rows)
    sizes = {c: float(n_rows[c]) for c in np.flatnonzero(n_rows > 0).tolist()}
    for c, size in sizes.items():
        yield _told_of_means(moments, c, label=labels[c], n_rows=size)
    own = set(moments.groups.tolist())
    for g, group in enumerate(moments.groups.tolist()):
        of_group = [c for c in sizes if c == group or (group < 0 and c not in own)]
        if of_group:
            yield _summed(
                {labels[c]: sizes[c] for c in of_group}, _n_products(moments, g)
            )
    yield from _told_of_gradients(reply, sizes)


def _told_of_gradients(
    reply: "MomentsReply", sizes: Mapping[int, float]
) -> Iterator[ToldNumbers]:
    """Yield the numbers of gradients over all classes, or of one for each class."""
    labels = reply.labels
    for of_all in (reply.gradient, reply.slope):
        if of_all is not None:
            by_label = {labels[c]: size for c, size in sizes.items()}
            yield _summed(by_label, _n_in_gradient(of_all))
    for by_class in (reply.gradients, reply.slopes):
        for c, gradient in enumerate(() if by_class is None else by_class):
            if c in sizes:
                yield _summed({labels[c]: sizes[c]}, _n_in_gradient(gradient))


def _summed(sizes: Mapping[object, float], n_numbers: float) -> ToldNumbers:
    """Return numbers that are sums over all rows of some classes."""
    return ToldNumbers(
        rows={(label, None): size for label, size in sizes.items()},
        n_numbers=n_numbers,
        of_a_row=n_numbers / sum(sizes.values()),
    )


def _told_of_means(
    moments: ClassMoments, c: int, *, label: object, n_rows: float
) -> ToldNumbers:
    """Return the means of a class, or of its clusters, and the squares about these.

    Squares that are the diagonal of a scatter are counted there.
    """
    counts = moments.counts[moments.columns == c]
    has_own = c in moments.groups
    has_squares = len(counts) > 1 and moments.part_squares is not None
    n_of_part = moments.n_features * (1 + has_squares)
    n_of_class = 0
    if has_squares:  # their sum over the clusters is the diagonal
        n_of_class = -moments.n_features if has_own else 0
    elif moments.squares is not None and not has_own:
        squares = moments.class_squares()[c]
        n_of_class = int((squares > 0).sum())
    smallest = n_rows * counts.min() / counts.sum()
    return ToldNumbers(
        rows={(label, None): n_rows},
        n_numbers=n_of_part * len(counts) + n_of_class,
        of_a_row=n_of_part / smallest + n_of_class / n_rows,
    )


def _n_products(moments: ClassMoments, g: int) -> float:
    """Return how many products, and squares, a scatter has that are not 0."""
    diagonal = moments.scatter[g]
    if not moments.is_diagonal:
        diagonal = diagonal.diagonal()
    varies = diagonal > 0
    n_squares = int(varies.sum())
    is_shared = moments.groups[g] < 0
    if moments.roots is not None:
        rank = int((moments.root_groups == g).sum())
        return min(
            rank * n_squares - rank * (rank - 1) / 2, n_squares * (n_squares + 1) / 2
        )
    if moments.is_diagonal:
        return n_squares
    is_told = varies
    if is_shared and moments.block is not None:
        is_told = varies & moments.block
    n_told = int(is_told.sum())
    if is_shared and moments.squares is not None:  # the diagonal is their sum
        n_squares = 0
    return n_squares + n_told * (n_told - 1) / 2


def _n_in_gradient(gradient: np.ndarray) -> float:
    """Return how many numbers a gradient is: it sums to 0 over the outputs."""
    return len(gradient) * (gradient.shape[1] - 1)


def told_of_evaluate(reply: "EvaluateReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that gradients are, of those models that have one."""
    gradients = reply.gradient
    if gradients is None or not reply.count:
        return
    for gradient in np.reshape(gradients, (-1, *np.shape(gradients)[-2:])):
        if not np.isnan(gradient).any():
            yield _summed({None: float(reply.count)}, _n_in_gradient(gradient))


def told_of_inference(reply: "InferenceReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that gradient, information and products of scores are."""
    size = float(reply.n_rows)
    if reply.gradient is not None:
        yield _summed({None: size}, _n_in_gradient(reply.gradient))
    for triangle in (reply.information, reply.middle):
        if triangle is not None:
            yield _summed({None: size}, len(triangle))


def told_of_class_sums(reply: "ClassSumsReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that sums of features by class are."""
    n_rows = reply.counts
    if reply.n_rows is not None:
        n_rows = np.minimum(n_rows, reply.n_rows)
    n_numbers = reply.sums.shape[1]
    if reply.sizes is not None:  # each row has one category of a feature
        n_numbers -= int((reply.sizes > 0).sum())
    for label, size in zip(reply.labels, n_rows.tolist(), strict=True):
        if size > 0:
            yield _summed({label: size}, n_numbers)


def told_of_space(reply: "SpaceReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that the shape of a space and its radii are."""
    n_rows = float(reply.radii_n_rows)
    if reply.metric_scatter is not None:
        n_features = len(reply.metric_scatter)
        yield _summed({None: n_rows}, n_features * (n_features + 3) / 2)
    elif reply.metric_precision is not None:
        yield _summed({None: n_rows}, reply.metric_precision.size)
    if reply.radii_radii is not None:  # each is a distance of one row
        n_radii = len(reply.radii_radii)
        yield ToldNumbers(
            rows={(None, None): n_rows}, n_numbers=n_radii, of_a_row=np.inf
        )
    else:
        yield _summed({None: n_rows}, len(reply.radii_losses))


def told_of_neurons(reply: "NeuronsReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that the shape of spaces of a first layer and their radii are.

    Weights of units are no sums of rows. Numbers about further layers do not count.
    """
    if reply.n_rows:
        precision = reply.precision
        n_numbers = len(reply.radii) + len(reply.sizes)
        n_numbers += precision.size
        if precision.ndim == 2:  # it is symmetric
            n_numbers -= precision.size - len(precision) * (len(precision) + 1) // 2
        yield _summed({None: float(reply.n_rows)}, n_numbers)


def told_of_front(reply: "FrontReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that statistics of columns over all rows are.

    How many rows have a value is not counted: it is about gaps, not about values.
    """
    for sums in reply.parts.values():
        not_numbers = ("counts", "cumulative")
        arrays = [np.asarray(sums[name]) for name in sums if name not in not_numbers]
        n_numbers = sum(array.size for array in arrays if array.dtype.kind == "f")
        # Histograms count in steps of several rows, and tell where each step is.
        for cumulative in sums.get("cumulative", ()):
            n_numbers += len(np.unique(cumulative[cumulative > 0]))
        if "n_rows" in sums:
            n_rows = float(sums["n_rows"])
            n_numbers -= 1  # n_rows is one of them
        else:  # power transforms count the rows of each column
            n_rows = float(np.max(sums.get("counts", 0.0), initial=0.0))
        if n_rows > 0:
            yield _summed({None: n_rows}, n_numbers)


def told_of_summary(reply: "JoinReply") -> Iterator[ToldNumbers]:
    """Yield the numbers that the replies in a summary are, by class."""
    counted = reply.describe["rows"]
    labels = list(counted["labels"])
    sizes = dict(zip(labels, map(float, counted["moments"]), strict=True))
    for _, message in pairs_in(reply.as_content()):
        for numbers in told_numbers(message):
            yield numbers.of_classes(sizes)
