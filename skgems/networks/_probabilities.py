"""Which probabilities the outputs of a skorch net stand for: one reading for all."""

from collections.abc import Callable

import numpy as np
import torch
from scipy.special import expit, logit, softmax
from torch import fx, nn

from ._nets import module_of
from ._network import FOLD_TOLERANCE, N_ROWS
from ._runs import made_up_rows, run
from ._trace import first_output, trace


def sets_probabilities(net: object) -> bool:
    """Report whether the user says what makes probabilities of a net's outputs."""
    if callable(getattr(net, "predict_nonlinearity", None)):
        return True
    return not type(net).predict_proba.__module__.startswith("skorch.")


def as_probabilities(net: object, outputs: np.ndarray, *, name: str) -> np.ndarray:
    """Return probabilities of a net's outputs, whatever these are.

    Outputs are probabilities or their logarithms if they sum to 1 in all rows, as
    logits never do. Else the loss says what they are; of a loss that is not known,
    outputs outside of [0, 1] are logits.

    Parameters
    ----------
    net : NeuralNetClassifier or NeuralNetBinaryClassifier
    outputs : ndarray of shape (n_rows, n_outputs) or (n_rows,)
        What the module returns for rows; or what the user's own function makes of it.
    name : str
        Of the node, for errors.

    Returns
    -------
    proba : ndarray of shape (n_rows, n_classes)

    Raises
    ------
    ValueError
        If it cannot be told what the outputs are.
    """
    columns = outputs.astype(np.float64).reshape(len(outputs), -1)
    atol = FOLD_TOLERANCE
    if outputs.dtype.itemsize < 4:  # half precision rounds each probability
        atol += columns.shape[1] * np.finfo(np.float16).eps
    if not np.isfinite(columns).all():
        return columns  # which is an error of its own
    if columns.shape[1] == 1:
        positive = _probability_of_one(net, columns[:, 0], name=name)
        return np.stack([1 - positive, positive], axis=1)
    kind = _kind_of_outputs(net, columns, atol)
    if kind == "probabilities":
        return np.maximum(columns, 0)
    if kind == "logarithms":
        return np.exp(columns)
    if sets_probabilities(net):
        raise ValueError(
            f"Node {name!r}: what predict_proba of its net returns does not sum to 1 "
            "in each row, though the net has its own predict_nonlinearity or "
            "predict_proba. Have it return probabilities, for example "
            "net.set_params(predict_nonlinearity=partial(torch.softmax, dim=-1))."
        )
    return _probabilities_of_scores(net, columns, name=name)


def _kind_of_outputs(net: object, columns: np.ndarray, atol: float) -> str:
    """Return the kind by sums of rows; of few rows by those of made-up ones."""
    kind = _kind_of_sums(columns, atol)
    if len(columns) < N_ROWS and kind and not sets_probabilities(net):
        of_made_up = _outputs_of_made_up_rows(net)
        if of_made_up is not None:
            return _kind_of_sums(of_made_up, atol)
    return kind


def _probabilities_of_scores(
    net: object, columns: np.ndarray, *, name: str
) -> np.ndarray:
    """Return probabilities of outputs that do not sum to 1."""
    criterion = criterion_of(net)
    if isinstance(criterion, nn.CrossEntropyLoss):
        return softmax(columns, axis=1)
    if isinstance(criterion, nn.BCEWithLogitsLoss):
        return _normalized(expit(columns))
    # skorch takes the logarithm of what enters these.
    if isinstance(criterion, (nn.NLLLoss, nn.BCELoss)) and (columns >= 0).all():
        return _normalized(columns)
    if _are_logits(net, columns):
        return softmax(columns, axis=1)
    if _ends_with_sigmoid(module_of(net)):
        return _normalized(columns)
    raise _unknown_outputs(net, name)


def _probability_of_one(net: object, column: np.ndarray, *, name: str) -> np.ndarray:
    """Return the probability of the second of two classes, of the only output."""
    criterion = criterion_of(net)
    is_probability = isinstance(criterion, nn.BCELoss) or sets_probabilities(net)
    if is_probability and ((column >= 0) & (column <= 1)).all():
        return column
    if isinstance(criterion, nn.BCEWithLogitsLoss) or _are_logits(net, column):
        return expit(column)
    if _ends_with_sigmoid(module_of(net)):
        return column
    raise _unknown_outputs(net, name)


