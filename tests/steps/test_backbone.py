# SPDX-License-Identifier: BSD-3-Clause
"""Layers below the last of a net, as the front that all parties have in common."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings

import numpy as np
import pytest
from helpers.labels import assert_same_labels
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from helpers.nets import Convolutional, Dense, make_net, state_of_module  # noqa: E402
from skorch import NeuralNetBinaryClassifier  # noqa: E402
from torch import nn  # noqa: E402

from skgems import (  # noqa: E402
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
    PooledTransformer,
    answer,
)
from skgems.asking import Message, Nodes  # noqa: E402
from skgems.datasets import partition_by_label  # noqa: E402
from skgems.guard import reply_to  # noqa: E402
from skgems.networks import read_network  # noqa: E402
from skgems.steps import Backbone, Front  # noqa: E402
from skgems.steps._backbone import head_of  # noqa: E402

X, Y = load_digits(n_class=6, return_X_y=True)
X = (X[::3] / 16).astype(np.float32)
Y = Y[::3]
NODES = partition_by_label(Y, 3, random_state=0)
NAMES = ["bonn", "lyon", "pisa"]


class Residual(nn.Module):
    """Two convolutions with batch normalization, and a connection around them."""

    def __init__(self, n_outputs=6, end=None, stride=1):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1, stride=stride)
        self.last = nn.Linear(16, n_outputs)
        self.end = nn.Identity() if end is None else end

    def features(self, X):
        maps = torch.relu(self.norm(self.first(X.view(-1, 1, 8, 8))))
        joined = self.second(maps)
        if joined.shape == maps.shape:
            joined = joined + maps
        return nn.functional.adaptive_avg_pool2d(torch.relu(joined), 2).flatten(1)

    def forward(self, X):
        return self.end(self.last(self.features(X)))


class Branching(Dense):
    """What no tracing follows: its path depends on the rows."""

    def __init__(self, reversed_=False):
        super().__init__(n_outputs=6)
        if not reversed_:
            self.output = self._modules.pop("output")  # is defined last now

    def forward(self, X):
        if X.sum() > 1e9:
            return self.output(X[:, :8])
        return super().forward(X)


def trained(module=Residual, rows=slice(None), seed=0, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        classifier = make_net(module, optimizer=torch.optim.Adam, lr=0.01, **options)
        return classifier.fit(X[rows], Y[rows])


def with_the_layers_of(base, rows, **options):
    """A net whose last layer alone goes on learning, of some rows."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        tuned = make_net(type(base.module_), **options).initialize()
        tuned.module_.load_state_dict(base.module_.state_dict())
        for name, parameter in tuned.module_.named_parameters():
            parameter.requires_grad_(name.startswith(("last", "output")))
        norm = tuned.module_.norm
        norm.train = lambda mode=True: nn.Module.train(norm, False)
        norm.eval()
        return tuned.partial_fit(X[rows], Y[rows])


@pytest.fixture(scope="module")
def base():
    return trained(rows=np.arange(300))


@pytest.fixture(scope="module")
def nets(base):
    return [with_the_layers_of(base, NODES == k) for k in range(3)]


@pytest.fixture
def backbone(base):
    return Backbone(base).fit(X[:1])


def linear(estimators, front, **options):
    return GEMSLogisticAggregator(estimators, front=front, random_state=0, **options)


ENDS = {
    "logits": (None, nn.CrossEntropyLoss),
    "softmax": (nn.Softmax(dim=-1), nn.NLLLoss),
    "log_softmax": (nn.LogSoftmax(dim=-1), nn.NLLLoss),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_enters_the_last_layer_comes_out_and_the_head_predicts_as_the_net(end):
    link, criterion = ENDS[end]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = trained(module__end=link, criterion=criterion, max_epochs=1)
    layers = Backbone(classifier).fit(X)
    Z = layers.transform(X)
    with torch.no_grad():
        expected = classifier.module_.eval().features(torch.as_tensor(X)).numpy()
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, expected, rtol=1e-5, atol=1e-6)
    head = head_of(layers)
    np.testing.assert_allclose(
        head.predict_proba(Z), classifier.predict_proba(X), atol=1e-6
    )
    assert head.classes_.tolist() == classifier.classes_.tolist()


