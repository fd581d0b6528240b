"""Sums over a node's rows: moments, and its own model's loss and gradient."""

import numpy as np
from scipy import sparse
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import (
    CLUSTER_ROWS,
    ClassMoments,
    EffectiveRows,
    block_bytes,
    check_rows,
    class_moments,
    cluster_classes,
    log_losses,
    moments_kind,
    ratio,
    row_blocks,
)
from ..networks import HiddenLayers, final_step, linear_logits, output_labels
from ..tuning import fit_inverse_temperature
from ._classifiers import at_node, indices_of
from ._closed_forms import as_class_weight, closed_form, has_steps, weights_of
from ._layer_numbers import layer_moments
from ._member import Member
from ._penalties import IN_PLACE_OF, penalty_of, speaking_classifier
from ._seeds import seed_of_rows

# Rows that the factor on a model's logits is fitted to.
TEMPERATURE_ROWS = 4000
# Kurtosis within classes of the logits of a node's own model, 3 of Gaussians: nodes of
# eight sets and five partitions have up to 21, of log-normal rows (sigma 1.5) over 50.
_HEAVY = 30.0
# Rows that it is taken over, and fewest that have one.
_MOST_ROWS, _FEWEST_ROWS = 4000, 50
# Features that are named.
_N_NAMED = 3


def class_weight_of(estimator) -> str | list | None:
    """Weights of classes that were given: "balanced", pairs with labels, or None."""
    own = speaking_classifier(estimator)
    if isinstance(own, OneVsRestClassifier):
        own = final_step(own.estimator)
    weight = getattr(own, "class_weight", None)
    if isinstance(weight, str):
        return weight
    # Of a skorch net.
    by_output = getattr(getattr(own, "criterion_", None), "weight", None)
    if not weight and by_output is not None:
        labels, seen = output_labels(own)
        values = np.ravel(by_output.detach().cpu().numpy())[seen]
        weight = dict(zip(labels[seen].tolist(), values / values.mean(), strict=True))
    if not weight or len(set(weight.values()) | {1}) == 1:
        return None
    return as_class_weight(weight)


@np.errstate(over="ignore", invalid="ignore")
def heavy_tails(member: Member) -> tuple[float, list[int]] | None:
    """Kurtosis within classes of linear logits, if far above 3; features it is from."""
    network = member.model.network()
    if not network.is_linear or not network.has_classifier:
        return None
    own = network.classes[network.seen]
    X, y = member.rows("learning")
    rows = np.flatnonzero(np.isin(y, own))
    if len(own) < 2 or len(rows) < _FEWEST_ROWS:
        return None
    rows = rows[spread(np.unique(y[rows], return_inverse=True)[1], _MOST_ROWS)]
    X, y, W = X[rows], y[rows], network.aligned(own).last.astype(np.float64)
    W -= W.mean(axis=1, keepdims=True)
    squares, fourth = _powers(linear_logits(X, W), y)
    kurtosis = ratio(fourth, squares**2).mean()
    if not _HEAVY <= kurtosis < np.inf:  # what is too large is an error elsewhere
        return None
    X = X.toarray() if sparse.issparse(X) else X
    parts = _powers(X, y)[1] * (W[:-1] ** 4).sum(axis=1)
    return float(kurtosis), np.argsort(-parts, kind="stable")[:_N_NAMED].tolist()


def _powers(values, y) -> tuple[np.ndarray, np.ndarray]:
    squares = np.empty(values.shape)
    for label in np.unique(y):
        own = values[y == label]
        squares[y == label] = (own - own.mean(axis=0, dtype=np.float64)) ** 2
    return squares.mean(axis=0), np.square(squares).mean(axis=0)


