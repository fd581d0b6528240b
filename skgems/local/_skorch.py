"""skorch nets of any torch module; needs torch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from threading import RLock

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from skorch import NeuralNet, NeuralNetBinaryClassifier
from skorch.callbacks import Callback, Checkpoint, LoadInitState, TrainEndCheckpoint
from torch import nn

from ..networks import (
    Layers,
    ModuleState,
    NamedRows,
    Network,
    check_finite,
    check_outputs_fit,
    check_state_fits,
    count_outputs,
    evaluated,
    final_step,
    is_skorch,
    keeps_nonlinearity,
    module_of,
    net_probabilities,
    output_labels,
    output_link,
    output_parameters,
    outputs_of_made_up_rows,
    row_dtype,
    sets_probabilities,
    to_module,
    unwrap,
    why_forwards_differ,
)
from ._classifiers import Description, Rows, indices_of
from ._model import LocalModel
from ._sklearn import lent_settings

# Callbacks that read or write the whole module's weights in the node's own files.
_CALLBACKS_WITH_FILES = (Checkpoint, LoadInitState, TrainEndCheckpoint)

# torch has one generator a process: threads take turns, so that results repeat.
_generator_lock = RLock()


class SetRates(Callback):
    """Sets the learning rate of each epoch."""

    def __init__(self, rates: np.ndarray) -> None:
        self.rates = iter(rates)

    def on_epoch_begin(self, net: NeuralNet, **kwargs: object) -> None:
        rate = float(next(self.rates))
        for group in net.optimizer_.param_groups:
            group["lr"] = rate


@contextmanager
def kept_generators(
    net: NeuralNet, rng: np.random.RandomState | None = None
) -> Iterator[None]:
    """Give torch's generators back as they were, after errors too; rng: seed them."""
    on_gpu = str(net.device).startswith("cuda")
    devices = range(torch.cuda.device_count()) if on_gpu else []
    with _generator_lock, torch.random.fork_rng(devices=devices):
        if rng is not None:
            seed = rng.randint(2**31 - 1)
            # torch.manual_seed would seed those of GPUs too, which are not given back.
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                torch.cuda.manual_seed_all(seed)
        yield


def device_here(net: NeuralNet) -> str:
    """Return the net's device, and the processor for a GPU that this machine lacks."""
    is_missing = str(net.device).startswith("cuda") and not torch.cuda.is_available()
    return "cpu" if is_missing else net.device


def float_dtype(net: NeuralNet) -> np.dtype:
    """float64 if any parameter of the module is double, else float32."""
    is_double = any(p.dtype == torch.float64 for p in net.module_.parameters())
    return np.dtype(np.float64 if is_double else np.float32)


def as_input(net: NeuralNet, X: Rows | NamedRows) -> np.ndarray | dict[str, np.ndarray]:
    """Rows as the module takes them: dense, and in its dtype, or as integers of ids."""
    module = module_of(net)
    if isinstance(X, NamedRows):
        is_id = {name: array.dtype.kind in "iu" for name, array in X.arrays.items()}
        dtype = row_dtype(module, np.zeros((0, 1)))
        return {
            name: array.astype(np.int64 if is_id[name] else dtype)
            for name, array in X.arrays.items()
        }
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return np.ascontiguousarray(X, dtype=row_dtype(module, X))


def as_targets(net: NeuralNet, columns: ArrayLike) -> np.ndarray:
    """Output columns of rows in the dtype that the loss takes."""
    is_binary = isinstance(net, NeuralNetBinaryClassifier)
    if not is_binary:
        return np.asarray(columns).astype(np.int64)
    dtype = row_dtype(module_of(net), np.zeros((0, 1)))
    return np.asarray(columns).astype(dtype)


def _unpickled(
    model_type: type["SkorchModel"], net_type: type, attributes: dict, name: str
) -> "SkorchModel":
    net = object.__new__(net_type)
    vars(net).update(attributes)
    return model_type(net, name)


