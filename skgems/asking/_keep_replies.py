"""Aggregators of sums, whose nodes' replies are kept and merged."""

import os
from collections.abc import Sequence

from ..base import Method
from ..parties import Federation, Summary
from ._fitting import run_of, set_attributes
from ._update_forget import KeptReplies, UpdateForgetMixin, records_of
from ._withheld import row_numbers


class KeepRepliesMixin(UpdateForgetMixin):
    """Mixin of aggregators of sums, which can keep replies and merge summaries."""

    def merge_summaries(
        self, summaries: Sequence[Summary | str | os.PathLike], *, name: str
    ) -> Summary:
        """Merge the summaries of several nodes into one, as a regional server may do.

        A fit on the merged summary equals a fit on the single ones for everything that
        is a sum: counts, moments, and classifiers that are functions of these
        (``exact_``).

        Parameters
        ----------
        summaries : list of Summary or path
            The summaries or the paths of their files. They may be of regions, too.
        name : str
            Name of the region.

        Returns
        -------
        summary : Summary
            The summary of the region.

        Raises
        ------
        ValueError
            If a summary was made with other settings than this aggregator has.

        Notes
        -----
        The correction of gradients, for what moments miss, uses the gradients of the
        whole region. A merged summary has no good-enough space, so that it cannot be
        used with `epsilon`.
        """
        self._validate_params()
        return self._method().merged_summary(self, list(summaries), name)

    def _fit_and_keep(self, method: Method, federation: Federation) -> None:
        """Fit to the nodes that were read, and keep their replies if that is asked."""
        kept = None
        seed = method.terms.seed()
        if self.keep_replies:
            self._check_can_keep(method, federation)
            kept = KeptReplies(
                seed=seed, records=records_of(federation), public=federation.public
            )
        set_attributes(
            self,
            method.with_seed(seed),
            federation,
            run_of(self, federation, None if kept is None else kept.records),
            _row_numbers=row_numbers(federation),
            _kept=kept,
        )