class OwnGradient:
    """Gradient of the log-loss of a node's own model, at the fitted "factor"."""

    def __init__(self, member, own, in_sums, origin, model=None, class_weight=None):
        self.origin, self.factor, self.weighs, self.weights = origin, None, {}, None
        self.effective = EffectiveRows(1)
        self.by_class = class_weight == "balanced"
        if class_weight == "members":
            found = class_weight_of(member.picklable.estimator)
            if found is not None:  # what counts depends on other nodes
                self.weighs, self.by_class = {"class_weight": found}, True
        if isinstance(class_weight, list):
            self.weights = weights_of(class_weight, own)
        own_model = model == "own" and member.has_classifier
        self.W, labels = member.own_linear() if own_model else (None, ())
        self.columns = indices_of(own, labels)
        # Rows of a class that is too small for a mean are in no other sum by class.
        self.known = (self.columns >= 0) & in_sums & (len(labels) > 1)
        n_sums = len(own) if self.by_class else 1
        self.gradients = np.zeros((n_sums, len(origin) + 1, len(labels)))

    def fit_factor(self, X, y: np.ndarray, own) -> None:
        codes = indices_of(y, own)
        rows = np.flatnonzero((codes >= 0) & self.known[codes])
        if len(rows):
            logits = linear_logits(X[rows], self.W).astype(np.float64)
            self.factor = factor_of(logits, self.columns[codes[rows]])

    def add(self, X, codes: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Add rows, given their classes; the factor is fitted to the first."""
        known = self.known[codes]
        if not known.any():
            return
        if not known.all():
            X, codes = X[known], codes[known]
            weights = None if weights is None else weights[known]
        logits = linear_logits(X, self.W).astype(np.float64)
        columns = self.columns[codes]
        if self.factor is None:
            self.factor = factor_of(logits, columns)
        residuals = log_losses(self.factor * logits, columns)[1]
        if weights is not None:
            residuals *= weights[:, None]
        self.effective.add([residuals], 1.0)
        if self.by_class:
            for c in np.unique(codes).tolist():
                rows = np.flatnonzero(codes == c)
                self.gradients[c] += _about(self.origin, X[rows], residuals[rows])
            return
        if self.weights is not None:
            residuals *= self.weights[codes][:, None]
        self.gradients[0] += _about(self.origin, X, residuals)

    def reply(self, sums: ClassMoments) -> dict:
        """What is sent, given the moments of the rows: these have rounding too."""
        if self.factor is None:
            return self.weighs
        found, constant = self.gradients, np.flatnonzero(sums.variances() == 0)
        found[:, constant, :] = sums.mean()[constant][:, None] * found[:, -1:, :]
        sent = {"gradients": found} if self.by_class else {"gradient": found[0]}
        effective = float(self.effective.least()[0])
        about = {"factor": self.factor, "effective_rows": effective}
        return about | sent | self.weighs


def factor_of(logits: np.ndarray, y: np.ndarray) -> float:
    some = spread(y, TEMPERATURE_ROWS)  # a factor that is next to the best will do
    return fit_inverse_temperature(logits[some], y[some])


def _about(origin: np.ndarray, X, residuals: np.ndarray) -> np.ndarray:
    """Rows less the origin, and 1, times what is wrong with each."""
    gradient = np.zeros((X.shape[1] + 1, residuals.shape[1]))
    gradient[-1] = residuals.sum(axis=0)
    if sparse.issparse(X):
        gradient[:-1] = safe_sparse_dot(X.T, residuals, dense_output=True)
        gradient[:-1] -= np.outer(origin, gradient[-1])
    else:
        origin, residuals = origin.astype(X.dtype), residuals.astype(X.dtype)
        for rows in row_blocks(X, 8 * X.shape[1], block_bytes()):
            gradient[:-1] += (X[rows] - origin).T @ residuals[rows]
    return gradient


def stride(sizes: np.ndarray, n_rows: int) -> int:
    """Least power of 2 by which classes, of a row at least, give ``n_rows`` at most."""
    step = 1
    while np.max(sizes, initial=1) > step and np.sum(-(-sizes // step)) > n_rows:
        step *= 2
    return step


def ranks(codes: np.ndarray) -> np.ndarray:
    """How many rows of its class there are before each row."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    found = np.empty(len(codes), dtype=np.intp)
    found[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


def spread(codes: np.ndarray, n_rows: int) -> np.ndarray:
    """Places of at most so many rows, every 2^k-th of each class."""
    return np.flatnonzero(ranks(codes) % stride(np.bincount(codes), n_rows) == 0)


def moments(
    member: Member,
    *,
    kind,
    n_components,
    min_cluster_size,
    model=None,
    hidden=None,
    class_weight=None,
    share=1.0,
    penalty=False,
) -> dict:
    """Counts, means, scatter by class or cluster, and what `OwnGradient` replies.

    Where single rows are protected (``min_rows``), less is sent of hidden layers that
    would take more numbers than ``share`` of those that the rows hold.
    """
    X, y = member.rows("learning")
    weights = None if member.weights is None else member.weights[member.learning]
    own = np.unique(y) if member.left_out is None else np.union1d(y, member.left_out)
    codes = np.searchsorted(own, y)
    with at_node(member.name, "its rows cannot be summed"):
        class_sizes = np.bincount(codes, minlength=len(own))
        least = max(min_cluster_size, CLUSTER_ROWS, member.min_rows)
        parts, n_factors, n_inputs = None, None, X.shape[1]
        has_clusters = n_components > 1
        if hidden is not None:
            check_rows(X)  # before layers make of them what can be summed
            X = HiddenLayers.from_content(hidden).outputs(X)
        if hidden is not None and member.min_rows > 1:
            sent = layer_moments(
                kind=kind,
                n_units=X.shape[1],
                most=_most_layer_numbers(member, share * class_sizes.sum() * n_inputs),
                class_sizes=class_sizes,
                n_parts=int(np.clip(class_sizes // least, 1, n_components).sum()),
            )
            has_clusters &= sent.has_clusters
            kind, n_factors = sent.kind, sent.n_factors
        if has_clusters:
            # The request has no seed: see `seed_of_rows`.
            parts = cluster_classes(
                X,
                codes,
                n_components,
                least,
                random_state=seed_of_rows(class_sizes),
            )
        kind = moments_kind(kind, X.shape[1], len(own), X.shape[0])
        how = {"min_cluster_size": min_cluster_size, "weights": weights}
        sums = class_moments(X, codes, kind=kind, parts=parts, **how)
    in_sums = np.isin(np.arange(len(own)), sums.columns)
    gradient = OwnGradient(member, own, in_sums, sums.origin, model, class_weight)
    gradient.add(X, codes, weights)
    reply = reply_of(member, own, sums, penalty=penalty, n_factors=n_factors)
    return reply | gradient.reply(sums)


def _most_layer_numbers(member: Member, of_message: float) -> float:
    if member.layer_numbers_left is None:
        return of_message
    return min(of_message, member.layer_numbers_left)


def reply_of(
    member: Member,
    own,
    sums: ClassMoments,
    *,
    penalty: bool,
    n_factors: int | None = None,
) -> dict:
    """What is replied but for gradients.

    ``penalty``: with the classifier's, if any; ``n_factors``: of each matrix, or all.
    """
    estimator = member.picklable.estimator
    form = closed_form(estimator)
    trained_as = getattr(final_step(estimator), IN_PLACE_OF, estimator)
    scaled = has_steps(trained_as) or hasattr(estimator, "is_head_")
    if "kind" in form and len(np.unique(sums.columns)) < len(own):
        form = {"reason": "a class with too few rows to be in sums (min_rows)"}
    found = {"labels": own.tolist(), "moments": sums.as_arrays(rank=n_factors)}
    said = penalty_of(estimator) if penalty else None
    found |= {} if said is None else {"penalty": said}
    return {**found, "form": form, "scaled": scaled}
