"""Odds ratios with standard errors of a fitted linear aggregate."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..asking import Context, Run, read_federation, run_of
from ..base import is_channel
from ..compat import Interval, StrOptions, validate_params
from ..disclosure import Disclosure
from ..evaluation import Inference
from ..messages import Message, listed
from ..parties import Federation, Record, Summary
from ..private import raise_needs_more
from ..steps import raw_columns
from ..tasks import InferenceReply
from ._contributions import contributions_of_nodes
from ._further import with_objectives
from ._inference_fit import (
    LEAST_SITES,
    AskedNode,
    CountsOfFit,
    InferenceFit,
    KeptSums,
    TrustOfFit,
)
from ._inference_notes import choose_errors, notes_on_replies
from ._moment_sums import MomentSums
from ._problem import check_are_linear, linear_nodes
from ._terms import LinearTerms


class InferenceMixin:
    """Mixin of a linear aggregate whose coefficients have standard errors."""

    @property
    def _agreed_terms(self) -> LinearTerms:
        """Return the terms, which allow the message where there is no penalty.

        They are not those of a last layer, of which nobody asks for standard errors.
        """
        terms = super()._agreed_terms
        if self.privacy is not None:
            return terms
        has_penalty = isinstance(self.C, str) or np.isfinite(self.C)
        return replace(terms, asks_for_inference=not has_penalty)

    @validate_params(
        {
            "level": [Interval(Real, 0, 1, closed="neither")],
            "cov_type": [StrOptions({"auto", "nonrobust", "robust", "site"})],
            "site_intercepts": ["boolean"],
        },
        prefer_skip_nested_validation=True,
    )
    def inference(
        self,
        X=None,
        y=None,
        nodes=None,
        *,
        level=0.95,
        reference=None,
        cov_type="auto",
        site_intercepts=False,
        groups=None,
        sample_weight=None,
    ) -> Inference:
        """Return odds ratios with standard errors, tests and intervals.

        With rows, or over a channel, nodes are asked one message more. It brings the
        gradient of the aggregate and the information of all rows, which make one
        Newton step and its standard errors. Without, both are expected from what the
        fit kept: the table is then approximate, and has no p values. The aggregate
        itself is not changed. Fit with ``C=np.inf``: a penalty biases coefficients.

        Parameters
        ----------
        X, y, nodes : array-like, default=None
            Rows of the nodes, as for :meth:`fit`. Over a channel they stay None, and
            nodes are asked there if their agreement names "inference": it does where
            ``C=np.inf``.
        level : float, default=0.95
            Level of confidence of the intervals.
        reference : label, default=None
            The class that all others are compared with. If None, it is the first one.
        cov_type : {"auto", "nonrobust", "robust", "site"}, default="auto"
            Which standard errors are reported. "nonrobust" ones hold if the model does.
            "robust" ones hold also if it does not, and for rows with weights. Rows of
            one group then count as one. "site" ones hold if rows of a node depend on
            each other, and need 40 nodes. "auto" is "robust" where rows have weights or
            groups, and otherwise "nonrobust".
        site_intercepts : bool, default=False
            Whether each node has an intercept of its own, so that coefficients compare
            rows within nodes only.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient.
        sample_weight : array-like of shape (n_samples,), default=None
            Sampling weight of each row, as for :meth:`fit`.

        Returns
        -------
        inference : Inference
            The table, by the names of the nodes' raw columns. It has ``params``,
            ``bse``, ``zvalues``, ``pvalues``, ``conf_int()``, ``odds_ratios`` and
            ``to_frame()``; its notes say what it rests on.

        Raises
        ------
        ValueError
            If the aggregate is no logistic regression of the nodes' sums, if the rows
            do not decide some coefficient, or if errors by site are asked of too few
            nodes. Also after unpickling without rows, unless replies were kept.
        RepliesMissingError
            Over a folder, until the replies have come. Call it again then.

        Examples
        --------
        >>> import numpy as np
        >>> from skgems import GEMSLogisticAggregator
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 2))
        >>> y = np.where(X[:, 0] + rng.logistic(size=600) > 0, "ill", "well")
        >>> sites = np.array(["lyon", "nice"])[np.arange(600) % 2]
        >>> agg = GEMSLogisticAggregator([("lyon", None), ("nice", None)], C=np.inf)
        >>> table = agg.fit(X, y, sites).inference(X, y, sites, reference="well")
        >>> table.names, bool(table.pvalues[0] < 0.001)
        (['x0', 'x1', 'intercept'], True)
        """
        check_is_fitted(self)
        _check_can_infer(self)
        reference_index = _index_of_class(self, reference)
        if cov_type == "site" and len(self.node_names_) < LEAST_SITES:
            raise ValueError(
                f"cov_type='site' needs {LEAST_SITES} nodes, but there are "
                f"{len(self.node_names_)}: of fewer, errors by site are too small. Use "
                "cov_type='robust', and site_intercepts=True for levels of nodes."
            )
        federation = None
        if X is not None:
            _check_has_rows(self)
            federation = read_federation(
                self._with_members(
                    zip(self.node_names_, self.estimators_, strict=True)
                ),
                X,
                y,
                nodes,
                groups=groups,
                sample_weight=sample_weight,
            )
            _check_rows_are_those_of_fit(
                self, federation, has_groups=groups is not None
            )
        elif not (y is None and nodes is None and groups is None):
            raise ValueError(
                "y, nodes and groups are those of rows X, which are not given. Pass X "
                "too; over a channel the nodes give their groups themselves."
            )
        elif sample_weight is not None:
            raise ValueError(
                "sample_weight is that of rows X, which are not given. Pass X too; "
                "over a channel the nodes give their weights themselves."
            )
        fit = _fit_of(self, site_intercepts=site_intercepts)
        notes = []
        if federation is not None:
            fit = _asked(fit, self, federation)
        elif is_channel(self.estimators):
            fit, notes = _asked_over_channel(fit, self)
        else:
            notes = [
                "Approximate: no node was asked, so that there are no p values. Call "
                "inference(X, y, nodes), or fit over a channel."
            ]
        return _table(
            fit,
            notes,
            level=level,
            reference=reference_index,
            cov_type=cov_type,
        )

    def leave_one_node_out(self, X, y) -> dict:
        """Say by how much the model would be worse on some rows without each node.

        Models without a node are those of :meth:`forget`, so that no node is asked.
        The aggregate itself is not changed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that judge the models, best such that no node has used.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        contributions : dict of lists
            For each "node", by how much the "log_loss" rises without it, and by how
            much the area under the ROC curve, "auc", falls. Both are below 0 if the
            model is better without the node, and NaN if a class is lost with it.

        Raises
        ------
        ValueError
            If no replies were kept (see `keep_replies`), or there is only one node.

        Examples
        --------
        >>> import numpy as np
        >>> from skgems import GEMSLogisticAggregator
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 2))
        >>> y = np.where(X[:, 0] + rng.logistic(size=600) > 0, "ill", "well")
        >>> sites = np.array(["lyon", "nice"])[np.arange(600) % 2]
        >>> agg = GEMSLogisticAggregator(
        ...     [("lyon", None), ("nice", None)], keep_replies=True, random_state=0
        ... )
        >>> contributions = agg.fit(X, y, sites).leave_one_node_out(X, y)
        >>> contributions["node"]
        ['lyon', 'nice']
        """
        check_is_fitted(self)
        return contributions_of_nodes(self, X, y)


def kept_for_inference(state: Mapping, W: np.ndarray) -> KeptSums | None:
    """Return what a pickle of a fitted aggregate keeps; None if it has no errors.

    ``W`` is the model, and ``state`` has the attributes of the aggregate.
    """
    likelihood = state["likelihood_"]
    C = state.get("C_")
    if likelihood is None or C is None or np.isfinite(C) or W.shape[1] < 2:
        return state.get("_kept_sums")
    is_wide = likelihood.span is not None or likelihood.loss.moments.is_diagonal
    if is_wide or likelihood.zero_row is not None or not likelihood.seen.all():
        return None
    return KeptSums.from_moments(MomentSums(likelihood=likelihood), W)


def _check_can_infer(aggregator: InferenceMixin) -> None:
    """Raise ValueError where the aggregate is no logistic regression of sums."""
    if aggregator.privacy is not None:
        raise_needs_more("inference")
    labels = aggregator.classes_.tolist()
    if len(labels) < 2:
        raise ValueError(
            f"All rows are of the class {labels[0]!r}, so that there are no odds. Fit "
            "to rows of two classes at least."
        )
    if aggregator.C_ is None:
        raise ValueError(
            "Standard errors are those of a logistic regression, but this aggregate is "
            "a function of sums or a point of good-enough spaces. Give nodes as "
            "(name, None) or with logistic regressions, and set "
            "intersection='likelihood'."
        )
    if not isinstance(aggregator.epsilon, str):
        raise ValueError(
            f"epsilon={aggregator.epsilon!r} bounds the model, so that its "
            "coefficients have no standard errors. Set epsilon='auto' and fit again."
        )
    if aggregator.fine_tuning_ is not None:
        raise ValueError(
            "The aggregate was fine-tuned on public rows, whose part of the standard "
            "errors is not known. Fit again without public rows."
        )
    if not (
        isinstance(aggregator.node_weight, str)
        and aggregator.node_weight in ("auto", "n_samples")
    ):
        raise ValueError(
            f"node_weight={aggregator.node_weight!r} has rows count by their node, so "
            "that errors of rows are not known. Set node_weight='auto' and fit again."
        )


def _check_has_rows(aggregator: InferenceMixin) -> None:
    """Raise ValueError where the fit was to what nodes sent, and not to rows here."""
    apart = [
        name
        for name, member in zip(
            aggregator.node_names_, aggregator.estimators_, strict=True
        )
        if isinstance(member, Summary | Record)
    ]
    if apart:
        raise ValueError(
            f"Nodes {listed(map(repr, apart))} were fitted from what they sent, so "
            "inference takes no rows of them. Call inference() without rows, which "
            "asks the nodes over a channel, or fit to rows."
        )


def _check_rows_are_those_of_fit(
    aggregator: InferenceMixin, federation: Federation, *, has_groups: bool
) -> None:
    """Raise ValueError where rows are not as many as in the fit, or weigh otherwise."""
    # Groups change weights under a rule, and may not have been given to fit.
    compares_weights = not (
        has_groups and isinstance(aggregator.disclosure, Disclosure)
    )
    for node in federation.nodes:
        of_fit = aggregator._counts_of_fit.get(node.name)
        if of_fit is None:
            continue
        counts = CountsOfFit.from_node(node)
        if counts.n_rows != of_fit.n_rows:
            raise ValueError(
                f"Node {node.name!r} was fitted to {of_fit.n_rows} rows, but inference "
                f"was given {counts.n_rows}. Give the rows of fit, or fit again."
            )
        if compares_weights and not np.isclose(counts.weight, of_fit.weight):
            raise ValueError(
                f"The rows of node {node.name!r} weighed {of_fit.weight:.6g} in fit, "
                f"and {counts.weight:.6g} in inference. Give the sample_weight of fit "
                "to inference too, or fit again."
            )


def _index_of_class(aggregator: InferenceMixin, reference: object) -> int:
    """Return the index of a class; ValueError where there is none of this label."""
    labels = aggregator.classes_.tolist()
    if reference is None:
        return 0
    if np.ndim(reference) or reference not in labels:
        raise ValueError(f"reference={reference!r} is no class; these are {labels}.")
    return labels.index(reference)


def _fit_of(aggregator: InferenceMixin, *, site_intercepts: bool) -> InferenceFit:
    """Return what is known of the aggregate without asking any node."""
    likelihood = aggregator.likelihood_
    W = aggregator._factor * aggregator._weights()
    moments = None if likelihood is None else MomentSums(likelihood=likelihood)
    has_penalty = bool(np.isfinite(aggregator.C_))
    kept_sums = getattr(aggregator, "_kept_sums", None)
    if likelihood is None and (kept_sums is None or site_intercepts):
        raise ValueError(
            "The sums of the nodes are gone since the aggregate was unpickled, and "
            "a penalty or site_intercepts=True needs them. Set keep_replies=True and "
            "fit again."
        )
    if likelihood is not None:
        _check_likelihood(aggregator, moments)
    trust = TrustOfFit.from_table(aggregator.trust_, aggregator.node_names_)
    models = np.repeat(W[None], len(trust.names), axis=0)
    if site_intercepts:
        models = moments.with_site_intercepts(W)
    front = getattr(aggregator, "front_", None)
    names_out = [f"x{j}" for j in range(len(W) - 1)]
    return InferenceFit(
        models=models,
        names=trust.names,
        classes=aggregator.classes_,
        columns=raw_columns(
            front,
            _names_of_columns(aggregator, len(W) - 1),
            names_out,
        ),
        has_penalty=has_penalty,
        has_class_weights=(
            likelihood is not None and likelihood.loss.class_weight is not None
        ),
        site_intercepts=site_intercepts,
        moments=moments,
        kept_sums=kept_sums,
        trust=trust,
        rows_of_fit_have_weights=any(
            counts.has_weights for counts in aggregator._counts_of_fit.values()
        ),
    )


def _check_likelihood(aggregator: InferenceMixin, moments: MomentSums) -> None:
    """Raise ValueError where sums do not decide all coefficients as parameters."""
    likelihood = moments.likelihood
    if likelihood.zero_row is not None:
        raise ValueError(
            "The aggregate has no intercept, which standard errors are not made for. "
            "Set fit_intercept=True and fit again."
        )
    if likelihood.span is not None or likelihood.loss.moments.is_diagonal:
        raise ValueError(
            "Nodes have fewer rows than columns, or sent variances alone, so that "
            "coefficients without a penalty are not decided. Give fewer columns."
        )
    unseen = aggregator.classes_[~likelihood.seen].tolist()
    if unseen:
        raise ValueError(
            f"No node has rows of the classes {unseen}, so that they have no odds. Fit "
            "again with classifiers of the other classes."
        )
    merge = aggregator._merge
    if merge is not None and merge.constants:
        raise ValueError(
            f"Nodes {list(merge.constants)} lack columns that others use: their rows "
            "say nothing of these coefficients. Leave these columns out at all nodes, "
            "or these nodes, and fit again."
        )


def _names_of_columns(aggregator: InferenceMixin, n_columns: int) -> list[str]:
    """Return the names of the columns of rows, as scikit-learn makes them."""
    names = getattr(aggregator, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    n_columns = getattr(aggregator, "n_features_in_", n_columns)
    return [f"x{j}" for j in range(n_columns)]


# ---- asking --------------------------------------------------------------------------


def _requests(
    fit: InferenceFit, columns_of_nodes: Mapping[str, np.ndarray]
) -> dict[str, Message]:
    """Make the request for each node, about the classes that its rows have."""
    class_weight = None
    if fit.has_class_weights:
        class_weight = fit.moments.likelihood.loss.class_weight
    requests = {}
    for name, W in zip(fit.names, fit.models, strict=True):
        columns = columns_of_nodes[name]
        requests[name] = Message.of(
            "inference",
            W=W,
            labels=fit.classes[columns].tolist(),
            columns=columns,
            class_weights=None if class_weight is None else class_weight[columns],
        )
    return requests


def _with_replies(
    fit: InferenceFit,
    replies: Iterator[tuple[str, InferenceReply]],
    columns_of_nodes: Mapping[str, np.ndarray],
) -> InferenceFit:
    """Return the fit with what nodes told; nodes that failed told nothing."""
    asked = {
        name: AskedNode.from_reply(
            name,
            reply,
            n_classes=len(columns_of_nodes[name]),
            n_of_all=len(fit.classes),
        ).counting(fit.trust.factors.get(name, 1.0))
        for name, reply in replies
    }
    nodes = [asked.get(name, AskedNode(name=name)) for name in fit.names]
    fit = replace(fit, nodes=nodes)
    if fit.moments is None and not fit.has_all_information:
        lacking = [node.name for node in nodes if node.information is None]
        raise ValueError(
            f"Nodes {listed(map(repr, lacking))} did not tell their information, and "
            "the sums that could stand in for it are gone since the aggregate was "
            "unpickled. Set keep_replies=True and fit again."
        )
    return fit


def _asked(
    fit: InferenceFit, aggregator: InferenceMixin, federation: Federation
) -> InferenceFit:
    """Ask the nodes in this process for sums of their rows."""
    check_are_linear(federation)
    dropping = list(federation.dropped_by_node)
    if dropping:
        raise ValueError(
            f"The classifiers of nodes {dropping} drop columns by name. Leave these "
            "columns out of the rows of all nodes, and fit again."
        )
    columns = {
        node.name: np.unique(node.row_columns)
        for node in linear_nodes(federation, aggregator.classes_)
    }
    replies = run_of(aggregator, federation).ask(_requests(fit, columns))
    fit = _with_replies(fit, replies, columns)
    # Rules in this process are simulated, of which replies do not tell.
    has_rule = isinstance(aggregator.disclosure, Disclosure)
    nodes = [replace(node, has_rule=has_rule) for node in fit.nodes]
    return replace(fit, nodes=nodes, rows_are_shared=federation.rows_are_shared)


def _asked_over_channel(
    fit: InferenceFit, aggregator: InferenceMixin
) -> tuple[InferenceFit, list[str]]:
    """Ask the nodes behind a channel, if the agreement lets it; also return notes."""
    channel = aggregator.estimators
    agreement = channel.agreement
    if agreement is not None and not agreement.tasks.get("inference"):
        return fit, [
            "Approximate: the agreement does not name the task 'inference', so that no "
            "node was asked and there are no p values. An agreement names it if it is "
            "made for an aggregator whose C is np.inf."
        ]
    columns = aggregator._row_columns
    front = None if aggregator._front is None else aggregator._front.as_content()
    run = Run(channel, context=replace(Context.from_channel(channel), front=front))
    fit = _with_replies(fit, run.ask(_requests(fit, columns)), columns)
    aggregator.history_ = aggregator.history_ + with_objectives(run.history, None)
    return fit, []


# ---- the table -----------------------------------------------------------------------


def _table(
    fit: InferenceFit,
    notes: list[str],
    *,
    level: float,
    reference: int,
    cov_type: str,
) -> Inference:
    """Return the table, with a note on each thing that it rests on."""
    errors = choose_errors(fit, cov_type)
    notes = [*notes, *notes_on_replies(fit), *errors.notes]
    if fit.has_penalty:
        notes.append(
            f"The penalty of C={fit.moments.likelihood.C:g} draws coefficients towards "
            "0, so that there are no p values, and intervals do not know of this bias. "
            "Set C to np.inf for a logistic regression without a penalty."
        )
    if fit.is_approximate:
        skewed = [fit.columns[j].name for j in fit.expected.skewed_columns]
        if skewed:
            notes.append(
                f"Columns {listed(map(repr, skewed))} are skewed: sums of two orders "
                "miss a part of them, so that their coefficients may be off by a part "
                "of a standard error."
            )
    table = fit.table(
        level=level, reference=reference, cov_type=errors.cov_type, notes=notes
    )
    if errors.cov_type == "nonrobust" and fit.has_weighted_rows:
        return replace(
            table,
            covariance=np.full_like(table.covariance, np.nan),
            has_tests=False,
        )
    return table
