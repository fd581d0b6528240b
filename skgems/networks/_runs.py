"""Run modules on rows that are made up: what a module does is seen by running it.

Neither a trace nor a list of layers shows hooks, attributes, or another ``forward``.
The rows are the same in every process, and their form is the first that the module
takes, of those that its layers suggest.
"""

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice, product

import numpy as np
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from ._network import N_ROWS

# Modes and attributes of a module are the same for all threads, which take turns.
turns = threading.RLock()


_N_STEPS = 6  # of series, whose length no layer says
# Sides of square images, in pixels: small sets of images first, then common crops.
_SIDES = (8, 16, 28, 32, 64, 96, 224)
_LENGTHS = (5, 8, 16, 32, 64, 128)  # of texts in tokens, and of signals
# Of several inputs: how many forms are tried, as each input may have any.
_MOST_FORMS = 2000

# Of flat rows, when all widths are tried that a module may take: more would be large
# images, which take seconds.
_MOST_COLUMNS = 10_000
# Of a fingerprint: hexadecimal digits, enough that two are never equal by chance.
_N_DIGITS = 16
# Random projections of features in it, of which one alone could miss a change.
_N_PROJECTIONS = 8
# Structures of modules whose rows are held: few kinds are in use at a time.
_MOST_STRUCTURES = 64

# Arguments of a forward by position, and by name where there are several.
Rows = tuple[torch.Tensor, ...] | dict[str, torch.Tensor]


@contextmanager
def evaluated(module: nn.Module) -> Iterator[None]:
    """Have a module in evaluation mode; then undo all that was written to it.

    Modes, attributes that a forward sets, and torch's generator are as they were.
    """
    with turns, torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        attributes = {part: vars(part).copy() for part in module.modules()}
        try:
            for part in attributes:
                part.training = False
            yield
        finally:
            for part, attributes_before in attributes.items():
                vars(part).clear()
                vars(part).update(attributes_before)


def first_of(output: object) -> object:
    """Return the output, or the first of several, as skorch takes it."""
    return output[0] if isinstance(output, (tuple, list)) and output else output


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and buffers on the processor, which a forward may write to."""
    parameters = {name: p.detach().cpu() for name, p in module.named_parameters()}
    buffers = {name: b.detach().cpu().clone() for name, b in module.named_buffers()}
    return {**parameters, **buffers}


def run(
    module: nn.Module,
    rows: Rows,
    *,
    tensors: Mapping[str, torch.Tensor] | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Return the first output of a module in evaluation mode, on the processor.

    Parameters
    ----------
    module : Module
        Left as it is.
    rows : tuple or dict of Tensor
    tensors : mapping, default=None
        Parameters and buffers by name, in place of the module's.
    dtype : dtype or None, default=None
        Of all numbers; None: as the module has them, but float32 for fewer digits.

    Raises
    ------
    Exception
        Whatever the forward raises.
    """
    if tensors is None:
        tensors = tensors_of(module)
    if dtype is None:
        dtype = _dtype_of(tensors)
    if dtype is not None:
        tensors = {name: _as_dtype(t, dtype) for name, t in tensors.items()}
    with evaluated(module):
        output = first_of(_called(module, rows, tensors, dtype or torch.float32))
    if not isinstance(output, torch.Tensor) or not output.ndim:
        raise TypeError(f"{type(module).__name__} returns no tensor")
    return output.detach().clone()


def _called(
    module: nn.Module,
    rows: Rows,
    tensors: Mapping[str, torch.Tensor],
    dtype: torch.dtype,
) -> object:
    """Return all that a module returns for rows, with ``tensors`` for its own."""
    is_named = isinstance(rows, Mapping)
    arrays = rows.values() if is_named else rows
    inputs = tuple(_as_dtype(array, dtype) for array in arrays)
    if isinstance(module, torch.jit.ScriptModule):
        return module(*inputs)
    if is_named:
        named = dict(zip(rows, inputs, strict=True))
        return functional_call(module, tensors, (), named)
    return functional_call(module, tensors, inputs)


def _dtype_of(tensors: Mapping[str, torch.Tensor]) -> torch.dtype | None:
    """Return float64 if any number has it; None where there are no numbers."""
    dtypes = {t.dtype for t in tensors.values() if t.is_floating_point()}
    if not dtypes:
        return None
    return torch.float64 if torch.float64 in dtypes else torch.float32


