"""Sums over a node's rows: moments, and its own model's loss and gradient.

The gradient is that of the log-loss of the node's own last layer ``W``, of shape
(n_features + 1, n_outputs), times a factor that makes its labels most likely:

    z = factor * [x, 1] @ W
    r = softmax(z) - onehot(y)
    gradient = sum over rows of outer([x - origin, 1], r)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import (
    CLUSTER_ROWS,
    SAMPLE_ROWS,
    ClassMoments,
    EffectiveRows,
    block_bytes,
    check_rows,
    class_moments,
    cluster_classes,
    log_losses,
    moments_kind,
    row_blocks,
    weights_of,
)
from ..networks import LayersBelow, final_step, linear_logits, output_labels
from ._classifiers import Rows, indices_of, naming_node
from ._closed_forms import (
    LEFT_OUT,
    WITHHELD,
    as_class_weight,
    closed_form,
    has_steps,
)
from ._constants import warn_of_lost_features
from ._disclosed import AskedGradient, tellable_rows
from ._member import Member
from ._own_residuals import fitted_factor
from ._penalties import IN_PLACE_OF, penalty_of, speaking_classifier
from ._room_for_means import check_room_for_means
from ._samples import spread
from ._seeds import seed_of_rows
from ._tails import CombinationTails, rounded_kurtosis
from ._told_before import n_told_before


def class_weight_of(estimator: object) -> str | list | None:
    """Weights of classes that a classifier was fitted with.

    Returns
    -------
    class_weight : "balanced", list or None
        A list has pairs of a label and its weight. None where all classes weigh 1.
    """
    classifier = speaking_classifier(estimator)
    if isinstance(classifier, OneVsRestClassifier):
        classifier = final_step(classifier.estimator)
    class_weight = getattr(classifier, "class_weight", None)
    if isinstance(class_weight, str):
        return class_weight
    # The criterion of a skorch net weighs outputs.
    output_weights = getattr(getattr(classifier, "criterion_", None), "weight", None)
    if not class_weight and output_weights is not None:
        labels, seen = output_labels(classifier)
        weights = np.ravel(output_weights.detach().cpu().numpy())[seen]
        # torch divides the loss by the sum of the weights, so only ratios count.
        weights = weights / weights.mean()
        class_weight = dict(zip(labels[seen].tolist(), weights, strict=True))
    if not class_weight or len(set(class_weight.values()) | {1}) == 1:
        return None
    return as_class_weight(class_weight)


class OwnGradient:
    """Gradient of the log-loss of a node's own model, summed over rows that are added.

    Parameters
    ----------
    member : Member
    classes : ndarray of shape (n_classes,)
        Sorted labels; codes of rows are their indices.
    in_sums : ndarray of bool of shape (n_classes,)
        Classes with a mean in the moments.
    origin : ndarray of shape (n_features,)
        The point that rows are counted from.
    model : "own" or None
        None: there is no gradient.
    class_weight : "balanced", "members", list or None
        How classes weigh: by how many rows they have; as the node's own classifier was
        fitted; by pairs of label and weight; or all alike. What the first two come to
        depends on the rows of other nodes. So there is one gradient for each class
        then, and the server weighs them.
    """

    def __init__(
        self,
        member: Member,
        *,
        classes: np.ndarray,
        in_sums: np.ndarray,
        origin: np.ndarray,
        model: str | None = None,
        class_weight: str | Sequence | None = None,
    ) -> None:
        self.classes = classes
        self.origin = origin
        self.factor: float | None = None  # None until rows are added that have one
        self.effective_rows = EffectiveRows(n_models=1)
        self.weight_of_member = _weight_of_member(member, class_weight)
        is_weighted_by_server = self.weight_of_member is not None
        self.is_by_class = class_weight == "balanced" or is_weighted_by_server
        self.class_weights = None  # (n_classes,)
        if isinstance(class_weight, list):
            self.class_weights = weights_of(class_weight, classes)
        self.W = None  # (n_features + 1, n_outputs)
        known_classes = []
        if model == "own" and member.has_classifier:
            self.W, known_classes = member.own_linear()
        # (n_classes,), the output of each class, -1 where the model has none.
        self.outputs = indices_of(classes, known_classes)
        # (n_classes,), bool: rows of a class that is too small for a mean are in no
        # other sum by class; a model of one class has no gradient.
        self.has_gradient = (self.outputs >= 0) & in_sums & (len(known_classes) > 1)
        n_sums = len(classes) if self.is_by_class else 1
        # (n_sums, n_features + 1, n_outputs), one for each class or for all of them.
        self.gradients = np.zeros((n_sums, len(origin) + 1, len(known_classes)))

    def fit_factor(
        self, X: Rows, y: np.ndarray, row_weights: np.ndarray | None = None
    ) -> None:
        """Fit the factor to some rows and their labels, before rows are added."""
        codes = indices_of(y, self.classes)
        rows = np.flatnonzero((codes >= 0) & self.has_gradient[codes])
        if len(rows):
            logits = linear_logits(X[rows], self.W).astype(np.float64)
            self.factor = fitted_factor(
                logits,
                self.outputs[codes[rows]],
                None if row_weights is None else row_weights[rows],
            )

    def add(
        self, X: Rows, codes: np.ndarray, row_weights: np.ndarray | None = None
    ) -> None:
        """Add rows, given the indices of their classes and how much each counts.

        If the factor is not fitted yet it is fitted to these.
        """
        has_gradient = self.has_gradient[codes]
        if not has_gradient.any():
            return
        if not has_gradient.all():
            X, codes = X[has_gradient], codes[has_gradient]
            if row_weights is not None:
                row_weights = row_weights[has_gradient]
        logits = linear_logits(X, self.W).astype(np.float64)
        outputs = self.outputs[codes]
        if self.factor is None:
            self.factor = fitted_factor(logits, outputs, row_weights)
        _, residuals = log_losses(self.factor * logits, outputs)
        if row_weights is not None:
            residuals *= row_weights[:, None]
        self.effective_rows.add([residuals], 1.0)
        if self.is_by_class:
            for c in np.unique(codes).tolist():
                rows = np.flatnonzero(codes == c)
                self.gradients[c] += _gradient_about(
                    self.origin, X[rows], residuals[rows]
                )
            return
        if self.class_weights is not None:
            residuals *= self.class_weights[codes][:, None]
        self.gradients[0] += _gradient_about(self.origin, X, residuals)

    def move_to(self, origin: np.ndarray) -> None:
        """Count rows from another point, those that were added too."""
        self.gradients[:, :-1, :] += (self.origin - origin)[:, None] * self.gradients[
            :, -1:, :
        ]
        self.origin = origin

    def reply(self, sums: ClassMoments) -> dict:
        """Return the fields that are sent beside the moments of the same rows."""
        reply: dict[str, object] = {}
        if self.factor is not None:
            reply["factor"] = self.factor
            reply["effective_rows"] = float(self.effective_rows.least()[0])
            gradients = self._gradients_as_rounded(sums)
            if self.is_by_class:
                reply["gradients"] = gradients
            else:
                reply["gradient"] = gradients[0]
        if self.weight_of_member is not None:
            reply["class_weight"] = self.weight_of_member
        return reply

    def _gradients_as_rounded(self, sums: ClassMoments) -> np.ndarray:
        """The gradients, of constant features with the rounding of the moments.

        There ``x - origin`` is one number for all rows: the mean of the moments, with
        the rounding that it has. Gradients and moments then agree to the last digit.
        """
        constant = np.flatnonzero(sums.variances() == 0)
        offsets = sums.mean()[constant][:, None]
        self.gradients[:, constant, :] = offsets * self.gradients[:, -1:, :]
        return self.gradients


def _weight_of_member(
    member: Member, class_weight: str | Sequence | None
) -> str | list | None:
    """Return the weights of a member's own classifier, if these are asked for."""
    if class_weight != "members":
        return None
    return class_weight_of(member.model.estimator)


