# SPDX-License-Identifier: BSD-3-Clause
"""What nodes do for plans; each task is a function of a member and arguments."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.sparse import vstack as sparse_vstack
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import (
    ClassMoments,
    draw_rows,
    float_type,
    log_losses,
    mean_log_loss,
    row_blocks,
    working_bytes,
)
from ..networks import Coordinates, Layers, linear_logits
from ..neurons import build_neuron_spaces
from ..spaces import Criterion, Geometry, on_one_scale
from ._below import Below
from ._descriptions import places
from ._member import Member
from ._retraining import retrain_layers
from ._space import node_space

# Rows drawn for each of the node's own, at most.
_MOST_DRAWN = 4


def describe_node(member: Member) -> dict:
    """Tell the node's model as arrays, and how many rows of which class it has.

    Parameters
    ----------
    member : Member

    Returns
    -------
    reply : dict
        The "network", as :meth:`~skgems.networks.Network.as_content` tells it, and of
        the "rows" the "labels" that there are and, for each of these, how many are
        "judging", make "moments", and may be used for "training".

    Raises
    ------
    TypeError
        If the classifier is none that can be read as layers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.local import Member, describe_node
    >>> X, y = np.array([[-1.0], [1.0], [2.0]]), np.array(["no", "yes", "yes"])
    >>> told = describe_node(Member.of("lyon", LogisticRegression().fit(X, y), X, y))
    >>> told["network"]["labels"], told["rows"]["labels"], told["rows"]["judging"]
    (['no', 'yes'], ['no', 'yes'], array([1, 2]))
    """
    labels = np.unique(member.y).tolist()
    counts = {
        role: np.bincount(places(member.rows(role)[1], labels), minlength=len(labels))
        for role in ("judging", "moments", "training")
    }
    return {
        "network": member.model.network().as_content(),
        "rows": {"labels": labels, **counts},
    }


def train(member: Member, *, parameters, classes, epochs, rates, seed) -> dict:
    """Train the node's classifier from shared parameters, on the node's rows.

    Parameters
    ----------
    member : Member
    parameters : list of ndarray
        Where to start, as :meth:`LocalModel.parameters` gives them.
    classes : list
        Labels that the classifier is to have outputs for.
    epochs : int
        Passes over the rows.
    rates : ndarray of shape (epochs,) or None
        Learning rate of each; None leaves it to the classifier.
    seed : int
        Of the order of the rows.

    Returns
    -------
    reply : dict
        The "parameters" after training, and their mean log-"loss" on the rows.

    Raises
    ------
    FloatingPointError
        If training diverges.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import SGDClassifier
    >>> from skgems.local import Member, train
    >>> X, y = np.array([[-1.0], [1.0]]), np.array(["no", "yes"])
    >>> clf = SGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    >>> told = train(
    ...     Member.of("lyon", clf, X, y), parameters=[np.zeros((1, 1)), np.zeros(1)],
    ...     classes=["no", "yes"], epochs=2, rates=np.array([0.5, 0.1]), seed=0,
    ... )
    >>> bool(told["loss"] < np.log(2)), [array.shape for array in told["parameters"]]
    (True, [(1, 1), (1,)])
    """
    X, y = member.rows("training")
    labels = np.asarray(classes)
    codes = places(y, classes)
    wide = member.model.widened(labels)
    trained = wide.train(
        X,
        wide.targets(labels)[codes],
        parameters=parameters,
        epochs=epochs,
        learning_rate=rates,
        random_state=seed,
    )
    parameters = trained.parameters()
    _check_finite(parameters)
    proba = trained.probabilities(X, labels)
    true = proba[np.arange(len(codes)), codes]
    loss = -np.mean(np.log(np.maximum(true, np.finfo(np.float64).tiny)))
    return {"parameters": parameters, "loss": float(loss)}


def neurons(
    member: Member,
    *,
    weights,
    activation,
    geometry,
    below=None,
    **options,
) -> dict:
    """Build the good-enough spaces of a layer's neurons, on the node's rows.

    Parameters
    ----------
    member : Member
    weights : ndarray of shape (n_inputs + 1, n_neurons)
        Incoming weights, the biases in the last row.
    activation : str
    geometry : dict
        As :meth:`~skgems.spaces.Geometry.as_settings` tells it.
    below : dict, default=None
        Layers below, which the node's rows go through first, as
        :meth:`Below.as_content` tells them.
    **options
        Of :func:`~skgems.neurons.build_neuron_spaces`.

    Returns
    -------
    reply : dict
        What :class:`~skgems.neurons.NeuronSpaces` is made of.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skgems.local import Member, neurons
    >>> from skgems.spaces import Gram
    >>> X, y = np.array([[-1.0], [1.0]]), np.array(["no", "yes"])
    >>> told = neurons(
    ...     Member.of("lyon", DummyClassifier().fit(X, y), X, y),
    ...     weights=np.array([[1.0, 2.0], [0.0, 0.5]]), activation="tanh", epsilon=0.1,
    ...     geometry=Gram().as_settings(), construction="certified", n_directions=1,
    ...     max_radius=1e4, random_state=0,
    ... )
    >>> told["centers"].shape, told["radii"].shape
    ((2, 2), (2,))
    """
    X, _ = member.rows("learning")
    spaces = build_neuron_spaces(
        Below.from_content(below).rows(X),
        weights,
        activation,
        geometry=Geometry.from_settings(geometry),
        **options,
    )
    return vars(spaces)


def size(member: Member, *, W=None, model=None, below=None) -> dict:
    """How large the logits of a linear model are on the node's rows.

    Parameters
    ----------
    member : Member
    W, model, below
        See :func:`space`.

    Returns
    -------
    reply : dict
        Their root mean square, centred over classes, as "size".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.local import Member, size
    >>> X, y = np.array([[-1.0], [1.0]]), np.array(["no", "yes"])
    >>> member = Member.of("lyon", LogisticRegression().fit(X, y), X, y)
    >>> size(member, W=np.array([[-2.0, 2.0], [7.0, 7.0]]))
    {'size': 2.0}
    """
    X, _ = member.rows("moments")
    W = member.own_linear()[0] if model == "own" else W
    known = np.ones(W.shape[1], dtype=bool)
    return {"size": on_one_scale(W, known, Below.from_content(below).rows(X))[1]}


def space(
    member: Member,
    *,
    geometry,
    criterion,
    W=None,
    model=None,
    min_rows=1,
    below=None,
    **options,
) -> dict:
    """Build the good-enough spaces of the node's linear model, but for the level.

    Parameters
    ----------
    member : Member
    W : ndarray of shape (n_features + 1, n_own_classes), default=None
        A model of the classes that the node has seen, the intercepts in the last row.
    model : {"own"} or None
        In its place: the node's own.
    geometry, criterion : dict
        As their ``as_settings`` tell them.
    min_rows : int, default=1
        Rows of a class that it is made of at least; those of smaller classes are left
        out, since what is told by class would be all but theirs.
    below
        See :func:`neurons`.
    **options
        Of :func:`node_space`, how many other classes there are among them.

    Returns
    -------
    reply : dict
        As :meth:`~skgems.spaces.SpaceProfile.as_arrays` tells them; of the node's own
        classes and one that stands for each other.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.local import Member, space
    >>> from skgems.spaces import Accuracy, Gram
    >>> X, y = np.array([[-1.0], [1.0]]), np.array(["no", "yes"])
    >>> member = Member.of("lyon", LogisticRegression().fit(X, y), X, y)
    >>> told = space(
    ...     member, W=np.array([[-2.0, 2.0], [0.0, 0.0]]), n_others=1,
    ...     geometry=Gram().as_settings(), criterion=Accuracy().as_settings(),
    ...     construction="certified", scale_logits=True, n_directions=1,
    ... )
    >>> told["center"]
    array([[-1. ,  1. ,  0. ],
           [ 0.5,  0.5, -1. ]])
    """
    if min_rows > 1:
        member = member.of_large_classes(min_rows)
    own, labels = member.own_linear()
    W = own if model == "own" else W
    X, y = member.rows("judging")
    below = Below.from_content(below)
    rows = None
    if not member.moments_judge:
        rows = below.rows(member.rows("moments")[0])
    return node_space(
        W,
        below.rows(X),
        places(y, labels),
        rows=rows,
        geometry=Geometry.from_settings(geometry),
        criterion=Criterion.from_settings(criterion),
        **options,
    ).as_arrays()


def evaluate(
    member: Member,
    *,
    W,
    labels,
    columns,
    factors,
    gradient=False,
    of="judging",
    below=None,
) -> dict:
    """Judge linear models on the node's rows, in sums that add up over nodes.

    Parameters
    ----------
    member : Member
    W : ndarray of shape (n_features + 1, n_classes) or (n_models, n_features + 1, \
n_classes)
        The models, the intercepts in the last row.
    labels : list
        Of classes that the node has rows of. Rows of others are left out.
    columns : ndarray of shape (n_labels,), int
        Which columns these labels have in the models.
    factors : ndarray of shape (n_factors,)
        On the logits.
    gradient : bool, default=False
        Whether to tell the gradient, which is as large as the models.
    of : {"judging", "learning"}, default="judging"
        Which rows: those that judge, or those that models are made of.
    below
        See :func:`neurons`.

    Returns
    -------
    reply : dict
        Sums over these rows, by their weights: their "count", and, for each model, the
        "squares" of its logits centred over classes, in the mean over these, the rows
        that are "right", the log-"losses" at each of the factors, and the "gradient" of
        the loss, at the factor 1, in the model. All but the count have the leading
        dimension of `W`, if it has one. Of rows that models are made of also the
        "squared_gains", those of the differences of a row's loss at the factor 1 from
        that of the first model; and, as "held_out", the count and what is right and
        squared gains and losses of those that judge, if these are others.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.local import Member, evaluate
    >>> X, y = np.array([[-1.0], [1.0], [2.0]]), np.array(["no", "yes", "no"])
    >>> member = Member.of("lyon", LogisticRegression().fit(X, y), X, y)
    >>> told = evaluate(
    ...     member, W=np.array([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
    ...     labels=["no", "yes"], columns=np.array([0, 2]), factors=np.arange(2),
    ... )
    >>> told["count"], told["right"].item(), told["losses"].round(2)
    (3.0, 2.0, array([3.3 , 4.96]))
    """
    models = W if W.ndim == 3 else W[None]
    learning = of == "learning"
    told = _judged(
        member, of, models, labels, columns, factors, gradient, learning, below
    )
    if learning and not member.learning_judge:
        told["held_out"] = _judged(
            member, "judging", models, labels, columns, factors, False, True, below
        )
    if W.ndim == 2:
        told = {name: _first(values) for name, values in told.items()}
    return told


def _first(values):
    """What is told of the only model."""
    if isinstance(values, dict):
        return {name: _first(own) for name, own in values.items()}
    return values if isinstance(values, float) else values[0]


def _judged(
    member, of, models, labels, columns, factors, gradient, compared, below
) -> dict:
    """What rows say of some models, see :func:`evaluate`."""
    X, y = member.rows(of)
    codes, kept = _own_columns(y, labels, columns)
    weights = np.ones(len(kept))
    if member.weights is not None:
        weights = member.weights[getattr(member, of)][kept]
    Z = Below.from_content(below).rows(X if len(kept) == len(y) else X[kept])
    n_models, _, n_classes = models.shape
    found = {
        "squares": np.zeros(n_models),
        "right": np.zeros(n_models),
        "losses": np.zeros((n_models, len(factors))),
    }
    if gradient:
        found["gradient"] = np.zeros(models.shape)
    if compared:
        found["squared_gains"] = np.zeros(n_models)
    side = np.hstack(models)
    limit = max(working_bytes() // 16, 2**20)
    for rows in row_blocks(Z, 32 * side.shape[1], limit):
        block, own, w = Z[rows], codes[rows], weights[rows]
        logits = linear_logits(block, side).astype(np.float64)
        logits = logits.reshape(len(own), n_models, n_classes).transpose(1, 0, 2)
        logits = logits - logits.mean(axis=2, keepdims=True)
        found["squares"] += np.mean(logits**2, axis=2) @ w
        found["right"] += (np.argmax(logits, axis=2) == own) @ w
        at_one = None
        if gradient or compared:
            at_one = [log_losses(each, own) for each in logits]
        for j, factor in enumerate(factors):
            told = at_one
            if at_one is None or factor != 1.0:
                told = [log_losses(factor * each, own) for each in logits]
            found["losses"][:, j] += [w @ losses for losses, _ in told]
        if compared:
            first = at_one[0][0]
            found["squared_gains"] += [w @ (each - first) ** 2 for each, _ in at_one]
        if gradient:
            slopes = np.hstack([residuals for _, residuals in at_one]) * w[:, None]
            sums = safe_sparse_dot(
                block.T, slopes.astype(float_type(Z)), dense_output=True
            )
            sums = np.vstack([sums, slopes.sum(axis=0)])
            found["gradient"] += np.stack(np.hsplit(sums, n_models))
    return {"count": float(weights.sum()), **found}


def score(member: Member, *, W, labels, columns, criterion, below=None) -> dict:
    """Score a linear model on the node's rows of some classes.

    Parameters
    ----------
    member : Member
    W : ndarray of shape (n_features + 1, n_classes)
        The model, the intercepts in the last row.
    labels : list
        Of classes that the node's own model has seen.
    columns : ndarray of shape (n_labels,), int
        Which columns these labels have in the model.
    criterion : dict
        As :meth:`~skgems.spaces.Criterion.as_settings` tells it.
    below
        See :func:`neurons`.

    Returns
    -------
    reply : dict
        The "score", NaN without rows, and how many rows it is of, "n_rows".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.local import Member, score
    >>> from skgems.spaces import Accuracy
    >>> X, y = np.array([[-1.0], [1.0], [2.0]]), np.array(["no", "yes", "no"])
    >>> member = Member.of("lyon", LogisticRegression().fit(X, y), X, y)
    >>> score(
    ...     member, W=np.array([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), labels=["no"],
    ...     columns=np.array([0]), criterion=Accuracy().as_settings(),
    ... )
    {'score': array(0.5), 'n_rows': 2}
    """
    X, y = member.rows("judging")
    codes, kept = _own_columns(y, labels, columns)
    if not len(kept):
        return {"score": np.array(np.nan), "n_rows": 0}
    # All rows are not copied.
    X = X if len(kept) == len(y) else X[kept]
    logits = linear_logits(Below.from_content(below).rows(X), W)
    found = Criterion.from_settings(criterion).score(logits, codes)
    return {"score": np.array(found), "n_rows": len(kept)}


def _own_columns(y, labels, columns) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the labels of rows, and which rows have one of the labels."""
    found = places(y, labels)
    kept = np.flatnonzero(found >= 0)
    return np.asarray(columns)[found[kept]], kept


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
    below=None,
) -> dict:
    """Train a network that the server sends by the node's own trainer, on its rows.

    A row of a class that the network has no output for teaches it nothing.

    Parameters
    ----------
    member : Member
    coefs, intercepts : list of ndarray
        Where to start: layer i has the shapes (n_in, n_out) and (n_out,).
    activation : list of str
        Of the hidden layers.
    labels : list
        Of the outputs, which are the node's own.
    epochs : int
        Passes over the rows.
    seed : int
        Of the order of the rows, and of what is drawn.
    columns : ndarray of shape (n_labels,), int, default=None
        Which outputs these labels have, where there are others. None: all are theirs.
    others : dict, default=None
        What rows of other nodes came to, classes numbered as outputs, as
        :meth:`~skgems.moments.ClassMoments.as_arrays` tells it. As many rows as they
        have are drawn from it, at most four times those of the node, and trained on.
    rate_factor : float, default=None
        Learning rate, in units of what the node's own training starts at; None leaves
        it to the classifier.
    center, scale : ndarray of shape (n_features,), default=None
        Coordinates of the features that the network is over; None: as they are.
    below : dict, default=None
        Layers below the network, which are not trained; see :func:`neurons`.

    Returns
    -------
    reply : dict
        The "coefs" and "intercepts" after training; of a network with outputs that
        are not the node's also the mean log-"loss" before, on the node's rows.

    Raises
    ------
    FloatingPointError
        If training diverges.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import SGDClassifier
    >>> from skgems.local import Member, retrain
    >>> X, y = np.array([[-1.0], [1.0]]), np.array(["no", "yes"])
    >>> clf = SGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    >>> told = retrain(
    ...     Member.of("lyon", clf, X, y), coefs=[np.zeros((1, 2))],
    ...     intercepts=[np.zeros(2)], activation=[], labels=["no", "yes"], epochs=5,
    ...     seed=0,
    ... )
    >>> np.sign(told["coefs"][0])
    array([[-1.,  1.]])
    """
    X, y = member.rows("training")
    whole = columns is not None
    codes, kept = _own_columns(y, labels, columns if whole else np.arange(len(labels)))
    X = X if len(kept) == len(y) else X[kept]
    n_rows = len(kept)
    if others is not None:
        X, codes = _with_rows_of_others(X, codes, others, seed)
    layers, left_out = Layers(coefs, intercepts, tuple(activation)), None
    if center is not None:
        coordinates = Coordinates(center, scale)
        X = coordinates.rows(X)
        if issparse(X):  # what is not done to the rows is done to the weights
            left_out = coordinates.left_out()
            layers = left_out.give_back(layers)
    X = Below.from_content(below).rows(X)
    told = {}
    if whole and n_rows:
        own = X if len(codes) == n_rows else X[:n_rows]
        told["loss"] = mean_log_loss(layers.logits(own), codes[:n_rows])
    model = member.model
    rate = None if rate_factor is None else rate_factor * model.learning_rate
    layers = retrain_layers(
        model,
        layers,
        X,
        codes,
        epochs=epochs,
        learning_rate=rate,
        random_state=seed,
    )
    _check_finite([*layers.coefs, *layers.intercepts])
    if left_out is not None:
        layers = left_out.take_in(layers)
    return {
        "coefs": list(layers.coefs),
        "intercepts": list(layers.intercepts),
        **told,
    }


def _with_rows_of_others(X, codes, others, seed) -> tuple:
    """Rows and outputs, and after them such as are drawn from what others told."""
    moments = ClassMoments.from_arrays(others)
    # They are dense, also where the node's own are not.
    room = working_bytes() // (8 * X.shape[1])
    n_drawn = int(min(moments.n_rows, _MOST_DRAWN * len(codes), max(room, 1)))
    drawn, columns = draw_rows(moments, n_drawn, random_state=seed)
    drawn = drawn.astype(X.dtype)
    stack = sparse_vstack if issparse(X) else np.vstack
    stacked = stack([X, csr_matrix(drawn) if issparse(X) else drawn])
    return stacked, np.concatenate([codes, columns])


def _check_finite(parameters) -> None:
    if not all(np.isfinite(array).all() for array in parameters):
        raise FloatingPointError(
            "training diverged, its parameters are not finite; try a smaller "
            "learning_rate."
        )