def test_the_head_of_a_binary_net_predicts_as_the_net():
    binary = NeuralNetBinaryClassifier(
        Residual, module__n_outputs=1, max_epochs=1, train_split=None, verbose=0
    )
    is_of_two_classes = Y < 2
    with torch.random.fork_rng():
        binary.fit(X[is_of_two_classes], Y[is_of_two_classes].astype(np.float32))
    layers = Backbone(binary).fit(X)
    probabilities = head_of(layers).predict_proba(layers.transform(X))
    np.testing.assert_allclose(probabilities, binary.predict_proba(X), atol=1e-6)


def test_the_head_of_a_module_that_cannot_be_traced_predicts_as_the_net():
    branching = Backbone(trained(Branching, max_epochs=1)).fit(X)
    probabilities = head_of(branching).predict_proba(branching.transform(X))
    np.testing.assert_allclose(probabilities, branching.net.predict_proba(X), atol=1e-6)


def test_a_bare_module_is_used_as_a_whole():
    layers = nn.Sequential(nn.Linear(64, 7), nn.Tanh()).double()
    Z = Backbone(layers).fit(X).transform(X)
    assert Z.dtype == np.float64
    np.testing.assert_allclose(Z, layers(torch.as_tensor(X).double()).detach().numpy())


def test_rows_may_be_images():
    flat = trained(Convolutional, module__n_outputs=6, max_epochs=1)
    of_images = make_net(
        Convolutional, module__flat=False, module__n_outputs=6
    ).initialize()
    of_images.module_.load_state_dict(flat.module_.state_dict())
    Z = Backbone(of_images).fit_transform(X.reshape(-1, 1, 8, 8))
    np.testing.assert_array_equal(Z, Backbone(flat).fit_transform(X))


def test_the_net_of_a_backbone_is_not_changed(base):
    classifier = trained(max_epochs=1)
    classifier.module_.train()
    classifier.module_.norm.eval()
    arrays_before = {k: v.copy() for k, v in state_of_module(classifier).items()}
    random_state = torch.random.get_rng_state()
    layers = Backbone(classifier).fit(X)
    layers.transform(X)
    linear([classifier], Backbone(classifier)).fit(X, Y)
    assert torch.equal(random_state, torch.random.get_rng_state())
    modes = {name: part.training for name, part in classifier.module_.named_modules()}
    assert modes.pop("norm") is False
    assert all(modes.values())
    assert not classifier.module_.last._forward_hooks
    for name, array in state_of_module(classifier).items():
        np.testing.assert_array_equal(array, arrays_before[name])


def digest(change=None, **options):
    """The parts of the digest of an untrained net, after a change of its module."""
    classifier = trained(max_epochs=0, **options)
    if change is not None:
        with torch.no_grad():
            change(classifier.module_)
    return Backbone(classifier).digest_.split("-")


@pytest.fixture(scope="module")
def digest_of_net():
    """The digest of the net as it is: of weights, of statistics, and of outputs."""
    return digest()


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (None, {}),
        (lambda m: m.last.weight.mul_(2.0), {}),
        (lambda m: m.norm.num_batches_tracked.add_(1), {}),
        (None, {"module__n_outputs": 6, "module__end": None}),
    ],
    ids=["nothing", "last layer", "number of batches", "defaults"],
)
def test_digests_are_equal_where_layers_below_the_last_are(
    digest_of_net, change, options
):
    assert digest(change, **options) == digest_of_net


def test_a_net_without_its_last_layer_has_the_same_digest(digest_of_net):
    bare = trained(max_epochs=0).module_
    bare.last = nn.Identity()
    assert Backbone(bare).digest_ == "-".join(digest_of_net)


