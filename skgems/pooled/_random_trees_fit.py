"""Trees that a seed draws, whose leaves nodes count in one message."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from ..local import Member
from ..parties import Federation
from ..tasks import unpacked_leaf_counts
from ..trees import RandomTrees, packed_counts, random_forest
from ._fitted_trees import fitted_forest
from ._forests import agreed_seed
from ._sums import columns_of_labels
from ._trees_method import TreesMethod, replies_of_all, weights_of_classes
from ._trees_terms import RandomTreesTerms


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
            class_weights=weights_of_classes(self.classifier, federation.classes),
        )
        return fitted_forest(self.classifier, trees, federation.classes)

    def sums_plan(
        self, federation: Federation, public_rows: Member | None = None
    ) -> Generator:
        """Plan of the LeafSums of all nodes."""
        request = self.terms.request()
        asked = request.content
        replies = yield from replies_of_all(request, public_rows)
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
