"""What nodes do for plans: a function of a member and arguments for each task."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.utils.extmath import safe_sparse_dot

from ..compat import safe_indexing
from ..moments import (
    ClassMoments,
    ClassSums,
    EffectiveRows,
    draw_rows,
    float_type,
    log_losses,
    mean_log_loss,
    row_blocks,
    working_bytes,
)
from ..networks import Coordinates, HiddenLayers, Layers, linear_logits
from ..progress import tracked
from ..spaces import Criterion, Geometry, build_neuron_spaces, on_one_scale
from ..steps import Front, front_of_content
from ._cache import digest
from ._chunks import ChunkedMember, moments_of_chunks, stacked
from ._classifiers import at_node, indices_of
from ._member import Member, TooFewRowsError
from ._model import node_space, retrain_layers
from ._moments import moments

# Rows drawn for each of the node's own, at most.
MOST_DRAWN = 4
# How large logits may be, in root mean squares of those of the node's own model, or of
# 1: steeper models tell one row from the next.
_STEEPEST = 20.0

_OPENED: dict[str, Front] = {}


def opened_front(content) -> Front:
    """The front of a message; the latest is kept, since all nodes have one."""
    key = digest(content)
    if key not in _OPENED:
        _OPENED.clear()
        _OPENED[key] = front_of_content(content)
    return _OPENED[key]


def describe(member: Member) -> dict:
    labels, counts = member.row_counts()
    network = member.model.network().as_content()
    return {"network": network, "rows": {"labels": labels, **counts}}


def learning_columns(member: Member):
    """The rows that learn, as they are before a front."""
    X, learning = member.X, member.learning
    return X if isinstance(learning, slice) else safe_indexing(X, learning)


def front(member: Member, *, front) -> dict:
    X = learning_columns(member)
    if X.shape[0] < member.min_rows:
        few = f"{X.shape[0]} rows, fewer than min_rows={member.min_rows}"
        raise TooFewRowsError(f"Node {member.name!r} has {few}.")
    return opened_front(front).tell(X, min_rows=member.min_rows, memo=member.memo)


def counts(member: Member) -> dict:
    labels, found = member.row_counts()
    some = np.flatnonzero(found["training"])
    return {"labels": [labels[k] for k in some], "counts": found["training"][some]}


def train(
    member: Member, *, parameters, classes, epochs, rates, seed, n_rows=None
) -> dict:
    """Train the node's classifier from shared parameters; "loss" is that after it."""
    # Rows of classes that the shared model has no output for cannot train it.
    X, codes, _ = _of_labels(member, "training", classes)
    if not len(codes):
        raise ValueError(
            f"Node {member.name!r} has no rows of the classes that the shared model "
            "has, so it cannot train it. Give it rows of these classes, or leave the "
            "node out."
        )
    if n_rows is not None and n_rows < X.shape[0]:
        if n_rows < member.min_rows:
            few = f"{n_rows} rows, fewer than min_rows={member.min_rows}"
            raise TooFewRowsError(f"Node {member.name!r} is to train on {few}.")
        # Another number of rows draws others: the difference of two is no row's.
        rng = np.random.RandomState([seed or 0, n_rows])
        some = rng.choice(X.shape[0], n_rows, replace=False)
        X, codes = X[some], codes[some]
    labels = np.asarray(classes)
    wide = member.model.widened(labels)
    how = {"parameters": parameters, "epochs": epochs, "learning_rate": rates}
    trained = wide.train(X, wide.targets(labels)[codes], **how, random_state=seed)
    parameters = trained.parameters()
    _check_finite(parameters)
    true = trained.probabilities(X, labels)[np.arange(len(codes)), codes]
    loss = -np.mean(np.log(np.maximum(true, np.finfo(np.float64).tiny)))
    return {"parameters": parameters, "loss": float(loss)}


def _inputs(member: Member, role: str, hidden):
    return HiddenLayers.from_content(hidden).outputs(member.rows(role)[0])


