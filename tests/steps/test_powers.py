# SPDX-License-Identifier: BSD-3-Clause
"""Powers of columns are the likeliest ones, between those at which nodes tell sums."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import boxcox, expit, inv_boxcox
from scipy.stats import boxcox_llf, norm, yeojohnson_llf
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from skgems import PooledAggregator, PooledTransformer
from skgems.asking import Message

GRID = np.linspace(-2, 4, 25)
METHODS = {"box-cox": boxcox_llf, "yeo-johnson": yeojohnson_llf}
ignore_powers_beyond = pytest.mark.filterwarnings(
    "ignore:PowerTransformer finds no likeliest power"
)


def columns(method, n_rows=400):
    """Six columns skewed to the right, to the left and not at all, tight and wide."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n_rows, 6))
    X = np.column_stack(
        [
            np.exp(0.3 * z[:, 0]),
            np.exp(z[:, 1]),
            100.0 + z[:, 2],
            np.abs(z[:, 3]) ** 0.3,
            rng.chisquare(3, n_rows),
            expit(2 * z[:, 5]),
        ]
    )
    X[:, [0, 3]] *= -1 if method == "yeo-johnson" else 1
    return X


def fit(X, method, **options):
    """Powers of columns, fitted on the sums of three nodes of different values."""
    transformer = PowerTransformer(method=method, **options)
    nodes = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.2, 0.7]))
    return PooledTransformer(transformer).fit(X, nodes=nodes)


@cache
def fitted(method):
    """Powers of the columns of a method, which several tests begin with."""
    return fit(columns(method), method)


@cache
def honest_message(method):
    """What a node that has all rows of these columns sends."""
    return fitted(method).summarize(columns(method), name="liar", disclosure=None)


def after(powers, X, method):
    """Columns after powers, by scikit-learn."""
    plain = PowerTransformer(method=method, standardize=False).fit(X)
    plain.lambdas_ = np.broadcast_to(powers, X.shape[1:]).astype(float)
    return plain.transform(X)


