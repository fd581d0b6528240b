"""skorch nets of any torch module; needs torch."""

from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from threading import RLock

import numpy as np
import torch
from skorch import NeuralNetBinaryClassifier
from skorch.callbacks import Callback, Checkpoint, LoadInitState, TrainEndCheckpoint
from torch import nn

from ..networks import (
    Layers,
    check_finite,
    count_outputs,
    final_step,
    output_labels,
    output_link,
    output_parameters,
    to_module,
    unwrap,
)
from ._classifiers import Description, indices_of
from ._model import LocalModel
from ._sklearn import lent

# Callbacks that read or write the whole module's weights in the node's own files.
_OF_FILES = (Checkpoint, LoadInitState, TrainEndCheckpoint)

# torch has one generator a process: threads take turns, so that results repeat.
_generator = RLock()


class SetRates(Callback):
    def __init__(self, rates):
        self.rates = iter(rates)

    def on_epoch_begin(self, net, **kwargs):
        rate = float(next(self.rates))
        for group in net.optimizer_.param_groups:
            group["lr"] = rate


@contextmanager
def kept_generators(net, rng=None):
    """Give torch's generators back as they were, after errors too; rng: seed them."""
    on_gpu = str(net.device).startswith("cuda")
    devices = range(torch.cuda.device_count()) if on_gpu else []
    with _generator, torch.random.fork_rng(devices=devices):
        if rng is not None:
            seed = rng.randint(2**31 - 1)
            # torch.manual_seed would seed those of GPUs too, which are not given back.
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                torch.cuda.manual_seed_all(seed)
        yield


def float_dtype(net) -> np.dtype:
    double = any(p.dtype == torch.float64 for p in net.module_.parameters())
    return np.dtype(np.float64 if double else np.float32)


def as_input(net, X, y=None):
    X = X.toarray() if hasattr(X, "toarray") else X
    X = np.ascontiguousarray(X, dtype=float_dtype(net))
    if y is None:
        return X
    binary = isinstance(net, NeuralNetBinaryClassifier)
    return X, np.asarray(y).astype(float_dtype(net) if binary else np.int64)


