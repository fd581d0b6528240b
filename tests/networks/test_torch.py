# SPDX-License-Identifier: BSD-3-Clause
"""skorch nets are read from a trace of their module, which is left as it was."""

from __future__ import annotations

import operator
import re
import sys
import threading

import numpy as np
import pytest
from helpers.torch_modules import (
    CHAINS,
    Absolute,
    Branching,
    C,
    Called,
    D,
    Listed,
    Residual,
    sequential,
)
from scipy.special import expit, softmax
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skgems.networks import Layers, is_fitted, read_network, to_module

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")
nn = torch.nn
F = torch.nn.functional


class CrossEntropy(nn.CrossEntropyLoss):
    """The cross-entropy of the first output, where a module has several."""

    def forward(self, output, target):
        first = output[0] if isinstance(output, tuple) else output
        return super().forward(first, target)


def rows(dtype=np.float32):
    """Sixty rows and their labels, which are drawn at random."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, D)) * 2 + 1
    return X.astype(dtype), rng.randint(0, C, 60)


def trained(module, y=None, *, kind=skorch.NeuralNetClassifier, **parameters):
    """A net of a module, or of a class of such, fitted to the rows for three epochs."""
    torch.manual_seed(0)
    module = module if isinstance(module, nn.Module) else module()
    if kind is skorch.NeuralNetClassifier:
        parameters.setdefault("criterion", CrossEntropy)
    net = kind(module, max_epochs=3, lr=0.1, verbose=0, train_split=None, **parameters)
    X, labels = rows(next(p.detach().numpy().dtype for p in module.parameters()))
    return net.fit(X, labels if y is None else y)


def raw_output(net, X):
    """What the module's forward returns for rows, before any link."""
    output = net.forward(X)
    return (output[0] if isinstance(output, tuple) else output).numpy()


def assert_network_says_what_the_net_says(net, X, *, rtol=1e-4, atol=1e-5):
    """Logits are the raw output of a net without a link; bounds are for float32."""
    np.testing.assert_allclose(
        read_network(net).decision_function(X), raw_output(net, X), rtol=rtol, atol=atol
    )


# How a module's output follows from logits, where it ends with a link.
LINKS_AT_THE_END = {
    "nested": lambda logits: softmax(logits, axis=1),
    "sigmoids": expit,
    "product": lambda logits: np.log(softmax(logits, axis=1)),
}


# Bounds of what rounding makes of logits.
RTOL = {np.float32: 1e-4, np.float64: 1e-9}
ATOL = {np.float32: 1e-5, np.float64: 1e-9}


@pytest.mark.parametrize(
    ("kind", "dtype"),
    # The forward of "methods" casts to float32.
    [(kind, np.float32) for kind in CHAINS]
    + [(kind, np.float64) for kind in CHAINS if kind != "methods"],
)
def test_modules_are_read_as_layers_that_say_the_same(kind, dtype):
    build, n_hidden = CHAINS[kind]
    torch.manual_seed(1)
    net = trained(build().double() if dtype is np.float64 else build())
    X, _ = rows(dtype)
    network = read_network(net)
    assert network.n_hidden_layers == n_hidden
    assert network.classes.tolist() == [0, 1, 2]
    assert network.n_features_in == D
    assert {a.dtype for a in (*network.coefs, *network.intercepts)} == {np.dtype(dtype)}
    logits = network.decision_function(X)
    link = LINKS_AT_THE_END.get(kind, lambda logits: logits)
    np.testing.assert_allclose(
        link(logits), raw_output(net, X), rtol=RTOL[dtype], atol=ATOL[dtype]
    )


def state(net):
    """All that reading might change: weights, modes, and attributes of each module."""
    modules = list(net.module_.modules())
    weights = {k: v.numpy().tobytes() for k, v in net.module_.state_dict().items()}
    is_training = [module.training for module in modules]
    attributes = [list(vars(module)) for module in modules]
    return weights, is_training, attributes


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", CHAINS)
def test_the_module_is_left_as_it_was(kind, training):
    net = trained(CHAINS[kind][0])
    net.module_.train(training)
    if hasattr(net.module_, "layers"):
        net.module_.layers[0].training = not training
    before = state(net)
    network = read_network(net)
    assert state(net) == before
    for array in (*network.coefs, *network.intercepts):
        array[:] = 7.0  # a copy
    assert state(net) == before


