# SPDX-License-Identifier: BSD-3-Clause
"""PFNMAggregator: reading, matching, streams, rounds and exports."""

from __future__ import annotations

import copy
import pickle
from copy import deepcopy

import numpy as np
import pytest
from joblib import parallel_config
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import PFNMAggregator
from skgems.datasets import partition_dirichlet, partition_homogeneous
from skgems.federation import _channel as channel_module
from skgems.networks import Layers, read_network, to_mlp_classifier
from skgems.pfnm._rounds import own_units

X, Y = load_digits(return_X_y=True)
X = X / 16
TRAIN, TEST = slice(0, 1200), slice(1200, None)


def network(width=20, seed=0, **parameters):
    parameters = {
        "learning_rate_init": 0.01,
        "alpha": 0.1,
        "max_iter": 60,
        "tol": 0.01,
        **parameters,
    }
    return MLPClassifier(width, random_state=seed, **parameters)


def deal(kind="homogeneous", n_nodes=3):
    if kind == "homogeneous":
        return partition_homogeneous(Y[TRAIN], n_nodes, random_state=0)
    return partition_dirichlet(Y[TRAIN], n_nodes, alpha=0.5, random_state=1)


def fitted(nodes, widths=(20, 20, 20), **parameters):
    return [
        network(width, k, **parameters).fit(X[TRAIN][nodes == k], Y[TRAIN][nodes == k])
        for k, width in enumerate(widths)
    ]


@pytest.fixture(scope="module")
def nodes():
    return deal()


@pytest.fixture(scope="module")
def locals_(nodes):
    return fitted(nodes)


@pytest.fixture(scope="module")
def deep(nodes):
    return fitted(nodes, [(16, 12), (14, 10), (12, 12)])


def permuted(estimator, seed=0):
    """The same function with its hidden units in another order."""
    rng = np.random.RandomState(seed)
    coefs, intercepts = list(estimator.coefs_), list(estimator.intercepts_)
    for layer in range(len(coefs) - 1):
        order = rng.permutation(coefs[layer].shape[1])
        coefs[layer], intercepts[layer] = (
            coefs[layer][:, order],
            intercepts[layer][order],
        )
        coefs[layer + 1] = coefs[layer + 1][order]
    layers = Layers(coefs, intercepts, estimator.activation)
    return to_mlp_classifier(layers, estimator.classes_)


def sorted_units(aggregate):
    """Each unit's weights, in an order of their own."""
    parts = [aggregate.coefs_[0].T, aggregate.intercepts_[0][:, None]]
    units = np.hstack([*parts, aggregate.coefs_[1]])
    return units[np.lexsort(np.round(units, 6).T)]


