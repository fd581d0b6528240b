"""What nodes do for plans: a function of a member and arguments for each task.

A function takes the node's `Member` and the fields of a request by their names, and
returns the fields of the reply. The table of tasks in `skgems.messages` says what each
field is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_matrix, issparse

from ..compat import safe_indexing
from ..moments import (
    ClassMoments,
    ClassSums,
    draw_rows,
    mean_log_loss,
    working_bytes,
)
from ..networks import Coordinates, HiddenLayers, Layers, linear_logits
from ..progress import tracked
from ..spaces import Criterion, Geometry, build_neuron_spaces, on_one_scale
from ..steps import Front, front_of_content
from ._cache import digest
from ._chunks import ChunkedMember, moments_of_chunks, stacked
from ._classifiers import Rows, at_node, indices_of
from ._member import Member, TooFewRowsError
from ._model import node_space, retrain_layers
from ._model_sums import JudgingRows, sum_over_rows
from ._moments import moments

# Rows drawn for each of the node's own, at most: an epoch takes five times as long.
MOST_DRAWN = 4

_OPENED_FRONTS: dict[str, Front] = {}


def opened_front(content: Mapping) -> Front:
    """The front of a message; the latest is kept, since all nodes have one."""
    key = digest(content)
    if key not in _OPENED_FRONTS:
        _OPENED_FRONTS.clear()
        _OPENED_FRONTS[key] = front_of_content(content)
    return _OPENED_FRONTS[key]


def describe(member: Member) -> dict:
    """The node's network, and the number of rows by role and class."""
    labels, counts_by_role = member.row_counts()
    return {
        "network": member.model.network().as_content(),
        "rows": {"labels": labels, **counts_by_role},
    }


def learning_columns(member: Member) -> object:
    """The rows that learn, as they are before a front: an array or a table."""
    if isinstance(member.learning, slice):
        return member.X
    return safe_indexing(member.X, member.learning)


def front(member: Member, *, front: Mapping) -> dict:
    """What the step of a front that waits is fitted to."""
    X = learning_columns(member)
    if X.shape[0] < member.min_rows:
        raise TooFewRowsError(
            f"Node {member.name!r} has {X.shape[0]} rows, fewer than "
            f"min_rows={member.min_rows}, so it tells nothing of their columns. Set a "
            "smaller min_rows if they may be known."
        )
    return opened_front(front).tell(X, min_rows=member.min_rows, memo=member.memo)


def counts(member: Member) -> dict:
    """The number of rows that may be trained on, of classes that have any."""
    labels, counts_by_role = member.row_counts()
    n_training = counts_by_role["training"]
    columns = np.flatnonzero(n_training)
    return {"labels": [labels[k] for k in columns], "counts": n_training[columns]}


def train(
    member: Member,
    *,
    parameters: Sequence[np.ndarray],
    classes: Sequence,
    epochs: int,
    rates: np.ndarray | None,
    seed: int | None,
    n_rows: int | None = None,
) -> dict:
    """Train the node's classifier from shared parameters; "loss" is that after it."""
    # Rows of classes that the shared model has no output for cannot train it.
    X, codes, _ = _rows_of_labels(member, "training", classes)
    if not len(codes):
        raise ValueError(
            f"Node {member.name!r} has no rows of the classes that the shared model "
            "has, so it cannot train it. Give it rows of these classes, or leave the "
            "node out."
        )
    if n_rows is not None and n_rows < X.shape[0]:
        rows = _draw_training_rows(member, X.shape[0], n_rows=n_rows, seed=seed)
        X, codes = X[rows], codes[rows]
    labels = np.asarray(classes)
    model = member.model.widened(labels)
    trained = model.train(
        X,
        model.targets(labels)[codes],
        epochs=epochs,
        learning_rate=rates,
        parameters=parameters,
        random_state=seed,
    )
    trained_parameters = trained.parameters()
    _check_has_not_diverged(trained_parameters)
    probabilities = trained.probabilities(X, labels)[np.arange(len(codes)), codes]
    smallest = np.finfo(np.float64).tiny  # a probability of 0 has no logarithm
    loss = -np.mean(np.log(np.maximum(probabilities, smallest)))
    return {"parameters": trained_parameters, "loss": float(loss)}


def _draw_training_rows(
    member: Member, n_all_rows: int, *, n_rows: int, seed: int | None
) -> np.ndarray:
    """Indices of ``n_rows`` different rows, at random."""
    if n_rows < member.min_rows:
        raise TooFewRowsError(
            f"Node {member.name!r} is to train on {n_rows} rows, fewer than "
            f"min_rows={member.min_rows}. The server must ask for more rows, or the "
            "node set a smaller min_rows if they may be known."
        )
    # Another number of rows draws others: the difference of two is no row's.
    rng = np.random.RandomState([seed or 0, n_rows])
    return rng.choice(n_all_rows, n_rows, replace=False)