def test_running_statistics_have_a_part_of_the_digest(digest_of_net):
    weights, statistics, _ = digest_of_net
    change = digest(lambda m: m.norm.running_mean.add_(1.0))
    other_weights, other_statistics, _ = change
    assert other_weights == weights
    assert other_statistics != statistics


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda m: m.first.weight.mul_(1 + 1e-6), {}),
        (lambda m: setattr(m.norm, "eps", 1e-3), {}),
        (lambda m: setattr(m, "first", nn.Conv2d(1, 4, 3, padding=1, bias=False)), {}),
        # These have the same weights.
        (None, {"module__stride": 2}),
        (lambda m: m.add_module("end", nn.Softmax(1)), {}),
    ],
    ids=["a weight", "epsilon", "no bias", "stride", "a softmax"],
)
def test_digests_differ_where_weights_or_kinds_of_layers_do(
    digest_of_net, change, options
):
    weights, *_ = digest_of_net
    assert digest(change, **options)[0] != weights


def test_an_aggregator_has_the_last_layers_for_its_members(nets, base, backbone):
    Z = backbone.transform(X)
    heads = [head_of(Backbone(member).fit(X[:1])) for member in nets]
    expected = GEMSLogisticAggregator(heads, random_state=0).fit(Z, Y, nodes=NODES)
    for front in (backbone, Backbone(base), PooledTransformer(backbone)):
        agg = linear(nets, front).fit(X, Y, nodes=NODES)
        # Rows of a node go through the layers together, so that bits may differ.
        np.testing.assert_allclose(agg.coef_, expected.coef_, rtol=1e-3, atol=1e-4)
        assert (agg.predict(X) == expected.predict(Z)).mean() > 0.99
        np.testing.assert_allclose(
            agg.to_estimator().predict_proba(X), agg.predict_proba(X), atol=1e-7
        )
    assert agg.score(X, Y) > max(member.score(X, Y) for member in nets)
    # Averages of logits are the same however they are made.
    vote = EnsembleAggregator(nets, front=backbone).fit(X, Y, nodes=NODES)
    vote_inside = EnsembleAggregator(nets).fit(X, Y, nodes=NODES)
    np.testing.assert_allclose(
        vote.predict_proba(X), vote_inside.predict_proba(X), atol=1e-6
    )


def test_units_of_features_do_not_matter():
    net = trained(Convolutional, module__n_outputs=6)
    probabilities = []
    for factor in (1.0, 1 / 128, 64.0):
        base = copy.deepcopy(net)
        with torch.no_grad():
            base.module_.norm.weight.mul_(factor)
            base.module_.norm.bias.mul_(factor)
            base.module_.output.weight.div_(factor)
        agg = linear([base] * 3, Backbone(base)).fit(X, Y, nodes=NODES)
        probabilities.append(agg.predict_proba(X))
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=1e-3)
    np.testing.assert_allclose(probabilities[2], probabilities[0], atol=1e-3)


def channel(nets, exchanged=None):
    def ask(requests):
        replies = {}
        for name, request in requests.items():
            k = NAMES.index(name)
            rows = X[NODES == k], Y[NODES == k]
            replies[name] = reply_to(
                request, nets[k], *rows, name=name, disclosure=None
            )
            if exchanged is not None:
                exchanged.append((request, replies[name]))
        return replies

    return Nodes(ask, NAMES, disclosure=None)


def test_every_way_has_the_same_bits_and_no_weight_of_the_layers_is_sent(
    nets, base, backbone, tmp_path
):
    nodes = np.array(NAMES)[NODES]
    exchanged = []
    members = list(zip(NAMES, nets, strict=True))
    expected = linear(members, backbone).fit(X, Y, nodes=nodes)
    in_threads = linear(members, backbone, n_jobs=2).fit(X, Y, nodes=nodes)
    over_channel = linear(channel(nets, exchanged), Backbone(base)).fit()
    files = []
    for k, (name, member) in enumerate(members):
        summary = linear(None, backbone).summarize(
            member, X[NODES == k], Y[NODES == k], name=name, disclosure=None
        )
        files.append(str(tmp_path / name))
        summary.save(files[-1])
    of_files = linear(files, backbone).fit()
    for agg in (in_threads, over_channel, of_files):
        np.testing.assert_array_equal(agg.coef_, expected.coef_)
        assert_same_labels(agg, expected, X)
    assert exchanged
    weights = state_of_module(base)["first.weight"].tobytes()
    for request, reply in exchanged:
        assert weights not in request.to_bytes()
        assert weights not in reply.to_bytes()
    digest_of_layers = Backbone(base).digest_.encode()
    assert any(digest_of_layers in request.to_bytes() for request, _ in exchanged)