def test_without_rows(locals_):
    aggregate = PFNMAggregator(locals_, random_state=0).fit()
    assert aggregate.score(X[TEST], Y[TEST]) > 0.8
    (units,) = aggregate.n_units_
    assert 20 <= units < 60
    assert [len(own) for own in aggregate.assignments_[0]] == [20, 20, 20]
    assert aggregate.popularity_[0].shape == (3, units)
    np.testing.assert_array_equal(aggregate.popularity_[0].sum(axis=1), [20] * 3)
    assert len(aggregate.posterior_[0]) == units
    assert np.all(np.diff(aggregate.objective_[0]) >= -1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_of_usual_starts_on_standardised_rows_are_matched():
    rows = StandardScaler().fit(X[TRAIN]).transform(X)
    nodes = deal(n_nodes=5)
    locals_ = [
        MLPClassifier(30, max_iter=40, random_state=k).fit(
            rows[TRAIN][nodes == k], Y[TRAIN][nodes == k]
        )
        for k in range(5)
    ]
    aggregate = PFNMAggregator(locals_, random_state=0).fit()
    assert 30 <= aggregate.n_units_[0] < 100
    alone = np.mean([own.score(rows[TEST], Y[TEST]) for own in locals_])
    ensemble = np.mean([own.predict_proba(rows[TEST]) for own in locals_], axis=0)
    together = np.mean(ensemble.argmax(axis=1) == Y[TEST])
    accuracy = aggregate.score(rows[TEST], Y[TEST])
    assert accuracy > max(alone + 0.08, together - 0.04)


def test_class_counts_help_where_nodes_differ():
    nodes = deal("dirichlet")
    locals_ = fitted(nodes)
    counts = [np.bincount(Y[TRAIN][nodes == k], minlength=10) for k in range(3)]
    alone = np.mean([local.score(X[TEST], Y[TEST]) for local in locals_])
    given = PFNMAggregator(locals_, random_state=0).fit(n_class_samples=counts)
    assert given.score(X[TEST], Y[TEST]) > alone + 0.1
    # Rows are counted: the same shares, but for the confidence fitted on them.
    counted = PFNMAggregator(locals_, random_state=0).fit(X[TRAIN], Y[TRAIN], nodes)
    np.testing.assert_array_equal(counted.predict(X[TEST]), given.predict(X[TEST]))
    equal = PFNMAggregator(locals_, class_precision="equal", random_state=0)
    equal.fit(n_class_samples=counts)
    plain = PFNMAggregator(locals_, random_state=0).fit()
    np.testing.assert_array_equal(equal.coefs_[1], plain.coefs_[1])
    assert not np.allclose(equal.coefs_[1].sum(), given.coefs_[1].sum())


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_order_of_units_and_nodes_does_not_matter(locals_, deep, order):
    settings = {"random_state": 0, "layer_order": order}
    straight = PFNMAggregator(locals_, **settings).fit()
    others = [permuted(local, seed) for seed, local in enumerate(locals_)]
    shuffled = PFNMAggregator([others[k] for k in (2, 0, 1)], **settings).fit()
    np.testing.assert_allclose(
        sorted_units(straight), sorted_units(shuffled), atol=1e-8
    )
    straight = PFNMAggregator(deep, **settings).fit()
    others = [permuted(local, seed) for seed, local in enumerate(deep)]
    shuffled = PFNMAggregator([others[k] for k in (2, 0, 1)], **settings).fit()
    assert straight.n_units_ == shuffled.n_units_
    np.testing.assert_allclose(
        straight.predict_proba(X[TEST]), shuffled.predict_proba(X[TEST]), atol=1e-8
    )


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_copies_and_a_single_network_come_back(locals_, deep, order):
    for local in (locals_[0], deep[0]):
        sizes = tuple(len(b) for b in local.intercepts_[:-1])
        for n in (1, 4):
            copies = [permuted(local, seed) for seed in range(n)]
            aggregate = PFNMAggregator(copies, layer_order=order, random_state=0).fit()
            assert aggregate.n_units_ == sizes
            np.testing.assert_allclose(
                aggregate.predict_proba(X[TEST]), local.predict_proba(X[TEST])
            )


def test_with_nothing_matched_it_is_the_ensemble_of_logits(locals_):
    aggregate = PFNMAggregator(locals_, gamma0=1e30, sigma=0.1, sigma0=0.1).fit()
    assert aggregate.n_units_ == (60,)
    # All units are shrunk alike, so only the biases keep it from the mean of logits.
    agree = np.mean(
        aggregate.predict(X[TEST])
        == np.argmax(
            np.mean([np.log(own.predict_proba(X[TEST])) for own in locals_], 0), axis=1
        )
    )
    assert agree > 0.95


def test_layers_and_widths(deep):
    aggregate = PFNMAggregator(deep, sigma=[0.3, 0.5], gamma0=[1.0, 2.0]).fit()
    assert [c.shape[1] for c in aggregate.coefs_[:-1]] == list(aggregate.n_units_)
    assert aggregate.sigma_ == [0.3, 0.5]
    alone = np.mean([local.score(X[TEST], Y[TEST]) for local in deep])
    assert aggregate.score(X[TEST], Y[TEST]) > alone - 0.05
    capped = PFNMAggregator(deep, max_units=[20, None]).fit()
    assert capped.n_units_[0] <= 20


def test_nodes_of_one_unit_or_none_and_zero_weights(nodes, locals_):
    one = network(1).fit(X[TRAIN][nodes == 0], Y[TRAIN][nodes == 0])
    constant = DummyClassifier().fit(X[:5], np.full(5, Y[0]))
    zero = clone(locals_[1]).fit(X[TRAIN], Y[TRAIN])
    zero.coefs_ = [np.zeros_like(coef) for coef in zero.coefs_]
    aggregate = PFNMAggregator([locals_[0], one, constant, zero]).fit()
    assert [len(own) for own in aggregate.assignments_[0]] == [20, 1, 0, 20]
    assert np.isfinite(aggregate.predict_proba(X[TEST])).all()
    only = PFNMAggregator([constant, constant]).fit()
    assert only.n_units_ == ()
    assert set(only.predict(X[TEST])) == {Y[0]}


def test_errors_name_the_node(locals_, deep):
    broken = clone(locals_[0]).fit(X[TRAIN], Y[TRAIN])
    broken.coefs_[0][0, 0] = np.nan
    linear = LogisticRegression().fit(X[TRAIN], Y[TRAIN])
    tanh = network(activation="tanh").fit(X[TRAIN], Y[TRAIN])
    cases = [
        ([("a", locals_[0]), ("b", broken)], ValueError, "Node 'b'"),
        ([("a", locals_[0]), ("b", linear)], TypeError, "'b' is a linear model"),
        ([("a", locals_[0]), ("b", tanh)], ValueError, "'b' has the activations"),
        ([("a", locals_[0]), ("b", deep[0])], ValueError, "'b' has 2 hidden layers"),
    ]
    for estimators, kind, message in cases:
        with pytest.raises(kind, match=message):
            PFNMAggregator(estimators).fit()
    for parameters, message in [
        ({"max_units": 19}, "max_units is 19"),
        ({"sigma": [1.0, 2.0]}, "one per hidden layer"),
        ({"gamma0": [-1.0]}, "each positive"),
        ({"gamma0": ["best"]}, "each positive or 'auto'"),
        ({"max_units": [0]}, "each positive or None"),
        ({"n_rounds": 2}, "give fit X and y"),
    ]:
        with pytest.raises(ValueError, match=message):
            PFNMAggregator(locals_, **parameters).fit()
    for counts in (np.ones((3, 4)), np.full((3, 10), np.inf)):
        with pytest.raises(ValueError, match="n_class_samples must hold"):
            PFNMAggregator(locals_).fit(n_class_samples=counts)
    with pytest.raises(ValueError, match="not fitted"):
        PFNMAggregator([network()]).fit()


def test_seeded_and_float32(locals_):
    one, two = (PFNMAggregator(locals_, random_state=3).fit() for _ in range(2))
    np.testing.assert_array_equal(one.coefs_[0], two.coefs_[0])
    single = PFNMAggregator(locals_, random_state=3, dtype="float32").fit()
    assert single.coefs_[0].dtype == np.float32
    np.testing.assert_allclose(single.coefs_[0], one.coefs_[0], atol=1e-4)


def test_search_over_sigma_and_mass(locals_):
    grid = {"sigma": [0.1, 100.0], "gamma0": [0.5, 2.0]}
    search = GridSearchCV(PFNMAggregator(locals_, random_state=0), grid, cv=3)
    search.fit(X[TRAIN], Y[TRAIN])
    scores = search.cv_results_["mean_test_score"]
    assert len(set(np.round(scores, 9))) > 1
    assert search.score(X[TEST], Y[TEST]) > 0.75


def test_in_a_pipeline_and_over_jobs(nodes):
    def fit(**parameters):
        aggregate = PFNMAggregator(network(), random_state=0, **parameters)
        pipeline = make_pipeline(StandardScaler(), aggregate)
        return pipeline.fit(X[TRAIN], Y[TRAIN], pfnmaggregator__nodes=nodes)

    one = fit()
    assert one.score(X[TEST], Y[TEST]) > 0.8
    with parallel_config("threading"):
        two = fit(n_jobs=2)
    np.testing.assert_array_equal(one[-1].coefs_[0], two[-1].coefs_[0])
    other = one.set_params(pfnmaggregator__random_state=1)
    other.fit(X[TRAIN], Y[TRAIN], pfnmaggregator__nodes=nodes)
    assert not np.array_equal(other[-1].coefs_[0], two[-1].coefs_[0])


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
@pytest.mark.parametrize("hidden", [(16,), (14, 12)])
def test_stream(hidden, order):
    nodes = deal("dirichlet", 2)
    step = partition_homogeneous(Y[TRAIN], 3, random_state=0)
    aggregate, scores = None, []
    for s in range(3):
        batch = []
        for k in range(2):
            own = (nodes == k) & (step == s)
            rows, y = X[TRAIN][own], Y[TRAIN][own]
            if aggregate is None:
                batch.append((f"n{k}", network(hidden, k).fit(rows, y)))
                continue
            start = aggregate.node_init(f"n{k}", hidden)
            assert start.hidden_layer_sizes == hidden
            start.set_params(learning_rate_init=0.01)
            for _ in range(30):
                start.partial_fit(rows, y)
            batch.append((f"n{k}", start))
        if aggregate is None:
            aggregate = PFNMAggregator(batch, layer_order=order, random_state=0).fit()
        else:
            before = [own.copy() for own in aggregate.popularity_]
            assert aggregate.update(batch) is aggregate
            for old, new in zip(before, aggregate.popularity_, strict=True):
                grown = new[:, : old.shape[1]] - old
                assert grown.min() >= 0 and grown.max() == 1
        scores.append(aggregate.score(X[TEST], Y[TEST]))
    assert aggregate.n_steps_ == 3
    assert scores[-1] > scores[0] - 0.05
    assert scores[-1] > (0.7 if order == "bottom_up" else 0.5)
    plain = aggregate.to_estimator()
    np.testing.assert_allclose(
        plain.predict_proba(X[TEST]), aggregate.predict_proba(X[TEST])
    )


def test_the_same_networks_again_change_nothing_but_the_certainty(locals_):
    aggregate = PFNMAggregator(locals_, gamma0=1e-6, random_state=0).fit()
    before, sure = aggregate.n_units_, aggregate.posterior_[0].precision.copy()
    labels = aggregate.predict(X[TEST])
    aggregate.update([(str(k), local) for k, local in enumerate(locals_)])
    assert aggregate.n_units_ == before
    assert np.all(aggregate.posterior_[0].precision > sure)
    assert np.mean(aggregate.predict(X[TEST]) == labels) > 0.95


def test_a_stream_may_bring_nodes_and_classes(locals_):
    few = Y[TRAIN] < 6
    first = network().fit(X[TRAIN][few], Y[TRAIN][few])
    aggregate = PFNMAggregator([("a", first)]).fit()
    assert len(aggregate.classes_) == 6
    aggregate.update([("b", locals_[1])])
    assert aggregate.node_names_ == ["a", "b"]
    np.testing.assert_array_equal(aggregate.classes_, range(10))
    assert aggregate.score(X[TEST], Y[TEST]) > 0.6
    layers = Layers([np.eye(3), np.eye(3)], [np.zeros(3)] * 2, "relu")
    narrow = to_mlp_classifier(layers, np.arange(3))
    with pytest.raises(ValueError, match="take 3 features"):
        aggregate.update([("a", narrow)])
    with pytest.raises(ValueError, match="n_class_samples must hold"):
        aggregate.update([("c", locals_[2])], n_class_samples=np.ones((2, 10)))
    # What could not be taken in left no trace.
    assert aggregate.node_names_ == ["a", "b"] and aggregate.n_steps_ == 2
    for node in ("c", 2, -1):
        with pytest.raises(ValueError, match="no node"):
            aggregate.node_init(node)
    for units in (0, [3, 4]):
        with pytest.raises(ValueError, match="n_units must be"):
            aggregate.node_init("a", units)
    with pytest.raises(ValueError, match="n_fresh must not"):
        aggregate.node_init("a", n_fresh=-1)


def of_equal_units(*, biases, hidden=(3,), n_classes=3):
    """Networks of the same units with other outgoing weights and output biases."""
    common = np.random.RandomState(9)
    widths = [4, *hidden]
    coefs = [
        3 * np.eye(*shape) + 0.1 * common.normal(size=shape)
        for shape in zip(widths[:-1], widths[1:], strict=True)
    ]
    networks = []
    for bias in biases:
        last = np.eye(widths[-1], n_classes)
        last = last + 0.1 * common.normal(size=last.shape)
        layers = Layers(
            [*coefs, last], [*map(np.zeros, hidden), np.array(bias)], "tanh"
        )
        networks.append(to_mlp_classifier(layers, np.arange(n_classes)))
    return networks


def output_layer(aggregate):
    """Weights that leave the last units, in an order of their own, and biases."""
    units = aggregate.coefs_[-1]
    return units[np.lexsort(np.round(units, 9).T)], aggregate.intercepts_[-1]


STREAMS = {
    "two": [[[1, 2, 3]], [[1000, 2, 3]]],
    "of several": [[[1, 5, 2], [0, 7, 2]], [[1000, 5, 9]], [[3, 5, 2], [8, 0, 1]]],
    "never counted before": [[[0, 5, 2], [0, 7, 2]], [[1000, 5, 9]]],
    "not counted again": [[[4, 5, 2], [1, 7, 2]], [[0, 5, 0]]],
}


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
@pytest.mark.parametrize("hidden", [(3,), (3, 3)])
@pytest.mark.parametrize("counts", STREAMS.values(), ids=STREAMS)
def test_a_stream_counts_the_rows_of_all_its_steps(counts, hidden, order):
    total = np.concatenate(counts).astype(float)
    biases = np.random.RandomState(0).normal(size=total.shape)
    networks = of_equal_units(biases=biases, hidden=hidden)
    members = [(str(k), network) for k, network in enumerate(networks)]
    options = {"sigma": 1.0, "layer_order": order, "random_state": 0}
    once = PFNMAggregator(members, **options).fit(n_class_samples=total)
    ends = np.cumsum([len(own) for own in counts])
    batches = [
        members[end - len(own) : end] for end, own in zip(ends, counts, strict=True)
    ]
    stream = PFNMAggregator(batches[0], **options).fit(n_class_samples=counts[0])
    for batch, own in zip(batches[1:], counts[1:], strict=True):
        stream.update(batch, n_class_samples=own)
    assert stream.n_units_ == once.n_units_ == hidden
    for one, other in zip(output_layer(stream), output_layer(once), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    share = total / total.sum(axis=0)
    centred = biases - biases.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(stream.intercepts_[-1], (share * centred).sum(axis=0))


def test_without_counts_a_step_counts_as_much_as_another():
    biases = np.array([[3.0, 0, -3], [1, -1, 0], [-2, 4, -2]])
    a, b, c = of_equal_units(biases=biases)
    counts = np.array([[1, 1, 1]])
    for first, second in [(None, None), (counts, None), (None, 1000 * counts)]:
        stream = PFNMAggregator([("a", a)], sigma=1.0).fit(n_class_samples=first)
        stream.update([("b", b)], n_class_samples=second)
        stream.update([("c", c)], n_class_samples=1000 * counts)
        np.testing.assert_allclose(stream.intercepts_[-1], biases.mean(axis=0))


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_an_update_of_a_copy_leaves_the_original(locals_, deep, order):
    few = Y[TRAIN] < 6
    old = network((6, 5)).fit(X[TRAIN][few], Y[TRAIN][few])
    aggregate = PFNMAggregator([("a", old), ("b", old)], layer_order=order)
    aggregate.fit(X[TRAIN][few], Y[TRAIN][few])
    before = {name: pickle.dumps(value) for name, value in vars(aggregate).items()}
    labels = aggregate.predict_proba(X[TEST])
    for batch in ([("a", old)], [("c", deep[0])], [("b", old), ("c", deep[1])]):
        counts = np.full((len(batch), 6 if batch[-1][1] is old else 10), 5)
        other = copy.copy(aggregate).update(batch, n_class_samples=counts)
        assert other.n_steps_ == 2
        # Nor is anything written to what the copy has.
        for name in ("sigma_", "sigma0_", "assignments_", "popularity_"):
            getattr(other, name).clear()
        for array in (*other.coefs_, *other.intercepts_, *other.posterior_):
            getattr(array, "linear", array)[...] = np.nan
        after = {name: pickle.dumps(value) for name, value in vars(aggregate).items()}
        assert after == before
    np.testing.assert_array_equal(aggregate.predict_proba(X[TEST]), labels)
    # What is published is not what the next step goes on from.
    expected = copy.copy(aggregate).update([("a", old)])
    shallow = copy.copy(aggregate)
    shallow.sigma_[0] = 7.0
    for array in (*shallow.popularity_, shallow.posterior_[0].linear):
        array[...] = 3
    aggregate.update([("a", old)])
    assert aggregate.sigma_ == expected.sigma_
    np.testing.assert_array_equal(aggregate.coefs_[0], expected.coefs_[0])
    np.testing.assert_array_equal(aggregate.popularity_[0], expected.popularity_[0])


@pytest.mark.parametrize("named", [False, True])
def test_a_stream_takes_no_newcomer_for_an_old_node(locals_, named):
    first = [("a", locals_[0])] if named else [locals_[0]]
    aggregate = PFNMAggregator(first).fit()
    for batch in ([locals_[1]], locals_[1:], locals_[1]):
        with pytest.raises(ValueError, match="without names.*Name.*'0', '1'") as error:
            aggregate.update(batch)
    assert str(["a"] if named else ["0"]) in str(error.value)
    assert aggregate.n_steps_ == 1
    name = aggregate.node_names_[0]
    aggregate.update([("new", locals_[1]), (name, locals_[0])])
    assert aggregate.node_names_ == [name, "new"]
    np.testing.assert_array_equal(aggregate.popularity_[0].sum(axis=1), [40, 20])


def test_columns_must_be_the_same_at_all_nodes_and_steps(locals_):
    pandas = pytest.importorskip("pandas")
    columns = [f"x{j}" for j in range(64)]
    first, other = (
        network(4, tol=1.0).fit(pandas.DataFrame(X[:200], columns=names), Y[:200])
        for names in (columns, columns[::-1])
    )
    with pytest.raises(ValueError, match="'b' was fitted on features"):
        PFNMAggregator([("a", first), ("b", other)]).fit()
    aggregate = PFNMAggregator([("a", first)]).fit()
    with pytest.raises(ValueError, match="'b' was fitted on features"):
        aggregate.update([("b", other)])
    # Nodes without names are taken at their word.
    assert aggregate.update([("c", locals_[0])]).n_steps_ == 2


def test_a_stream_goes_on_after_rounds(nodes):
    locals_ = fitted(nodes, (20, 12, 16), max_iter=15, tol=1.0)
    aggregate = PFNMAggregator(locals_, n_rounds=2, random_state=0)
    aggregate.fit(X[TRAIN], Y[TRAIN], nodes)
    before, n_units = aggregate.score(X[TEST], Y[TEST]), aggregate.n_units_[0]
    np.testing.assert_array_equal(aggregate.popularity_[0], np.ones((3, n_units)))
    batch = []
    for k in range(3):
        start = aggregate.node_init(k).set_params(learning_rate_init=0.001)
        for _ in range(5):
            start.partial_fit(X[TRAIN][nodes == k], Y[TRAIN][nodes == k])
        batch.append((str(k), start))
    aggregate.update(batch)
    assert aggregate.score(X[TEST], Y[TEST]) > before - 0.01
    used = aggregate.popularity_[0]
    assert used.shape == (3, aggregate.n_units_[0])
    np.testing.assert_array_equal(used[:, :n_units].min(axis=1) >= 1, [True] * 3)


def test_rounds_train_on_from_the_merged_network(nodes):
    locals_ = fitted(nodes, max_iter=15, tol=1.0)
    states = [local.coefs_[0].copy() for local in locals_]
    scores = [
        PFNMAggregator(locals_, n_rounds=n, n_epochs=5, random_state=0)
        .fit(X[TRAIN], Y[TRAIN], nodes)
        .score(X[TEST], Y[TEST])
        for n in (1, 4)
    ]
    assert scores[1] > scores[0]
    for local, state in zip(locals_, states, strict=True):
        np.testing.assert_array_equal(local.coefs_[0], state)
    with pytest.raises(TypeError, match="cannot go on training"):
        lbfgs = [network(solver="lbfgs", max_iter=500)] * 2
        PFNMAggregator(lbfgs, n_rounds=2).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_rounds_in_which_nothing_is_learned_change_nothing(nodes, locals_, deep, order):
    for networks in (locals_, deep):
        slow = [deepcopy(n).set_params(learning_rate_init=1e-20) for n in networks]
        once, thrice = (
            PFNMAggregator(slow, n_rounds=n, layer_order=order, random_state=0).fit(
                X[TRAIN], Y[TRAIN], nodes
            )
            for n in (1, 3)
        )
        assert thrice.n_units_ == once.n_units_
        for new, old in zip(thrice.coefs_, once.coefs_, strict=True):
            np.testing.assert_allclose(new, old, atol=1e-8)
        # A node now has all units of the merged network.
        for layer, n_units in zip(thrice.assignments_, thrice.n_units_, strict=True):
            assert [len(set(own.tolist())) for own in layer] == [n_units] * 3


def test_rounds_where_nodes_lack_classes_and_have_other_widths():
    nodes = deal("dirichlet")
    locals_ = fitted(nodes, (20, 12, 16), max_iter=15, tol=1.0)
    # The third knows five classes only, and a node may be constant.
    some = (nodes == 2) & (Y[TRAIN] < 5)
    locals_[2] = network(16, 2).fit(X[TRAIN][some], Y[TRAIN][some])
    kept = (nodes != 2) | some
    rows, y, nodes = X[TRAIN][kept], Y[TRAIN][kept], nodes[kept].copy()
    constant = DummyClassifier().fit(rows[:1], y[:1])
    nodes[np.flatnonzero(y == y[0])[:20]] = 3
    scores = {}
    for n, units in [(1, "all"), (4, "all"), (4, "own")]:
        aggregate = PFNMAggregator(
            [*locals_, constant], n_rounds=n, round_units=units, random_state=0
        )
        aggregate.fit(rows, y, nodes)
        scores[n, units] = aggregate.score(X[TEST], Y[TEST])
        widths = [len(own) for own in aggregate.assignments_[0]]
        if units == "own" or n == 1:
            assert widths == [20, 12, 16, 0]
    assert scores[4, "all"] > scores[1, "all"]
    again = PFNMAggregator([*locals_, constant], n_rounds=2, random_state=0)
    one = again.fit(rows, y, nodes).coefs_[0]
    with parallel_config("threading", n_jobs=2):
        two = clone(again).fit(rows, y, nodes).coefs_[0]
    np.testing.assert_array_equal(one, two)


def test_a_stream_goes_on_from_the_whole_network_or_from_some_units(locals_):
    aggregate = PFNMAggregator(locals_, random_state=0).fit()
    start = aggregate.node_init(0)
    np.testing.assert_allclose(
        start.predict_proba(X[TEST]), aggregate.predict_proba(X[TEST])
    )
    more = aggregate.node_init("0", n_fresh=3)
    assert more.hidden_layer_sizes in (
        aggregate.n_units_[0] + 3,
        (aggregate.n_units_[0] + 3,),
    )
    few = aggregate.node_init(1, 10, n_fresh=0)
    known = {tuple(unit) for unit in np.round(aggregate.coefs_[0].T, 9)}
    assert all(tuple(unit) in known for unit in np.round(few.coefs_[0].T, 9))


def test_rounds_of_deep_networks_start_where_equal_nodes_are(deep, nodes):
    # Copies are matched unit by unit, so a node gets back its own network.
    for order in ("bottom_up", "top_down"):
        copies = [permuted(deep[0], seed) for seed in range(3)]
        aggregate = PFNMAggregator(copies, layer_order=order, random_state=0).fit()
        own = read_network(copies[1])
        back = own_units(aggregate._stream.match, 1, own, aggregate.classes_)
        logits, expected = (n.decision_function(X[TEST]) for n in (back, own))
        logits -= logits.mean(axis=1, keepdims=True)
        expected -= expected.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(logits, expected, atol=1e-8)


def test_fine_tuning_on_public_rows(locals_, nodes):
    aggregate = PFNMAggregator(locals_, sigma=3.0, random_state=0).fit()
    before = aggregate.score(X[TEST], Y[TEST])
    aggregate.fine_tune(X[:300], Y[:300])
    assert aggregate.score(X[TEST], Y[TEST]) > before
    public = np.where(np.arange(len(nodes)) < 300, -1, nodes)
    tuned = PFNMAggregator(locals_, sigma=3.0, random_state=0)
    tuned.fit(X[TRAIN], Y[TRAIN], public)
    assert tuned.fine_tuning_ is not None
    with pytest.raises(ValueError, match="labels that no node knows"):
        aggregate.fine_tune(X[:20], Y[:20] + 100)


@pytest.mark.parametrize("n_rows", [2, 4, 8, 20])
def test_a_few_correct_rows_cost_next_to_nothing(locals_, n_rows):
    start = PFNMAggregator(locals_, sigma=3.0, random_state=0).fit()
    before = start.score(X[TEST], Y[TEST])
    for seed in range(5):
        drawn = np.random.RandomState(seed).permutation(300)[:n_rows]
        tuned = deepcopy(start).fine_tune(X[drawn], Y[drawn])
        assert tuned.score(X[TEST], Y[TEST]) >= before - 0.02


def test_torch_networks():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")

    def net():
        return skorch.NeuralNetClassifier(
            torch.nn.Sequential(
                torch.nn.Linear(64, 12), torch.nn.ReLU(), torch.nn.Linear(12, 10)
            ),
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            lr=0.03,
            batch_size=64,
            max_epochs=8,
            train_split=None,
            verbose=0,
        )

    rows, y = X[:400].astype(np.float32), Y[:400]
    nodes = partition_homogeneous(y, 2, random_state=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        locals_ = [net().fit(rows[nodes == k], y[nodes == k]) for k in range(2)]
        aggregate = PFNMAggregator(locals_, random_state=0).fit()
        assert aggregate.score(X[TEST], Y[TEST]) > 0.6
        module = aggregate.to_module()
        logits = module(torch.tensor(X[TEST].astype(np.float32))).detach().numpy()
        np.testing.assert_array_equal(logits.argmax(axis=1), aggregate.predict(X[TEST]))
        again = PFNMAggregator(locals_, n_rounds=2, random_state=0)
        again.fit(rows, y, nodes)
        assert again.score(X[TEST], Y[TEST]) > 0.6


# ---- coordinates of the features ------------------------------------------------

SPREAD = X[TRAIN].std(axis=0)
FACTORS = 10 ** np.random.RandomState(0).uniform(-3, 3, size=64)
MOVES = {
    "by a hundred": lambda rows: rows + 100 * SPREAD,
    "times": lambda rows: rows * FACTORS,
    "times, by a hundred": lambda rows: (rows - 100 * SPREAD) * FACTORS,
}


def scaled_nodes(rows, nodes, hidden, seed=0, scaler=None, **parameters):
    """Named pipelines of scalers and networks, each fitted on its node's rows."""
    scaler = StandardScaler() if scaler is None else scaler
    return [
        (
            f"n{k}",
            make_pipeline(
                clone(scaler), network(hidden, seed + k, max_iter=20, **parameters)
            ).fit(rows[TRAIN][nodes == k], Y[TRAIN][nodes == k]),
        )
        for k in range(3)
    ]


def pfnm(rows, nodes, hidden, way):
    members = scaled_nodes(rows, nodes, hidden)
    if way == "once":
        return PFNMAggregator(members, random_state=0).fit()
    if way == "stream":
        aggregate = PFNMAggregator(members[:2], random_state=0).fit()
        return aggregate.update(scaled_nodes(rows, nodes, hidden, 5)[1:])
    options = {"rows": {}, "rounds": {"n_rounds": 3, "n_epochs": 2}}
    options["own rounds"] = {**options["rounds"], "round_units": "own"}
    aggregate = PFNMAggregator(members, random_state=0, **options[way])
    return aggregate.fit(rows[TRAIN], Y[TRAIN], [f"n{k}" for k in nodes])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("way", ["once", "stream", "rows", "rounds", "own rounds"])
@pytest.mark.parametrize(
    "hidden", [(20,), pytest.param((16, 12), marks=pytest.mark.slow)]
)
def test_features_may_be_shifted_and_scaled_where_nodes_scale_them(nodes, hidden, way):
    # Among the features are some that are constant at all nodes or at one.
    spreads = [X[TRAIN][nodes == k].std(axis=0) for k in range(3)]
    assert np.any((np.min(spreads, axis=0) == 0) & (np.max(spreads, axis=0) > 0))
    plain = pfnm(X, nodes, hidden, way)
    labels, proba = plain.predict(X[TEST]), plain.predict_proba(X[TEST])
    assert plain.score(X[TEST], Y[TEST]) > 0.8
    for kind in ("by a hundred", "times, by a hundred"):
        move = MOVES[kind]
        moved = pfnm(move(X), nodes, hidden, way)
        assert moved.n_units_ == plain.n_units_
        np.testing.assert_array_equal(moved.predict(move(X[TEST])), labels)
        np.testing.assert_allclose(moved.predict_proba(move(X[TEST])), proba, atol=1e-6)
        for one, other in zip(moved.posterior_, plain.posterior_, strict=True):
            np.testing.assert_allclose(one.linear, other.linear, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_coordinates_are_those_that_the_pipelines_work_in(nodes, locals_):
    members = scaled_nodes(X, nodes, (12,))
    scalers = [pipeline[0] for _, pipeline in members]
    aggregate = PFNMAggregator(members, random_state=0).fit()
    found = aggregate.input_coordinates_
    np.testing.assert_allclose(
        found.center, np.mean([s.mean_ for s in scalers], axis=0), atol=1e-12
    )
    varying = np.min([s.var_ for s in scalers], axis=0) > 0
    scales = np.median([s.scale_ for s in scalers], axis=0)
    np.testing.assert_allclose(found.scale[varying], scales[varying])
    # The atoms' prior is in them: a lone unit is shrunk towards the centre.
    alone = PFNMAggregator(members[:1], sigma=1.0).fit().posterior_[0].mean
    own = members[0][1][1]
    order = PFNMAggregator(members[:1], sigma=1.0).fit().assignments_[0][0]
    np.testing.assert_allclose(alone[order, 64], own.intercepts_[0] / 2, atol=1e-9)
    # Bare networks have no say, nor have rows.
    assert PFNMAggregator(locals_).fit().input_coordinates_ is None
    mixed = PFNMAggregator([*members, ("bare", locals_[0])]).fit()
    np.testing.assert_array_equal(mixed.input_coordinates_.center, found.center)
    given = PFNMAggregator(members, class_precision="equal", random_state=0)
    given.fit(X[TRAIN], Y[TRAIN], [f"n{k}" for k in nodes])
    np.testing.assert_array_equal(
        given.posterior_[0].linear, aggregate.posterior_[0].linear
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scaler", ["center", "scale"])
def test_rounds_on_sparse_rows_are_those_on_dense_ones(nodes, scaler):
    scaler = StandardScaler(with_mean=scaler == "center")
    members = scaled_nodes(X, nodes, (12,), scaler=scaler)
    one, other = (
        PFNMAggregator(members, n_rounds=2, n_epochs=1, random_state=0).fit(
            rows, Y[TRAIN], [f"n{k}" for k in nodes]
        )
        for rows in (X[TRAIN], csr_matrix(X[TRAIN]))
    )
    # Rows that are only scaled make other gradients, and the same function to start at.
    tolerance = 1e-8 if not scaler.with_mean else 0.2
    np.testing.assert_allclose(
        one.predict_proba(X[TEST]), other.predict_proba(X[TEST]), atol=tolerance
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_node_starts_where_the_aggregate_is_on_features_as_they_are(nodes):
    rows = MOVES["times"](X)
    aggregate = PFNMAggregator(scaled_nodes(rows, nodes, (12,)), random_state=0).fit()
    np.testing.assert_allclose(
        aggregate.node_init("n1").predict_proba(rows[TEST]),
        aggregate.predict_proba(rows[TEST]),
    )
    fresh = aggregate.node_init("n1", 10, n_fresh=5)
    plain = PFNMAggregator(scaled_nodes(X, nodes, (12,)), random_state=0).fit()
    expected = plain.node_init("n1", 10, n_fresh=5).coefs_[0]
    known = np.isfinite(plain.input_coordinates_.scale)
    assert known.sum() > 50
    found = fresh.coefs_[0] * FACTORS[:, None]
    np.testing.assert_allclose(found[known], expected[known], atol=1e-6)


# ---- what nodes are asked ------------------------------------------------------


def tasks(aggregate):
    return [entry["task"] for entry in aggregate.history_]


def test_nodes_count_and_calibrate_where_that_is_needed(nodes, locals_):
    rows = X[TRAIN], Y[TRAIN], nodes
    told = ["evaluate"] * 4
    assert PFNMAggregator(locals_).fit().history_ == []
    assert tasks(PFNMAggregator(locals_).fit(*rows)) == ["counts", *told]
    assert tasks(PFNMAggregator(locals_, class_precision="equal").fit(*rows)) == told
    counts = np.array(
        [np.bincount(Y[TRAIN][nodes == k], minlength=10) for k in range(3)]
    )
    given = PFNMAggregator(locals_, random_state=0)
    given.fit(*rows, n_class_samples=counts)
    assert tasks(given) == told
    asked = PFNMAggregator(locals_, random_state=0).fit(*rows)
    for one, two in zip(given.coefs_, asked.coefs_, strict=True):
        np.testing.assert_array_equal(one, two)
    alone = PFNMAggregator(locals_[:1], n_rounds=2).fit(X[TRAIN], Y[TRAIN])
    assert tasks(alone) == ["counts", "retrain"]


def lost(monkeypatch, name, rounds=(1,)):
    """Let a node fail in some of the rounds; what others replied, by round."""
    answer, begun, replies = channel_module.answer, [], []

    def dying(request, member):
        if request.task == "retrain":
            if member.name == name:
                begun.append(id(request))
                if len(set(begun)) in rounds:
                    raise OSError("gone")
            replies.append((member.name, request, answer(request, member)))
            return replies[-1][-1]
        return answer(request, member)

    monkeypatch.setattr(channel_module, "answer", dying)
    return replies


def test_a_node_that_is_left_out_of_a_round_is_not_in_its_mean(monkeypatch):
    some = np.arange(600)
    twin = network(12).fit(X[some[:300]], Y[some[:300]])
    other = network(16, 1).fit(X[some[300:]], Y[some[300:]])
    rows = np.r_[some[:300], some[:300], some[300:]]
    aggregate = PFNMAggregator(
        [("a", twin), ("c", deepcopy(twin)), ("b", other)], n_rounds=2, random_state=0
    )
    replies = lost(monkeypatch, "b")
    owners = np.repeat(["a", "c", "b"], 300)
    with pytest.warns(UserWarning, match="'b' failed twice in message 2"):
        aggregate.fit(X[rows], Y[rows], owners)
    # Where all that came have changed alike, the mean has changed as they have.
    (_, request, reply), _ = replies
    trained, start = (message.content["coefs"][0] for message in (reply, request))
    assert abs(trained - start).max() > 0.005
    np.testing.assert_allclose(aggregate.coefs_[0], trained, atol=1e-9)
    n_units = aggregate.n_units_[0]
    assert [len(own) for own in aggregate.assignments_[0]] == [n_units, n_units, 0]
    np.testing.assert_array_equal(
        aggregate.popularity_[0], np.repeat([[1], [1], [0]], n_units, axis=1)
    )
    assert [entry["left_out"] for entry in aggregate.history_][:2] == [[], ["b"]]
    aggregate.update([("b", other)])


@pytest.mark.parametrize("units", ["all", "own"])
def test_a_node_that_was_left_out_comes_back(nodes, locals_, units, monkeypatch):
    aggregate = PFNMAggregator(
        locals_, n_rounds=3, n_epochs=2, round_units=units, random_state=0
    )
    replies = lost(monkeypatch, "1")
    with pytest.warns(UserWarning, match="'1' failed twice"):
        aggregate.fit(X[TRAIN], Y[TRAIN], nodes)
    own = next(request for name, request, _ in replies if name == "1")
    widths = [len(own) for own in aggregate.assignments_[0]]
    if units == "own":
        assert own.content["coefs"][0].shape[1] == widths[1] == 20
    else:
        others = [request for name, request, _ in replies if name == "0"]
        np.testing.assert_array_equal(
            own.content["coefs"][0], others[1].content["coefs"][0]
        )
        assert widths[1] > 20
    assert aggregate.score(X[TEST], Y[TEST]) > 0.85


@pytest.mark.parametrize("units", ["all", "own"])
def test_who_alone_knows_a_class_is_not_left_out_of_the_mean(units, monkeypatch):
    nodes = np.arange(len(Y[TRAIN])) % 2
    kept = (nodes == 1) | (Y[TRAIN] < 7)
    rows, y, nodes = X[TRAIN][kept], Y[TRAIN][kept], nodes[kept]
    members = fitted_on(rows, y, nodes)
    lost(monkeypatch, "1")
    aggregate = PFNMAggregator(members, n_rounds=2, round_units=units, random_state=0)
    with pytest.warns(UserWarning, match="'1' failed twice"):
        aggregate.fit(rows, y, nodes)
    rare = Y[TEST] >= 7
    assert aggregate.score(X[TEST][rare], Y[TEST][rare]) > 0.3
    assert len(aggregate.assignments_[0][1]) >= 20


def fitted_on(rows, y, nodes):
    return [network(20, k).fit(rows[nodes == k], y[nodes == k]) for k in range(2)]
