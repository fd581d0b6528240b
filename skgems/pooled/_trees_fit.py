"""Methods of PooledAggregator where the classifier is made of trees."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer
from sklearn.utils import check_random_state, compute_class_weight

from ..asking import Run, warn_of_many_rows
from ..base import Allows
from ..local import Member, indices_of
from ..messages import Message, Reply
from ..moments import PooledForm
from ..networks import final_step
from ..parties import Federation, reply_of
from ..steps import DocumentFront, Front
from ..tasks import BoostReply, GrowReply, unpacked_leaf_counts
from ..trees import (
    N_BINS,
    TYPES_OF_COUNTS,
    BoostedGrowth,
    Growth,
    LevelGrowth,
    RandomTrees,
    bytes_of_bins,
    packed_counts,
    random_forest,
    unpacked_cells,
)
from ._boosting import boosting_rules, check_can_boost
from ._fitted_trees import fitted_boosting, fitted_forest
from ._forests import (
    agreed_seed,
    check_can_grow,
    is_totally_random,
    number_of_trees,
    rules_of,
)
from ._method import MethodOfSums
from ._sums import columns_of_labels
from ._trees_terms import BoostingTerms, ForestTerms, RandomTreesTerms

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

    @classmethod
    def from_classifier(
        cls, classifier: ClassifierMixin, random_state: object
    ) -> "TreesMethod":
        """Make the fit of a classifier; ValueError for meaningless parameters."""
        if isinstance(classifier, HistGradientBoostingClassifier):
            check_can_boost(classifier)
            return BoostingMethod(classifier=classifier, random_state=random_state)
        check_can_grow(classifier)
        if is_totally_random(classifier):
            agreed_seed(classifier, random_state)  # which raises for a generator
            return RandomTreesMethod(classifier=classifier, random_state=random_state)
        return ForestMethod(classifier=classifier, random_state=random_state)

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
            replies = yield from _replies(request, public_rows)
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ForestMethod(TreesMethod):
    """Trees that are grown side by side, from counts of rows by class."""

    type_of_zeros: ClassVar[type] = TYPES_OF_COUNTS[0]

    @property
    def terms(self) -> ForestTerms:
        """Return what nodes and server agree on, without a front."""
        return ForestTerms(classifier=self.classifier)

    def plan(self, federation: Federation, public_rows: Member | None) -> Generator:
        growth = self.growth(federation.features.n_features_in, federation.classes)
        yield from self._grown(growth, federation.classes, public_rows)
        return fitted_forest(self.classifier, growth, federation.classes)

    def growth(self, n_features: int, classes: np.ndarray) -> Growth:
        """Trees that have not grown yet."""
        seed = self.classifier.random_state
        rng = check_random_state(self.random_state if seed is None else seed)
        return Growth(
            rules_of(self.classifier, n_features),
            n_trees=number_of_trees(self.classifier),
            n_features=n_features,
            n_classes=len(classes),
            class_weights=_class_weights(self.classifier, classes),
            random_state=rng.randint(2**31 - 1),
        )

    def added(self, reply: GrowReply, total: np.ndarray) -> np.ndarray:
        return unpacked_cells(reply.counts, total.size).added_to(total)


@dataclass(frozen=True, eq=False, kw_only=True)
class LeafSums:
    """Rows of all nodes in the leaves of totally random trees."""

    counts: np.ndarray  # (n_trees, n_leaves, n_classes), int32 or int64
    bounds: tuple[int, ...]  # the min_rows of each node

    def as_content(self, classes: np.ndarray) -> dict[str, object]:
        """The counts as one node would reply them that had the rows of all nodes."""
        least = min(self.bounds)
        if any(bound % least for bound in self.bounds):
            raise ValueError(
                f"The nodes rounded their counts to multiples of {list(self.bounds)}, "
                f"which are no multiples of {least} once they are added up. Have all "
                "nodes summarize with the same min_rows."
            )
        has_rows = self.counts[0].any(axis=0)
        return {
            "labels": classes[has_rows].tolist(),
            "counts": packed_counts(self.counts[:, :, has_rows]),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomTreesMethod(TreesMethod):
    """Trees that a seed draws, whose leaves are counted in one message."""

    def asks_again(self, federation: Federation) -> str:
        return ""

    @property
    def terms(self) -> RandomTreesTerms:
        """Return what nodes and server agree on, without a front."""
        seed = agreed_seed(self.classifier, self.random_state)
        classifier = clone(self.classifier).set_params(random_state=seed)
        return RandomTreesTerms(classifier=classifier)

    def plan(self, federation: Federation, public_rows: Member | None) -> Generator:
        leaf_sums = yield from self.sums_plan(federation, public_rows)
        n_features = federation.features.n_features_in
        content = self.terms.request().content
        trees = RandomTrees(
            random_forest(n_features=n_features, **content),
            leaf_sums.counts,
            n_features=n_features,
            min_samples_split=self.classifier.min_samples_split,
            min_samples_leaf=self.classifier.min_samples_leaf,
            class_weights=_class_weights(self.classifier, federation.classes),
        )
        return fitted_forest(self.classifier, trees, federation.classes)

    def sums_plan(
        self, federation: Federation, public_rows: Member | None = None
    ) -> Generator:
        """Plan of the LeafSums of all nodes."""
        request = self.terms.request()
        asked = request.content
        replies = yield from _replies(request, public_rows)
        shape = (asked["n_trees"], 2 ** asked["max_depth"], len(federation.classes))
        # Many counts, which take half the memory while there are not too many rows.
        total = np.zeros(shape, dtype=np.int32)
        n_rows = 0
        bounds = []
        for reply in replies:
            columns = columns_of_labels(reply.labels, federation.classes)
            counts = unpacked_leaf_counts(vars(reply), asked)
            n_rows += int(counts[0].sum(dtype=np.int64))
            if n_rows > np.iinfo(total.dtype).max:
                total = total.astype(np.int64)
            for place, column in enumerate(columns):  # which makes no large copy
                total[:, :, column] += counts[:, :, place]
            bounds.append(reply.min_rows)
        return LeafSums(counts=total, bounds=tuple(bounds))


@dataclass(frozen=True, eq=False, kw_only=True)
class BoostingMethod(TreesMethod):
    """Trees that are grown one after the other, from sums of gradients."""

    @property
    def terms(self) -> BoostingTerms:
        """Return what nodes and server agree on, without a front."""
        return BoostingTerms(classifier=self.classifier)

    def plan(self, federation: Federation, public_rows: Member | None) -> Generator:
        if len(federation.classes) < 2:
            (label,) = federation.classes.tolist()
            raise ValueError(
                f"All rows have the class {label!r}: there is nothing to boost. Give "
                "rows of another class."
            )
        replies = yield from _replies(Message.of("counts"), public_rows)
        class_counts = np.zeros(len(federation.classes), dtype=np.int64)
        for reply in replies:
            columns = indices_of(np.asarray(reply.labels), federation.classes)
            class_counts[columns] += reply.counts
        growth = BoostedGrowth(
            boosting_rules(self.classifier),
            n_features=federation.features.n_features_in,
            class_counts=class_counts,
        )
        yield from self._grown(growth, federation.classes, public_rows)
        return fitted_boosting(self.classifier, growth, federation.classes)

    def added(self, reply: BoostReply, total: np.ndarray) -> np.ndarray:
        total += reply.sums(total.shape)
        return total


def _class_weights(
    classifier: ClassifierMixin, classes: np.ndarray
) -> "np.ndarray | str | None":
    """Return weights as numbers; "balanced" ones are known only at the end."""
    weights = classifier.class_weight
    if weights is None or isinstance(weights, str):
        return weights
    return compute_class_weight(weights, classes=classes, y=classes)


def _replies(request: Message, public_rows: Member | None) -> Generator:
    """Plan of what all nodes reply to a request, and the server for its public rows.

    It gives the replies one after the other: those of a forest may be large.
    """
    replies = yield request
    return _replies_with_public_rows(replies, request, public_rows)


def _replies_with_public_rows(
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