def _detached_tensors(module: nn.Module) -> dict[int, torch.Tensor]:
    """Return copies, by id, of tensors that know what they were computed from.

    deepcopy refuses such tensors. Hooks that compute weights leave them as attributes.
    """
    return {
        id(tensor): tensor.detach().clone()
        for part in module.modules()
        for tensor in vars(part).values()
        if isinstance(tensor, torch.Tensor) and not tensor.is_leaf
    }


class SkorchModel(LocalModel):
    """A skorch net, which goes on by its own training loop."""

    layout = "module"
    may_lose_settings = True

    def __reduce__(self) -> tuple:
        if is_skorch(self.estimator):
            # Around skorch's own pickling, which cannot pickle local classes.
            state = (type(self.estimator), vars(self.estimator))
            return _unpickled, (type(self), *state, self.name)
        return super().__reduce__()

    @cached_property
    def description(self) -> Description:
        labels, seen = output_labels(self.classifier, name=self.name)
        return Description.from_classifier(self.estimator, labels, seen)

    @property
    def advice_on_labels(self) -> str:
        net = self.classifier
        if isinstance(net, NeuralNetBinaryClassifier):
            return (
                "NeuralNetBinaryClassifier knows the labels 0 and 1 only. Encode y as "
                "0 and 1."
            )
        if getattr(net, "classes", None) is not None and len(net.classes):
            return ""
        return (
            "its skorch net numbers its outputs from 0, as the labels were numbered "
            "where it was fitted. Set the label of each output, "
            "net.set_params(classes=[...]), at each node that numbers its labels in "
            "its own way."
        )

    def lost_setting(self, *, merged: bool) -> str | None:
        """See `LocalModel.lost_setting`: a threshold, or a function of outputs."""
        net = self.classifier
        threshold = getattr(net, "threshold", None)
        if threshold not in (None, 0.5):
            return (
                f"threshold={threshold} of its net is not kept, as an aggregate "
                "predicts the most probable class. Compare predict_proba(X)[:, 1] of "
                "the aggregate with the threshold."
            )
        if merged and not keeps_nonlinearity(net) and self.is_chain:
            return (
                "predict_nonlinearity of its net is not kept where its layers are "
                "merged or averaged, as it is neither a softmax nor a sigmoid of "
                "logits with a temperature. EnsembleAggregator keeps it."
            )
        return None

    @property
    def dtype(self) -> np.dtype:
        return float_dtype(self.classifier)

    @property
    def has_module(self) -> bool:
        """Report whether rows enter the net as they are, with no pipeline before it."""
        return unwrap(self.estimator) is self.classifier

    @cached_property
    def is_chain(self) -> bool:
        try:
            self.borrow_network()
        except TypeError:
            return False
        return True

    @cached_property
    def described(self) -> Network | ModuleState:
        if self.is_chain or not self.has_module:
            return self.network
        self.check_finite()
        description = self.description
        return ModuleState(
            names=list(self.module_shapes()),
            arrays=self.parameters(),
            outputs=outputs_of_made_up_rows(module_of(self.classifier)),
            classes=description.classes,
            seen=description.seen,
        )

    def module_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter and buffer of the module, by its path."""
        state = self.classifier.module_.state_dict().items()
        return {path: tuple(tensor.shape) for path, tensor in state}

    def why_forward_differs(
        self, other: "SkorchModel", X: Rows | None = None
    ) -> str | None:
        """Say what another net does otherwise with the same weights; None if nothing.

        ``X`` are rows for modules that no made-up rows fit.
        """
        X = None if X is None else as_input(self.classifier, X)
        return why_forwards_differ(self.classifier, other.classifier, X)

    def check_finite(self, path: str = "") -> None:
        """See `LocalModel.check_finite`; of buffers NaN, and infinite statistics."""
        module = self.classifier.module_
        parameter_paths = {path for path, _ in module.named_parameters()}
        for tensor_path, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                continue
            is_learned = tensor_path in parameter_paths or "running_" in tensor_path
            if not is_learned:
                tensor = tensor[~torch.isinf(tensor)]  # a mask may be infinite
            if not torch.isfinite(tensor).all():
                check_finite(
                    tensor.detach().cpu().double().numpy(),
                    name=self.name,
                    array_name=f"{tensor_path} of the module",
                )

    def _probabilities(self, X: Rows) -> np.ndarray:
        net = self.classifier
        X = as_input(net, X)
        # Else what the module returns is read: a loss that skorch does not know, or a
        # softmax at the end of the module, make its own predict_proba something else.
        settings = {"device": device_here(net)}
        if not sets_probabilities(net):
            settings["predict_nonlinearity"] = None
        # An iterator over rows draws a seed, whether or not it shuffles.
        # skorch leaves the module in evaluation mode.
        with (
            evaluated(net.module_),
            kept_generators(net),
            lent_settings(net, settings),
        ):
            outputs = np.asarray(self.estimator.predict_proba(X))
        return net_probabilities(net, outputs, name=self.name)

    def _predictions(self, X: Rows) -> np.ndarray:
        net = self.classifier
        if isinstance(net, NeuralNetBinaryClassifier):
            columns = self._probabilities(X)[:, 1] > net.threshold
        else:
            settings = {"device": device_here(net)}
            with (
                evaluated(net.module_),
                kept_generators(net),
                lent_settings(net, settings),
            ):
                columns = self.estimator.predict(as_input(net, X))
        return self.description.classes[np.asarray(columns, dtype=np.intp).ravel()]

    def _copy(self) -> NeuralNet:
        """A copy on the same device, with a fresh optimizer and no history."""
        net = object.__new__(type(self.classifier))
        # Around skorch's own pickling, which cannot copy modules of local classes.
        attributes = dict(vars(self.classifier))
        attributes.pop("optimizer_", None)
        attributes["history_"] = None
        attributes["device"] = device_here(self.classifier)
        vars(net).update(
            deepcopy(attributes, _detached_tensors(self.classifier.module_))
        )
        net.initialize_optimizer()
        net.initialize_history()
        return net

    def _read(self) -> list[np.ndarray]:
        state = self.classifier.module_.state_dict().values()
        return [_as_array(tensor) for tensor in state]

    def _write(self, parameters: Sequence[np.ndarray]) -> None:
        state = self.classifier.module_.state_dict()
        with torch.no_grad():
            for tensor, array in zip(state.values(), parameters, strict=True):
                tensor.copy_(torch.tensor(np.asarray(array)))

    def _train(
        self,
        X: Rows,
        y: np.ndarray,
        *,
        epochs: int,
        rates: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> None:
        net = self.classifier
        X = as_input(net, X)
        targets = as_targets(net, y)
        callbacks = net.callbacks_
        if rates is not None:
            callbacks = [*callbacks, ("learning rates", SetRates(rates))]
        settings = {"max_epochs": epochs, "callbacks_": callbacks}
        with lent_settings(net, settings), kept_generators(net, rng):
            net.partial_fit(X, targets)

    def _start(
        self,
        classifier: NeuralNet,
        X: Rows,
        y: np.ndarray,
        *,
        classes: np.ndarray,
        rng: np.random.RandomState,
    ) -> NeuralNet:
        with kept_generators(classifier, rng):
            _initialise(classifier, X)
        columns = _name_outputs(classifier, classes)
        if not isinstance(classifier, NeuralNetBinaryClassifier):
            classifier.classes_inferred_ = np.sort(columns)  # as its fit would
        return classifier

    def _widen(self, classifier: NeuralNet, classes: np.ndarray) -> NeuralNet:
        # A module has the outputs that it has.
        return classifier

    def _class_axes(self) -> dict[int, int]:
        # The weights and biases of the module that have one row an output.
        parameters = output_parameters(self.classifier, name=self.name)
        output_ids = {id(parameter) for parameter in parameters}
        state = self.classifier.module_.state_dict(keep_vars=True).values()
        return {i: 0 for i, tensor in enumerate(state) if id(tensor) in output_ids}

    def buffers(self) -> frozenset[int]:
        # Counters, of integers, go on by what each node adds to them.
        module = self.classifier.module_
        learnt = {path for path, _ in module.named_parameters(remove_duplicate=False)}
        return frozenset(
            i
            for i, (path, tensor) in enumerate(module.state_dict().items())
            if path not in learnt and tensor.is_floating_point()
        )

    def targets(self, classes: np.ndarray) -> np.ndarray:
        # The loss of a net takes the numbers of output columns.
        own_classes = self.description.classes.tolist()
        column_of_label = {label: k for k, label in enumerate(own_classes)}
        return np.array([column_of_label[label] for label in classes.tolist()])

    @property
    def learning_rate(self) -> float:
        return self.classifier.optimizer_.param_groups[0]["lr"]

    def carrying(self, layers: Layers) -> "SkorchModel":
        """See `LocalModel.carrying`; a module that cannot be filled is replaced."""
        net = self._copy()
        if isinstance(net, NeuralNetBinaryClassifier):
            layers = layers.contracted()
        layers = layers.astype(float_dtype(net))
        linear_layers = self._linear_layers(net.module_, layers)
        if linear_layers:
            _fill(linear_layers, layers)
        else:
            net.module_ = to_module(layers, output=self._link).to(net.device)
            net.callbacks_ = [
                (name, callback)
                for name, callback in net.callbacks_
                if not isinstance(callback, _CALLBACKS_WITH_FILES)
            ]
        net.initialize_optimizer()
        return SkorchModel(net, self.name)

    @property
    def _link(self) -> str:
        """Name the function of outputs that gives the loss its usual inputs."""
        link = output_link(self.classifier, name=self.name)
        if link != "identity":
            return link
        criterion = self.classifier.criterion_
        criterion = getattr(criterion, "_orig_mod", criterion)  # of torch.compile
        # skorch feeds these losses with probabilities.
        if isinstance(criterion, nn.NLLLoss):
            return "softmax"
        if isinstance(criterion, nn.BCELoss):
            return "logistic"
        return link

    def _linear_layers(self, module: nn.Module, layers: Layers) -> list[nn.Linear]:
        """The Linear layers of a copy of the net's module, for others in their place.

        The list is empty where others cannot be put there: where they are more or
        fewer, or where the parameters of the module are not just those of the layers
        that the net is read as, one after the other.
        """
        linear_layers = [part for part in module.modules() if type(part) is nn.Linear]
        if len(linear_layers) != len(layers.coefs) or not self.is_chain:
            return []
        own_layers = self.layers()
        if layers.n_outputs == 1:
            own_layers = own_layers.contracted()
        expected = _in_torch_order(own_layers)
        current = self._read()
        if [a.shape for a in current] != [b.shape for b in expected]:
            return []
        return linear_layers if all(map(np.allclose, current, expected)) else []


def _as_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a copy on the processor; of bfloat16, which NumPy lacks, in float32."""
    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return tensor.detach().cpu().numpy().copy()


