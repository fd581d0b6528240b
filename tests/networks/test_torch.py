# SPDX-License-Identifier: BSD-3-Clause
"""skorch nets are read from a trace of their module, which is left as it was."""

from __future__ import annotations

import operator
import re
import sys
import threading

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skgems.networks import Layers, is_fitted, read_network, to_module

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")
nn, F = torch.nn, torch.nn.functional

D, C = 6, 3


class Listed(nn.Module):
    """ModuleList, functional activations, view of the input."""

    def __init__(self, sizes=(D, 5, 4, C)):
        super().__init__()
        pairs = zip(sizes[:-1], sizes[1:], strict=True)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class Methods(nn.Module):
    """Tensor methods, a keyword with a default, two outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(D, 5, bias=False)
        self.last = nn.Linear(5, C)

    def forward(self, x, double=False):
        x = x.float().reshape(x.shape[0], -1).contiguous()
        hidden = self.first(x).tanh()
        if double:
            hidden = hidden * 2
        return self.last(hidden), hidden


class Nested(nn.Module):
    """Modules in modules, dropout of both kinds, noise while training only."""

    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(D, 5), nn.Sigmoid(), nn.Dropout(0.5))
        self.body = nn.Sequential(nn.Flatten(), block, nn.Identity())
        self.last = nn.Linear(5, C)

    def forward(self, x):
        x = self.body(x)
        if self.training:
            x = x + 0.01 * torch.randn_like(x)
        x = F.dropout(x, 0.3, training=self.training)
        return F.softmax(self.last(x), dim=-1)


class Bare(nn.Module):
    """Parameters without Linear modules, constant factors, two ways to multiply."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, D))
        self.weight = nn.Parameter(torch.randn(5, D))
        self.bias = nn.Parameter(torch.randn(5))
        self.last = nn.Parameter(torch.randn(5, C))

    def forward(self, x):
        if x.dim() > 2 or x.ndim != 2:
            x = x.flatten(1)
        n_rows, n_columns = x.shape
        x = (x.view(n_rows, n_columns) - self.mean) / 3
        x = torch.relu(F.linear(x, self.weight, bias=self.bias))
        return 2.0 * (x @ self.last * torch.tensor(0.5)) - self.last[0]


class Normed(nn.Module):
    """BatchNorm before a Linear, after one, and after an activation."""

    def __init__(self, affine=True):
        super().__init__()
        norm = {"affine": affine}
        self.parts = nn.Sequential(
            nn.BatchNorm1d(D, **norm),
            nn.Linear(D, 5),
            nn.BatchNorm1d(5, **norm),
            nn.ReLU(),
            nn.BatchNorm1d(5, **norm),
            nn.Linear(5, 4, bias=False),
            nn.Tanh(),
            nn.Linear(4, C),
            nn.BatchNorm1d(C, **norm),
        )

    def forward(self, x):
        return self.parts(x)


