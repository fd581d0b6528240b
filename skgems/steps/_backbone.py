"""Backbones: the layers of a net below its last one, as a transformer of rows.

What enters the last layer is read while the whole net takes the rows, so that its
``forward`` may be written in any way. Nets that are alike are told by a digest of their
layers, which stands for them in messages.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compat import HasMethods
from ..networks import (
    TOLERANCE,
    evaluated,
    fingerprint,
    is_fitted,
    is_skorch,
    last_layer,
    layer_tensors,
    module_of,
    row_dtype,
    row_width,
    unwrap,
)

if TYPE_CHECKING:  # torch is an extra
    from hashlib import _Hash as Hasher

    import torch
    from torch import nn

# Rows that go through a net together: what is between layers of images takes some
# megabytes a row.
_BATCH = 256
# Backbones of this process, among which the digest in a message finds its net. They are
# held weakly, so that nets do not outlive their users.
_backbones_of_process: "WeakSet[Backbone]" = WeakSet()


class Backbone(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The frozen layers of a fitted network below its last one, of any architecture.

    It returns what enters the last layer, and may contain convolutions, residual
    connections and batch normalization. With ``front=Backbone(net)`` of an aggregator,
    all nodes share these layers. The last layers of the networks in `estimators` are
    then linear models of its output. In messages a digest represents the layers: each
    node uses the layers of its own network, and refuses the request if they differ.

    Parameters
    ----------
    net : skorch classifier, torch.nn.Module or str
        The fitted network, which is never changed. From a skorch classifier the last
        layer is removed. It must be a Linear layer, followed by at most a softmax or
        sigmoid. From a bare module nothing is removed. A str is the `digest_` of a
        network that this process has.

    Attributes
    ----------
    digest_ : str
        Digest that the parties compare. Its first part is of the weights and kinds of
        layers, and its second of other numbers, such as the statistics of batch
        normalization. Its third part is of what the layers make of made-up rows.
    net_ : skorch classifier or torch.nn.Module
        The network.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of columns seen during fit, if all are texts.

    See Also
    --------
    RandomFeatures : Layers drawn by a seed, which need not be sent.

    Notes
    -----
    A frozen layer of batch normalization continues to update its statistics while the
    last layer is trained, unless it is in ``eval()`` mode. Layers that were equal at
    all nodes then become different.

    Examples
    --------
    >>> import torch
    >>> from skgems.steps import Backbone
    >>> layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    >>> Backbone(layers).fit_transform([[1.0, 2.0, 3.0, 4.0]]).shape
    (1, 3)
    """

    _parameter_constraints: dict = {
        "net": [str, HasMethods(["fit"]), HasMethods(["forward"])]
    }

    def __init__(self, net):
        self.net = net

    def __sklearn_clone__(self) -> "Backbone":
        return Backbone(self.net)  # which is fitted

    @property
    def digest_(self) -> str:
        if isinstance(self.net, str):
            return self.net
        _backbones_of_process.add(self)
        module, last = _module_and_last_layer(self.net)
        return f"{_digest(module, last)}-{fingerprint(module, last)}"

    def fit(self, X, y=None) -> "Backbone":
        """Find the network and the number of its outputs; nothing is learnt.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Rows, of which only the first is used.
        y : ignored

        Returns
        -------
        self : Backbone

        Raises
        ------
        ValueError
            If the network cannot take such rows, its last layer is not Linear, or no
            network of this process has the digest.
        """
        self._validate_params()
        X = self._rows(X, reset=True)
        net = self.net
        if isinstance(net, str):
            net = _net_of_process(net)
        if net is None:
            raise ValueError(
                f"No net of this node has layers with the digest {self.net:.70}. Give "
                "the node such a net, or keep a fitted Backbone of it."
            )
        self.net_ = net
        features, self._link = self._features_and_link(X[:1])
        self._n_features_out = features.shape[1]
        return self

    def transform(self, X) -> np.ndarray:
        """Compute what enters the last layer.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Rows. In a front they have two dimensions; the module may begin with
            ``Unflatten`` to give them their shape.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features_out)
            The features, in the dtype of the network.
        """
        check_is_fitted(self, "net_")
        features, _ = self._features_and_link(self._rows(X))
        return features

    def _rows(self, X, reset: bool = False) -> np.ndarray:
        return validate_data(
            self, X, reset=reset, dtype=[np.float32, np.float64], allow_nd=True
        )

    def _features_and_link(
        self, X: np.ndarray
    ) -> "tuple[np.ndarray, nn.Module | None]":
        """Return the last layer's inputs, and the softmax or sigmoid behind it."""
        import torch

        module, last = _module_and_last_layer(self.net_)
        parameter = next(module.parameters(), torch.zeros(0))
        dtype = row_dtype(module, X)
        batches = []
        link = None
        with _noting_calls(module, last) as calls_of_last:
            for start in range(0, len(X), _BATCH):
                calls_of_last.clear()
                rows = torch.as_tensor(X[start : start + _BATCH].astype(dtype))
                rows = rows.to(parameter.device)
                output = _output_of(module, rows)
                if last is None:
                    features = output
                else:
                    features, link = _checked_features(
                        module, last, calls_of_last, output=output
                    )
                batches.append(features.reshape(len(features), -1).cpu().numpy())
        return np.concatenate(batches), link

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # it is that of the net
        return tags


