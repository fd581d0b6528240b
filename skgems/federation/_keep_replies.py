"""Aggregators of sums, whose nodes' replies are kept and merged."""

import os
from collections.abc import Mapping, Sequence
from typing import Self

from ._federation import Federation, PublicRows
from ._run import Run
from ._summary import Summary
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
        return self._merged(list(summaries), name)

    def _attributes(
        self,
        federation: Federation,
        run: Run,
        *,
        public: PublicRows,
        kept: KeptReplies | None,
    ) -> dict[str, object]:
        """Fit, and return the attributes beside those of the federation.

        ``public`` are public rows; ``kept`` has what nodes replied before, and the seed
        of the requests then.
        """
        raise NotImplementedError

    def _fit_federation(
        self,
        federation: Federation,
        *,
        run: Run,
        public: PublicRows,
        kept: KeptReplies | None,
        features: Mapping | None = None,
    ) -> None:
        """Fit, and publish; ``features`` replace what the federation says of these."""
        attributes = self._attributes(federation, run, public=public, kept=kept)
        of_federation = {
            **federation.attributes(),
            "_row_numbers": row_numbers(federation),
            **(features or {}),
        }
        self._publish(**{**of_federation, **attributes}, _kept=kept)

    def _run(self, federation: Federation, records: Mapping | None = None) -> Run:
        """Return the run that asks the nodes; a search asks for the same again."""
        return federation.run(
            recalls=True, records=records, n_jobs=self.n_jobs, memory=self.memory
        )

    def _fit_read(self, federation: Federation) -> Self:
        """Fit to the nodes that were read, and keep their replies if that is asked."""
        public_rows = federation.public
        kept_replies = None
        records = None
        if self.keep_replies:
            self._check_can_keep(federation)
            kept_replies = KeptReplies(
                seed=self._terms().seed(),
                records=records_of(federation),
                public=public_rows,
            )
            records = kept_replies.records
        self._fit_federation(
            federation,
            run=self._run(federation, records),
            public=public_rows,
            kept=kept_replies,
        )
        return self