@pytest.mark.parametrize("method", METHODS)
def test_powers_are_the_likeliest(method):
    X = columns(method)
    likelihood = METHODS[method]
    pooled = fitted(method)
    powers = pooled.transformer_.lambdas_
    for power, column in zip(powers, X.T, strict=True):
        others = np.concatenate([GRID, power + [-0.02, -0.005, 0.005, 0.02]])
        inside = others[(others >= GRID[0]) & (others <= GRID[-1])]
        best = max(likelihood(p, column) for p in inside)
        assert likelihood(power, column) > best - 1e-3
    # Nearly all lie between those at which nodes tell sums.
    assert np.mean(np.isin(powers, GRID)) < 0.5
    (error,) = fit(X[:, [0, 1, 3, 4, 5]], method).errors_.values()
    assert 0.0 < error < 0.1
    Z = pooled.transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(Z.std(axis=0), 1.0, atol=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_without_standardizing_there_are_powers_alone(method):
    X = columns(method)[:, ::2]
    pooled = fit(X, method, standardize=False)
    np.testing.assert_array_equal(
        pooled.transform(X), after(pooled.transformer_.lambdas_, X, method)
    )


@pytest.mark.parametrize("bend", [1.0, 1.5])  # normal, and with heavy tails
def test_wide_columns_around_zero_are_scaled_by_their_deviations(bend):
    # Means after neighboring powers are on either side of 0, and polynomials through
    # more and through fewer of them agree on one that is far off.
    z = norm.ppf((np.arange(40) + 0.5) / 40)
    z = z if bend == 1.0 else np.sinh(bend * z)
    X = np.column_stack(
        [unit * (m + z) for unit in 10.0 ** np.arange(1, 7) for m in (-1, -0.5, 0.1, 2)]
    )
    Z = PooledTransformer(PowerTransformer()).fit(X, nodes=np.arange(40) % 3)
    np.testing.assert_allclose(Z.transform(X).mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose(Z.transform(X).std(axis=0), 1.0, atol=0.02)


# Small numbers have no digits left once they are below 1 and their powers above it.
@pytest.mark.parametrize("unit, n_columns", [(1e-20, 2), (1e-3, 6), (1e20, 6)])
def test_units_do_not_change_powers_of_box_and_cox(unit, n_columns):
    X = columns("box-cox")
    powers = fitted("box-cox").transformer_.lambdas_
    Z = fitted("box-cox").transform(X)
    X_in_unit = unit * X[:, :n_columns]
    fitted_in_unit = fit(X_in_unit, "box-cox")
    np.testing.assert_allclose(
        fitted_in_unit.transformer_.lambdas_, powers[:n_columns], atol=1e-4
    )
    np.testing.assert_allclose(
        fitted_in_unit.transform(X_in_unit), Z[:, :n_columns], atol=1e-3
    )


@pytest.mark.parametrize("scaled", [False, True])
def test_large_numbers_have_powers_of_yeo_and_johnson(scaled):
    X = 1e9 * np.abs(columns("yeo-johnson"))
    transformer = PowerTransformer()
    if scaled:
        transformer = make_pipeline(StandardScaler(), transformer)
    Z = PooledTransformer(transformer).fit(X, nodes=np.arange(400) % 3).transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(Z.std(axis=0), 1.0, atol=0.01)


@ignore_powers_beyond
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_float32_have_powers_after_which_they_have_digits(method):
    # The likeliest power is far below 0, after which float32 keeps nothing of 100,000
    # and some hundreds.
    rng = np.random.default_rng(0)
    X = np.float32(1e5 + 300 * rng.exponential(size=(200, 2)))
    Z = fit(X, method).transform(X)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z.std(axis=0), 1.0, atol=0.02)
    np.testing.assert_allclose(np.corrcoef(Z[:, 0], X[:, 0])[0, 1], 1.0, atol=1e-3)


def symmetric(spread, n_rows=200):
    """Quantiles of a normal, so that no power but one makes them symmetric again."""
    return spread * norm.ppf((np.arange(n_rows) + 0.5) / n_rows)[:, None]


SPREADS = [0.01, 0.3, 1.0, 3.0]


def lognormal(spread):
    """A column that the logarithm, the power 0 of Box-Cox, makes symmetric."""
    return np.exp(symmetric(spread))


def shifted_lognormal(spread):
    """A column that log(1 + x), the power 0 of Yeo-Johnson, makes symmetric.

    All values are positive, since negative ones have another formula.
    """
    return np.expm1(symmetric(spread) + 4.0 * spread)


def check_power_is_near_but_not_at(pole, pooled):
    """The power is no pole either as a float64 or as a float32."""
    (power,) = pooled.transformer_.lambdas_
    assert power != pole
    assert np.float32(power) != np.float32(pole)
    assert power == pytest.approx(pole, abs=0.15)


def check_columns_have(expected, Z, *, spread):
    """The transformed columns are as good as those of the pole itself."""
    np.testing.assert_allclose(
        Z, StandardScaler().fit_transform(expected), atol=2e-3 + 5e-4 * spread
    )


def check_formula_in_float32(numerator, exponent, pooled, Z):
    """The formula leaves float32 enough digits as it is written."""
    assert numerator.dtype == np.float32
    scaled = pooled.transformer_._scaler.transform(numerator / np.float32(exponent))
    np.testing.assert_allclose(scaled, Z, atol=5e-3)


@pytest.mark.parametrize("spread", SPREADS)
def test_no_power_of_box_cox_is_0_by_which_the_formula_divides(spread):
    X = lognormal(spread)
    pooled = fit(X, "box-cox")
    check_power_is_near_but_not_at(0.0, pooled)
    Z = pooled.transform(X)
    check_columns_have(np.log(X), Z, spread=spread)
    # (x^p - 1) / p
    power = np.float32(pooled.transformer_.lambdas_[0])
    check_formula_in_float32(np.float32(X) ** power - np.float32(1), power, pooled, Z)


@pytest.mark.parametrize("spread", SPREADS)
def test_no_power_of_yeo_johnson_is_0_by_which_the_formula_divides(spread):
    X = shifted_lognormal(spread)
    pooled = fit(X, "yeo-johnson")
    check_power_is_near_but_not_at(0.0, pooled)
    Z = pooled.transform(X)
    check_columns_have(np.log1p(X), Z, spread=spread)
    # ((1 + x)^p - 1) / p
    power = np.float32(pooled.transformer_.lambdas_[0])
    base = np.float32(1) + np.float32(X)
    check_formula_in_float32(base**power - np.float32(1), power, pooled, Z)


@pytest.mark.parametrize("spread", SPREADS)
def test_no_power_of_yeo_johnson_is_2_by_which_the_formula_divides(spread):
    X = -shifted_lognormal(spread)
    pooled = fit(X, "yeo-johnson")
    check_power_is_near_but_not_at(2.0, pooled)
    Z = pooled.transform(X)
    check_columns_have(-np.log1p(-X), Z, spread=spread)
    # -((1 - x)^(2 - p) - 1) / (2 - p)
    exponent = np.float32(2 - pooled.transformer_.lambdas_[0])
    base = np.float32(1) - np.float32(X)
    numerator = np.float32(1) - base**exponent
    check_formula_in_float32(numerator, exponent, pooled, Z)


def test_columns_that_the_sums_say_little_of_keep_a_power_of_the_grid():
    # One value is so far off that it alone is what polynomials would have to follow.
    rng = np.random.default_rng(0)
    X = np.exp(rng.standard_t(1.5, size=(300, 1)))
    pooled = fit(X, "box-cox")
    power = pooled.transformer_.lambdas_
    nearest = GRID[np.argmin(np.abs(GRID - power))]
    assert np.abs(power - nearest) <= 1e-3
    assert list(pooled.errors_.values()) == [0.25]
    near = [boxcox_llf(p, X[:, 0]) for p in GRID]
    assert boxcox_llf(power[0], X[:, 0]) > max(near) - 1e-2


@pytest.mark.parametrize("method", METHODS)
def test_columns_without_a_likeliest_power_stay_as_they_are(method):
    X = columns(method)
    X[:, 1] = 3.0
    X[:, 2] = np.nan
    X[:2, 2] = 4.0
    pooled = fit(X, method)
    assert pooled.transformer_.lambdas_[[1, 2]].tolist() == [1.0, 1.0]
    Z = pooled.transform(X)
    np.testing.assert_allclose(Z[:, 1], 0.0, atol=1e-12)
    np.testing.assert_allclose(Z[:2, 2], 0.0, atol=1e-12)
    variances = pooled.transformer_._scaler.var_
    np.testing.assert_allclose(variances[[1, 2]], 0.0, atol=1e-20)
    # Which is no error of theirs.
    assert fit(X[:, 1:2], method).errors_ == {}


def test_nodes_and_their_order_do_not_matter():
    X = columns("yeo-johnson")[:, ::2]
    powers = [
        PooledTransformer(PowerTransformer()).fit(X, nodes=nodes).transformer_.lambdas_
        for nodes in (None, np.arange(400) % 7, -(np.arange(400) % 7) + 6)
    ]
    for other in powers[1:]:
        np.testing.assert_allclose(other, powers[0], atol=1e-8)


@ignore_powers_beyond
@pytest.mark.parametrize(
    ("method", "mean"),
    [
        ("box-cox", -1e90),
        ("box-cox", -0.6),
        ("yeo-johnson", -0.6),
        ("yeo-johnson", 1e90),
    ],
)
def test_means_that_no_values_have_do_no_harm(method, mean):
    message = honest_message(method)
    (part,) = message.content["parts"].values()
    means = np.where(np.arange(len(part["means"])) % 2, part["means"].T, mean).T
    content = {**message.content, "parts": {"0": {**part, "means": means}}}
    lie = Message.of("front", **content).with_envelope(
        node="liar", to=message.envelope["to"]
    )
    transformer = PowerTransformer(method=method)
    fitted_to_lie = PooledTransformer(transformer, summaries=[lie]).fit().transformer_
    # What has the mean after the power that was taken is a number.
    assert np.isfinite(fitted_to_lie.inverse_transform(np.zeros((1, 6)))).all()


def test_powers_beyond_the_grid_are_its_ends_and_warned_of():
    # In these units scikit-learn finds powers of some -1,000 and -300.
    X = 1e-3 * columns("box-cox")[:, :2]
    told = r"no likeliest power for the columns \[0, 1\]: .* from -2 to 4"
    with pytest.warns(UserWarning, match=told):
        pooled = fit(X, "yeo-johnson")
    assert pooled.transformer_.lambdas_.tolist() == [-2.0, -2.0]
    assert list(pooled.errors_.values()) == [np.inf]
    assert boxcox(0.5, -2.0) == after(-2.0, np.array([[0.5], [0.7]]), "box-cox")[0, 0]


def test_scaled_columns_have_the_powers_of_scikit_learn():
    X = 1e-3 * columns("box-cox")
    steps = make_pipeline(StandardScaler(), PowerTransformer())
    pooled = PooledTransformer(steps).fit(X, nodes=np.arange(400) % 3)
    (error,) = pooled.errors_.values()
    assert error < 0.1
    np.testing.assert_allclose(
        pooled.transform(X), steps.fit_transform(X), atol=0.05 + error
    )


def test_a_power_beyond_the_grid_that_changes_nothing_is_no_reason_to_warn():
    # Each power leaves a normal column of small relative spread about as it is.
    X = 100.0 + symmetric(1.0) + 0.03 * symmetric(1.0) ** 2
    pooled = fit(X, "box-cox")
    (error,) = pooled.errors_.values()
    expected = PowerTransformer(method="box-cox").fit(X)
    distance = abs(expected.lambdas_[0] - pooled.transformer_.lambdas_[0])
    assert distance > 1.0
    assert distance / 3 < error < 3 * distance
    np.testing.assert_allclose(pooled.transform(X), expected.transform(X), atol=0.15)


def test_a_likeliest_power_just_within_the_grid_is_found():
    # The values that become normal under the power -1.9, next to the first one.
    X = inv_boxcox(symmetric(0.1), -1.9)
    pooled = fit(X, "box-cox")
    np.testing.assert_allclose(pooled.transformer_.lambdas_, -1.9, atol=0.05)
    (error,) = pooled.errors_.values()
    assert 0.0 < error < 0.1


@pytest.mark.parametrize("forest", [None, StandardScaler()])
def test_trees_do_not_warn_of_a_transform_that_they_add(forest):
    X = np.abs(1e-3 * columns("yeo-johnson"))
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    trees = RandomForestClassifier(2, max_depth=2, random_state=0)
    agg = PooledAggregator(pooled=trees, front=forest)
    assert agg.fit(X, y, nodes=np.arange(400) % 2).score(X, y) > 0.7


def test_box_and_cox_take_positive_numbers():
    with pytest.raises(ValueError, match="numbers above 0"):
        fit(-columns("box-cox"), "box-cox")