def head_of(
    backbone: Backbone, *, start: int = 0, width: int | None = None
) -> BaseEstimator:
    """The last layer of a net, as a net of features.

    Of the ``width`` features, those of this backbone begin at ``start``; the others,
    which are those of other backbones side by side, have weights of 0. None: there are
    no others.
    """
    import torch

    net = unwrap(backbone.net_)
    _, last = _module_and_last_layer(backbone.net_)
    n_features = last.in_features
    weight_of_last, bias = layer_tensors(last)
    weight = weight_of_last.new_zeros(last.out_features, width or n_features)
    weight[:, start : start + n_features] = weight_of_last
    # A plain layer: the last one may compute its weights from others, by a hook.
    # Without memory ("meta"), as torch would draw its first weights at random.
    head = torch.nn.Linear(
        weight.shape[1], last.out_features, bias=bias is not None, device="meta"
    )
    head.weight = torch.nn.Parameter(weight)
    if bias is not None:
        head.bias = torch.nn.Parameter(bias.clone())
    layers = [head] if backbone._link is None else [head, backbone._link]
    # A copy with another module, made around skorch's own pickling, as not every module
    # can be pickled.
    net_of_head = object.__new__(type(net))
    vars(net_of_head).update(vars(net))
    vars(net_of_head)["module_"] = torch.nn.Sequential(*layers)
    net_of_head.is_head_ = True  # of features whose units say nothing
    return net_of_head


def fit_without_rows(backbones: list[Backbone]) -> bool:
    """Fit backbones to a row that is made up, and report whether that was possible.

    They learn nothing but the number of columns, which is that of the only rows that
    the modules take.
    """
    widths = set()
    for backbone in backbones:
        net = backbone.net
        if isinstance(net, str):
            net = _net_of_process(net)
        if net is None:
            return False
        module, _ = _module_and_last_layer(net)
        widths.add(row_width(module))
    if len(widths) != 1 or None in widths:
        return False
    for backbone in backbones:
        backbone.fit(np.ones((1, *widths)))
    return True


@contextmanager
def holding(estimator: BaseEstimator) -> Iterator[None]:
    """Meanwhile, the digest of layers of this classifier finds them."""
    backbone = Backbone(estimator)  # held by this function's frame
    net = unwrap(estimator)
    if is_skorch(net) and is_fitted(net):
        _backbones_of_process.add(backbone)
    yield


def _net_of_process(digest: str) -> "BaseEstimator | nn.Module | None":
    """The net of this process whose layers have a digest, if any."""
    digest_of_layers = digest.rpartition("-")[0]
    for backbone in list(_backbones_of_process):
        if isinstance(backbone.net, str):
            continue
        with suppress(ValueError):  # it does not end in a Linear layer
            layers = _module_and_last_layer(backbone.net)
            # A net is run only where its layers are the right ones, as that takes long.
            if _digest(*layers) == digest_of_layers and backbone.digest_ == digest:
                return backbone.net
    return None


def _module_and_last_layer(
    net: "BaseEstimator | nn.Module",
) -> "tuple[nn.Module, nn.Linear | None]":
    """The module of a net, and its last layer; None of a bare module."""
    from torch import nn

    unwrapped = unwrap(net)
    if isinstance(unwrapped, nn.Module):
        return unwrapped, None
    if not is_skorch(unwrapped) or not is_fitted(unwrapped):
        raise TypeError(
            "Backbone takes a fitted net or a torch module, not "
            f"{type(unwrapped).__name__}."
        )
    module = module_of(unwrapped)
    last = last_layer(module)
    if not isinstance(last, nn.Linear):
        raise ValueError(f"{type(module).__name__} does not end in a Linear layer.")
    return module, last