def _layer_inputs(member: Member, role: str, hidden: Mapping | None) -> Rows:
    """What comes out of hidden layers for the rows that have a role."""
    X, _ = member.rows(role)
    return HiddenLayers.from_content(hidden).outputs(X)


def neurons(
    member: Member,
    *,
    weights: np.ndarray,
    geometry: Mapping,
    hidden: Mapping | None = None,
    **options: object,
) -> dict:
    """How far each unit of a layer may change, see `build_neuron_spaces`."""
    _check_units_are_own(member, weights)
    neuron_spaces = build_neuron_spaces(
        _layer_inputs(member, "learning", hidden),
        weights,
        geometry=Geometry.from_settings(geometry),
        **options,
    )
    return vars(neuron_spaces)


def _check_units_are_own(member: Member, weights: np.ndarray) -> None:
    """Refuse more units than the node's own network has in any layer.

    A server asks about the units of the node itself. The sizes of thousands of units
    that it made up would say where each row lies along any direction.
    """
    if member.min_rows == 1:  # single rows may be known
        return
    widest = max(member.model.network(copy=False).widths, default=0)
    if weights.shape[1] > widest:
        raise ValueError(
            f"Node {member.name!r} is asked about {weights.shape[1]} units of a layer, "
            f"but its own network has {widest} at most, and it answers only about "
            "these. The server must send the weights of the node's own network."
        )


def class_sums(member: Member, *, of: str, threshold: float | None = None) -> dict:
    """Reply with what `ClassSums.of` makes of the rows, and whether classes lack."""
    row_weights = None
    if member.weights is not None:
        row_weights = member.weights[member.learning]
    with at_node(member.name, "its rows cannot be summed"):
        sums = ClassSums.merged(
            ClassSums.of(X, y, of=of, threshold=threshold, weights=row_weights)
            for X, y in _learning_chunks(member)
        )
    content = {name: field for name, field in vars(sums).items() if field is not None}
    content["left_out"] = member.left_out is not None
    return content


def _learning_chunks(member: Member) -> Iterable[tuple[Rows, np.ndarray]]:
    """Rows that learn and their labels, in one chunk where all are in memory."""
    if isinstance(member, ChunkedMember):
        return member.learning_rows()
    return [member.rows("learning")]


def size(
    member: Member,
    *,
    W: np.ndarray | None = None,
    model: str | None = None,
    hidden: Mapping | None = None,
) -> dict:
    """The size of a linear model's logits: of ``W``, or of the node's "own" model."""
    X = _layer_inputs(member, "moments", hidden)
    if model == "own":
        W, _ = member.own_linear()
    _, logit_size = on_one_scale(W, np.ones(W.shape[1], dtype=bool), X)
    return {"size": logit_size}


def space(
    member: Member,
    *,
    geometry: Mapping,
    criterion: Mapping,
    W: np.ndarray | None = None,
    model: str | None = None,
    min_cluster_size: int = 1,
    hidden: Mapping | None = None,
    **settings: object,
) -> dict:
    """The good-enough spaces of a linear model, see `node_space`."""
    if min_cluster_size > 1:
        member = member.of_large_classes(min_cluster_size)
    own_W, own_labels = member.own_linear()
    X, y = member.rows("judging")
    # The same rows make the shape, if none are held out: they go through hidden layers
    # only once.
    shape_rows = None
    if not np.array_equal(member.moments, member.judging):
        shape_rows = _layer_inputs(member, "moments", hidden)
    profile = node_space(
        own_W if model == "own" else W,
        HiddenLayers.from_content(hidden).outputs(X),
        indices_of(y, own_labels),
        geometry=Geometry.from_settings(geometry),
        criterion=Criterion.from_settings(criterion),
        rows=shape_rows,
        **settings,
    )
    return profile.as_arrays()


