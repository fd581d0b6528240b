"""Sums over a node's rows: moments, and its own model's loss and gradient."""

import numpy as np
from scipy import sparse
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import (
    LARGEST,
    ClassMoments,
    block_bytes,
    check_rows,
    class_moments,
    column_ends,
    indicator,
    k_means,
    log_losses,
    moments_kind,
    ratio,
    rounding,
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


class EffectiveRows:
    """Rows that gradients and their differences are of: (sum of sizes)^2 / squares."""

    def __init__(self, n_models: int) -> None:
        self.pairs = np.triu_indices(n_models)  # of models, each with itself first
        self.sums, self.squares = np.zeros((2, len(self.pairs[0])))

    def add(self, residuals: list, weights: np.ndarray | float) -> None:
        """Add rows: for each model an array (n_rows, n_classes), and rows' weights."""
        for k, (i, j) in enumerate(zip(*self.pairs, strict=True)):
            own = residuals[i] if i == j else residuals[i] - residuals[j]
            sizes = np.abs(own).sum(axis=1) * weights
            self.sums[k] += sizes.sum()
            self.squares[k] += sizes @ sizes

    def least(self) -> np.ndarray:
        """For each model, of itself and of its difference to those before it."""
        found, some = np.full(self.sums.shape, np.inf), self.squares > 0
        np.divide(self.sums**2, self.squares, out=found, where=some)
        least = np.full(self.pairs[0].max() + 1, np.inf)
        np.minimum.at(least, self.pairs[1], found)
        # Where nothing is wrong nothing is said of a row.
        return np.minimum(least, LARGEST)


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


# Rows that a cluster is made of at least: the mean of one row is the row. As many as
# what nodes send is made of unless they say otherwise.
CLUSTER_ROWS = 10
# Rows a cluster that centres are looked for with, and steps to these.
SAMPLE_ROWS, _MAX_ITERATIONS = 32, 20
# Digits that these see, in deviations: where two rows are one cluster both are as far
# from its centre, and rounding, which units change, would choose between them.
_DIGITS = 6


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


def cluster_classes(
    X, y: np.ndarray, n_components: int, min_cluster_size: int, random_state=None
) -> np.ndarray:
    """k-means within classes; rows of too small clusters go to the nearest."""
    rng = check_random_state(random_state)
    classes, sizes = np.unique(y, return_counts=True)
    n_clusters = np.clip(sizes // min_cluster_size, 1, n_components)
    if n_clusters.max() == 1:
        return np.searchsorted(classes, y)
    parts, n_parts = np.empty(len(y), dtype=np.intp), 0
    # Rows are drawn by their place: the order they come in must not matter.
    order = _order(X)
    owned = [order[y[order] == c] for c in classes]
    samples = list(owned)  # enough of each class to find centres by
    for c, most in enumerate(SAMPLE_ROWS * n_clusters):
        if len(owned[c]) > most:
            some = rng.choice(len(owned[c]), most, replace=False)
            samples[c] = owned[c][np.sort(some)]
    chosen = np.concatenate(samples)
    inverse = inverse_deviations(X[chosen], y[chosen])
    seed = rng.randint(2**31 - 1)
    for rows, n, sample in zip(owned, n_clusters, samples, strict=True):
        found = np.zeros(len(rows), dtype=np.intp)
        if n > 1:
            found = _large_clusters(X, rows, sample, n, min_cluster_size, inverse, seed)
        parts[rows], n_parts = n_parts + found, n_parts + found.max() + 1
    return parts


def inverse_deviations(X, y) -> np.ndarray:
    return ratio(1.0, np.sqrt(class_moments(X, y, kind="diagonal").within()))


def _order(X) -> np.ndarray:
    """Places of rows by what these hold, in whatever units and order of features."""
    highest, lowest = column_ends(X)
    ranges = highest - lowest
    # What rounding leaves of a constant says nothing of a row.
    ranges[ranges <= rounding(np.maximum(np.abs(highest), np.abs(lowest)), X)] = 0.0
    means = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    # Sums of squares and fourth powers of what rows are away from the mean.
    inverse, length = ratio(1.0, ranges), np.zeros(X.shape[0])
    for rows in row_blocks(X, 32 * X.shape[1], block_bytes()):
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        squares = np.square((block - means) * inverse)
        length[rows] = squares.sum(axis=1)
        length[rows] += np.einsum("ij,ij->i", squares, squares)
    return np.argsort(length, kind="stable")


class Centres:
    """Centres of the clusters of a class, found by some of its rows."""

    def __init__(self, sample, n_clusters: int, inverse: np.ndarray, seed) -> None:
        """At most so many, in units of the deviations within classes."""
        zero, scaled = np.zeros(sample.shape[1], dtype=sample.dtype), sample
        factors = inverse.astype(sample.dtype)
        if sparse.issparse(sample):
            scaled = (scaled @ sparse.diags(factors)).tocsr().astype(np.float64)
            scaled.data = scaled.data.round(_DIGITS)
        else:
            zero = scaled[0].copy()
            # float32 distances are made from float64 ones, which takes longer.
            scaled = ((scaled - zero) * factors).astype(np.float64).round(_DIGITS)
        found = k_means(scaled, n_clusters, max_iter=_MAX_ITERATIONS, random_state=seed)
        sizes = np.bincount(found)
        means = indicator(found, len(sizes), 1.0 / sizes[found])
        self.centres = safe_sparse_dot(means, scaled, dense_output=True)  # less zero
        self.zero, self.factors = zero, factors  # of each feature

    def distances(self, X, rows: np.ndarray) -> np.ndarray:
        """Squared, of some rows from each centre, less what the centres share."""
        # But for the length of a row, in one product.
        weights = (self.centres * self.factors).T.astype(X.dtype)
        lengths = np.einsum("ij,ij->i", self.centres, self.centres, dtype=np.float64)
        distances = np.empty((len(rows), len(self.centres)))
        for block in row_blocks(rows[:, None], 8 * X.shape[1], block_bytes()):
            own = X[rows[block]]
            own = own if sparse.issparse(X) else np.subtract(own, self.zero, out=own)
            distances[block] = lengths - 2.0 * safe_sparse_dot(own, weights)
        return distances


def _large_clusters(
    X, rows, sample, n_clusters, min_cluster_size, inverse, seed
) -> np.ndarray:
    """Cluster of each row; small ones are dissolved, the smallest first."""
    distances = Centres(X[sample], n_clusters, inverse, seed).distances(X, rows)
    found, n = np.argmin(distances, axis=1), distances.shape[1]
    alive = np.ones(n, dtype=bool)
    while alive.sum() > 1:
        sizes = np.where(alive, np.bincount(found, minlength=n), np.inf)
        least = int(np.argmin(sizes))
        if sizes[least] >= min_cluster_size:
            break
        alive[least] = False
        distances[:, least] = np.inf
        moved = found == least
        found[moved] = np.argmin(distances[moved], axis=1)
    return np.unique(found, return_inverse=True)[1]