def _fill(linear_layers: Sequence[nn.Linear], layers: Layers) -> None:
    """Put weights and biases into modules, whose shapes may have been others."""
    arrays = iter(_in_torch_order(layers))
    for linear in linear_layers:
        for name in ("weight", "bias"):
            # On the device, and in the dtype, of what it replaces.
            tensor = torch.tensor(next(arrays)).to(getattr(linear, name))
            setattr(linear, name, nn.Parameter(tensor))
        linear.out_features, linear.in_features = linear.weight.shape


def _in_torch_order(layers: Layers) -> list[np.ndarray]:
    """Weights (n_outputs, n_inputs) and biases of each layer, as in a state_dict."""
    pairs = zip(layers.coefs, layers.intercepts, strict=True)
    return [array for W, b in pairs for array in (np.ascontiguousarray(W.T), b)]


def fit_net(
    estimator: object,
    X: Rows,
    y: np.ndarray,
    *,
    classes: np.ndarray,
    rng: np.random.RandomState,
) -> object:
    """Fit a net, in any wrappers and pipelines, to labels among sorted classes."""
    net = final_step(estimator)
    with kept_generators(net, rng):
        # Initialized twice, since fit does it too: now to see how many outputs it has.
        _initialise(net, X)
        columns = _name_outputs(net, classes)[np.searchsorted(classes, y)]
        return estimator.fit(as_input(net, X), as_targets(net, columns))