def test_a_module_that_cannot_be_read_is_left_as_it_was():
    for module in (
        Residual,
        Branching,
        lambda: nn.Sequential(nn.Linear(D, C), Absolute()),
    ):
        net = trained(module)
        net.module_.train()
        before = state(net)
        with pytest.raises(TypeError):
            read_network(net)
        assert state(net) == before


class Interrupted(nn.Module):
    """A linear layer that calls a function, if it has one, in each forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, C)
        self.functions = []  # a list, so that torch takes it for no parameter

    def forward(self, x):
        for function in self.functions:
            function()
        return self.linear(x)


def test_modules_of_other_threads_run_while_one_is_traced():
    other = Interrupted()
    X = torch.ones(1, D)
    expected = other(X)
    outputs = []

    def run_other_in_a_thread():
        thread = threading.Thread(target=lambda: outputs.append(other(X)))
        thread.start()
        thread.join()

    net = trained(Interrupted)
    weight = net.module_.linear.weight.detach().numpy()
    net.module_.functions.append(run_other_in_a_thread)
    np.testing.assert_array_equal(read_network(net).coefs[0], weight.T)
    assert outputs  # of the trace, and of the run that checks what was read
    assert all(torch.equal(output, expected) for output in outputs)


def test_two_threads_trace_and_leave_torch_as_it_was():
    call_before = nn.Module.__call__
    second_has_begun = threading.Event()
    first_is_done = threading.Event()
    first = trained(Interrupted)
    second = trained(Interrupted)

    # If both traced at once, the second would begin within the first's trace and end
    # after it, and so put back what the first had put in place. Waits are in seconds.
    def wait_for_second():
        second_has_begun.wait(0.3)

    def begin_and_wait_for_first():
        second_has_begun.set()
        first_is_done.wait(5)

    def read_first():
        read_network(first)
        first_is_done.set()

    first.module_.functions.append(wait_for_second)
    second.module_.functions.append(begin_and_wait_for_first)
    threads = [
        threading.Thread(target=read_first),
        threading.Thread(target=lambda: read_network(second)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first_is_done.is_set()
    assert nn.Module.__call__ is call_before


@pytest.mark.parametrize(
    ("last", "criterion", "link"),
    [
        (nn.Identity(), nn.CrossEntropyLoss, "softmax"),
        (nn.Softmax(-1), nn.NLLLoss, "softmax"),
        (nn.LogSoftmax(1), nn.CrossEntropyLoss, "softmax"),
        (nn.Sigmoid(), nn.NLLLoss, "logistic"),
        (nn.LogSigmoid(), nn.CrossEntropyLoss, "logistic"),
        (nn.Identity(), nn.MultiMarginLoss, "identity"),
    ],
)
def test_the_link_follows_from_the_last_module_and_the_criterion(last, criterion, link):
    net = trained(nn.Sequential(nn.Linear(D, C), last), criterion=criterion)
    assert read_network(net).output == link


class Squeezed(nn.Module):
    """A network of one output, whose column of outputs becomes a vector in some way."""

    def __init__(self, squeeze, sigmoid=False):
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, 1))
        self.squeeze = squeeze
        self.sigmoid = sigmoid

    def forward(self, x):
        x = self.parts(x)
        return self.squeeze(torch.sigmoid(x) if self.sigmoid else x)


@pytest.mark.parametrize(
    "squeeze",
    [
        lambda x: x,
        lambda x: x.squeeze(),
        lambda x: x.squeeze(-1),
        lambda x: torch.squeeze(x, dim=1),
        lambda x: x.flatten(),
        lambda x: x.view(-1),
        lambda x: x.reshape(x.size(0)),
        lambda x: x[:, 0],
    ],
)
@pytest.mark.parametrize("sigmoid", [False, True])
def test_a_net_of_one_output_is_read_however_it_makes_a_vector(squeeze, sigmoid):
    X, y = rows()
    criterion = nn.BCELoss if sigmoid else nn.BCEWithLogitsLoss
    net = trained(
        Squeezed(squeeze, sigmoid),
        y=(y > 0).astype(np.float32),
        kind=skorch.NeuralNetBinaryClassifier,
        criterion=criterion,
    )
    network = read_network(net)
    assert network.output == "logistic"
    assert network.classes.tolist() == [0, 1]
    assert network.seen.tolist() == [True, True]
    logits = network.decision_function(X)
    np.testing.assert_allclose(
        expit(logits[:, 1] - logits[:, 0]), net.predict_proba(X)[:, 1], rtol=1e-4
    )
    np.testing.assert_allclose(logits[:, 0], -logits[:, 1])


def test_numbers_of_outputs_that_do_not_fit_are_errors():
    one = skorch.NeuralNetClassifier(nn.Linear(D, 1)).initialize()
    with pytest.raises(ValueError, match="Node 'a'.*one output.*BinaryClassifier"):
        read_network(one, name="a")
    two = skorch.NeuralNetBinaryClassifier(nn.Linear(D, 2)).initialize()
    with pytest.raises(ValueError, match="Node 'a'.*must have one output, it has 2"):
        read_network(two, name="a")
    for classes in ([3, 4], [3, 4, 4]):
        net = skorch.NeuralNetClassifier(nn.Linear(D, 3), classes=classes)
        with pytest.raises(ValueError, match="Node 'a': the net has 3 outputs"):
            read_network(net.initialize(), name="a")


def test_outputs_that_were_never_trained_are_not_seen():
    _, y = rows()
    network = read_network(trained(nn.Linear(D, 10), y=np.where(y > 0, 3, 4)))
    assert network.classes.tolist() == list(range(10))
    assert np.flatnonzero(network.seen).tolist() == [3, 4]


def test_classes_of_a_net_name_the_columns():
    _, y = rows()
    labels = ["ant", "bee", "cow"]
    net = trained(nn.Linear(D, 3), y=np.where(y > 0, 2, 0), classes=labels)
    network = read_network(net)
    assert network.classes.tolist() == labels
    assert network.seen.tolist() == [True, False, True]
    # A data set of the user's own may encode labels, so that the net has seen them.
    net.classes_inferred_ = np.array(["bee", "cow"])
    assert read_network(net).seen.tolist() == [False, True, True]
    net.classes_inferred_ = np.array([0, 9])
    with pytest.raises(ValueError, match=r"fitted on the labels \[0, 9\]"):
        read_network(net)


def test_a_net_that_is_initialized_is_fitted():
    net = skorch.NeuralNetClassifier(nn.Linear(D, 3))
    assert is_classifier(net)
    assert is_fitted(net) is False
    with pytest.raises(NotFittedError, match="Node 'a': this NeuralNetClassifier"):
        read_network(net, name="a")
    net.initialize()
    assert is_fitted(net) is True


@pytest.mark.parametrize("travels_by", ["load_params", "load_state_dict"])
def test_a_net_whose_weights_were_loaded_is_asked_for_its_classes(travels_by, tmp_path):
    _, y = rows()
    net = trained(Listed, y=np.where(y > 0, 2, 0))
    expected = read_network(net)
    assert expected.seen.tolist() == [True, False, True]
    loaded = skorch.NeuralNetClassifier(Listed).initialize()
    if travels_by == "load_params":
        net.save_params(f_params=tmp_path / "weights")
        loaded.load_params(f_params=tmp_path / "weights")
    else:
        loaded.module_.load_state_dict(net.module_.state_dict())
    with pytest.raises(
        ValueError, match=r"Node 'lyon': .*which classes.*set_params\(classes="
    ):
        read_network(loaded, name="lyon")
    loaded.set_params(classes=[0, 1, 2])
    assert read_network(loaded).seen.all()
    loaded.classes_inferred_ = np.array([0, 2])
    network = read_network(loaded)
    assert network.seen.tolist() == expected.seen.tolist()
    np.testing.assert_array_equal(network.coefs[0], expected.coefs[0])


def unfitted_net():
    return skorch.NeuralNetClassifier(
        Listed, max_epochs=2, verbose=0, criterion=nn.CrossEntropyLoss
    )


def test_nets_in_pipelines_are_read_also_frozen():
    X, y = rows()
    net = unfitted_net()
    pipeline = make_pipeline(StandardScaler(), net).fit(X, y)
    for estimator in (pipeline, FrozenEstimator(pipeline)):
        np.testing.assert_allclose(
            read_network(estimator).decision_function(X),
            raw_output(net, pipeline[0].transform(X)),
            rtol=1e-4,
            atol=1e-5,
        )


def test_a_step_that_casts_rows_to_float32_is_folded():
    X, y = rows()
    net = unfitted_net()
    cast = FunctionTransformer(lambda X: X.astype(np.float32))
    pipeline = make_pipeline(StandardScaler(), cast, net).fit(X.astype(float), y)
    network = read_network(pipeline)
    np.testing.assert_allclose(
        network.decision_function(X),
        raw_output(net, pipeline[:-1].transform(X.astype(float))),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Residual(), "operation 'add' in Residual.forward .*two branches"),
        (nn.Sequential(nn.Sequential(Residual())), r"'add' .*\(module '0.0'\)"),
        (Branching(), "forward of Branching cannot be traced .*TraceError"),
        (sequential(nn.LayerNorm(4)), r"LayerNorm \(module '1'\)"),
        (sequential(nn.GELU()), r"GELU \(module '1'\)"),
        (sequential(nn.ReLU6()), r"ReLU6 \(module '1'\)"),
        (sequential(nn.PReLU()), r"PReLU \(module '1'\)"),
        (sequential(nn.Softmax(1)), r"Linear \(module '2'\).*after the softmax"),
        (sequential(nn.BatchNorm1d(4, track_running_stats=False)), "BatchNorm1d"),
        (nn.Sequential(nn.Linear(D, C), nn.Softmax(0)), "Softmax"),
        (
            nn.Sequential(nn.Linear(D, C), nn.Softmax(1), nn.Softmax(1)),
            r"Softmax \(module '2'\).*after the softmax",
        ),
        (nn.Sequential(nn.Linear(D, C), nn.ReLU()), "ends with relu"),
        (nn.Sequential(nn.ReLU(), nn.Linear(D, C)), r"ReLU \(module '0'\)"),
        (nn.Sequential(nn.Unflatten(1, (1, D)), nn.Conv1d(1, C, D)), "Unflatten"),
        (nn.BatchNorm1d(D), "has no Linear"),
        (Called(F.leaky_relu), "operation 'leaky_relu' in Called.forward"),
        (Called(lambda x: x.clamp(0)), "method 'clamp' in Called.forward"),
        (Called(lambda x: x * x), "operation 'mul'"),
        (Called(lambda x: x**2), "operation 'pow'"),
        (Called(lambda x: x - x.mean(1, keepdim=True)), "method 'mean'"),
        (Called(lambda x: 1 / (1 + x)), "operation 'truediv'"),
        (Called(lambda x: x.long().float()), "method 'long'"),
        (Called(lambda x: x.to(torch.int32).float()), "method 'to'"),
        (Called(lambda x: x[:, :2], nn.Linear(2, C)), "operation 'getitem'"),
        (Called(lambda x: x.view(-1, 2), nn.Linear(2, C)), "method 'view'"),
        (Called(lambda x: x.T, nn.Linear(4, C)), "attribute 'T'"),
        (Called(lambda x: torch.cat([x, x], 1), nn.Linear(8, C)), "operation 'cat'"),
        (Called(lambda x: torch.add(x, 1.0, alpha=2)), "operation 'add'"),
        (Called(lambda x: torch.softmax(input=x, dim=1)), "operation 'softmax'"),
        (Called(lambda x: torch.add(input=x, other=1.0)), "operation 'add'"),
        (Called(lambda x: (F.relu(x, inplace=True), x)[1]), "'relu'.*in place"),
        (Called(lambda x: (F.relu(x, True), x)[1]), "'relu'.*in place"),
        (Called(lambda x: (x.relu_(), x)[1]), "'relu_'.*in place"),
        (Called(lambda x: (operator.iadd(x, 1), x)[1]), "'iadd'.*in place"),
        (Called(lambda x: (torch.sigmoid_(x), x)[1]), "'sigmoid_'.*in place"),
    ],
    ids=lambda value: (
        type(value).__name__ if isinstance(value, nn.Module) else value[:20]
    ),
)
def test_operations_that_cannot_be_read_are_named(module, message):
    net = skorch.NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss)
    with pytest.raises(TypeError, match=f"^Node 'ward': .*{message}"):
        read_network(net.initialize(), name="ward")


class StoringAnAttribute(nn.Module):
    """Stores a value of its forward, and works in place where that does no harm."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(D, 4)
        self.last = nn.Linear(4, C)
        self.activation = nn.ReLU(inplace=True)
        self.hidden = None

    def forward(self, x):
        self.hidden = self.first(x)
        x = self.activation(self.hidden)
        x += 1
        return self.last(F.relu(x.mul_(2), inplace=True))