def _asked_gradient(
    member: Member,
    codes: np.ndarray,
    *,
    model: str | None,
    classes: np.ndarray,
    class_weight: str | Sequence | None,
) -> AskedGradient | None:
    """Return how `OwnGradient` sums rows; None: it is not asked for."""
    if model != "own" or not member.has_classifier:
        return None
    is_weighted_by_server = _weight_of_member(member, class_weight) is not None
    class_weights = None
    if isinstance(class_weight, list):
        class_weights = weights_of(class_weight, classes)[codes]
    return AskedGradient(
        is_by_class=class_weight == "balanced" or is_weighted_by_server,
        class_weights=class_weights,
    )


def _gradient_about(origin: np.ndarray, X: Rows, residuals: np.ndarray) -> np.ndarray:
    """The sum over rows of ``outer([x - origin, 1], residuals)``."""
    gradient = np.zeros((X.shape[1] + 1, residuals.shape[1]))
    gradient[-1] = residuals.sum(axis=0)
    if sparse.issparse(X):
        gradient[:-1] = safe_sparse_dot(X.T, residuals, dense_output=True)
        gradient[:-1] -= np.outer(origin, gradient[-1])
    else:
        origin = origin.astype(X.dtype)
        residuals = residuals.astype(X.dtype)
        # A block of rows less the origin is a copy.
        for rows in row_blocks(X, bytes_per_row=8 * X.shape[1], limit=block_bytes()):
            gradient[:-1] += (X[rows] - origin).T @ residuals[rows]
    return gradient


