# SPDX-License-Identifier: BSD-3-Clause
"""The loop over rounds: nodes train from the shared model, their models become it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from ._mean import Weight, mean_parameters
from ._schedules import learning_rates, next_epochs, relative_change

# A node trains from given parameters, some epochs, at one rate for each (or None,
# its own), from a seed, and returns its parameters and its training loss.
Node = Callable[[list, int, "np.ndarray | None", int], tuple[list, float]]
ATTEMPTS = 2


class AllNodesFailed(RuntimeError):
    """No node came through a round; ``parameters`` is the shared model before it."""

    parameters: list


@dataclass(frozen=True)
class Rounds:
    """What rounds of training came to.

    Attributes
    ----------
    parameters : list of ndarray
        The shared model after the last round.
    history : list of dict
        For each round: its "round", the "epochs" each node trained, the
        "learning_rates" of these epochs (or None), the relative "change" of the
        shared model, the "loss" of each node by name, the nodes "left_out", and the
        "bytes_sent" in both directions by all.
    """

    parameters: list[np.ndarray]
    history: list[dict]


def run_rounds(
    start: Sequence[np.ndarray],
    nodes: Sequence[Node],
    *,
    n_rounds: int,
    local_epochs: int = 5,
    learning_rate: float | None = 0.01,
    decay: float = 0.25,
    schedule: str = "cyclical",
    epochs: str = "increasing",
    epsilon: float = 0.01,
    weights: Sequence[Weight] | None = None,
    names: Sequence[str] | None = None,
    combine: Callable = mean_parameters,
    n_jobs: int | None = None,
    random_state=None,
    log: Callable[[str], None] | None = None,
) -> Rounds:
    """Co-learning: rounds of local training, each followed by an average.

    Parameters
    ----------
    start : sequence of ndarray
        The shared model before the first round.
    nodes : sequence of callables
        ``node(parameters, epochs, rates, seed)`` trains from the shared model and
        returns a list of arrays and its training loss. It must not write to the
        arrays that it is given. One that raises, or returns parameters that are not
        finite, is called once more, then left out of the round with a warning.
    n_rounds : int
        Number of rounds.
    local_epochs : int, default=5
        Epochs ``T_0`` of the first round.
    learning_rate, decay, schedule
        See :func:`learning_rates`; with a rate of None nodes choose their own.
    epochs : {"increasing", "fixed"}, default="increasing"
        Whether :func:`next_epochs` doubles them.
    epsilon : float, default=0.01
        Relative change up to which it does.
    weights : sequence, default=None
        Weight of each node, see :func:`mean_parameters`; None weighs all equally.
    names : sequence of str, default=None
        Names of the nodes; None numbers them.
    combine : callable, default=mean_parameters
        Makes the new shared model of an iterable of (parameters, weight).
    n_jobs : int, default=None
        Nodes that train at the same time.
    random_state : int, RandomState instance or None, default=None
        Source of each round's seed, the same for all nodes.
    log : callable, default=None
        Called with a line about each round.

    Returns
    -------
    rounds : Rounds

    Raises
    ------
    AllNodesFailed
        A RuntimeError, if every node fails in one round; the shared model before it
        is the error's attribute ``parameters``.

    References
    ----------
    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018,
    Eq. 2-4 and Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.rounds import run_rounds
    >>> def towards(target):
    ...     def node(parameters, epochs, rates, seed):
    ...         return [parameters[0] + 0.5 * (target - parameters[0])], 0.0
    ...     return node
    >>> nodes = [towards(1.0), towards(3.0)]
    >>> run_rounds([np.zeros(1)], nodes, n_rounds=20).parameters[0].round(3)
    array([2.])
    """
    rng = check_random_state(random_state)
    names = [str(k) for k in range(len(nodes))] if names is None else list(names)
    weights = [1.0] * len(nodes) if weights is None else list(weights)
    parameters, history = list(start), []
    planned, done, length = n_rounds * local_epochs, 0, local_epochs
    for number in range(n_rounds):
        if number and epochs == "increasing":
            length = next_epochs(length, history[-1]["change"], epsilon)
        rates = None
        if learning_rate is not None:
            rates = learning_rates(
                learning_rate,
                length,
                decay=decay,
                schedule=schedule,
                epochs_before=done,
                epochs_planned=planned,
            )
        # One seed for all nodes, so that their order does not matter.
        seed = int(rng.randint(2**31 - 1))
        jobs = (
            delayed(_attempt)(node, parameters, length, rates, seed) for node in nodes
        )
        losses, failures = {}, {}
        answers = Parallel(n_jobs=n_jobs, return_as="generator")(jobs)
        arrived = _arrived(answers, names, weights, losses, failures)
        try:
            trained = combine(arrived)
        except AllNodesFailed as error:
            error.parameters = parameters
            raise
        _warn_of_failures(failures, number)
        size = sum(array.nbytes for array in trained)
        history.append(
            {
                "round": number,
                "epochs": length,
                "learning_rates": None if rates is None else rates.tolist(),
                "change": relative_change(trained, parameters),
                "loss": losses,
                "left_out": list(failures),
                "bytes_sent": size * (len(nodes) + len(losses)),
            }
        )
        parameters, done = trained, done + length
        if log is not None:
            log(
                f"round {number + 1} of {n_rounds}: {length} epochs, mean loss "
                f"{np.mean(list(losses.values())):.4g}, change "
                f"{history[-1]['change']:.3g}"
            )
    return Rounds(parameters, history)


def _attempt(node, parameters, epochs, rates, seed):
    """What the node returns, or its last exception."""
    for _ in range(ATTEMPTS):
        try:
            trained, loss = node(parameters, epochs, rates, seed)
            _check_finite(trained)
            return trained, loss
        except Exception as exc:
            failure = exc
    return failure


def _check_finite(arrays):
    if not all(np.isfinite(a).all() for a in map(np.asarray, arrays)):
        raise FloatingPointError(
            "training diverged, its parameters are not finite; try a smaller "
            "learning_rate."
        )


def _arrived(answers, names, weights, losses, failures):
    """Models of the nodes that did not fail, one after another."""
    for name, weight, answer in zip(names, weights, answers, strict=True):
        if isinstance(answer, Exception):
            failures[name] = answer
        else:
            parameters, losses[name] = answer
            del answer
            yield parameters, weight
            del parameters  # before the next one comes
    if not losses:
        name, cause = next(iter(failures.items()))
        raise AllNodesFailed(
            f"Every node failed twice in one round. Node {name!r}: "
            f"{type(cause).__name__}: {cause}"
        ) from cause


def _warn_of_failures(failures, number):
    for name, exc in failures.items():
        warnings.warn(
            f"Node {name!r} failed twice in round {number} and is left out of it: "
            f"{type(exc).__name__}: {exc}",
            UserWarning,
            stacklevel=4,
        )