def _unknown_outputs(net: object, name: str) -> ValueError:
    return ValueError(
        f"Node {name!r}: the outputs of {type(module_of(net)).__name__} are between 0 "
        "and 1 but do not sum to 1, and its loss, "
        f"{type(criterion_of(net)).__name__}, does not tell whether they are logits "
        "or probabilities. Say how they become probabilities, for example "
        "net.set_params(predict_nonlinearity=partial(torch.softmax, dim=-1))."
    )


def _kind_of_sums(columns: np.ndarray, atol: float) -> str | None:
    if (columns >= -atol).all() and np.allclose(columns.sum(axis=1), 1, atol=atol):
        return "probabilities"
    if (columns <= atol).all() and np.allclose(
        np.exp(columns).sum(axis=1), 1, atol=atol
    ):
        return "logarithms"
    return None


def _normalized(positive: np.ndarray) -> np.ndarray:
    """Return numbers divided by the sum of their row; where that is 0, equal ones."""
    sums = positive.sum(axis=1, keepdims=True)
    n_columns = positive.shape[1]
    return np.where(sums > 0, positive / np.where(sums > 0, sums, 1), 1 / n_columns)


def _are_logits(net: object, outputs: np.ndarray) -> bool:
    """Report whether some outputs are no probabilities, also those of made-up rows."""
    if ((outputs < 0) | (outputs > 1)).any():
        return True
    of_made_up = _outputs_of_made_up_rows(net)
    if of_made_up is None:
        return False
    return bool(((of_made_up < 0) | (of_made_up > 1)).any())


def _outputs_of_made_up_rows(net: object) -> np.ndarray | None:
    module = module_of(net)
    rows = made_up_rows(module)
    if rows is None:
        return None
    outputs = run(module, rows).double().numpy()
    return outputs.reshape(len(outputs), -1)


# Operations that neither change outputs nor their order.
_KEEPING = ("view", "reshape", "flatten", "squeeze", "contiguous", "float", "getitem")


def _ends_with_sigmoid(module: nn.Module) -> bool:
    try:
        root, graph = trace(module, "estimator")
    except TypeError:
        return False
    operation = first_output(graph)
    while isinstance(operation, fx.Node) and operation.all_input_nodes:
        if operation.op == "call_module":
            layer = root.get_submodule(operation.target)
            return isinstance(layer, nn.Sigmoid)
        target = operation.target
        called = target if isinstance(target, str) else target.__name__
        if called.rstrip("_") == "sigmoid":
            return True
        if called not in _KEEPING:
            return False
        operation = operation.all_input_nodes[0]
    return False


def criterion_of(net: object) -> nn.Module:
    # torch.compile keeps the criterion that it compiled in _orig_mod.
    return getattr(net.criterion_, "_orig_mod", net.criterion_)


# ---- a user's own predict_nonlinearity -----------------------------------------------


def line_of_nonlinearity(net: object, n_outputs: int) -> tuple[float, float] | None:
    """Return factor and offset by which a user's function makes log-odds of logits.

    A temperature T is the factor 1 / T. Several outputs have no offset. None where the
    net has no such function, or one that is no softmax or sigmoid of a line.
    """
    function: Callable = getattr(net, "predict_nonlinearity", None)
    if not callable(function):
        return None
    logits = np.random.RandomState(0).standard_normal((100, n_outputs))
    try:
        proba = function(torch.as_tensor(logits, dtype=torch.float32))
        proba = np.asarray(proba, dtype=np.float64).reshape(len(logits), -1)
        proba = np.clip(proba, 1e-9, 1)
    except Exception:  # it takes other outputs, or returns no numbers
        return None
    if n_outputs == 1:
        odds = logit(np.clip(proba[:, -1], 1e-9, 1 - 1e-9))
        columns = np.stack([logits[:, 0], np.ones(len(logits))], axis=1)
    else:
        if proba.shape != logits.shape:
            return None
        odds = np.log(proba)
        odds = (odds - odds.mean(axis=1, keepdims=True)).ravel()
        columns = (logits - logits.mean(axis=1, keepdims=True)).reshape(-1, 1)
    line = np.linalg.lstsq(columns, odds, rcond=None)[0]
    if np.abs(columns @ line - odds).max() > FOLD_TOLERANCE * np.abs(odds).max():
        return None
    factor = float(line[0])
    offset = float(line[1]) if n_outputs == 1 else 0.0
    return (factor, offset) if factor > 0 else None