def _digest(module: "nn.Module", last: "nn.Linear | None") -> str:
    """Hashes of weights and kinds of layers, and of buffers, without the last layer."""
    import torch

    weights = sha256()
    buffers = sha256()
    # With what its weights may be computed from.
    parts_of_last = set() if last is None else set(last.modules())
    for path, part in module.named_modules():
        if part in parts_of_last or isinstance(part, torch.nn.Identity):
            continue
        if next(part.children(), None) is None:
            weights.update(f"{path} {part!r}".encode())
        for name, parameter in part.named_parameters(recurse=False):
            _add_tensor(weights, parameter, name=f"{path}.{name}")
        for name, buffer in part.named_buffers(recurse=False):
            if name != "num_batches_tracked":  # it changes nothing
                _add_tensor(buffers, buffer, name=f"{path}.{name}")
    return f"{weights.hexdigest()[:32]}-{buffers.hexdigest()[:32]}"


def _add_tensor(hasher: "Hasher", tensor: "torch.Tensor", *, name: str) -> None:
    """Have a hash depend on name, dtype, shape and values of a tensor."""
    import torch

    hasher.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
    flat = tensor.detach().cpu().contiguous().flatten()
    hasher.update(flat.view(torch.uint8).numpy())


@contextmanager
def _noting_calls(
    module: "nn.Module", last: "nn.Linear | None"
) -> Iterator[list[tuple[tuple, "torch.Tensor"]]]:
    """A module in evaluation mode, and a list that calls of its last layer come to.

    Of each call the list has what entered, and what came out. A bare module has no
    last layer, and the list stays empty.
    """
    calls: list = []

    def note(_: "nn.Module", entered: tuple, output: "torch.Tensor") -> None:
        calls.append((entered, output))

    with evaluated(module):
        hook = None if last is None else last.register_forward_hook(note)
        try:
            yield calls
        finally:
            if hook is not None:
                hook.remove()


def _output_of(module: "nn.Module", rows: "torch.Tensor") -> "torch.Tensor":
    """The output of a module, the first of several; ValueError if it takes no such."""
    try:
        output = module(rows)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"{type(module).__name__} cannot take rows of shape "
            f"{tuple(rows.shape[1:])}: {error!s:.200}"
        ) from error
    if isinstance(output, tuple) and output:
        output = output[0]
    if not hasattr(output, "numel"):
        raise ValueError(
            f"{type(module).__name__} returns {type(output).__name__}. Have its "
            "forward return a tensor, or a tuple that begins with one."
        )
    return output


def _are_close(output: "torch.Tensor", expected: "torch.Tensor") -> bool:
    return output.numel() == expected.numel() and output.reshape(
        expected.shape
    ).allclose(expected, rtol=TOLERANCE)


def _checked_features(
    module: "nn.Module",
    last: "nn.Linear",
    calls_of_last: list[tuple],
    *,
    output: "torch.Tensor",
) -> "tuple[torch.Tensor, nn.Module | None]":
    """Return the inputs of the last layer, and the module that its outputs go through.

    ValueError where the layer is run more than once, or something other than a softmax
    or a sigmoid follows: the net is then no linear model of the features.
    """
    from torch import nn

    links = (None, nn.Softmax(-1), nn.LogSoftmax(-1), nn.Sigmoid(), nn.LogSigmoid())
    if len(calls_of_last) == 1 and calls_of_last[0][1].ndim == 2:
        ((features,), logits) = calls_of_last[0]
        weight, bias = layer_tensors(last)
        if not _are_close(nn.functional.linear(features, weight, bias), logits):
            raise ValueError(
                f"The last Linear layer of {type(module).__name__} gives other outputs "
                "than its weights and biases do, as a forward hook or a replaced "
                "forward makes it. Remove that, or use EnsembleAggregator, which runs "
                "nets as they are."
            )
        for link in links:
            if _are_close(output, logits if link is None else link(logits)):
                return features, link
    raise ValueError(
        f"The outputs of {type(module).__name__} are not those of its last Linear "
        "layer, which at most a softmax or a sigmoid may follow."
    )