def _initialise(net: NeuralNet, X: Rows) -> None:
    net.initialize()
    if any(map(nn.parameter.is_lazy, net.module_.parameters())):
        net.forward(as_input(net, X[:1]))  # lazy layers learn their shapes


def _name_outputs(net: NeuralNet, classes: np.ndarray) -> np.ndarray:
    """Return the output of each label, (n_classes,).

    Where labels are no numbers of outputs, and the net does not say what its outputs
    stand for, these are given the labels as names, in order.
    """
    labels = np.asarray(classes).tolist()
    if isinstance(net, NeuralNetBinaryClassifier):
        if not {0, 1}.issuperset(labels):
            raise ValueError(
                "NeuralNetBinaryClassifier knows the labels 0 and 1 only, got "
                f"{labels}. Encode them."
            )
        return np.array(labels, dtype=np.int64)
    output_names = getattr(net, "classes", None)
    if output_names is None or not len(output_names):
        n_outputs = count_outputs(net)
        if set(range(n_outputs)).issuperset(labels):
            return np.array(labels, dtype=np.int64)
        if len(labels) != n_outputs:
            raise ValueError(
                f"The module of {type(net).__name__} has {n_outputs} outputs, which "
                f"cannot stand for the {len(labels)} labels {labels}. Give one for "
                "each."
            )
        net.classes = labels
        output_names = labels
    columns = indices_of(classes, output_names)
    if columns.min() < 0:
        missing = np.asarray(classes)[columns < 0].tolist()
        raise ValueError(
            f"The classes of {type(net).__name__}, "
            f"{np.asarray(output_names).tolist()}, do not hold the labels {missing}."
        )
    return columns