class Product(nn.Module):
    """Linear layers in a row."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(
            nn.Linear(D, 9),
            nn.Linear(9, 5),
            nn.ReLU(),
            nn.Linear(5, 9),
            nn.Linear(9, C),
        )

    def forward(self, x):
        return F.log_softmax(self.parts(x), dim=1)


def sequential(*middle):
    return nn.Sequential(nn.Linear(D, 4), *middle, nn.Linear(4, C))


def weight_normed():
    norm = torch.nn.utils.parametrizations.weight_norm
    return nn.Sequential(norm(nn.Linear(D, 4)), nn.ReLU(), nn.Linear(4, C))


def shared():
    square = nn.Linear(D, D)
    return nn.Sequential(square, nn.ReLU(), square, nn.ReLU(), nn.Linear(D, C))


CHAINS = {
    "sequential": (lambda: sequential(nn.ReLU()), 1),
    "linear": (lambda: nn.Linear(D, C), 0),
    "listed": (Listed, 2),
    "methods": (Methods, 1),
    "nested": (Nested, 1),
    "bare": (Bare, 1),
    "normed": (Normed, 2),
    "normed plain": (lambda: Normed(affine=False), 2),
    "product": (Product, 1),
    "weight norm": (weight_normed, 1),
    "shared": (shared, 2),
    "sigmoids": (lambda: nn.Sequential(sequential(nn.Tanh()), nn.Sigmoid()), 1),
}


class CrossEntropy(nn.CrossEntropyLoss):
    """Of the first output."""

    def forward(self, output, target):
        first = output[0] if isinstance(output, tuple) else output
        return super().forward(first, target)


def rows(dtype=np.float32):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, D)) * 2 + 1
    return X.astype(dtype), rng.randint(0, C, 60)


def trained(module, y=None, kind=None, **parameters):
    torch.manual_seed(0)
    module = module if isinstance(module, nn.Module) else module()
    kind = kind or skorch.NeuralNetClassifier
    if kind is skorch.NeuralNetClassifier:
        parameters.setdefault("criterion", CrossEntropy)
    net = kind(module, max_epochs=3, lr=0.1, verbose=0, train_split=None, **parameters)
    X, labels = rows(next(p.detach().numpy().dtype for p in module.parameters()))
    return net.fit(X, labels if y is None else y)


def raw_output(net, X):
    output = net.forward(X)
    return (output[0] if isinstance(output, tuple) else output).numpy()


@pytest.mark.parametrize(
    ("kind", "double"),
    # The forward of "methods" casts to float32.
    [(kind, False) for kind in CHAINS]
    + [(kind, True) for kind in CHAINS if kind != "methods"],
)
def test_chains(kind, double):
    build, n_hidden = CHAINS[kind]
    torch.manual_seed(1)
    module = build().double() if double else build()
    net = trained(module)
    X, _ = rows(np.float64 if double else np.float32)
    network = read_network(net)
    assert network.n_hidden_layers == n_hidden
    assert network.classes.tolist() == [0, 1, 2]
    assert network.n_features_in == D
    logits = network.decision_function(X)
    output = raw_output(net, X)
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if double else {"rtol": 1e-4, "atol": 1e-5}
    expected = {"nested": softmax(logits, axis=1), "sigmoids": expit(logits)}
    if kind == "product":
        logits, output = softmax(logits, axis=1), np.exp(output)
    np.testing.assert_allclose(expected.get(kind, logits), output, **tolerance)
    dtype = np.dtype(np.float64 if double else np.float32)
    assert {a.dtype for a in (*network.coefs, *network.intercepts)} == {dtype}


def state(net):
    weights = {k: v.numpy().tobytes() for k, v in net.module_.state_dict().items()}
    flags = [part.training for part in net.module_.modules()]
    return weights, flags, [list(vars(part)) for part in net.module_.modules()]


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
    for module in (Residual, Branching, lambda: nn.Sequential(nn.Linear(D, C), Odd())):
        net = trained(module)
        net.module_.train()
        before = state(net)
        with pytest.raises(TypeError):
            read_network(net)
        assert state(net) == before


class Meanwhile(nn.Module):
    """A linear layer; a step of another thread happens while it is traced."""

    def __init__(self, step=None):
        super().__init__()
        self.linear = nn.Linear(D, C)
        self.step = [step]

    def forward(self, x):
        if self.step[0] is not None:
            self.step[0]()
        return self.linear(x)


def test_modules_of_other_threads_run_while_one_is_traced():
    other = Meanwhile()
    rows = torch.ones(1, D)
    expected = other(rows)
    outputs = []

    def run_other():
        thread = threading.Thread(target=lambda: outputs.append(other(rows)))
        thread.start()
        thread.join()

    net = trained(Meanwhile)
    weight = net.module_.linear.weight.detach().numpy()
    net.module_.step[0] = run_other
    np.testing.assert_array_equal(read_network(net).coefs[0], weight.T)
    assert len(outputs) == 1
    assert torch.equal(outputs[0], expected)


def test_two_threads_trace_and_leave_torch_as_it_was():
    call = nn.Module.__call__
    second_begins, first_is_done = threading.Event(), threading.Event()
    first, second = trained(Meanwhile), trained(Meanwhile)
    # Where both trace at once, the first is done before the second is.
    first.module_.step[0] = lambda: second_begins.wait(0.3)

    def begin():
        second_begins.set()
        first_is_done.wait(5)

    second.module_.step[0] = begin
    thread = threading.Thread(target=lambda: (read_network(first), first_is_done.set()))
    later = threading.Thread(target=lambda: read_network(second))
    thread.start(), later.start()
    thread.join(), later.join()
    assert first_is_done.is_set()
    assert nn.Module.__call__ is call


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
def test_link(last, criterion, link):
    net = trained(nn.Sequential(nn.Linear(D, C), last), criterion=criterion)
    assert read_network(net).output == link


class Squeezed(nn.Module):
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
def test_binary_net(squeeze, sigmoid):
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


def test_number_of_outputs_must_fit():
    X, y = rows()
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


def test_classes_name_the_columns():
    _, y = rows()
    labels = ["ant", "bee", "cow"]
    net = trained(nn.Linear(D, 3), y=np.where(y > 0, 2, 0), classes=labels)
    network = read_network(net)
    assert network.classes.tolist() == labels
    assert network.seen.tolist() == [True, False, True]
    # y holds labels where a data set of the user's own encodes them
    net.classes_inferred_ = np.array(["bee", "cow"])
    assert read_network(net).seen.tolist() == [False, True, True]
    net.classes_inferred_ = np.array([0, 9])
    with pytest.raises(ValueError, match=r"fitted on the labels \[0, 9\]"):
        read_network(net)


def test_initialized_is_fitted():
    net = skorch.NeuralNetClassifier(nn.Linear(D, 3))
    assert is_classifier(net)
    assert is_fitted(net) is False
    with pytest.raises(NotFittedError, match="Node 'a': this NeuralNetClassifier"):
        read_network(net, name="a")
    net.initialize()
    assert is_fitted(net) is True
    assert read_network(net).seen.all()  # it does not say what it was trained on


def test_in_a_pipeline_and_frozen():
    X, y = rows()
    net = skorch.NeuralNetClassifier(
        Listed, max_epochs=2, verbose=0, criterion=nn.CrossEntropyLoss
    )
    pipeline = make_pipeline(StandardScaler(), net)
    for estimator in (pipeline.fit(X, y), FrozenEstimator(pipeline)):
        np.testing.assert_allclose(
            read_network(estimator).decision_function(X),
            raw_output(net, pipeline[0].transform(X)),
            rtol=1e-4,
            atol=1e-5,
        )
    cast = FunctionTransformer(lambda X: X.astype(np.float32))
    pipeline = make_pipeline(StandardScaler(), cast, net).fit(X.astype(float), y)
    network = read_network(pipeline)
    np.testing.assert_allclose(
        network.decision_function(X),
        raw_output(net, pipeline[:-1].transform(X.astype(float))),
        rtol=1e-4,
        atol=1e-5,
    )


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Linear(D, D), nn.Linear(D, C)

    def forward(self, x):
        return self.last(x + F.relu(self.inner(x)))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(D, C)

    def forward(self, x):
        return self.last(x) if x.sum() > 0 else self.last(-x)


class Odd(nn.Module):
    def forward(self, x):
        return x.abs() + torch.linspace(0, 1, C)


class Called(nn.Module):
    def __init__(self, function, last=None):
        super().__init__()
        self.first, self.last = nn.Linear(D, 4), last or nn.Linear(4, C)
        self.function = function

    def forward(self, x):
        return self.last(self.function(self.first(x)))


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
def test_other_operations_are_named(module, message):
    net = skorch.NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss)
    with pytest.raises(TypeError, match=f"^Node 'ward': .*{message}"):
        read_network(net.initialize(), name="ward")


class Keeping(nn.Module):
    """Keeps a value of its forward, and works in place where that does no harm."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(D, 4), nn.Linear(4, C)
        self.activation = nn.ReLU(inplace=True)
        self.kept = None

    def forward(self, x):
        self.kept = self.first(x)
        x = self.activation(self.kept)
        x += 1
        return self.last(F.relu(x.mul_(2), inplace=True))


