"""A transformer fitted to the rows of all nodes, of which none is moved."""

import os
from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..asking import fit_front
from ..base import Records
from ..compat import HasMethods, StrOptions, fit_context, say, shown
from ..disclosure import Disclosure, disclosure_of_both, disclosure_within
from ..messages import Message
from ..parties import as_mask
from ..steps import Front, as_rows, check_takes_any_columns, check_tree
from ._front_messages import (
    fitted_elsewhere,
    read_front,
    summary_of_columns,
    write_front,
)
from ._terms import FrontTerms


class PooledTransformer(TransformerMixin, BaseEstimator):
    """Fit transformers to the rows of all nodes, without moving any row.

    If each node fitted its own scaler, the same number would mean something else at
    each node. Here all nodes send counts, means, products or categories of their
    columns. The transformer that is fitted to these is the one that scikit-learn fits
    to all rows at one place, or, for quantiles and powers, close to it. A pipeline
    takes one message for each step that has to look at rows; steps that stand side by
    side share one message.

    Parameters
    ----------
    transformer : transformer
        The unfitted transformer, alone or in a Pipeline, ColumnTransformer or
        FeatureUnion. These can be fitted without rows at one place:

        - StandardScaler, SimpleImputer, OneHotEncoder, OrdinalEncoder, PCA and
          Normalizer;
        - with `bounds`: MinMaxScaler, MaxAbsScaler, KBinsDiscretizer and
          SplineTransformer;
        - with `bounds`, and approximately: RobustScaler, QuantileTransformer and
          SimpleImputer of medians;
        - approximately: PowerTransformer;
        - from a seed: RBFSampler, PolynomialCountSketch, SkewedChi2Sampler and
          :class:`RandomFeatures`;
        - :class:`Backbone`.
    bounds : dict of column to (low, high), or (low, high), default=None
        The bounds between which the values of the columns lie, by name or place of the
        column, or one pair for all columns. Give them if a step above needs them. Nodes
        do not send their smallest and largest values, which are values of single rows.
    drop_identifiers : bool, default=False
        Whether to leave out, before all steps, columns that identify rows, as the
        number of a patient does (:ref:`identifiers`). Each node says which of its
        columns do, and a warning names them.
    summaries : list, or channel to nodes, default=None
        The summaries that the nodes made with :meth:`summarize`, or paths of their
        files, or a channel to the nodes such as :class:`~skgems.asking.Nodes`.
        Leave it None to give the rows to `fit`.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows, as for
        :class:`~skgems.GEMSLogisticAggregator`.
    n_jobs : int, default=None
        Number of nodes that are treated in parallel. Results do not depend on it.
    verbose : bool or int, default=0
        Whether to print progress.

    Attributes
    ----------
    transformer_ : transformer
        The fitted transformer, which needs only scikit-learn.
    errors_ : dict of str to float
        For each step that differs from a fit on all rows by more than rounding, by its
        kind and path, how far it may be off. For quantiles this is in units of the
        column. For powers it is about the distance to the likeliest powers, and
        infinite if these are certainly not between -2 and 4. It is also infinite for a
        PCA whose axes are decided by rounding. Then there was a warning.
    history_ : list of dict
        One dict for each message to the nodes, with the same keys as the ``history_``
        of :class:`~skgems.PooledAggregator`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if the nodes have them. A node may have its columns in
        another order.

    See Also
    --------
    skgems.GEMSLogisticAggregator : Takes such a transformer as `front`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skgems import PooledTransformer
    >>> X, y = load_iris(return_X_y=True)
    >>> front = PooledTransformer(StandardScaler())
    >>> front.fit(X, nodes=y).transform(X).shape
    (150, 4)

    The nodes can also stay apart, and each send one summary:

    >>> sent = [front.summarize(X[y == k], name=f"clinic {k}") for k in range(3)]
    >>> front.set_params(summaries=sent).fit().transform(X).mean().round(6)
    np.float64(-0.0)
    """

    _parameter_constraints: dict = {
        "transformer": [HasMethods(["fit", "transform"])],
        "bounds": [dict, tuple, list, None],
        "drop_identifiers": ["boolean"],
        "summaries": "no_validation",
        "disclosure": [StrOptions({"auto"}), Disclosure, None],
        "n_jobs": [None, int],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        transformer,
        *,
        bounds=None,
        drop_identifiers=False,
        summaries=None,
        disclosure="auto",
        n_jobs=None,
        verbose=0,
    ):
        self.transformer = transformer
        self.bounds = bounds
        self.drop_identifiers = drop_identifiers
        self.summaries = summaries
        self.disclosure = disclosure
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    @shown
    def fit(self, X=None, y=None, nodes=None, held_out=None) -> "PooledTransformer":
        """Fit all steps to what the nodes send.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
            Rows of all nodes, in a simulation. With summaries or a channel there are
            none.
        y : ignored
            Not used, present for API consistency by convention.
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row. Rows of -1 or "public" are not
            used in the fit. None means that all rows belong to one node.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that are not used in the fit.

        Returns
        -------
        self : PooledTransformer
            The fitted transformer.

        Raises
        ------
        NotPooledError
            If a step can be fitted neither from sums nor from a seed, or if it needs
            `bounds` that are not given. This is a ValueError, and says what to use in
            place of the step.
        ValueError
            If a node lacks columns, which the message names, or if columns hold other
            kinds of values, such as texts at one node and numbers at another, or dates.

        Warns
        -----
        IdentifierWarning
            If columns that identify rows are left out, or are encoded.
        """
        front = self._agreed_front
        if X is not None:
            X = self._rows(X)
            mask = None if held_out is None else as_mask(held_out, X)
            fitted, history = fit_front(
                front,
                X,
                nodes=nodes,
                held_out=mask,
                disclosure=disclosure_within(self.disclosure),
                n_jobs=self.n_jobs,
            )
        else:
            fitted, history = fitted_elsewhere(
                front, self.summaries, terms=self._agreed_terms
            )
        self._publish(fitted.front, errors=fitted.errors)
        self.history_ = Records() if history is None else history
        return self

    def _rows(self, X: object) -> object:
        """Rows as fronts take them: an array, a sparse matrix or a DataFrame."""
        if issparse(X) and not get_tags(self.transformer).input_tags.sparse:
            check_array(X)  # which raises, as the transformer takes no sparse rows
        return as_rows(X)

    def _publish(self, front: Front, *, errors: Mapping) -> None:
        """Become fitted; ``errors`` has a pair of kind and error for each path."""
        self._front = front
        self.transformer_ = front.fitted
        self.errors_ = {
            f"{kind} ({path})": error for path, (kind, error) in errors.items()
        }
        self.n_features_in_ = front.columns.n
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        if front.columns.names is not None:
            self.feature_names_in_ = np.array(front.columns.names, dtype=object)
        say(f"fitted {self.transformer_}")

    def summarize(self, X, *, name, held_out=None, disclosure="auto") -> Message:
        """Make all that a node sends. It is called at the node.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
            Rows of the node. They do not leave it.
        name : str
            Name of the node.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that are not used.
        disclosure : Disclosure, "auto" or None, default="auto"
            The rule for what the summary tells of the rows, as for
            :func:`~skgems.guard.reply_to`. No category has fewer rows than its
            ``min_rows``.

        Returns
        -------
        summary : Message
            The summary to send. Save it to a file with ``summary.save(path)``.

        Raises
        ------
        TooFewRowsError
            If the node has too few rows. This is a ValueError.
        """
        self._validate_params()
        return summary_of_columns(
            self._agreed_front,
            X,
            name=name,
            held_out=held_out,
            disclosure=disclosure_of_both(self.disclosure, disclosure),
        )

    def transform(self, X) -> np.ndarray | csr_matrix:
        """Transform rows by all fitted steps.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
            Rows. The columns of a DataFrame may be in another order, and it may have
            more columns.

        Returns
        -------
        Z : {ndarray, sparse matrix} of shape (n_samples, n_features_out)
            The transformed rows.
        """
        check_is_fitted(self)
        X = self._rows(X)
        if not hasattr(X, "columns"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return self._front.transform(X)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the transformed columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns before the transformation. None uses the names that the
            nodes have.

        Returns
        -------
        names : ndarray of str
            Names of the columns after the transformation.
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def to_estimator(self) -> TransformerMixin:
        """Return the fitted transformer, which needs only scikit-learn."""
        check_is_fitted(self)
        return self.transformer_

    def save(self, path) -> None:
        """Write the fitted transformer to a file that is safe to open; it is no pickle.

        Parameters
        ----------
        path : str or os.PathLike
            Path of the file, for example ``"front.safetensors"``.
        """
        check_is_fitted(self)
        write_front(self._front, path)

    @classmethod
    def load(cls, path) -> "PooledTransformer":
        """Read a file that :meth:`save` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : str or os.PathLike
            Path of the file.

        Returns
        -------
        front : PooledTransformer
            The fitted transformer.

        Raises
        ------
        ValueError
            If the file holds no fitted transformer.
        """
        try:
            return cls.from_front(read_front(path))
        # Whatever a strange file makes of these steps is one error, with its path.
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{os.fspath(path)}: it is not a front: {error} Give a file that "
                "PooledTransformer.save wrote."
            ) from None

    @classmethod
    def from_front(cls, front: Front) -> "PooledTransformer":
        """Make a PooledTransformer of a fitted front."""
        pooled_transformer = cls(
            front.transformer,
            bounds=front.bounds,
            drop_identifiers=front.drop_identifiers,
        )
        pooled_transformer._publish(front, errors=front.advanced({}).errors)
        pooled_transformer.history_ = Records()
        return pooled_transformer

    def as_front(self) -> Front:
        """Return the steps and what they were fitted to, as aggregators take them."""
        return self._front if hasattr(self, "transformer_") else self._agreed_front

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.transformer).input_tags
        return tags

    @property
    def _agreed_front(self) -> Front:
        """The front before any message: the steps, and what nodes agree on of them."""
        check_tree(self.transformer)
        if self.drop_identifiers:
            check_takes_any_columns(self.transformer)
        return Front(
            self.transformer,
            bounds=self.bounds,
            drop_identifiers=bool(self.drop_identifiers),
        )

    @property
    def _agreed_terms(self) -> FrontTerms:
        return FrontTerms(front=self._agreed_front)