@dataclass(frozen=True, eq=False, kw_only=True)
class _BehindLayers:
    """Rows as they are summed, behind hidden layers if there are some."""

    member: Member
    X: Rows  # (n_rows, n_columns)
    parts: np.ndarray | None  # (n_rows,), the cluster of each row


def _outputs_of_layers(
    member: Member,
    X: Rows,
    codes: np.ndarray,
    *,
    hidden: LayersBelow | None,
    n_components: int,
    min_rows: int,
) -> _BehindLayers:
    """Return hidden layers' outputs for rows, and their clusters of ``min_rows``."""
    if hidden is not None:
        n_features = X.shape[1]
        check_rows(X)  # before layers make of them what can be summed
        X = hidden.outputs(X)
        n_raw_columns = member.n_raw_columns or n_features
        member = replace(member, n_raw_columns=n_raw_columns)
        # Means of other layers than before are further numbers about the same rows.
        check_room_for_means(
            member,
            n_rows=X.shape[0],
            n_columns=X.shape[1],
            n_classes=len(np.unique(codes)),
            n_before=n_told_before(member),
        )
    parts = None
    if n_components > 1:
        # The request has no seed: see `seed_of_rows`.
        parts = cluster_classes(
            X,
            codes,
            n_components=n_components,
            min_cluster_size=min_rows,
            random_state=seed_of_rows(np.bincount(codes)),
            groups=None if member.groups is None else member.groups[member.learning],
            weights=member.row_weights("learning"),
        )
    return _BehindLayers(member=member, X=X, parts=parts)


