"""What the parameters of GEMSLogisticAggregator mean for nodes, server and fit."""

from ..base import Takes
from ..disclosure import disclosure_of
from ..federation import (
    Federation,
    KeptReplies,
    PublicRows,
    Run,
    SummarizingMixin,
    Summary,
    check_merges_all,
    warn_of_shared_matrices,
    warn_of_tails,
    warn_of_variances,
)
from ..local import Member, closed_form
from ..messages import Message
from ..moments import moments_kind
from ..progress import shown
from ._further import Rounds
from ._linear_fit import LinearFit
from ._parameters import Moments
from ._regions import merged_summary
from ._terms import LinearTerms


class LinearMethodMixin(SummarizingMixin):
    """Mixin of GEMSLogisticAggregator: what its parameters make of fit and summary."""

    @shown
    def summarize(
        self,
        estimator,
        X=None,
        y=None,
        *,
        name,
        chunks=None,
        held_out=None,
        groups=None,
        sample_weight=None,
        disclosure="auto",
        classes=None,
        space="auto",
    ) -> Summary:
        """Make the summary that a node sends.

        This runs at the node, with an aggregator that has the agreed parameters. It
        needs no ``estimators`` and is not changed. A fit on summaries gives the same
        aggregate, to the bit, as ``fit(X, y, nodes)`` with the rows of all nodes. Nodes
        and server must agree on `moments`, `class_weight`, `random_state` and `spaces`,
        except for ``on_empty``.

        Parameters
        ----------
        estimator, X, y, name, held_out, groups, sample_weight, disclosure
            The node's classifier, its rows and labels, its name, which rows only score,
            and how much each row counts in sums. `disclosure` is the rule for what the
            summary tells of the rows. All are as for
            :func:`~skgems.federation.reply_to`.
        chunks : callable, default=None
            Gives the rows in parts, in place of X, y, ``held_out`` and
            ``sample_weight``. Use it if the rows do not fit into memory
            (:ref:`many_rows`). It is called twice, and returns an iterator over the
            same ``(X, y)``, ``(X, y, held_out)`` or ``(X, y, held_out, sample_weight)``
            each time.
        classes : array-like, default=None
            The classes of all nodes. Give them if they are known, since less is sent
            then. They are needed for ``spaces=Spaces(criterion="log_loss")``, which
            counts classes.
        space : "auto" or bool, default="auto"
            Whether to send the good-enough space, which takes n_features^2 numbers with
            ``spaces="gram"`` and tells how far single rows are. With "auto" it is sent
            if `epsilon` or `intersection` need it and ``disclosure`` is None. Set it to
            True to send it under a rule as well, or if the server may need it later.

        Returns
        -------
        summary : Summary
            The summary, which the node saves and sends.

        Raises
        ------
        TooFewRowsError
            A ValueError, if there are too few rows of every class.
        ValueError
            If the classifier is not fitted, rows are not as it knows them, the method
            asks more than one message, or the chunks differ the second time. It is also
            raised if a space is asked for with chunks. The message gives the number of
            a chunk, counted from 0.

        Warns
        -----
        ClassesLeftOutWarning
            If classes are left out since they have few rows. The message names them.
        HeavyTailsWarning
            If rows lie so far out that moments do not describe them.
        VariancesOnlyWarning
            If matrices would be too large and only variances are sent.
        SharedCovarianceWarning
            If the classes of the node share one covariance for the same reason.

        Examples
        --------
        Two hospitals send summaries, and the server fits the aggregate to them:

        >>> from sklearn.datasets import load_iris
        >>> from skgems import GEMSLogisticAggregator
        >>> X, y = load_iris(return_X_y=True)
        >>> agg = GEMSLogisticAggregator(random_state=0)
        >>> rows = {"lyon": y < 2, "paris": y > 0}
        >>> sent = [agg.summarize(None, X[o], y[o], name=k) for k, o in rows.items()]
        >>> agg.set_params(estimators=sent).fit().score(X, y) > 0.9
        True
        """
        if space == "auto" and disclosure_of(disclosure) is not None:
            space = False
        return self._summarize(
            estimator,
            rows={
                "X": X,
                "y": y,
                "chunks": chunks,
                "held_out": held_out,
                "groups": groups,
                "sample_weight": sample_weight,
            },
            name=name,
            disclosure=disclosure,
            classes=classes,
            space=space,
        )

    def _merged(self, summaries: list, name: str) -> Summary:
        self._check_one_message()
        if self.intersection != "likelihood" or not isinstance(self.node_weight, str):
            raise ValueError(
                "Summaries are merged by intersection='likelihood' and without weights "
                f"of nodes; got intersection={self.intersection!r}, "
                f"node_weight={self.node_weight!r}."
            )
        check_merges_all(self.robust)
        return merged_summary(self, summaries, name)

    def _warn_of(self, member: Member, reply: Message) -> None:
        estimator = member.model.estimator
        if self.intersection != "likelihood" or "kind" in closed_form(estimator):
            return
        for answer in reply.content["answers"].values():
            kurtosis = answer["reply"].get("kurtosis")
            if kurtosis is not None:
                warn_of_tails({member.name: kurtosis}, members=[member])
        if Moments.from_value(self.moments).kind == "auto":
            n_features = member.X.shape[1]
            n_rows = member.row_counts()[1]["moments"].sum()
            # Whether it is "diagonal" does not depend on the number of classes.
            if moments_kind("auto", n_features, 1, n_rows) == "diagonal":
                warn_of_variances(n_features)
                return
            n_classes = len(member.class_sizes())
            if moments_kind("auto", n_features, n_classes, n_rows) == "shared":
                warn_of_shared_matrices(n_features, n_classes)

    def _check_one_message(self) -> None:
        if Rounds.from_value(self.n_rounds).n > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds!r} asks nodes more than once; set "
                "n_rounds=1, or use skgems.Exchange."
            )

    @property
    def _takes(self) -> Takes:
        return LinearFit.from_aggregator(self).takes

    def _terms(self) -> LinearTerms:
        return LinearFit.from_aggregator(self).terms

    def _asks_again(self, federation: Federation) -> str:
        return LinearFit.from_aggregator(self).asks_again(federation)

    def _attributes(
        self,
        federation: Federation,
        run: Run,
        *,
        public: PublicRows,
        kept: KeptReplies | None,
    ) -> dict:
        return LinearFit.from_aggregator(self).attributes(
            federation, run, public=public, kept=kept
        )
