"""What all methods of trees have in common, which grow from what nodes count."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer
from sklearn.utils import compute_class_weight

from ..asking import Run, warn_of_many_rows
from ..base import Allows
from ..local import Member
from ..messages import Message, Reply
from ..moments import PooledForm
from ..networks import final_step
from ..parties import Federation, reply_of
from ..steps import DocumentFront, Front
from ..tasks import BoostReply, GrowReply
from ..trees import N_BINS, LevelGrowth, bytes_of_bins
from ._method import MethodOfSums

# Name of the node that has the public rows: the server.
_SERVER = "public"


@dataclass(frozen=True, eq=False, kw_only=True)
class TreesMethod(MethodOfSums):
    """The trees that the parameters of a PooledAggregator stand for, and their fit.

    A subclass has the terms, the plan, and what is made of the trees that have grown.
    """

    # The PowerTransformer takes no sparse rows.
    allows: ClassVar[Allows] = Allows(missing_values=True, sparse=False)
    takes_weights: ClassVar[bool] = False  # histograms count rows
    # Of a total of histograms to which nothing was added.
    type_of_zeros: ClassVar[type] = np.int64

    classifier: ClassifierMixin  # which is grown, not fitted
    random_state: object

    def check_takes_weights(self) -> None:
        """Raise ValueError: histograms count rows."""
        raise ValueError(
            f"{type(self.classifier).__name__} is grown from histograms, which count "
            "rows and cannot take sample_weight into account. Leave sample_weight out, "
            "or set pooled= to a classifier that is a function of sums."
        )

    def asks_again(self, federation: Federation) -> str:
        return "trees ask all nodes again for each of their levels"

    def front_with_bins(self, front: "Front | DocumentFront | None") -> Front:
        """The front, with a PowerTransformer at its end, for which the bins are made.

        A fitted front has to have it.
        """
        if front is None:
            front = Front.from_transformer(PowerTransformer())
        if isinstance(front, DocumentFront):
            raise ValueError(
                "Documents have thousands of columns that are nearly always zero, "
                "which trees of histograms do not split well. Set pooled= to a linear "
                "or naive Bayes classifier."
            )
        # Trees of columns that stay skewed are about as good.
        front = replace(front, unasked=(PowerTransformer,))
        if _ends_with_powers(front.transformer):
            return front
        if front.columns is not None:
            raise ValueError(
                "The front is fitted, but does not end with a PowerTransformer, which "
                "the bins of trees are made for. Fit a front that ends with it: "
                "PooledTransformer(make_pipeline(front, PowerTransformer()))."
            )
        return replace(
            front, transformer=make_pipeline(front.transformer, PowerTransformer())
        )

    def attributes(self, federation: Federation, run: Run) -> dict[str, object]:
        """Ask for histograms level by level, make trees; return the attributes."""
        if federation.rows_are_shared:
            raise ValueError(
                "Several nodes use the same rows, and trees would count each of them "
                "several times. Set nodes= to the owner of each row."
            )
        public_rows = None
        public = federation.public
        if len(public.y):
            public_rows = Member.from_estimator(_SERVER, None, public.X, public.y)
        fitted = run(self.plan(federation, public_rows))
        warn_of_many_rows(federation.names, federation.rows_in_moments)
        form = PooledForm(
            kind=type(self.classifier).__name__,
            parameters=self.classifier.get_params(),
            reason=f"trees are grown over {N_BINS} bins of each feature",
        )
        return {
            "exact_": False,
            "pooled_form_": form,
            "_fitted": fitted,
            "_bytes_of_bins": bytes_of_bins(
                int(federation.rows_in_moments.sum()), fitted.n_features_in_
            ),
        }

    def plan(self, federation: Federation, public_rows: Member | None) -> Generator:
        """Plan of the fitted classifier; ``public_rows`` are those at the server."""
        raise NotImplementedError

    def added(self, reply: Reply, total: np.ndarray) -> np.ndarray:
        """Return the total with the histograms of a reply; it may be changed."""
        raise NotImplementedError

    def _grown(
        self, growth: LevelGrowth, classes: np.ndarray, public_rows: Member | None
    ) -> Generator:
        """Plan that has trees grow until they ask for nothing more."""
        n_nodes_before = 0
        while growth.is_open:
            request = self.terms.request(growth, classes)
            replies = yield from replies_of_all(request, public_rows)
            histograms = HistogramSum(self, growth)
            n_nodes = 0
            for reply in replies:
                histograms.add(reply)
                n_nodes += 1
            if n_nodes < n_nodes_before:  # nobody comes back who has left
                growth.lose_nodes()
            n_nodes_before = n_nodes
            growth.take(histograms.total)


class HistogramSum:
    """The histograms that trees ask for, added up over nodes as their replies come."""

    def __init__(self, fit: TreesMethod, growth: LevelGrowth) -> None:
        self._fit = fit
        self._growth = growth
        # Of the growth's `histogram_shape`.
        self.total = np.zeros(growth.histogram_shape, dtype=fit.type_of_zeros)

    def add(self, reply: GrowReply | BoostReply) -> None:
        """Add the histograms that a reply holds."""
        self.total = self._fit.added(reply, self.total)
        # Rounded counts and joined bins of siblings do not add up to their parent's.
        self._growth.subtracts &= reply.min_rows == 1


def weights_of_classes(
    classifier: ClassifierMixin, classes: np.ndarray
) -> "np.ndarray | str | None":
    """Return weights as numbers; "balanced" ones are known only at the end."""
    weights = classifier.class_weight
    if weights is None or isinstance(weights, str):
        return weights
    return compute_class_weight(weights, classes=classes, y=classes)


def replies_of_all(request: Message, public_rows: Member | None) -> Generator:
    """Plan of what all nodes reply to a request, and the server for its public rows.

    It gives the replies one after the other: those of a forest may be large.
    """
    replies = yield request
    return _with_public_rows(replies, request, public_rows)


def _with_public_rows(
    replies: Iterable[tuple[str, Reply]],
    request: Message,
    public_rows: Member | None,
) -> Iterator[Reply]:
    for _, reply in replies:
        yield reply
    if public_rows is not None:
        yield reply_of(request, public_rows)


def _ends_with_powers(transformer: object) -> bool:
    """Report whether the last step is a PowerTransformer that standardizes."""
    last_step = final_step(transformer)
    return isinstance(last_step, PowerTransformer) and last_step.standardize