def moments(
    member: Member,
    *,
    kind: str,
    n_components: int,
    min_cluster_size: int,
    model: str | None = None,
    hidden: LayersBelow | None = None,
    class_weight: str | Sequence | None = None,
    penalty: bool = False,
) -> dict:
    """Counts, means, scatter by class or cluster, and what `OwnGradient` replies."""
    X, y = member.rows("learning")
    row_weights = member.row_weights("learning")
    # Classes that were left out are still in the reply, without rows.
    classes = (
        np.unique(y) if member.left_out is None else np.union1d(y, member.left_out)
    )
    codes = np.searchsorted(classes, y)
    with naming_node(member.name, "its rows cannot be summed"):
        behind = _outputs_of_layers(
            member,
            X,
            codes,
            hidden=hidden,
            n_components=n_components,
            min_rows=max(min_cluster_size, CLUSTER_ROWS, member.min_rows),
        )
        member = behind.member
        X = behind.X
        kind_of_sums = moments_kind(
            kind,
            n_features=X.shape[1],
            n_classes=len(classes),
            # Fewer rows than features are never told of by roots under a rule.
            n_rows=X.shape[0] if member.disclosure is None else np.inf,
        )
        tellable = tellable_rows(
            member,
            X,
            codes,
            kind=kind_of_sums,
            parts=behind.parts,
            gradient=_asked_gradient(
                member, codes, model=model, classes=classes, class_weight=class_weight
            ),
        )
        X = tellable.X
        sums = class_moments(
            X,
            codes,
            kind=kind_of_sums,
            parts=tellable.parts,
            min_cluster_size=min_cluster_size,
            weights=row_weights,
            has_own=tellable.has_own,
            told=tellable.sums,
        )
    if hidden is None and not tellable.withholds_columns:
        warn_of_lost_features(member, sums)
    gradient = OwnGradient(
        member,
        classes=classes,
        in_sums=np.isin(np.arange(len(classes)), sums.columns),
        origin=sums.origin,
        model=model if tellable.has_gradient else None,
        class_weight=class_weight,
    )
    gradient.add(X, codes, row_weights)
    reply = reply_of_sums(
        member,
        classes=classes,
        sums=sums,
        penalty=penalty,
        withholds=tellable.withholds,
    )
    if model == "own":  # models that are functions of sums are exact with tails, too
        tails = CombinationTails(
            _sample_by_class(X, codes, SAMPLE_ROWS * n_components), len(classes)
        )
        tails.add(X, codes)
        reply |= reply_of_tails(member, tails)
    return reply | gradient.reply(sums)


def _sample_by_class(X: Rows, codes: np.ndarray, n_rows: int) -> list[tuple[int, Rows]]:
    """Return the index of each class that has rows, and at most so many of its rows."""
    sample = []
    for c in np.unique(codes).tolist():
        of_class = np.flatnonzero(codes == c)
        rows = of_class[spread(np.zeros(len(of_class), dtype=int), n_rows)]
        sample.append((c, X[rows]))
    return sample


def reply_of_sums(
    member: Member,
    *,
    classes: np.ndarray,
    sums: ClassMoments,
    penalty: bool,
    withholds: bool = False,
) -> dict:
    """The reply to a request for moments, but for gradients.

    Parameters
    ----------
    member : Member
    classes : ndarray of shape (n_classes,)
        The labels of the columns of the sums.
    sums : ClassMoments
    penalty : bool
        Whether to tell the penalty that the classifier was fitted with.
    withholds : bool, default=False
        Whether the rule of disclosure has changed a sum.
    """
    estimator = member.model.estimator
    form = closed_form(estimator)
    if "kind" in form or not member.has_classifier:
        # A node without a classifier takes part in a model that is a function of sums.
        lacks_mean = len(np.unique(sums.columns)) < len(classes)
        if lacks_mean or member.left_out is not None:
            form = {"reason": LEFT_OUT}
        elif withholds:
            form = {"reason": WITHHELD}
    reply = {"labels": classes.tolist(), "moments": sums.as_told()}
    n_rows = member.n_rows_if_weighted(classes.tolist())
    if n_rows is not None:
        reply["n_rows"] = n_rows
    penalty_of_estimator = penalty_of(estimator) if penalty else None
    if penalty_of_estimator is not None:
        reply["penalty"] = penalty_of_estimator
    reply["form"] = form
    reply["scaled"] = _scales_features(estimator)
    return reply


def reply_of_tails(member: Member, tails: CombinationTails) -> dict[str, int]:
    """Return what is said of rows far outside of their class: nothing if none are."""
    kurtosis = rounded_kurtosis(member, tails)
    return {} if kurtosis is None else {"kurtosis": kurtosis}


def _scales_features(estimator: object) -> bool:
    """Report whether a model was fitted to features that it has scaled itself.

    The head of a backbone counts too: its features are in no units of anything.
    """
    # A constant model is in no pipeline, but the classifier that it stands for may be.
    unfitted = getattr(final_step(estimator), IN_PLACE_OF, estimator)
    return has_steps(unfitted) or hasattr(estimator, "is_head_")
