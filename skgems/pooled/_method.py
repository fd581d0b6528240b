"""What the methods of PooledAggregator have in common: they need rows alone."""

from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..asking import check_merges_all, read_federation, region_summary, run_of
from ..base import BaseAggregator, Method, Takes
from ..networks import Network
from ..parties import Summary
from ..steps import Front


@dataclass(frozen=True, eq=False, kw_only=True)
class MethodOfSums(Method):
    """A method that needs no more of nodes than sums over their rows."""

    takes: ClassVar[Takes] = Takes(networks=False, learnt=False, rows_alone=True)
    recalls: ClassVar[bool] = True

    def front_with_bins(self, front: Front | None) -> Front | None:
        """Return the front with what bins need at its end; sums need no bins."""
        return front

    def merged_summary(
        self, aggregator: BaseAggregator, summaries: list, name: str
    ) -> Summary:
        """Return the summary of a region, which has the sums of its nodes."""
        check_merges_all(aggregator.robust)
        region = copy(aggregator).set_params(estimators=summaries)
        federation = read_federation(region)
        plan = region._method().sums_plan(federation)
        pooled_sums = run_of(region, federation)(plan)
        features = federation.features
        no_rows = np.zeros((0, features.n_features_in))
        return region_summary(
            aggregator,
            federation,
            network=Network.from_rows(
                federation.classes, no_rows, features.feature_names_in
            ),
            request=self.terms.request(),
            reply=pooled_sums.as_content(federation.classes),
            name=name,
        )