def test_what_a_forward_keeps_is_put_back():
    net = skorch.NeuralNetClassifier(Keeping).initialize()
    X, _ = rows()
    output = raw_output(net, X)
    stored = net.module_.kept
    logits = read_network(net).decision_function(X)
    assert net.module_.kept is stored
    np.testing.assert_allclose(logits, output, rtol=1e-4, atol=1e-5)


def test_what_the_output_does_not_use_is_ignored():
    class Auxiliary(Residual):
        def forward(self, x):
            hidden = F.relu(self.inner(x))
            return self.last(hidden), hidden.pow(2) + x

    net = trained(Auxiliary)
    X, _ = rows()
    np.testing.assert_allclose(
        read_network(net).decision_function(X), raw_output(net, X), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("key", ["layers.1.weight", "layers.2.bias"])
def test_weights_that_are_not_finite(key):
    net = trained(Listed)
    with torch.no_grad():
        net.module_.get_parameter(key)[0] = float("nan")
    with pytest.raises(
        ValueError, match=f"Node 'ward': {re.escape(key)} of the module"
    ):
        read_network(net, name="ward")


def test_half_precision_becomes_float32():
    net = trained(Listed)
    net.module_.to(torch.bfloat16)
    assert read_network(net).coefs[0].dtype == np.float32


def test_a_bare_module_is_to_be_wrapped():
    for function in (read_network, is_fitted):
        with pytest.raises(TypeError, match="Node 'ward': Listed .* Wrap it in skorch"):
            function(Listed(), name="ward")


def test_a_regressor_is_refused():
    net = skorch.NeuralNetRegressor(nn.Linear(D, 1)).initialize()
    with pytest.raises(TypeError, match="NeuralNetRegressor is a regressor"):
        read_network(net)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_to_module(dtype):
    rng = np.random.RandomState(0)
    coefs = [rng.randn(a, b).astype(dtype) for a, b in ((D, 5), (5, 4), (4, C))]
    intercepts = [rng.randn(b).astype(dtype) for b in (5, 4, C)]
    X, _ = rows(dtype)
    Z = np.maximum(X @ coefs[0] + intercepts[0], 0)
    Z = np.tanh(Z @ coefs[1] + intercepts[1])
    logits = Z @ coefs[2] + intercepts[2]
    links = {
        "identity": logits,
        "softmax": softmax(logits, 1),
        "logistic": expit(logits),
    }
    for output, expected in links.items():
        module = to_module(Layers(coefs, intercepts, ("relu", "tanh")), output=output)
        with torch.no_grad():
            outputs = module(torch.from_numpy(X)).numpy()
        assert outputs.dtype == dtype
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    module = to_module(Layers(coefs, intercepts, "logistic"))
    network = read_network(skorch.NeuralNetClassifier(module).initialize())
    assert network.activation == ("logistic", "logistic")
    for read, written in zip(network.coefs, coefs, strict=True):
        np.testing.assert_array_equal(read, written)
    module[0].weight.data.zero_()
    assert coefs[0].all()  # a copy
    with pytest.raises(ValueError, match="output must be one of"):
        to_module(Layers(coefs, intercepts, "relu"), output="probit")
    with pytest.raises(ValueError, match=r"one name per hidden layer \(2\)"):
        to_module(Layers(coefs, intercepts, ("relu",)))


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install skgems\[torch\]"):
        to_module(Layers([np.eye(2)], [np.zeros(2)], ()))