def _as_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def difference(output: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference as a part of the largest value; inf of shapes."""
    if output.numel() != expected.numel():
        return float("inf")
    output = output.double().reshape(expected.shape)
    expected = expected.double()
    if not (torch.isfinite(output).all() and torch.isfinite(expected).all()):
        equal = torch.equal(output.nan_to_num(), expected.nan_to_num())
        return 0.0 if equal else float("inf")
    scale = max(float(expected.abs().max()), float(output.abs().max()))
    return float((output - expected).abs().max()) / scale if scale else 0.0


def layer_tensor(layer: nn.Module, attribute: str) -> torch.Tensor:
    """Return a weight or bias as the next forward uses it, without writing it.

    Hooks of `torch.nn.utils.weight_norm` and ``spectral_norm`` compute it anew before
    each forward: the attribute is that of the last one, of older weights maybe.
    """
    for hook in layer._forward_pre_hooks.values():
        if getattr(hook, "name", None) != attribute:
            continue
        if isinstance(hook, WeightNorm):
            return hook.compute_weight(layer)
        if isinstance(hook, SpectralNorm):
            return hook.compute_weight(layer, do_power_iteration=False)
    return getattr(layer, attribute)


# ---- what modules do to such rows ----------------------------------------------------


def hook_of(module: nn.Module) -> str | None:
    """Say which part has a hook, or a forward of its own, that no layer shows.

    Hooks that only compute a weight, as those of weight_norm, are none of these.
    """
    for path, part in module.named_modules():
        where = f"{type(part).__name__} (module {path!r})" if path else "the module"
        hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
        if not all(isinstance(hook, (WeightNorm, SpectralNorm)) for hook in hooks):
            return f"{where} has a forward hook"
        if "forward" in vars(part):
            return f"the forward of {where} was replaced"
    return None


def forward_difference(
    module: nn.Module, other: nn.Module, rows: Rows | None = None
) -> float | None:
    """Return how much outputs of two modules with the same weights differ.

    As a part of their size. None where no made-up rows fit the first module, and no
    ``rows`` are given for that case.
    """
    made_up = made_up_rows(module)
    if made_up is None:
        if rows is None:
            return None
        made_up = rows
    tensors = tensors_of(module)
    expected = run(module, made_up, tensors=tensors)
    try:
        output = run(other, made_up, tensors=tensors)
    except Exception:  # it takes no such rows, or has no such weights
        return float("inf")
    return difference(output, expected)


def fingerprint(module: nn.Module, last: nn.Module | None) -> str:
    """Return hexadecimal digits of what enters the last layer, of made-up rows.

    They are of a few numbers, rounded so far that machines agree about them. In
    float64 that is a part of 1e-4; a module that computes in float32 by itself has
    two decimals. Where no made-up rows fit, all digits are 0.
    """
    # Searched for anew: other parties do not know what was found for other modules.
    rows = _search_rows(module, without=last)
    if rows is None:
        return "0" * _N_DIGITS
    try:
        features = _entering(module, last, rows, dtype=torch.float64)
        n_decimals = 4
    except Exception:  # it casts to float32, which then meets float64
        features = _entering(module, last, rows, dtype=None)
        n_decimals = 2
    features = features.double().reshape(-1).numpy()
    size = float(np.linalg.norm(features))
    if not 0 < size < np.inf:
        return sha256(str(size).encode()).hexdigest()[:_N_DIGITS]
    rng = np.random.RandomState(0)
    numbers = [np.log(size)]
    for _ in range(_N_PROJECTIONS):
        numbers.append(rng.standard_normal(features.size) @ features / size)
    # Adding 0 makes -0.0 the same as 0.0.
    text = " ".join(f"{round(number, n_decimals) + 0.0:.4f}" for number in numbers)
    return sha256(text.encode()).hexdigest()[:_N_DIGITS]


def _entering(
    module: nn.Module,
    last: nn.Module | None,
    rows: Rows,
    *,
    dtype: torch.dtype | None,
) -> torch.Tensor:
    """Return what enters a layer when rows go through a module; None: the output."""
    if last is None:
        return run(module, rows, dtype=dtype)
    entered: list[torch.Tensor] = []

    def note(_: nn.Module, inputs: tuple) -> None:
        entered.append(inputs[0].detach().clone())

    with turns:
        hook = last.register_forward_pre_hook(note)
        try:
            run(module, rows, dtype=dtype)
        finally:
            hook.remove()
    return torch.cat([features.reshape(-1) for features in entered])


def takes_ids(module: nn.Module, rows: np.ndarray) -> bool:
    """Report whether a module takes such rows as integers only, as ids of tokens are.

    Aggregators validate all rows as floats. Where an embedding does not take them so,
    whole numbers are ids.
    """
    kinds = (nn.Embedding, nn.EmbeddingBag)
    if not len(rows) or not any(isinstance(part, kinds) for part in module.modules()):
        return False
    row = torch.as_tensor(rows[:1])
    if row.is_floating_point() and not torch.equal(row, row.round()):
        return False
    try:
        run(module, (row.double(),))
    except Exception:
        return True
    return False


# ---- rows that a module takes --------------------------------------------------------


def normal_rows(n_rows: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the rows of numbers that every process makes up."""
    values = np.random.RandomState(0).standard_normal((n_rows, *shape))
    return torch.as_tensor(values)


def made_up_rows(module: nn.Module) -> Rows | None:
    """Return rows of the first form that a module takes; None if it takes none.

    Forms that give one output for each row come before all others.
    """
    if any(map(nn.parameter.is_lazy, module.parameters())):
        return None
    shapes = tuple((name, p.shape) for name, p in module.named_parameters())
    structure = (type(module), repr(module), shapes)
    rows = _rows_by_structure.get(structure)
    if rows is not None and _takes(module, rows):
        return rows
    rows = _search_rows(module)
    if rows is not None:
        if len(_rows_by_structure) >= _MOST_STRUCTURES:
            _rows_by_structure.clear()
        _rows_by_structure[structure] = rows
    return rows


# Rows that were found for modules of a class, layers and shapes: a search runs a module
# with several inputs hundreds of times.
_rows_by_structure: dict[tuple, Rows] = {}


def _takes(module: nn.Module, rows: Rows) -> bool:
    try:
        run(module, rows)
    except Exception:
        return False
    return True


def _search_rows(module: nn.Module, *, without: nn.Module | None = None) -> Rows | None:
    names = _names_of_inputs(module)
    forms = list(_forms(module, without=without))
    tensors = tensors_of(module)
    other_rows: Rows | None = None
    for chosen in islice(product(forms, repeat=max(len(names), 1)), _MOST_FORMS):
        arrays = [form() for form in chosen]
        rows = dict(zip(names, arrays, strict=True)) if names else tuple(arrays)
        try:
            output = run(module, rows, tensors=tensors)
        except Exception:
            continue
        if len(output) == len(arrays[0]):
            return rows
        other_rows = other_rows or rows
    return other_rows


def row_width(module: nn.Module) -> int | None:
    """Return the number of columns of the only flat rows that a module takes.

    None where it takes none, or rows of several widths, as texts are.
    """
    if _names_of_inputs(module):
        return None
    tensors = tensors_of(module)
    widths = set()
    for form in _forms(module):
        rows = form()
        if rows.ndim != 2 or rows.shape[1] > _MOST_COLUMNS:
            continue
        try:
            output = run(module, (rows,), tensors=tensors)
        except Exception:
            continue
        if len(output) == len(rows):
            widths.add(rows.shape[1])
    return widths.pop() if len(widths) == 1 else None


def _names_of_inputs(module: nn.Module) -> list[str]:
    """Return the names of inputs where a forward needs several, else none."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    names = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    return names if len(names) > 1 else []


def _forms(
    module: nn.Module, *, without: nn.Module | None = None
) -> Iterator[Callable[[], torch.Tensor]]:
    """Yield functions that make rows, of forms that the layers suggest first."""
    parts = [part for part in module.modules() if part is not without]
    kinds = (nn.Embedding, nn.EmbeddingBag)
    n_ids = min((p.num_embeddings for p in parts if isinstance(p, kinds)), default=0)
    if n_ids:
        yield from (_maker_of_ids(n_ids, (length,)) for length in _LENGTHS)
    yield from map(_maker_of_numbers, dict.fromkeys(_shapes_of_rows(parts)))
    if n_ids:
        yield _maker_of_ids(n_ids, ())


def _shapes_of_rows(parts: Sequence[nn.Module]) -> Iterator[tuple[int, ...]]:
    """Yield shapes of a row, some repeated: those that layers suggest first."""
    for part in parts:
        yield from _shapes_of_layer(part)
    for part in parts:
        yield from _shapes_of_parameters(part)
    yield from ((side**2,) for side in _SIDES)


def _shapes_of_parameters(layer: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield shapes of a row for a layer that multiplies it by its own matrices."""
    for parameter in layer.parameters(recurse=False):
        if not nn.parameter.is_lazy(parameter) and parameter.ndim > 1:
            yield (parameter.shape[-1],)
            yield (parameter.shape[0],)


def _maker_of_ids(n_ids: int, shape: tuple[int, ...]) -> Callable[[], torch.Tensor]:
    values = np.random.RandomState(0).randint(n_ids, size=(N_ROWS, *shape))
    return lambda: torch.as_tensor(values, dtype=torch.int64)


def _maker_of_numbers(shape: tuple[int, ...]) -> Callable[[], torch.Tensor]:
    return lambda: normal_rows(N_ROWS, shape)


def _shapes_of_layer(layer: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield shapes of a row for a module that begins with such a layer."""
    if isinstance(layer, nn.Unflatten):
        sizes = layer.unflattened_size
        yield (int(np.prod([size for size in sizes if isinstance(size, int)])),)
    elif isinstance(layer, (nn.Linear, nn.Bilinear)):
        width = getattr(layer, "in_features", None) or layer.in1_features
        yield (width,)
        yield (_N_STEPS, width)
    elif isinstance(layer, (nn.RNNBase, nn.RNNCellBase)):
        yield (layer.input_size,)
        yield (_N_STEPS, layer.input_size)
        yield (layer.input_size**2,)
    elif isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        yield from _shapes_of_convolution(layer)
    elif isinstance(layer, nn.modules.batchnorm._NormBase):
        yield (layer.num_features,)
    elif isinstance(layer, nn.LayerNorm):
        yield tuple(layer.normalized_shape)


def _shapes_of_convolution(
    layer: nn.Conv1d | nn.Conv2d | nn.Conv3d,
) -> Iterator[tuple[int, ...]]:
    n_axes = len(layer.kernel_size)
    for side in _LENGTHS if n_axes == 1 else _SIDES:
        yield (layer.in_channels, *[side] * n_axes)
        yield (layer.in_channels * side**n_axes,)