def neurons(member: Member, *, weights, geometry, hidden=None, **options) -> dict:
    _check_units_are_own(member, weights)
    X, geometry = _inputs(member, "learning", hidden), Geometry.from_settings(geometry)
    return vars(build_neuron_spaces(X, weights, geometry=geometry, **options))


def _check_units_are_own(member: Member, weights: np.ndarray) -> None:
    """Refuse more units than the node's own network has in any layer.

    A server asks about the units of the node itself. Of thousands that it made up, the
    sizes say where each row lies along any direction.
    """
    if member.min_rows == 1:  # single rows may be known
        return
    most = max(member.model.network(copy=False).widths, default=0)
    if weights.shape[1] > most:
        raise ValueError(
            f"Node {member.name!r} is asked about {weights.shape[1]} units of a layer, "
            f"but its own network has {most} at most, and it answers only about these. "
            "The server must send the weights of the node's own network."
        )


def class_sums(member: Member, *, of, threshold=None) -> dict:
    """Reply with what `ClassSums.of` makes of the rows, and whether classes lack."""
    weights = None if member.weights is None else member.weights[member.learning]
    asked = {"of": of, "threshold": threshold, "weights": weights}
    chunked = isinstance(member, ChunkedMember)
    with at_node(member.name, "its rows cannot be summed"):
        rows = member.learning_rows() if chunked else [member.rows("learning")]
        sums = ClassSums.merged(ClassSums.of(X, y, **asked) for X, y in rows)
    content = {name: own for name, own in vars(sums).items() if own is not None}
    return {**content, "left_out": member.left_out is not None}


def size(member: Member, *, W=None, model=None, hidden=None) -> dict:
    X = _inputs(member, "moments", hidden)
    W = member.own_linear()[0] if model == "own" else W
    return {"size": on_one_scale(W, np.ones(W.shape[1], dtype=bool), X)[1]}


def space(
    member: Member,
    *,
    geometry,
    criterion,
    W=None,
    model=None,
    min_cluster_size=1,
    hidden=None,
    **how,
) -> dict:
    if min_cluster_size > 1:
        member = member.of_large_classes(min_cluster_size)
    own, labels = member.own_linear()
    X, y = member.rows("judging")
    X = HiddenLayers.from_content(hidden).outputs(X)
    alike = np.array_equal(member.moments, member.judging)
    rows = None if alike else _inputs(member, "moments", hidden)
    how |= {"geometry": Geometry.from_settings(geometry), "rows": rows}
    how |= {"criterion": Criterion.from_settings(criterion)}
    given = own if model == "own" else W, X, indices_of(y, labels)
    return node_space(*given, **how).as_arrays()


def evaluate(
    member: Member,
    *,
    W,
    labels,
    columns,
    factors,
    gradient=False,
    of="judging",
    hidden=None,
    class_weights=None,
) -> dict:
    """Sums over rows that judge linear models; NaN of too steep ones or few rows."""
    models, hidden = W if W.ndim == 3 else W[None], HiddenLayers.from_content(hidden)
    learning = of == "learning"

    def judged(of, gradient):
        X, index, kept = _of_labels(member, of, labels)
        weights = np.ones(len(kept))
        if member.weights is not None:
            weights = member.weights[getattr(member, of)][kept]
        if class_weights is not None:
            weights = weights * class_weights[index]
        rows = X, hidden.outputs(X), np.asarray(columns)[index], weights
        return _judged(member, *rows, models, factors, gradient, learning)

    content = judged(of, gradient)
    if learning and not np.array_equal(member.learning, member.judging):
        content["held_out"] = judged("judging", gradient=False)
    if W.ndim == 2:
        content = {name: _first(values) for name, values in content.items()}
    return content


def _of_labels(member, role, labels) -> tuple:
    X, y = member.rows(role)
    index = indices_of(y, labels)
    kept = np.flatnonzero(index >= 0)
    return X if len(kept) == len(y) else X[kept], index[kept], kept