def test_attributes_that_a_forward_sets_are_put_back():
    net = skorch.NeuralNetClassifier(StoringAnAttribute, classes=range(C)).initialize()
    X, _ = rows()
    output = raw_output(net, X)
    hidden = net.module_.hidden
    logits = read_network(net).decision_function(X)
    assert net.module_.hidden is hidden
    np.testing.assert_allclose(logits, output, rtol=1e-4, atol=1e-5)


def test_operations_that_the_first_output_does_not_use_are_ignored():
    class Auxiliary(Residual):
        def forward(self, x):
            hidden = F.relu(self.inner(x))
            return self.last(hidden), hidden.pow(2) + x

    X, _ = rows()
    assert_network_says_what_the_net_says(trained(Auxiliary), X)


@pytest.mark.parametrize("key", ["layers.1.weight", "layers.2.bias"])
def test_weights_that_are_not_finite_are_named(key):
    net = trained(Listed)
    with torch.no_grad():
        net.module_.get_parameter(key)[0] = float("nan")
    message = f"Node 'ward': {re.escape(key)} of the module"
    with pytest.raises(ValueError, match=message):
        read_network(net, name="ward")


def test_half_precision_becomes_float32():
    net = trained(Listed)
    net.module_.to(torch.bfloat16)
    assert read_network(net).coefs[0].dtype == np.float32


