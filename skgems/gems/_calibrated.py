"""How sure the last layer of a network is: the factor on its logits.

The penalty C on a last layer is chosen so that labels of other rows are likely. For a
model of many units it is mostly too weak: logits are too large. A factor f on them
keeps all labels. Let own(f) be the log-loss under a factor, summed over the rows that
the layer is made of, and p the effective number of its parameters. On other rows the
loss is larger, by up to f p (Akaike), of which half is taken. So the factors

    f_own = argmin own(f)    and    f_p = argmin own(f) + f p / 2

are the best for these rows and for others. Where there are nearly as many parameters as
rows, f p / 2 says too much, so that the factor is no less than a share of f_own:

    f = min(1, max(f_p, 0.8 f_own)) .

Where all nodes hold rows out, it is the best factor for these.
"""

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from ..compat import say
from ..moments import Likelihood, TemperatureSearch
from ..tasks import EvaluateReply
from ._problem import LinearModels, LinearNode
from ._stage import LinearMerge

# The smallest share of the best factor for the rows that made a layer. The best share
# for other rows is 0.3 to 1.1 on 41 partitions of penbased, spambase, magic, led7digit
# and movement_libras (UCI, KEEL), digits and breast cancer: large where p is small.
_LEAST_SHARE = 0.8
# Nats on other rows that a parameter costs, at the factor 1. On 20 partitions of these
# UCI and KEEL sets the log-loss is above the best by 0.0085 nats a row with 0, 0.0045
# with 0.5 and 0.0037 with 1, and without led7digit by 0.0042 and 0.0040 with the last
# two. On clean classes of `make_classification` 1 doubles the calibration error.
_LOSS_OF_A_PARAMETER = 0.5
# Ends of the factors that are tried: networks of five nodes need 0.3 to 1.3.
_SMALLEST_TRIED = 1 / 8
# A few rows that are separable, as in small simulations, would take any that is larger.
_LARGEST_TRIED = 2.0


def calibrated_plan(
    merge: LinearMerge, problem: LinearModels, *, reached: Set[str] | Sequence[str]
) -> Generator:
    """Plan whose result is the merge with a factor on its weights.

    It takes one message to the nodes that can be ``reached``. Where there are none, or
    nothing can be told by their replies, the merge stays as it is.
    """
    likelihood = merge.likelihood
    nodes = [node for node in problem.nodes if node.name in reached]
    centered = likelihood.from_rows(merge.W)
    size = likelihood.logit_size(centered)
    if not nodes or len(problem.classes) < 2 or size == 0:
        return merge
    search = TemperatureSearch(
        size=size,
        n_rows=likelihood.n_rows,
        low=float(np.log(_SMALLEST_TRIED * size)),
        high=float(np.log(_LARGEST_TRIED * size)),
        n_grids=1,
    )
    replies = yield replace(problem, nodes=nodes).requests(
        "evaluate",
        [_rows_content(node, merge, problem) for node in nodes],
        W=merge.W,
        factors=search.factors,
        of="learning",
    )
    factor = _best_factor(
        [reply for _, reply in replies], search, likelihood, W=centered
    )
    if factor is None:
        return merge
    say(f"factor on the logits of the last layer: {factor:.3g}")
    return replace(merge, W=factor * merge.W)


def _best_factor(
    replies: Sequence[EvaluateReply],
    search: TemperatureSearch,
    likelihood: Likelihood,
    *,
    W: np.ndarray,
) -> float | None:
    """Return the factor by the losses that nodes sent; None if these tell nothing.

    ``W``, (n_features + 1, n_classes), are the weights in the likelihood's coordinates.
    """
    are_held_out = bool(replies) and all(
        reply.held_out is not None for reply in replies
    )
    sums = [reply.judged if are_held_out else reply for reply in replies]
    count = sum(of_node.count for of_node in sums)
    losses = sum(of_node.losses for of_node in sums)
    if not count or not np.isfinite(losses).any():
        return None
    factor = search.narrow(losses / count).best
    if are_held_out:
        return factor
    slope = _LOSS_OF_A_PARAMETER * likelihood.n_parameters(W)
    corrected = search.narrow((losses + slope * search.factors) / count).best
    return min(1.0, max(corrected, _LEAST_SHARE * factor))


def _rows_content(
    node: LinearNode, merge: LinearMerge, problem: LinearModels
) -> Mapping:
    """A node's part of the request: its classes that are in the sums, and weights."""
    likelihood = merge.likelihood
    columns = np.intersect1d(node.row_columns, np.flatnonzero(likelihood.seen))
    class_weight = likelihood.loss.class_weight
    return {
        **problem.labels_content(columns),
        "class_weights": None if class_weight is None else class_weight[columns],
    }