def _first(values):
    if isinstance(values, dict):
        return {name: _first(own) for name, own in values.items()}
    return values if isinstance(values, float) else values[0]


def _judged(member, X, Z, codes, weights, models, factors, gradient, compared) -> dict:
    """What rows X, which hidden layers make Z of, say of some models."""
    n_models, _, n_classes = models.shape
    shapes = {"squares": n_models, "right": n_models}
    shapes |= {"losses": (n_models, len(factors))}
    shapes |= {"gradient": models.shape} if gradient else {}
    shapes |= {"squared_gains": n_models} if compared else {}
    found = {name: np.zeros(shape) for name, shape in shapes.items()}
    effective = EffectiveRows(n_models) if gradient and member.min_rows > 1 else None
    side = np.hstack(models)
    limit, more = max(working_bytes() // 16, 2**20), gradient or compared
    for rows in row_blocks(Z, 32 * side.shape[1], limit):
        block, own, w = Z[rows], codes[rows], weights[rows]
        logits = linear_logits(block, side).astype(np.float64)
        logits = logits.reshape(len(own), n_models, n_classes).transpose(1, 0, 2)
        logits = logits - logits.mean(axis=2, keepdims=True)
        found["squares"] += np.mean(logits**2, axis=2) @ w
        found["right"] += (np.argmax(logits, axis=2) == own) @ w
        at_one = [log_losses(each, own) for each in logits] if more else None
        for j, factor in enumerate(factors):
            known = at_one is not None and factor == 1.0
            scored = at_one if known else [log_losses(factor * z, own) for z in logits]
            found["losses"][:, j] += [w @ losses for losses, _ in scored]
        if compared:
            gains = (losses - at_one[0][0] for losses, _ in at_one)
            found["squared_gains"] += [w @ gain**2 for gain in gains]
        if gradient:
            if effective is not None:
                effective.add([residuals for _, residuals in at_one], w)
            slopes = np.hstack([residuals for _, residuals in at_one]) * w[:, None]
            typed = slopes.astype(float_type(Z))
            sums = safe_sparse_dot(block.T, typed, dense_output=True)
            sums = np.vstack([sums, slopes.sum(axis=0)])
            found["gradient"] += np.stack(np.hsplit(sums, n_models))
    count = float(weights.sum())
    if member.min_rows > 1:
        right = np.round(found["right"] / member.min_rows) * member.min_rows
        found["right"] = np.minimum(right, count)
    _without_steep(found, member, X, factors, count)
    if effective is not None:
        found["effective_rows"] = effective.least()
        found["gradient"][found["effective_rows"] < member.min_rows] = np.nan
    return {"count": count, **found}


def _without_steep(found: dict, member: Member, X, factors, count: float) -> None:
    """Make sums NaN of models that are too steep for the node's rows."""
    sizes = np.sqrt(found["squares"] / max(count, 1.0))
    # The node's own model is asked only if it matters.
    most = _STEEPEST
    if np.max(sizes, initial=0.0) * np.max(np.abs(factors), initial=1.0) > most:
        most *= max(member.logit_size(X), 1.0)
    found["losses"][sizes[:, None] * np.abs(factors) > most] = np.nan
    for name in {"gradient", "squared_gains"} & set(found):
        found[name][sizes > most] = np.nan


def score(
    member: Member, *, W, labels, columns, criterion, hidden=None, beside=None
) -> dict:
    """Score a model, and one ``beside`` it, on rows of some labels; NaN of none."""
    X, index, _ = _of_labels(member, "judging", labels)

    def scored(W, columns, hidden=None):
        if not len(index):
            return np.array(np.nan)
        logits = linear_logits(HiddenLayers.from_content(hidden).outputs(X), W)
        codes = np.asarray(columns)[index]
        return np.array(Criterion.from_settings(criterion).score(logits, codes))

    found = {"score": scored(W, columns, hidden), "n_rows": len(index)}
    return found if beside is None else {**found, "beside": scored(**beside)}


def retrain(
    member: Member,
    *,
    coefs,
    intercepts,
    activation,
    labels,
    epochs,
    seed,
    columns=None,
    others=None,
    rate_factor=None,
    center=None,
    scale=None,
    hidden=None,
) -> dict:
    """Train a network that the server sends; layers of ``hidden`` are fixed."""
    X, codes, _ = _of_labels(member, "training", labels)
    whole, n_rows = columns is not None, len(codes)
    if whole:
        codes = np.asarray(columns)[codes]
    if others is not None:
        X, codes = _with_rows_of_others(X, codes, others, seed)
    layers, left_out = Layers(coefs, intercepts, tuple(activation)), None
    if center is not None:
        coordinates = Coordinates(center=center, scale=scale)
        X = coordinates.rows(X)
        if issparse(X):  # what is not done to the rows is done to the weights
            left_out = coordinates.left_out()
            layers = left_out.give_back(layers)
    X, before = HiddenLayers.from_content(hidden).outputs(X), {}
    if whole and n_rows:
        own = X if len(codes) == n_rows else X[:n_rows]
        before["loss"] = mean_log_loss(layers.logits(own), codes[:n_rows])
    rate = None if rate_factor is None else rate_factor * member.model.learning_rate
    how = {"epochs": epochs, "learning_rate": rate, "random_state": seed}
    layers = retrain_layers(member.model, layers, X, codes, **how)
    _check_finite([*layers.coefs, *layers.intercepts])
    if left_out is not None:
        layers = left_out.take_in(layers)
    trained = {"coefs": list(layers.coefs), "intercepts": list(layers.intercepts)}
    return {**trained, **before}


def _with_rows_of_others(X, codes, others, seed) -> tuple:
    moments = ClassMoments.from_arrays(others)
    # They are dense, also where the node's own are not, and are copied twice.
    room = working_bytes() // (4 * 8 * X.shape[1])
    n_drawn = int(min(moments.n_rows, MOST_DRAWN * len(codes), max(room, 1)))
    drawn, columns = draw_rows(moments, n_drawn, random_state=seed)
    drawn = drawn.astype(X.dtype)
    rows = stacked([X, csr_matrix(drawn) if issparse(X) else drawn])
    return rows, np.concatenate([codes, columns])


def _check_finite(parameters) -> None:
    if not all(np.isfinite(array).all() for array in parameters):
        raise FloatingPointError("training diverged; try a smaller learning_rate.")


# What is asked of the node's own linear model, and of its rows.
_JOINED = {"moments": moments, "class_sums": class_sums, "size": size, "space": space}


def join(
    member: Member, *, method, settings, requests, dtype="float64", rank=None
) -> dict:
    """Reply to all that is asked at first; ``dtype`` and ``rank`` round moments."""
    answers, joined = {}, _JOINED
    if isinstance(member, ChunkedMember):
        joined = {"moments": moments_of_chunks, "class_sums": class_sums}
    for number, request in tracked(requests.items(), "statistics", len(requests)):
        reply = dict(joined[request["task"]](member, **request["asked"]))
        if request["task"] == "moments" and (dtype != "float64" or rank):
            exact = ClassMoments.from_arrays(reply["moments"])
            reply["moments"] = exact.as_arrays(dtype=dtype, rank=rank)
        answers[number] = {**request, "reply": reply}
    about = {"name": member.name, "method": method, "settings": settings}
    about["min_rows"] = member.min_rows
    about |= {"describe": describe(member), "counts": counts(member)}
    return {**about, "answers": answers}


# ``function(member, **content)`` returns what is replied.
_OTHERS = (describe, front, counts, neurons, evaluate, score, train, retrain, join)
ANSWERS: Mapping[str, Callable[..., Mapping]] = {
    **_JOINED,
    **{function.__name__: function for function in _OTHERS},
}