def net_of_state(template: object, state: ModuleState, *, name: str) -> NeuralNet:
    """Return a net with a node's numbers, of the module of a fitted or unfitted net.

    ValueError, which names the node, where they are not those of such a module.
    """
    net = final_step(template)
    if hasattr(net, "module_"):
        net = SkorchModel(net, name)._copy()
    else:
        net = clone(net).set_params(device=device_here(net))
        with kept_generators(net):
            net.initialize()
    module = module_of(net)
    if any(map(nn.parameter.is_lazy, module.parameters())):
        raise ValueError(
            f"The module of the net for the summary of node {name!r} has lazy layers, "
            "whose shapes are not known. Give all layers their shapes."
        )
    check_state_fits(module, state, name=name)
    model = SkorchModel(net, name)
    by_name = dict(zip(state.names, state.arrays, strict=True))
    model._write([by_name[path] for path in model.module_shapes()])
    check_outputs_fit(module, state, name=name)
    labels = state.classes.tolist()
    if not isinstance(net, NeuralNetBinaryClassifier):
        net.classes = labels
    net.classes_inferred_ = np.flatnonzero(state.seen)
    model = SkorchModel(net, name)
    if model.description.classes.tolist() != labels:
        raise ValueError(
            f"Node {name!r}: its summary has the labels {labels!s:.200}, but the net "
            f"in estimators has {model.description.classes.tolist()!s:.200}. Give the "
            "net of the node's kind."
        )
    return net