def test_the_error_about_a_module_without_skorch_says_to_wrap_it():
    for function in (read_network, is_fitted):
        with pytest.raises(TypeError, match="Node 'ward': Listed .* Wrap it in skorch"):
            function(Listed(), name="ward")


def test_a_regressor_is_refused():
    net = skorch.NeuralNetRegressor(nn.Linear(D, 1)).initialize()
    with pytest.raises(TypeError, match="NeuralNetRegressor is a regressor"):
        read_network(net)


# ---- layers written as modules --------------------------------------------------


def layers_of_three(dtype=np.float64):
    """Weights and biases of a network of two hidden layers."""
    rng = np.random.RandomState(0)
    coefs = [rng.randn(a, b).astype(dtype) for a, b in ((D, 5), (5, 4), (4, C))]
    intercepts = [rng.randn(b).astype(dtype) for b in (5, 4, C)]
    return coefs, intercepts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_modules_that_are_written_say_what_the_layers_say(dtype):
    coefs, intercepts = layers_of_three(dtype)
    X, _ = rows(dtype)
    Z = np.maximum(X @ coefs[0] + intercepts[0], 0)
    Z = np.tanh(Z @ coefs[1] + intercepts[1])
    logits = Z @ coefs[2] + intercepts[2]
    expected_outputs = {
        "identity": logits,
        "softmax": softmax(logits, 1),
        "logistic": expit(logits),
    }
    layers = Layers(coefs, intercepts, ("relu", "tanh"))
    for output, expected in expected_outputs.items():
        module = to_module(layers, output=output)
        with torch.no_grad():
            outputs = module(torch.from_numpy(X)).numpy()
        assert outputs.dtype == dtype
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_modules_that_are_written_can_be_read_and_are_copies(dtype):
    coefs, intercepts = layers_of_three(dtype)
    module = to_module(Layers(coefs, intercepts, "logistic"))
    net = skorch.NeuralNetClassifier(module, classes=range(C)).initialize()
    network = read_network(net)
    assert network.activation == ("logistic", "logistic")
    for coef_read, coef in zip(network.coefs, coefs, strict=True):
        np.testing.assert_array_equal(coef_read, coef)
    module[0].weight.data.zero_()
    assert coefs[0].all()


def test_links_and_activations_that_do_not_fit_are_errors():
    coefs, intercepts = layers_of_three()
    with pytest.raises(ValueError, match="output must be one of"):
        to_module(Layers(coefs, intercepts, "relu"), output="probit")
    with pytest.raises(ValueError, match=r"one name per hidden layer \(2\)"):
        to_module(Layers(coefs, intercepts, ("relu",)))


def test_the_error_without_torch_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install skgems\[torch\]"):
        to_module(Layers([np.eye(2)], [np.zeros(2)], ()))