def evaluate(
    member: Member,
    *,
    W: np.ndarray,
    labels: Sequence,
    columns: Sequence[int],
    factors: np.ndarray,
    gradient: bool = False,
    of: str = "judging",
    hidden: Mapping | None = None,
    class_weights: np.ndarray | None = None,
) -> dict:
    """Sums over rows that judge linear models, see `sum_over_rows`.

    ``W`` is a stack of models or one of them, whose sums then have no axis of models.
    Of rows that learn there are gains over the first model too, and if rows are held
    out the same sums of these.
    """
    models = W if W.ndim == 3 else W[None]
    is_of_learning = of == "learning"

    def judging_rows(role: str) -> JudgingRows:
        X, codes, rows = _rows_of_labels(member, role, labels)
        weights = np.ones(len(rows))
        if member.weights is not None:
            weights = member.weights[getattr(member, role)][rows]
        if class_weights is not None:
            weights = weights * class_weights[codes]
        return JudgingRows(
            X=X,
            Z=HiddenLayers.from_content(hidden).outputs(X),
            columns=np.asarray(columns)[codes],
            weights=weights,
        )

    content = sum_over_rows(
        member,
        judging_rows(of),
        models,
        factors=factors,
        with_gradient=gradient,
        with_gains=is_of_learning,
    )
    if is_of_learning and not np.array_equal(member.learning, member.judging):
        content["held_out"] = sum_over_rows(
            member,
            judging_rows("judging"),
            models,
            factors=factors,
            with_gradient=False,
            with_gains=True,
        )
    return content if W.ndim == 3 else _of_first_model(content)


def _rows_of_labels(
    member: Member, role: str, labels: Sequence
) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows that have a role and one of some labels.

    Returns
    -------
    X : {array, CSR matrix} of shape (n_rows, n_features)
    codes : ndarray of int of shape (n_rows,)
        The index of each row's label.
    rows : ndarray of int of shape (n_rows,)
        Their indices among all rows that have the role.
    """
    X, y = member.rows(role)
    codes = indices_of(y, labels)
    rows = np.flatnonzero(codes >= 0)
    if len(rows) < len(y):  # else no copy is made
        X = X[rows]
    return X, codes[rows], rows


def _of_first_model(content: Mapping) -> dict:
    """Sums without the axis of models."""
    of_first = {}
    for name, sums in content.items():
        if isinstance(sums, dict):
            of_first[name] = _of_first_model(sums)
        elif isinstance(sums, float):  # the count, which is of rows
            of_first[name] = sums
        else:
            of_first[name] = sums[0]
    return of_first


def score(
    member: Member,
    *,
    W: np.ndarray,
    labels: Sequence,
    columns: Sequence[int],
    criterion: Mapping,
    hidden: Mapping | None = None,
    beside: Mapping | None = None,
) -> dict:
    """Score a model, and one ``beside`` it, on rows of some labels; NaN of none."""
    X, codes, _ = _rows_of_labels(member, "judging", labels)
    scorer = Criterion.from_settings(criterion)

    def score_model(
        W: np.ndarray, columns: Sequence[int], hidden: Mapping | None
    ) -> np.ndarray:
        if not len(codes):
            return np.array(np.nan)
        logits = linear_logits(HiddenLayers.from_content(hidden).outputs(X), W)
        return np.array(scorer.score(logits, np.asarray(columns)[codes]))

    reply = {"score": score_model(W, columns, hidden), "n_rows": len(codes)}
    if beside is not None:
        reply["beside"] = score_model(
            beside["W"], beside["columns"], beside.get("hidden")
        )
    return reply


def retrain(
    member: Member,
    *,
    coefs: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    activation: Sequence[str],
    labels: Sequence,
    epochs: int,
    seed: int | None,
    columns: Sequence[int] | None = None,
    others: Mapping | None = None,
    rate_factor: float | None = None,
    center: np.ndarray | None = None,
    scale: np.ndarray | None = None,
    hidden: Mapping | None = None,
) -> dict:
    """Train a network that the server sends; layers of ``hidden`` are fixed.

    With ``columns``, the output of each label, it is the whole network, and the reply
    has its "loss" before training. With ``others``, moments of other nodes' rows, rows
    are drawn from these and trained on too. With ``center`` and ``scale`` it is a
    network of rows in these coordinates.
    """
    X, outputs, n_own_rows = _training_rows(
        member, labels=labels, columns=columns, others=others, seed=seed
    )
    layers = Layers(coefs, intercepts, tuple(activation))
    left_out = None
    if center is not None:
        coordinates = Coordinates(center=center, scale=scale)
        X = coordinates.rows(X)
        if issparse(X):  # what is not done to the rows is done to the weights
            left_out = coordinates.left_out()
            layers = left_out.give_back(layers)
    Z = HiddenLayers.from_content(hidden).outputs(X)
    loss_before = None
    if columns is not None and n_own_rows:
        own_Z = Z if len(outputs) == n_own_rows else Z[:n_own_rows]
        loss_before = mean_log_loss(layers.logits(own_Z), outputs[:n_own_rows])
    rate = None
    if rate_factor is not None:
        rate = rate_factor * member.model.learning_rate
    trained = retrain_layers(
        member.model,
        layers,
        Z,
        outputs,
        epochs=epochs,
        learning_rate=rate,
        random_state=seed,
    )
    _check_has_not_diverged([*trained.coefs, *trained.intercepts])
    if left_out is not None:
        trained = left_out.take_in(trained)
    reply = {"coefs": list(trained.coefs), "intercepts": list(trained.intercepts)}
    if loss_before is not None:
        reply["loss"] = loss_before
    return reply


def _training_rows(
    member: Member,
    *,
    labels: Sequence,
    columns: Sequence[int] | None,
    others: Mapping | None,
    seed: int | None,
) -> tuple[Rows, np.ndarray, int]:
    """Rows to train a network on.

    Parameters
    ----------
    member : Member
    labels : sequence of shape (n_labels,)
        Rows of other labels are not trained on.
    columns : sequence of int of shape (n_labels,) or None
        The output of each label; None: they are in the order of outputs.
    others : mapping or None
        Moments from which rows of other nodes are drawn.
    seed : int or None
        Of the rows that are drawn.

    Returns
    -------
    X : {array, CSR matrix} of shape (n_rows, n_features)
    outputs : ndarray of int of shape (n_rows,)
        The output of each row's label.
    n_own_rows : int
        The first rows are the node's own, those after them were drawn.
    """
    X, outputs, _ = _rows_of_labels(member, "training", labels)
    n_own_rows = len(outputs)
    if columns is not None:
        outputs = np.asarray(columns)[outputs]
    if others is not None:
        X, outputs = _with_rows_of_others(X, outputs, others=others, seed=seed)
    return X, outputs, n_own_rows


def _with_rows_of_others(
    X: Rows, outputs: np.ndarray, *, others: Mapping, seed: int | None
) -> tuple[Rows, np.ndarray]:
    """The node's rows and their outputs, and after these others drawn from moments."""
    moments_of_others = ClassMoments.from_arrays(others)
    # They are dense, also where the node's own are not, and are copied twice: they may
    # take a quarter of working_memory, at 8 bytes a number.
    n_rows_in_memory = working_bytes() // (4 * 8 * X.shape[1])
    n_drawn = int(
        min(
            moments_of_others.n_rows,
            MOST_DRAWN * len(outputs),
            max(n_rows_in_memory, 1),
        )
    )
    X_drawn, outputs_drawn = draw_rows(moments_of_others, n_drawn, random_state=seed)
    X_drawn = X_drawn.astype(X.dtype)
    if issparse(X):
        X_drawn = csr_matrix(X_drawn)
    return stacked([X, X_drawn]), np.concatenate([outputs, outputs_drawn])


