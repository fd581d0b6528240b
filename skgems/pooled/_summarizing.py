"""What a node sends for a pooled classifier, and a region on behalf of its nodes."""

from collections.abc import Mapping

import numpy as np

from ..guard import SummarizingMixin
from ..networks import dropped_columns
from ..parties import Summary, check_labels, seen_classes_of


class PooledSummariesMixin(SummarizingMixin):
    """Mixin of PooledAggregator: what a node or a region does with it by itself."""

    def _summarize(
        self,
        estimator: object,
        rows: Mapping[str, object],
        *args: object,
        **options: object,
    ) -> Summary:
        self._validate_params()
        if estimator is not None and self.pooled is None:
            raise ValueError(
                "pooled=None stands for the classifiers of the nodes in this process, "
                "which nodes elsewhere do not know. Name the classifier that is to be "
                "made, such as pooled=GaussianNB()."
            )
        if not self._method().terms.takes_files:
            raise TypeError(
                f"{type(self.pooled).__name__} is grown level by level, and the nodes "
                "are asked once for each level, so that no file can hold all that a "
                "node says. Give fit the rows, or a channel such as skgems.Exchange."
            )
        # Sums need no more of a classifier than the classes that it has seen, and the
        # features that it drops by name.
        rows = {**rows, "dropped": self._dropped_before_front(estimator)}
        summary = super()._summarize(None, rows, *args, **options)
        if hasattr(estimator, "classes_"):
            check_labels(
                summary.name,
                summary.row_counts["labels"],
                seen_classes_of(estimator, summary.name),
            )
        return summary

    def _dropped_before_front(self, estimator: object) -> np.ndarray | None:
        """Return which features a classifier drops by name; None where none is known.

        A front, which is agreed on, says itself which features are used.
        """
        if estimator is None or self.front is not None:
            return None
        return dropped_columns(estimator)
