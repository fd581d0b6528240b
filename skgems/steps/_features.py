"""Random features: columns that a linear model needs to be a kernel machine.

Of kind "fourier" they are z_j(x) = sqrt(2 / n) cos(w_j x + b_j), with normal w_j of
variance 2 gamma and phases b_j that are uniform, so that

    z(x) z(x')  is on average  exp(-gamma |x - x'|^2).
"""

from numbers import Integral, Real

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compat import Interval, StrOptions


class RandomFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random functions of the columns, equal wherever the seed is equal.

    A linear model of these features is nearly a kernel machine. To draw them, a node
    needs the number of columns and the seed, but no rows. All nodes can therefore make
    the same features without a message.

    Parameters
    ----------
    n_components : int, default=300
        Number of features that are drawn. More features fit finer details, and take
        more memory and time.
    kind : {"fourier", "relu"}, default="fourier"
        Form of the features: "fourier" for cosines, whose products are nearly the
        kernel ``exp(-gamma |x - x'|^2)``; "relu" for the units of a hidden layer,
        ``max(0, w x + b)``.
    gamma : "auto" or float, default="auto"
        Parameter of the kernel; with "relu", half the variance of each weight. "auto"
        is 1 / (2 d) with d columns, which is for columns of unit variance. Values from
        1 / (4 d) to 1 / d suit most data.
    passthrough : bool, default=True
        Whether the columns themselves are returned too, before the features.
    random_state : int, RandomState instance or None, default=None
        Seed of the features. In a front it must be an int, so that all nodes draw the
        same.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_components)
        Weights of the columns.
    offsets_ : ndarray of shape (n_components,)
        Phases of the cosines, or biases of the units.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of columns seen during fit, if all are texts.

    See Also
    --------
    PooledTransformer : Fits the steps before them, without rows in one place.

    References
    ----------
    A. Rahimi, B. Recht: Random Features for Large-Scale Kernel Machines, 2007.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from skgems.steps import RandomFeatures
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> front, clf = RandomFeatures(random_state=0), LogisticRegression(C=10)
    >>> make_pipeline(front, clf).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "kind": [StrOptions({"fourier", "relu"})],
        "gamma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "passthrough": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=300,
        *,
        kind="fourier",
        gamma="auto",
        passthrough=True,
        random_state=None,
    ):
        self.n_components = n_components
        self.kind = kind
        self.gamma = gamma
        self.passthrough = passthrough
        self.random_state = random_state

    def fit(self, X, y=None) -> "RandomFeatures":
        """Draw the functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, of which only the number of columns is used.
        y : ignored

        Returns
        -------
        self : RandomFeatures
        """
        self._validate_params()
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        rng = check_random_state(self.random_state)
        d = X.shape[1]
        n = self.n_components
        gamma = 0.5 / d if self.gamma == "auto" else self.gamma
        # exp(-gamma |x|^2) is the mean of cos(w x) over w of this variance, for each
        # of its numbers (Rahimi and Recht).
        self.weights_ = rng.normal(size=(d, n)) * np.sqrt(2.0 * gamma)
        if self.kind == "fourier":
            self.offsets_ = rng.uniform(0.0, 2.0 * np.pi, n)
        else:
            self.offsets_ = rng.normal(size=n)
        self._n_features_out = n + d * self.passthrough
        return self

    def transform(self, X) -> np.ndarray:
        """Compute the features of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components [+ n_features])
            The features, with the columns before them if ``passthrough``. The dtype is
            that of the rows.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        n_passed = X.shape[1] * self.passthrough
        # In one place: side by side they would be in memory twice.
        columns = np.empty((X.shape[0], n_passed + self.n_components), dtype=X.dtype)
        columns[:, :n_passed] = X[:, :n_passed]
        Z = columns[:, n_passed:]
        np.matmul(X, self.weights_.astype(X.dtype), out=Z)
        Z += self.offsets_.astype(X.dtype)
        if self.kind == "fourier":
            np.cos(Z, out=Z)
            # The square of a cosine of random phase is 1 / 2 on average.
            Z *= np.sqrt(2.0 / self.n_components).astype(X.dtype)
        else:
            np.maximum(Z, 0.0, out=Z)
        return columns
