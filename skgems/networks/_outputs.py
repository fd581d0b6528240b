"""Outputs of a module, found by running it: how many, and which weights are theirs."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from ._network import FOLD_TOLERANCE, N_ROWS, TOLERANCE
from ._runs import Rows, difference, made_up_rows, run, tensors_of, turns

# What a module may do to logits at its end.
LINKS: tuple[nn.Module | None, ...] = (
    None,
    nn.Softmax(-1),
    nn.LogSoftmax(-1),
    nn.Sigmoid(),
    nn.LogSigmoid(),
)


def n_outputs_by_running(module: nn.Module) -> int | None:
    """Return how many outputs a row has; None where no made-up rows fit the module."""
    rows = made_up_rows(module)
    if rows is None:
        return None
    return _in_columns(run(module, rows)).shape[1]


def parameters_of_outputs(module: nn.Module) -> list[nn.Parameter] | None:
    """Return the parameters with one row for each output, which moves that one alone.

    None where no made-up rows fit the module.
    """
    rows = made_up_rows(module)
    if rows is None:
        return None
    trial = _Trial(module, rows)
    candidates = {
        name: parameter
        for name, parameter in module.named_parameters()
        if parameter.ndim and len(parameter) == trial.n_outputs
    }
    for moves_alone in (trial.moves_alone, trial.moves_log_odds_alone):
        found = [p for name, p in candidates.items() if moves_alone(name)]
        if found:
            return found
    return []


def last_linear(module: nn.Module) -> nn.Linear | None:
    """Return the Linear layer whose outputs, or a link of these, the module returns.

    None where no layer is found so, or where no made-up rows fit the module.
    """
    rows = made_up_rows(module)
    if rows is None:
        return None
    calls: list[tuple[nn.Linear, torch.Tensor]] = []

    def note(layer: nn.Linear, _: tuple, output: torch.Tensor) -> None:
        calls.append((layer, output.detach().clone()))

    with turns:
        layers = {part for part in module.modules() if isinstance(part, nn.Linear)}
        hooks = [layer.register_forward_hook(note) for layer in layers]
        try:
            output = run(module, rows)
        finally:
            for hook in hooks:
                hook.remove()
    for layer, logits in reversed(calls):
        for link in LINKS:
            linked = logits if link is None else link(logits)
            if difference(output, linked) <= TOLERANCE:
                return layer
    return None


def _in_columns(output: torch.Tensor) -> torch.Tensor:
    """Return outputs as (n_rows, n_outputs), of which a vector has one."""
    return output.reshape(len(output), -1).double()


# A prime, so that rows of a weight, which repeat these numbers, are not alike.
_N_RANDOM_NUMBERS = 10_007


def _random_like(parameter: torch.Tensor) -> torch.Tensor:
    """Return numbers of the size of first weights, which are above 0 in vectors."""
    numbers = np.random.RandomState(1).standard_normal(_N_RANDOM_NUMBERS)
    values = np.resize(numbers, parameter.shape)
    if parameter.ndim > 1:
        values = values / np.sqrt(max(parameter[0].numel(), 1))
    else:
        values = 0.5 + 0.25 * values
    return torch.as_tensor(values).to(parameter.dtype)


class _Trial:
    """Changes of single rows of a parameter, and what they do to the outputs."""

    def __init__(self, module: nn.Module, rows: Rows) -> None:
        self.module = module
        self.rows = rows
        # Which weights are whose does not depend on their values: random ones instead
        # of the module's, of which units may be dead or outputs saturated.
        self.tensors = tensors_of(module)
        for name, parameter in module.named_parameters():
            self.tensors[name] = _random_like(parameter)
        self.before = self._outputs(self.tensors)  # (n_rows, n_outputs)
        self.n_outputs = self.before.shape[1]

    def moves_alone(self, name: str) -> bool:
        """Report whether each row of a parameter moves the output of its number alone.

        A single output is moved by all that is before it: the parameters that are
        its own are those that it is an affine function of.
        """
        for c, delta in self._changes(name):
            moved = self._changed(name, c, delta) - self.before
            if not _is_alone(moved, c):
                return False
            if self.n_outputs == 1:
                twice = self._changed(name, c, 2 * delta) - self.before
                if not torch.allclose(twice, 2 * moved, rtol=FOLD_TOLERANCE, atol=1e-6):
                    return False
        return True

    def moves_log_odds_alone(self, name: str) -> bool:
        """Report the same of probabilities, or of their logarithms.

        A softmax moves all outputs, but those of other classes by one factor. Of two
        classes that always holds: then the odds must not change with both rows.
        """
        if self.n_outputs == 1:
            return False
        before = _as_logs(self.before)
        for c, delta in self._changes(name):
            moved = _as_logs(self._changed(name, c, delta)) - before
            moved = moved - moved[:, [(c + 1) % self.n_outputs]]
            if not _is_alone(moved, c):
                return False
            if self.n_outputs == 2:
                both = _as_logs(self._changed(name, slice(None), delta)) - before
                odds = both[:, 1] - both[:, 0]
                if float(odds.abs().max()) > FOLD_TOLERANCE * float(moved.abs().max()):
                    return False
        return True

    def _changes(self, name: str) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield outputs to try, and for each a change of its row."""
        parameter = self.tensors[name]
        rng = np.random.RandomState(0)
        scale = max(float(parameter.abs().mean()), 1e-2)
        # Of more outputs than there are rows so many are tried, spread over all.
        n_tried = min(self.n_outputs, N_ROWS)
        for c in np.linspace(0, self.n_outputs - 1, n_tried).astype(int).tolist():
            delta = torch.as_tensor(scale * rng.standard_normal(parameter.shape[1:]))
            yield c, delta.to(parameter.dtype)

    def _changed(self, name: str, c: int | slice, delta: torch.Tensor) -> torch.Tensor:
        changed = self.tensors[name].clone()
        changed[c] += delta
        return self._outputs({**self.tensors, name: changed})

    def _outputs(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return _in_columns(run(self.module, self.rows, tensors=tensors))


def _as_logs(outputs: torch.Tensor) -> torch.Tensor:
    """Return logarithms of probabilities; what has negative values is logarithms."""
    if (outputs < 0).any():
        return outputs
    return outputs.clamp_min(torch.finfo(torch.float32).tiny).log()


def _is_alone(moved: torch.Tensor, c: int) -> bool:
    """Report whether column c of (n_rows, n_outputs) has changed, and no other."""
    of_this = float(moved[:, c].abs().max())
    of_others = moved.abs()
    of_others[:, c] = 0
    return of_this > 0 and float(of_others.max()) <= FOLD_TOLERANCE * of_this
