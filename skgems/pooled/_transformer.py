"""A transformer fitted to the rows of all nodes, of which none is moved."""

import os
from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..base import is_channel
from ..compat import HasMethods, StrOptions, fit_context
from ..federation import (
    MIN_ROWS,
    Run,
    answer,
    as_channel,
    as_mask,
    check_reply_of,
    column_member,
    fit_front,
    front_plan,
    is_path,
    load_message,
    warn_of_exposed_columns,
)
from ..messages import Agreement, Message, write_bytes
from ..progress import say, shown
from ..steps import Advanced, Front, as_rows, check_takes_any_columns, check_tree
from ._terms import FrontTerms


class PooledTransformer(TransformerMixin, BaseEstimator):
    """Fit transformers to the rows of all nodes, of which none is moved.

    Whose scaler counts? That of all: nodes tell counts, means, products, categories,
    and the fitted transformer is the one that scikit-learn fits to all rows at one
    place, or, of quantiles and powers, nearly that. One message for each step of a
    pipeline that has to look at rows; what stands side by side takes one together.

    Parameters
    ----------
    transformer : transformer
        Unfitted: StandardScaler, SimpleImputer, OneHotEncoder, OrdinalEncoder, PCA,
        Normalizer; over `bounds` MinMaxScaler, MaxAbsScaler, KBinsDiscretizer,
        SplineTransformer, and, nearly, RobustScaler, QuantileTransformer and medians;
        PowerTransformer, nearly; RBFSampler, PolynomialCountSketch, SkewedChi2Sampler
        and :class:`RandomFeatures` of a seed; :class:`Backbone`; alone or in a
        Pipeline, ColumnTransformer or FeatureUnion.
    bounds : dict of column to (low, high), (low, high) or "tell", default=None
        Between which the columns of rows lie, by name or place, or one pair for all.
        "tell": nodes tell the smallest and the largest value, which are those of rows.
    drop_identifiers : bool, default=False
        Whether columns that identify rows, as the number of a patient does, are left
        out before all steps (:ref:`identifiers`). Each node says which of its columns
        do; a warning names them.
    summaries : list, or channel to nodes, default=None
        What nodes sent, as :meth:`summarize` made it, or its files. Or what leads to
        them, as :class:`~skgems.federation.Nodes`. None: `fit` has the rows.
    n_jobs : int, default=None
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`.

    Attributes
    ----------
    transformer_ : transformer
        Fitted, plain scikit-learn.
    errors_ : dict of str to float
        Of steps that are not those of all rows but for rounding, by kind and path: by
        how much quantiles may be off, in units of the column; by about how much powers
        are, of those between -2 and 4; inf for axes of a PCA that rounding chooses.
    history_ : list of dict
        One for each message, as of the aggregators.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of columns; their names, if nodes have them, maybe in other orders.

    See Also
    --------
    skgems.GEMSLogisticAggregator : Takes one for `front`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skgems import PooledTransformer
    >>> X, y = load_iris(return_X_y=True)
    >>> front = PooledTransformer(StandardScaler())
    >>> front.fit(X, nodes=y).transform(X).shape
    (150, 4)

    Without rows at one place, of one message:

    >>> sent = [front.summarize(X[y == k], name=f"clinic {k}") for k in range(3)]
    >>> front.set_params(summaries=sent).fit().transform(X).mean().round(6)
    np.float64(-0.0)
    """

    _parameter_constraints: dict = {
        "transformer": [HasMethods(["fit", "transform"])],
        "bounds": [dict, tuple, list, StrOptions({"tell"}), None],
        "drop_identifiers": ["boolean"],
        "summaries": "no_validation",
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
        n_jobs=None,
        verbose=0,
    ):
        self.transformer = transformer
        self.bounds = bounds
        self.drop_identifiers = drop_identifiers
        self.summaries = summaries
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    @shown
    def fit(self, X=None, y=None, nodes=None, held_out=None) -> "PooledTransformer":
        """Fit all steps to what nodes tell.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
            Rows of all nodes, in simulation. Summaries and channels need none.
        y : ignored
        nodes : array-like of shape (n_samples,), default=None
            Index or name of the node that owns each row; rows of -1 or "public" are
            transformed, and fit nothing. None: all are of one node.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that fit nothing.

        Returns
        -------
        self : PooledTransformer

        Raises
        ------
        NotPooledError
            A ValueError, if a step is no function of sums or of a seed, or has no
            bounds; it says what can be used in its place.
        ValueError
            If a node lacks columns, which it names, or columns are of other kinds, such
            as texts at one node and numbers at another, or dates.

        Warns
        -----
        IdentifierWarning
            If columns that identify rows are left out, or encoded.
        """
        front = self._agreed_front
        if X is not None:
            X = self._rows(X)
            mask = None if held_out is None else as_mask(held_out, X)
            fitted, history = fit_front(
                front, X, nodes=nodes, held_out=mask, n_jobs=self.n_jobs
            )
        elif is_channel(self.summaries):
            fitted, history = self._fit_over_channel(front)
        else:
            fitted = self._fit_summaries(front)
            history = []  # no message was sent
        self._publish(fitted.front, errors=fitted.errors)
        self.history_ = history
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

    def _fit_over_channel(self, front: Front) -> tuple[Advanced, list[dict]]:
        """The fitted front, and the history of the messages."""
        channel = as_channel(self.summaries)
        agreement = channel.agreement
        if agreement is None:
            agreement = Agreement.of(self, min_rows=channel.min_rows)
        run = Run(channel, agreement=agreement)
        fitted = run(front_plan(front))
        return fitted, run.history

    def _fit_summaries(self, front: Front) -> Advanced:
        """The fitted front of files, which are replies to one message."""
        replies = self._summary_by_node(front)
        if not replies:
            raise ValueError(
                "There are no rows and no summaries: give fit X, or set summaries."
            )
        plan = front_plan(front)
        next(plan)
        try:
            plan.send(replies.items())
        except StopIteration as stop:
            return stop.value
        raise ValueError(
            "This transformer takes more than one message, or nodes have their columns "
            "in different orders: files hold one message. Use a channel, as "
            "skgems.Exchange."
        )

    def _summary_by_node(self, front: Front) -> dict[str, Message]:
        """What files say, checked; by name of the node."""
        request = Message.of("front", front=front.as_content())
        summaries: dict[str, Message] = {}
        for k, summary in enumerate(self.summaries or ()):
            message = load_message(summary) if is_path(summary) else summary
            if not isinstance(message, Message) or message.task != "front":
                raise TypeError(
                    f"summaries[{k}] is {type(message).__name__}, no summary of a "
                    "front. Give what summarize() returns, or the path of its file."
                )
            name = message.envelope.get("node", str(k))
            if name in summaries:
                raise ValueError(
                    f"There are two summaries of node {name!r}. Give one for each node."
                )
            if message.envelope.get("to") != request.digest:
                raise ValueError(
                    f"Node {name!r} summarized for another transformer, other "
                    "parameters or bounds: these are decided at the nodes. Have it "
                    "summarize again with those of this transformer."
                )
            check_reply_of(name, request, message)
            summaries[name] = message
        return summaries

    def summarize(self, X, *, name, held_out=None, min_rows=MIN_ROWS) -> Message:
        """Make all that a node sends, at the node.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
            The node's rows, which stay here.
        name : str
            Of the node.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that fit nothing.
        min_rows : int, default=10
            Of how few rows a category may be, or anything that is told.

        Returns
        -------
        summary : Message
            To be saved and sent; ``summary.save(path)``.

        Raises
        ------
        TooFewRowsError
            A ValueError, if there are too few rows.

        Warns
        -----
        RowsExposedWarning
            If covariances show single rows: these are fewer than the columns.
        """
        self._validate_params()
        request = Message.of("front", front=self._agreed_front.as_content())
        mask = None if held_out is None else as_mask(held_out, X)
        member = column_member(name, X, held_out=mask, min_rows=min_rows)
        reply = answer(request, member)
        warn_of_exposed_columns(name, reply, self._agreed_front)
        return reply.with_envelope(node=name, to=request.digest)

    def transform(self, X) -> np.ndarray | csr_matrix:
        """Rows after all steps.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features)
            Columns of a DataFrame may be in another order, and there may be more.

        Returns
        -------
        Z : {ndarray, sparse matrix} of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        X = self._rows(X)
        if not hasattr(X, "columns"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return self._front.transform(X)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Names of what comes out.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; None: those that nodes have.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def to_estimator(self) -> TransformerMixin:
        """The fitted transformer, plain scikit-learn."""
        check_is_fitted(self)
        return self.transformer_

    def save(self, path) -> None:
        """Write the fitted transformer to a file that nobody need trust; no pickle.

        Parameters
        ----------
        path : str or os.PathLike
            ``"front.safetensors"``, say.
        """
        check_is_fitted(self)
        message = Message.of("front", front=self._front.as_content())
        write_bytes(path, message.to_bytes())

    @classmethod
    def load(cls, path) -> "PooledTransformer":
        """Read what :meth:`save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : str or os.PathLike

        Returns
        -------
        front : PooledTransformer
            Fitted.

        Raises
        ------
        ValueError
            If it is none.
        """
        try:
            return cls.of(Front.from_content(load_message(path).content["front"]))
        # Whatever a strange file makes of these steps is one error, with its path.
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{os.fspath(path)}: it is no front: {error} Give a file that "
                "PooledTransformer.save wrote."
            ) from None

    @classmethod
    def of(cls, front: Front) -> "PooledTransformer":
        """Make one of a front that is fitted."""
        pooled_transformer = cls(
            front.transformer,
            bounds=front.bounds,
            drop_identifiers=front.drop_identifiers,
        )
        pooled_transformer._publish(front, errors=front.advanced({}).errors)
        pooled_transformer.history_ = []
        return pooled_transformer

    def as_front(self) -> Front:
        """What aggregators take: the steps, and what they were fitted to."""
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
