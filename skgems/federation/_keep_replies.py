"""Aggregators of sums, whose nodes' replies are kept and merged."""

from ._federation import Federation
from ._run import Run
from ._summary import Summary
from ._update_forget import Kept, UpdateForgetMixin, records_of


class KeepRepliesMixin(UpdateForgetMixin):
    """Mixin of aggregators of sums: what nodes replied may be kept, and merged."""

    def merge_summaries(self, summaries, *, name) -> Summary:
        """Make one summary of those of several nodes, as a regional server may.

        A fit on it is that on theirs for all that is a sum: counts, moments, and
        classifiers that are functions of these (``exact_``). What moments miss of
        gradients is corrected against those of the region. It has no space, so that no
        `epsilon` can bound it.

        Parameters
        ----------
        summaries : list of Summary or path
            Those of regions too.
        name : str
            Of the region.

        Returns
        -------
        summary : Summary

        Raises
        ------
        ValueError
            If they were made with other settings than this aggregator has.
        """
        self._validate_params()
        return self._merged(list(summaries), name)

    def _seed(self) -> int | None:
        return None

    def _run(self, federation: Federation, records=None) -> Run:
        """How the nodes are asked; a search asks for the same again."""
        how = {"n_jobs": self.n_jobs, "memory": self.memory}
        return federation.run(recalls=True, records=records, **how)

    def _fit_read(self, federation: Federation):
        public, kept = federation.labelled(federation.public_rows), None
        if self.keep_replies:
            self._check_can_keep(federation)
            kept = Kept(self._seed(), records_of(federation), public)
        run = self._run(federation, None if kept is None else kept.records)
        self._fit_federation(federation, run, public, kept)
        return self