def test_an_exchange_takes_a_backbone(nets, base, backbone, tmp_path):
    exchange = Exchange(
        tmp_path, linear(None, Backbone(base)), nodes=NAMES, disclosure=None
    )
    while (aggregate := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            k = NAMES.index(name)
            rows = X[NODES == k], Y[NODES == k]
            answer(request, nets[k], *rows, name=name, disclosure=None)
    expected = linear(list(zip(NAMES, nets, strict=True)), backbone)
    expected.fit(X, Y, nodes=np.array(NAMES)[NODES])
    np.testing.assert_array_equal(aggregate.coef_, expected.coef_)


def test_a_node_with_other_layers_is_named(nets, base, backbone):
    other = trained(seed=5, rows=NODES == 1, max_epochs=1)
    with pytest.raises(
        ValueError, match="Node '1': the layers of its net below"
    ) as info:
        linear([nets[0], other, nets[2]], backbone).fit(X, Y, nodes=NODES)
    assert "batch normalization" not in str(info.value)
    other_statistics = make_net(Residual).initialize()
    other_statistics.module_.load_state_dict(base.module_.state_dict())
    other_statistics.module_.norm.running_var += 1.0
    members = [("bonn", nets[0]), ("lyon", other_statistics), ("pisa", nets[2])]
    with pytest.raises(ValueError, match=r"'lyon': .* were not in eval\(\) mode"):
        linear(members, backbone).fit(X, Y, nodes=np.array(NAMES)[NODES])
    rows = X[NODES == 1], Y[NODES == 1]
    with pytest.raises(ValueError, match=r"'lyon': .* were not in eval\(\) mode"):
        linear(None, backbone).summarize(other_statistics, *rows, name="lyon")
    with pytest.raises(ValueError, match="'lyon': .*below the last are not those"):
        linear(channel([nets[0], other_statistics, nets[2]]), backbone).fit()


def test_a_node_takes_its_own_layers_or_says_that_it_has_none(nets):
    other = trained(seed=3, max_epochs=0)
    content = Front(Backbone(other)).as_content()
    content_without_net = Front(Backbone(trained(seed=4, max_epochs=0))).as_content()
    gc.collect()  # nothing but one net is left
    request = Message.of("front", front=content)
    reply = reply_to(request, other, X, Y, name="lyon")
    assert reply.content["columns"]["text"] == [False] * 64
    for stranger in (
        nets[0],
        make_net(Residual),
        LinearDiscriminantAnalysis().fit(X, Y),
    ):
        with pytest.raises(
            ValueError, match="No net of this node has layers with the dig"
        ):
            reply_to(
                Message.of("front", front=content_without_net),
                stranger,
                X,
                Y,
                name="lyon",
            )
    front = Front.from_content(content)
    assert front.transformer.net == Backbone(other).digest_


def test_a_classifier_of_features_is_taken_as_it_is(nets, backbone):
    Z = backbone.transform(X)
    of_features = LogisticRegression(max_iter=2000).fit(Z[NODES == 0], Y[NODES == 0])
    dense = make_net(lambda: nn.Linear(16, 6), max_epochs=20)
    with torch.random.fork_rng():
        dense.fit(Z[NODES == 1], Y[NODES == 1])
    agg = linear([of_features, dense, FrozenEstimator(nets[2])], backbone)
    agg.fit(X, Y, nodes=NODES)
    expected = GEMSLogisticAggregator(
        [of_features, dense, head_of(Backbone(nets[2]).fit(X))], random_state=0
    ).fit(Z, Y, nodes=NODES)
    np.testing.assert_allclose(agg.coef_, expected.coef_, rtol=1e-3, atol=1e-4)


@pytest.fixture(scope="module")
def nets_and_union():
    """A net of each node, and the backbones of all of them side by side."""
    nets = [trained(seed=k, rows=NODES == k) for k in range(3)]
    pairs = zip(NAMES, nets, strict=True)
    union = FeatureUnion([(name, Backbone(net)) for name, net in pairs])
    return nets, union.fit(X)


def test_a_head_behind_backbones_of_all_nodes_uses_those_of_its_net(nets_and_union):
    nets, union = nets_and_union
    Z = union.transform(X)
    front = Front.from_transformer(union)
    for k, member in enumerate(nets):
        head = front.rest_of(member, name="one")
        # Each backbone has 16 features.
        is_used = np.abs(state_of_module(head)["0.weight"]).sum(axis=0) > 0
        assert np.flatnonzero(is_used).tolist() == list(range(16 * k, 16 * k + 16))
        np.testing.assert_allclose(
            head.predict_proba(Z), member.predict_proba(X), atol=1e-5
        )


def test_an_aggregate_behind_backbones_of_all_nodes_is_better_than_each_net(
    nets_and_union,
):
    nets, union = nets_and_union
    for transformer in (union, clone(union)):
        agg = linear(nets, transformer).fit(X, Y, nodes=NODES)
        # Six classes, and 16 features of each of three backbones.
        assert agg.coef_.shape == (6, 48)
        assert agg.score(X, Y) > max(member.score(X, Y) for member in nets)


def test_nodes_of_rows_alone_can_use_backbones_of_all_nodes(nets_and_union):
    _, union = nets_and_union
    agg = linear([(name, None) for name in NAMES], union)
    agg.fit(X, Y, nodes=np.array(NAMES)[NODES])
    assert agg.coef_.shape == (6, 48)


def test_a_backbone_may_come_after_other_steps_and_in_searches(nets, base):
    scaled = make_pipeline(StandardScaler(with_std=False), Backbone(base))
    agg = PooledAggregator(None, front=scaled).fit(X, Y, nodes=NODES)
    Z = make_pipeline(StandardScaler(with_std=False), Backbone(base)).fit_transform(X)
    assert agg.score(X, Y) > 0.5
    assert agg.front_.transform(X).shape == Z.shape
    search = GridSearchCV(
        linear(nets, Backbone(base)), {"epsilon": [0.3]}, cv=2, error_score="raise"
    ).fit(X, Y)
    assert search.best_estimator_.front.net is base
    inside = make_pipeline(Backbone(base), PooledAggregator(None))
    inside.fit(X, Y, pooledaggregator__nodes=NODES)
    as_front = PooledAggregator(None, front=Backbone(base)).fit(X, Y, nodes=NODES)
    assert (inside.predict(X) == as_front.predict(X)).mean() > 0.99


def test_last_layers_are_trained_in_rounds(nets, backbone):
    heads = [head_of(Backbone(member).fit(X[:1])) for member in nets]
    arrays_before = [
        {k: v.copy() for k, v in state_of_module(member).items()} for member in nets
    ]
    expected = ModelAveragingAggregator(heads, n_rounds=2, random_state=0)
    expected.fit(backbone.transform(X), Y, nodes=NODES)
    agg = ModelAveragingAggregator(nets, front=backbone, n_rounds=2, random_state=0)
    agg.fit(X, Y, nodes=NODES)
    assert (agg.predict(X) == expected.predict(backbone.transform(X))).mean() > 0.98
    once = ModelAveragingAggregator(nets, front=backbone).fit(X, Y, nodes=NODES)
    assert not np.allclose(agg.predict_proba(X), once.predict_proba(X), atol=1e-3)
    for member, arrays in zip(nets, arrays_before, strict=True):
        for name, array in state_of_module(member).items():
            np.testing.assert_array_equal(array, arrays[name])


def test_a_node_is_forgotten(nets, base, backbone):
    nodes = np.array(NAMES)[NODES]
    is_kept = NODES != 1
    members = list(zip(NAMES, nets, strict=True))
    expected = linear(members[::2], backbone).fit(
        X[is_kept], Y[is_kept], nodes=nodes[is_kept]
    )
    for front in (backbone, Backbone(base)):
        agg = linear(members, front, keep_replies=True).fit(X, Y, nodes=nodes)
        assert not np.array_equal(agg.coef_, expected.coef_)
        np.testing.assert_array_equal(agg.forget("lyon").coef_, expected.coef_)


@pytest.mark.parametrize("norm", ["weight_norm", "spectral_norm"])
def test_a_last_layer_may_compute_its_weights(norm):
    norm = getattr(nn.utils.parametrizations, norm)

    def build():
        torch.manual_seed(0)
        layers = norm(nn.Linear(64, 8)), nn.Tanh(), norm(nn.Linear(8, 6))
        return make_net(nn.Sequential(*layers), max_epochs=1).fit(X, Y)

    with torch.random.fork_rng():
        net, other = build(), build()
        with torch.no_grad():
            other.module_[2].bias.add_(1.0)
            for parameter in other.module_[2].parametrizations.parameters():
                parameter.mul_(2.0)
    for module in (net.module_, other.module_):
        module.train()  # in which spectral_norm goes on with each look at a weight
    digest = Backbone(net).digest_
    assert Backbone(other).digest_ == digest
    vote = EnsembleAggregator([net, other], front=Backbone(net)).fit(
        X, Y, nodes=NODES % 2
    )
    mean = (net.predict_proba(X) + other.predict_proba(X)) / 2
    np.testing.assert_allclose(vote.predict_proba(X), mean, atol=1e-5)
    net.module_.train()
    read_network(net)
    assert Backbone(net).digest_ == digest


def test_a_front_of_backbones_needs_no_rows(nets, base, backbone):
    expected = ModelAveragingAggregator(nets, front=backbone).fit()
    for front in (Backbone(base), FeatureUnion([("a", Backbone(base))])):
        agg = ModelAveragingAggregator(nets, front=front).fit()
        np.testing.assert_array_equal(agg.predict_proba(X), expected.predict_proba(X))
        assert not hasattr(front, "net_")
    assert agg.front_.n_features_in_ == 64

    class AnyWidth(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(1, 6)

        def forward(self, X):
            return self.last(X.mean(1, keepdim=True))

    net = make_net(AnyWidth, classes=range(6)).initialize()
    words = r"as Backbone\(net\).fit\(X\[:1\]\)"
    with pytest.raises(ValueError, match=words) as caught:
        ModelAveragingAggregator([net], front=Backbone(net)).fit()
    assert "PooledTransformer" not in str(caught.value)
    agg = linear(None, Backbone(net))
    with pytest.raises(ValueError, match=f"'lyon'.*: the front .*{words}"):
        agg.summarize(None, chunks=lambda: iter([(X, Y)]), name="lyon")
    summary = agg.summarize(None, X, Y, name="lyon")
    with pytest.raises(ValueError, match=words):
        agg.set_params(estimators=[summary]).fit()
    fitted = linear([summary], Backbone(net).fit(X[:1])).fit()
    assert fitted.n_features_in_ == 64


@pytest.mark.parametrize("way", ["rows", "chunks"])
def test_summaries_behind_an_unfitted_backbone_need_no_rows_at_the_server(
    nets, base, backbone, way
):
    def summaries(agg):
        for k, (name, net) in enumerate(zip(NAMES, nets, strict=True)):
            rows = X[NODES == k], Y[NODES == k]
            given = {"X": rows[0], "y": rows[1]}
            if way == "chunks":
                given = {"chunks": lambda rows=rows: iter([rows])}
            yield agg.summarize(net, **given, name=name, disclosure=None)

    unfitted = GEMSLogisticAggregator(front=Backbone(base), random_state=0)
    expected = clone(unfitted).set_params(front=backbone)
    agg = unfitted.set_params(estimators=list(summaries(unfitted))).fit()
    expected.set_params(estimators=list(summaries(expected))).fit()
    np.testing.assert_array_equal(agg.predict_proba(X), expected.predict_proba(X))
    assert not hasattr(unfitted.front, "net_")
    # Those of a fitted one are equal, and each is taken for the other.
    agg.set_params(estimators=expected.estimators).fit()


def test_a_backbone_of_rows_with_names_is_refused_where_these_are_not_known(base):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame(X).add_prefix("pixel")
    agg = GEMSLogisticAggregator(front=Backbone(base), random_state=0)
    summary = agg.summarize(None, rows, Y, name="lyon", disclosure=None)
    with pytest.raises(ValueError, match="'lyon' was summarized with front="):
        agg.set_params(estimators=[summary]).fit()
    agg.set_params(front=Backbone(base).fit(rows[:1])).fit()
    with pytest.raises(ValueError, match="Node 'lyon': .* cannot take rows of shape"):
        clone(agg).set_params(front=Backbone(base)).summarize(
            None, X[:, :5], Y, name="lyon", disclosure=None
        )


def test_clones_and_pickles_have_the_net(base, backbone):
    assert clone(backbone).net is base
    assert not hasattr(clone(backbone), "net_")
    layers = nn.Sequential(nn.Linear(64, 5), nn.ReLU())
    unpickled = pickle.loads(pickle.dumps(Backbone(layers).fit(X)))
    np.testing.assert_array_equal(
        unpickled.transform(X), Backbone(layers).fit(X).transform(X)
    )


class Wrong(nn.Module):
    """A net that is no linear model of what enters its last layer."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.hidden = nn.Linear(64, 6)
        self.last = nn.Linear(6, 6)
        self.conv = nn.Conv1d(64, 6, 1)

    def forward(self, X):
        if self.kind == "twice":
            return self.last(self.last(self.hidden(X)))
        if self.kind == "relu":
            return torch.relu(self.last(self.hidden(X)))
        return self.conv(X[:, :, None])[:, :, 0]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("relu", "at most a softmax or a sigmoid may follow"),
        ("twice", "not those of its last Linear"),
        ("conv", "does not end in a Linear layer"),
    ],
)
def test_a_net_without_a_last_layer_is_refused(kind, words):
    wrong = make_net(Wrong, module__kind=kind).initialize()
    with torch.no_grad():
        wrong.module_.last.bias.sub_(5.0)
    with pytest.raises(ValueError, match=words):
        Backbone(wrong).fit(X)


def test_what_is_no_net_is_refused(base):
    with pytest.raises(TypeError, match="fitted net or a torch module, not"):
        Backbone(make_net(Residual)).fit(X)
    with pytest.raises(TypeError, match="not LogisticRegression"):
        Backbone(LogisticRegression()).fit(X)
    with pytest.raises(ValueError, match="'net' parameter"):
        Backbone((1, 2)).fit(X)
    with pytest.raises(ValueError, match=r"Residual cannot take rows of shape \(63,\)"):
        Backbone(base).fit(X[:, 1:])
    for odd in ({"net": ["a"]}, {"net": 3}, {"net": {"tuple": ["a"]}}):
        content = {"tree": {"kind": "Backbone", "params": odd}, "bounds": None}
        with pytest.raises(ValueError, match="is not a front"):
            Front.from_content(content)


def test_it_passes_check_estimator():
    from sklearn.utils.estimator_checks import check_estimator

    layers = nn.Sequential(nn.AdaptiveAvgPool1d(3), nn.Linear(3, 4), nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backbone = Backbone(layers)
        # Of the digest: no copy of a module has the hash of the module.
        check_estimator(Backbone(backbone.digest_))