class SkorchModel(LocalModel):
    """A skorch net, which goes on by its own training loop."""

    layout = "module"

    @cached_property
    def description(self) -> Description:
        labels, seen = output_labels(self.own, name=self.name)
        return Description.of(self.estimator, labels, seen)

    @property
    def advice_on_labels(self) -> str:
        if isinstance(self.own, NeuralNetBinaryClassifier):
            return (
                "NeuralNetBinaryClassifier knows the labels 0 and 1 alone: give y so."
            )
        if getattr(self.own, "classes", None) is not None and len(self.own.classes):
            return ""
        return (
            "its skorch net numbers its outputs from 0, as the labels were numbered "
            "where it was fitted. Say which label each output stands for, "
            "net.set_params(classes=[...]), at each node whose numbers are its own."
        )

    @property
    def dtype(self) -> np.dtype:
        return float_dtype(self.own)

    @property
    def has_module(self) -> bool:
        return unwrap(self.estimator) is self.own

    @cached_property
    def is_chain(self) -> bool:
        try:
            self.network()
        except TypeError:
            return False
        return True

    def module_shapes(self) -> dict[str, tuple[int, ...]]:
        state = self.own.module_.state_dict().items()
        return {name: tuple(value.shape) for name, value in state}

    def check_finite(self) -> None:
        """See `LocalModel.check_finite`; of buffers NaN, and infinite statistics."""
        module = self.own.module_
        learned = {path for path, _ in module.named_parameters()}
        for path, values in module.state_dict().items():
            if not values.is_floating_point():
                continue
            if path not in learned and "running_" not in path:
                values = values[~torch.isinf(values)]  # a mask may be infinite
            if not torch.isfinite(values).all():
                values = values.detach().cpu().double().numpy()
                check_finite(values, name=self.name, array_name=f"{path} of the module")

    def _probabilities(self, X) -> np.ndarray:
        X = as_input(self.own, X)
        # An iterator over rows draws a seed, whether or not it shuffles.
        with kept_generators(self.own):
            proba = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        return proba.reshape(len(proba), -1)

    def _predictions(self, X) -> np.ndarray:
        with kept_generators(self.own):
            columns = self.estimator.predict(as_input(self.own, X))
        return self.description.classes[np.asarray(columns, dtype=np.intp).ravel()]

    def _copy(self):
        """A copy on the same device, with a fresh optimizer and no history."""
        fresh = object.__new__(type(self.own))
        # Around skorch's own pickling, which cannot copy modules of local classes.
        kept = {k: v for k, v in vars(self.own).items() if k != "optimizer_"}
        vars(fresh).update(deepcopy(kept | {"history_": None}))
        fresh.initialize_optimizer()
        fresh.initialize_history()
        return fresh

    def _read(self) -> list[np.ndarray]:
        state = self.own.module_.state_dict().values()
        return [tensor.detach().cpu().numpy().copy() for tensor in state]

    def _write(self, parameters) -> None:
        state = self.own.module_.state_dict()
        with torch.no_grad():
            for tensor, array in zip(state.values(), parameters, strict=True):
                tensor.copy_(torch.tensor(np.asarray(array)))

    def _train(self, X, y, epochs, rates, rng) -> None:
        net, (X, y) = self.own, as_input(self.own, X, y)
        callbacks = net.callbacks_
        if rates is not None:
            callbacks = [*callbacks, ("learning rates", SetRates(rates))]
        own = {"max_epochs": epochs, "callbacks_": callbacks}
        with lent(net, **own), kept_generators(net, rng):
            net.partial_fit(X, y)

    def _start(self, net, X, y, classes, rng):
        with kept_generators(net, rng):
            _initialise(net, X)
        columns = _columns_of(net, classes)
        if not isinstance(net, NeuralNetBinaryClassifier):
            net.classes_inferred_ = np.sort(columns)  # as its fit would
        return net

    def _widen(self, net, classes):
        return net

    def _class_axes(self) -> dict[int, int]:
        # The weights and biases of the module that have one row an output.
        ends = {id(parameter) for parameter in output_parameters(self.own)}
        state = self.own.module_.state_dict(keep_vars=True).values()
        return {i: 0 for i, tensor in enumerate(state) if id(tensor) in ends}

    def targets(self, classes):
        # The loss of a net takes the numbers of output columns.
        column = {c: i for i, c in enumerate(self.description.classes.tolist())}
        return np.array([column[label] for label in classes.tolist()])

    @property
    def learning_rate(self) -> float:
        return self.own.optimizer_.param_groups[0]["lr"]

    def carrying(self, layers: Layers) -> "SkorchModel":
        """See `LocalModel.carrying`; a module that `_fill` cannot fill is replaced."""
        net = self._copy()
        if isinstance(net, NeuralNetBinaryClassifier):
            layers = layers.contracted()
        layers = layers.astype(float_dtype(net))
        if not self._fill(net.module_, layers):
            net.module_ = to_module(layers, output=self._link).to(net.device)
            own = net.callbacks_
            net.callbacks_ = [one for one in own if not isinstance(one[1], _OF_FILES)]
        net.initialize_optimizer()
        return SkorchModel(net, self.name)

    @property
    def _link(self) -> str:
        """What the outputs go through, so that the loss sees what it has seen."""
        link = output_link(self.own, name=self.name)
        criterion = getattr(self.own.criterion_, "_orig_mod", self.own.criterion_)
        # The losses that skorch feeds with probabilities need them.
        fed = {nn.NLLLoss: "softmax", nn.BCELoss: "logistic"}
        words = (word for loss, word in fed.items() if isinstance(criterion, loss))
        return next(words, link) if link == "identity" else link

    def _fill(self, module, layers: Layers) -> bool:
        """Put layers into a module that has as many Linear layers; else False."""
        linear = [part for part in module.modules() if type(part) is nn.Linear]
        if len(linear) != len(layers.coefs) or not self.is_chain:
            return False
        own, current = self.layers(), self._read()
        expected = _in_torch(own.contracted() if layers.n_outputs == 1 else own)
        alike = [a.shape for a in current] == [b.shape for b in expected]
        if not (alike and all(map(np.allclose, current, expected))):
            return False
        arrays = iter(_in_torch(layers))
        for part in linear:
            for name in ("weight", "bias"):
                new = torch.tensor(next(arrays)).to(getattr(part, name))
                setattr(part, name, nn.Parameter(new))
            part.out_features, part.in_features = part.weight.shape
        return True


def _in_torch(layers: Layers) -> list[np.ndarray]:
    pairs = zip(layers.coefs, layers.intercepts, strict=True)
    return [array for W, b in pairs for array in (np.ascontiguousarray(W.T), b)]


def fit(estimator, X, y, classes, rng):
    net = final_step(estimator)
    with kept_generators(net, rng):
        # Twice, since a net is fitted from new weights: the first show its outputs.
        _initialise(net, X)
        columns = _columns_of(net, classes)[np.searchsorted(classes, y)]
        return estimator.fit(*as_input(net, X, columns))


def _initialise(net, X):
    net.initialize()
    if any(map(nn.parameter.is_lazy, net.module_.parameters())):
        net.forward(as_input(net, X[:1]))  # lazy layers learn their shapes


def _columns_of(net, classes):
    """Output of each label; names the outputs where labels are no numbers of them."""
    labels = np.asarray(classes).tolist()
    if isinstance(net, NeuralNetBinaryClassifier):
        if not {0, 1}.issuperset(labels):
            known = "NeuralNetBinaryClassifier knows the labels 0 and 1 only"
            raise ValueError(f"{known}, got {labels}. Encode them.")
        return np.array(labels, dtype=np.int64)
    n, names = count_outputs(net), getattr(net, "classes", None)
    if names is None or not len(names):
        if set(range(n)).issuperset(labels):
            return np.array(labels, dtype=np.int64)
        if len(labels) != n:
            raise ValueError(
                f"The module of {type(net).__name__} has {n} outputs, which cannot "
                f"stand for the {len(labels)} labels {labels}. Give one for each."
            )
        names = net.classes = labels
    found = indices_of(classes, names)
    if found.min() < 0:
        own = f"{type(net).__name__}, {np.asarray(names).tolist()}"
        missing = np.asarray(classes)[found < 0].tolist()
        raise ValueError(f"The classes of {own}, do not hold the labels {missing}.")
    return found