def _check_has_not_diverged(parameters: Iterable[np.ndarray]) -> None:
    if not all(np.isfinite(array).all() for array in parameters):
        raise FloatingPointError(
            "training diverged: parameters are not finite. Try a smaller learning_rate."
        )


# What may be asked with the first message, of rows that are all in memory: statistics
# that need nothing of other nodes.
_JOINED: Mapping[str, Callable[..., Mapping]] = {
    "moments": moments,
    "class_sums": class_sums,
    "size": size,
    "space": space,
}
# The same of rows that come in chunks: sizes and spaces need all rows at once.
_JOINED_BY_CHUNKS: Mapping[str, Callable[..., Mapping]] = {
    "moments": moments_of_chunks,
    "class_sums": class_sums,
}


def join(
    member: Member,
    *,
    method: str,
    settings: Mapping,
    requests: Mapping[str, Mapping],
    dtype: str = "float64",
    rank: int | None = None,
) -> dict:
    """Reply to all that is asked at first; ``dtype`` and ``rank`` round moments."""
    is_chunked = isinstance(member, ChunkedMember)
    answer_of_task = _JOINED_BY_CHUNKS if is_chunked else _JOINED
    answers = {}
    for number, request in tracked(requests.items(), "statistics", len(requests)):
        answer = answer_of_task[request["task"]]
        reply = dict(answer(member, **request["asked"]))
        if request["task"] == "moments" and (dtype != "float64" or rank):
            exact = ClassMoments.from_arrays(reply["moments"])
            reply["moments"] = exact.as_arrays(dtype=dtype, rank=rank)
        answers[number] = {**request, "reply": reply}
    return {
        "name": member.name,
        "method": method,
        "settings": settings,
        "min_rows": member.min_rows,
        "describe": describe(member),
        "counts": counts(member),
        "answers": answers,
    }


# ``function(member, **content)`` returns what is replied.
ANSWERS: Mapping[str, Callable[..., Mapping]] = {
    **_JOINED,
    "describe": describe,
    "front": front,
    "counts": counts,
    "neurons": neurons,
    "evaluate": evaluate,
    "score": score,
    "train": train,
    "retrain": retrain,
    "join": join,
}
