"""Backbones: the layers of a net below its last one, as a transformer of rows."""

from contextlib import contextmanager, suppress
from copy import deepcopy
from hashlib import sha256
from threading import RLock
from weakref import WeakSet

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compat import HasMethods
from ..networks import is_fitted, is_skorch, last_layer, module_of, unwrap

# Rows that go through a net together.
_BATCH = 256
# Backbones of this process, among which the digest in a message finds its net.
_HELD: WeakSet = WeakSet()
# Modes and hooks of a module are the same for all threads.
_one_at_a_time = RLock()


class Backbone(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The layers of a fitted net below its last one, frozen, of any architecture.

    Convolutions, residual connections, batch normalisation: what enters the last layer
    comes out. As ``front=Backbone(net)`` of an aggregator, all nodes have these layers,
    and the last layers of nets in `estimators` are linear models of what comes out. In
    messages a digest stands for the layers: each node takes those of its own net, and
    refuses where they are others.

    Parameters
    ----------
    net : skorch classifier, torch.nn.Module or str
        Fitted, and never altered. Of a net in skorch the last layer is left out, which
        must be a Linear one, that at most a softmax or sigmoid follows; of a bare
        module nothing is. A text is the `digest_` of one that this process has.

    Attributes
    ----------
    digest_ : str
        What parties compare: of weights and kinds of layers, "-", and of other numbers,
        such as the statistics of batch normalisation.
    net_ : skorch classifier or torch.nn.Module
        The net that was found.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Of the rows.

    See Also
    --------
    RandomFeatures : Layers that a seed draws, which nobody has to send.

    Notes
    -----
    A frozen layer of batch normalisation goes on counting while the last layer learns,
    unless it is in ``eval()`` mode. Layers that were equal are no longer equal then.

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

    def __sklearn_clone__(self):
        return Backbone(self.net)  # which is fitted

    @property
    def digest_(self) -> str:
        if isinstance(self.net, str):
            return self.net
        _HELD.add(self)
        return _digest(*_parts(self.net))

    def fit(self, X, y=None) -> "Backbone":
        """Find the net and count what comes out; nothing is learnt.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
        y : ignored

        Returns
        -------
        self : Backbone

        Raises
        ------
        ValueError
            If the net cannot take such rows, its last layer is none of Linear, or a
            digest is of no net of this process.
        """
        self._validate_params()
        X = self._rows(X, reset=True)
        net = _held(self.net) if isinstance(self.net, str) else self.net
        if net is None:
            raise ValueError(
                f"There is no net here whose layers have the digest {self.net:.70}. "
                "Give the node such a net, or keep a Backbone of it that is fitted."
            )
        self.net_ = net
        features, self._link = self._below(X[:1])
        self._n_features_out = features.shape[1]
        return self

    def transform(self, X) -> np.ndarray:
        """What enters the last layer.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Of two dimensions in a front: the module may begin with ``Unflatten``.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features_out)
            Of the dtype of the net.
        """
        check_is_fitted(self, "net_")
        return self._below(self._rows(X))[0]

    def _rows(self, X, reset=False):
        kinds = [np.float32, np.float64]
        return validate_data(self, X, reset=reset, dtype=kinds, allow_nd=True)

    def _below(self, X) -> tuple:
        """What enters the last layer, and the layer that follows it, if any."""
        import torch

        (module, last), found, link = _parts(self.net_), [], None
        like = next(module.parameters(), torch.zeros(0))
        with _evaluated(module, last) as entered:
            for start in range(0, len(X), _BATCH):
                entered.clear()
                rows = torch.as_tensor(X[start : start + _BATCH]).to(like)
                try:
                    out = module(rows)
                except (RuntimeError, ValueError, TypeError, IndexError) as exc:
                    shape, kind = tuple(X.shape[1:]), type(module).__name__
                    wrong = f"{kind} cannot take rows of shape {shape}"
                    raise ValueError(f"{wrong}: {exc!s:.200}") from exc
                out = out[0] if isinstance(out, tuple) else out
                if last is not None:
                    out, link = _checked(module, entered, out)
                found.append(out.reshape(len(out), -1).cpu().numpy())
        return np.concatenate(found), link

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # it is that of the net
        return tags


def head_of(backbone: Backbone, start=0, width=None):
    """The last layer as a net of features, in which its own begin at ``start``."""
    import torch

    own, (_, last) = unwrap(backbone.net_), _parts(backbone.net_)
    head, n_in = deepcopy(last), last.in_features
    weight = last.weight.new_zeros(last.out_features, width or n_in)
    weight[:, start : start + n_in] = last.weight.detach()
    head.weight, head.in_features = torch.nn.Parameter(weight), weight.shape[1]
    # Around skorch's own pickling, as not every module can be pickled.
    net = object.__new__(type(own))
    layers = [head, *([] if backbone._link is None else [backbone._link])]
    vars(net).update(vars(own) | {"module_": torch.nn.Sequential(*layers)})
    net.is_head_ = True  # of features whose units say nothing
    return net


@contextmanager
def holding(estimator):
    """Meanwhile, the digest of layers of this classifier finds them."""
    backbone, own = Backbone(estimator), unwrap(estimator)
    if is_skorch(own) and is_fitted(own):
        _HELD.add(backbone)
    yield


def _held(digest: str):
    for own in list(_HELD):
        with suppress(ValueError):  # it does not end in a Linear layer
            if own.digest_ == digest:
                return own.net
    return None


def _parts(net) -> tuple:
    """The module of a net, and its last layer; None of a bare module."""
    from torch import nn

    own = unwrap(net)
    if isinstance(own, nn.Module):
        return own, None
    if not is_skorch(own) or not is_fitted(own):
        kind = type(own).__name__
        raise TypeError(f"Backbone takes a fitted net or a torch module, not {kind}.")
    module = module_of(own)
    last = last_layer(module)
    if not isinstance(last, nn.Linear):
        raise ValueError(f"{type(module).__name__} does not end in a Linear layer.")
    return module, last


def _digest(module, last) -> str:
    import torch

    weights, others = sha256(), sha256()
    for path, part in module.named_modules():
        if part is last or isinstance(part, torch.nn.Identity):
            continue
        if next(part.children(), None) is None:
            weights.update(f"{path} {part!r}".encode())
        tensors = [(weights, *p) for p in part.named_parameters(recurse=False)]
        tensors += [(others, *b) for b in part.named_buffers(recurse=False)]
        for digest, name, values in tensors:
            if name == "num_batches_tracked":  # it changes nothing
                continue
            digest.update(f"{path}.{name} {values.dtype} {values.shape}".encode())
            flat = values.detach().cpu().contiguous().flatten()
            digest.update(flat.view(torch.uint8).numpy())
    return f"{weights.hexdigest()[:32]}-{others.hexdigest()[:32]}"


@contextmanager
def _evaluated(module, last):
    """A list of what enters and leaves the last layer, all in evaluation mode."""
    import torch

    entered: list = []
    with _one_at_a_time, torch.no_grad():
        modes = [(part, part.training) for part in module.modules()]
        hook = last and last.register_forward_hook(lambda _, *own: entered.append(own))
        try:
            for part, _ in modes:
                part.training = False
            yield entered
        finally:
            for part, mode in modes:
                part.training = mode
            if hook:
                hook.remove()


def _checked(module, entered, out) -> tuple:
    from torch import nn

    kinds = (nn.Softmax(-1), nn.LogSoftmax(-1), nn.Sigmoid(), nn.LogSigmoid())
    if len(entered) == 1 and entered[0][1].ndim == 2:
        ((features,), logits) = entered[0]
        for link in (None, *kinds):
            own = logits if link is None else link(logits)
            same = out.numel() == own.numel()
            if same and out.reshape(own.shape).allclose(own, rtol=1e-4, atol=1e-6):
                return features, link
    raise ValueError(
        f"The outputs of {type(module).__name__} are not those of its last Linear "
        "layer, which at most a softmax or a sigmoid may follow."
    )
