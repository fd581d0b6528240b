"""What every aggregator is to scikit-learn: a classifier with members."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Number
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np
from scipy.sparse import sparray, spmatrix
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from ..compat import HasMethods, VisualBlock
from ..networks import takes_documents
from ..steps import (
    Columns,
    ColumnsError,
    DocumentFront,
    Front,
    are_documents,
    as_rows,
    check_no_times,
    check_tree,
)
from ._labels import check_no_label_missing, encode_labels
from ._members import MemberParametersMixin, is_channel, named_members

if TYPE_CHECKING:  # pandas is an extra
    import pandas

# Nodes that a diagram draws side by side before it says how many others there are: as
# many as fit the width of a notebook.
_MOST_SHOWN = 5
# Columns that an error lists, of a table that may have thousands.
_MOST_COLUMNS_LISTED = 5

Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features), or more dimensions


@dataclass(frozen=True, eq=False, kw_only=True)
class Features:
    """What is known of the features of rows, as scikit-learn's attributes say it."""

    n_features_in: int | None  # None where nobody says
    feature_names_in: np.ndarray | None = None  # (n_features_in,)
    named_by_nodes: bool = False  # rows of fit had no names: these are the nodes'

    def or_names_of(self, names_of_nodes: Iterable[np.ndarray | None]) -> "Features":
        """The same, with the first names that a node knows where the rows had none."""
        names = next((names for names in names_of_nodes if names is not None), None)
        if self.feature_names_in is not None or names is None:
            return self
        return replace(self, feature_names_in=names, named_by_nodes=True)

    def attributes(self) -> dict[str, object]:
        """What a fitted aggregator has of them; an unknown one is missing, not None."""
        attributes: dict[str, object] = {"_named_by_nodes": self.named_by_nodes}
        if self.n_features_in is not None:
            attributes["n_features_in_"] = self.n_features_in
        if self.feature_names_in is not None:
            attributes["feature_names_in_"] = self.feature_names_in
        return attributes


class BaseAggregator(ClassifierMixin, MemberParametersMixin):
    """Base of classifiers made of a list of local estimators.

    A subclass names its parameters in ``__init__`` and implements ``fit``, which ends
    with :meth:`_publish`, and ``_logits``.
    """

    _parameter_constraints: dict = {
        "estimators": "no_validation",  # named_members and readers check it
        "n_jobs": [None, int],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "front": [HasMethods(["fit", "transform"]), None],
    }

    front = None  # transformers that all agree on; a parameter of most
    _factor = 1.0  # on decision values, which makes them logits
    _allow_nd = False  # whether rows may have more dimensions, as images
    _allow_nan = False  # or values may be missing
    _takes_rows_alone = False  # whether nodes may have no classifier
    _looks_at_members = True  # whether what nodes' classifiers learnt is asked for
    _asks_nodes = False  # by messages, so that `estimators` may be a channel
    # Whether it asks nodes about hidden layers that were merged from those of several.
    _merges_layers = False
    # Classes of which this is so, by name, as an exchange and its folder know them.
    methods: "ClassVar[dict[str, type[BaseAggregator]]]" = {}
    # Objects that parameters of this class may be; those of all such classes by name.
    _parameter_objects: ClassVar[tuple[type[BaseEstimator], ...]] = ()
    parameter_objects: ClassVar[dict[str, type[BaseEstimator]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if cls._asks_nodes:
            BaseAggregator.methods[cls.__name__] = cls
            BaseAggregator.parameter_objects.update(
                {part.__name__: part for part in cls._parameter_objects}
            )

    def _default_estimator(self) -> BaseEstimator | None:
        """The unfitted classifier that ``estimators=None`` stands for, or None."""
        return LogisticRegression()

    @abstractmethod
    def _logits(self, X) -> np.ndarray:
        """Logits of validated rows, one column per class."""

    def _node_settings(self) -> dict | None:
        """Parameters decided at the nodes, for JSON; None: it needs the classifiers."""
        return None

    def _first_requests(self, **options: object) -> list:
        """Messages to nodes before others are known, but of model and counts."""
        return []

    def _further_settings(self) -> dict:
        """What requests are made of beside the settings at the nodes, for JSON.

        A node that has both makes the requests itself, and answers no others.
        """
        return {}

    @classmethod
    def _of_settings(
        cls, settings: Mapping, further_settings: Mapping
    ) -> "BaseAggregator":
        """An aggregator that asks nodes what one with these settings asks.

        Parameters
        ----------
        settings, further_settings : mapping
            Of `_node_settings` and `_further_settings`, as they came from outside:
            whatever they hold may raise ValueError, TypeError or KeyError here. Without
            an agreement there are no further ones; the first message is known then,
            but for spaces, and later ones need not be.
        """
        return cls()

    def _later_requests(self) -> list:
        """Messages after the first one that depend on no other node."""
        return []

    def _asks_at_most(self, n_hidden_layers: int) -> dict[str, int] | None:
        """How often, beside the first message, a fit asks for each task, if known."""
        return None

    @property
    def _agreed_front(self) -> Front | None:
        """What `front` stands for, fitted or not; ValueError if it can be none."""
        transformer = self.front
        if transformer is None:
            return None
        if isinstance(transformer, FrozenEstimator):
            unfrozen = transformer.estimator
        else:
            unfrozen = transformer
        if isinstance(unfrozen, Front):
            return unfrozen
        if hasattr(unfrozen, "as_front"):
            return unfrozen.as_front()
        if takes_documents(unfrozen):
            return DocumentFront.of(unfrozen)
        check_tree(transformer)
        return Front.of(transformer)

    def _with_members(self, members: list) -> "BaseAggregator":
        """A copy of other members, which takes rows through the front of the fit."""
        aggregator = copy.copy(self).set_params(estimators=members)
        if getattr(self, "_front", None) is not None:
            aggregator.front = self._front
        return aggregator

    def _settings_at_nodes(self) -> dict:
        """What nodes have to agree on before they answer, for JSON."""
        settings = self._node_settings() or {}
        front = self._agreed_front
        return settings if front is None else {**settings, "front": front.settings}

    def _validate(self, X, *, reset: bool = True) -> Rows:
        """Rows as numbers: behind the front of the fit, or as they are given.

        With ``reset`` the aggregator is about to be fitted, and remembers the features;
        without, the rows must have those of the fit.
        """
        front = None if reset else getattr(self, "_front", None)
        if front is not None:
            return check_array(front.transform(X), accept_sparse="csr")
        return self._as_numbers(X, reset=reset)

    def _validate_with_labels(
        self, X, y, *, reset: bool = True
    ) -> tuple[Rows, np.ndarray]:
        """Rows as numbers and their labels, none of which is missing."""
        check_no_label_missing(y)
        front = None if reset else getattr(self, "_front", None)
        if front is not None:
            return check_X_y(front.transform(X), y, accept_sparse="csr")
        return self._as_numbers(X, y, reset=reset)

    def _as_numbers(
        self, X, y="no_validation", *, reset: bool
    ) -> Rows | tuple[Rows, np.ndarray]:
        """Rows, and labels where they are given, as scikit-learn validates them.

        "no_validation" is scikit-learn's own word for rows that come without labels;
        None is refused, as labels that someone forgot.
        """
        if are_documents(X):
            raise ColumnsError(
                "X holds documents, one text or dict a row, which have to become "
                "numbers first. A vectorizer that learns nothing from rows is the same "
                "at all nodes: give front=HashingVectorizer(n_features=4096), or "
                "front=FeatureHasher(n_features=4096) of dicts; fitted pipelines that "
                "begin with an equal one may stay as they are. EnsembleAggregator lets "
                "pipelines vote that begin with any vectorizer."
            )
        check_no_times(X)
        try:
            with warnings.catch_warnings():
                if not reset and getattr(self, "_named_by_nodes", False):
                    # The rows of fit had no names either.
                    warnings.filterwarnings(
                        "ignore", message="X does not have valid feature names"
                    )
                return validate_data(
                    self,
                    X,
                    y,
                    reset=reset,
                    accept_sparse="csr",
                    dtype=[np.float64, np.float32],
                    allow_nd=self._allow_nd,
                    ensure_all_finite="allow-nan" if self._allow_nan else True,
                )
        except ValueError as error:
            if "could not convert string to float" in str(error):
                _raise_of_texts(X, error)
            raise

    def _validated_for_fit(self, X, y) -> tuple[tuple[Rows, np.ndarray], Features]:
        """Validated rows and labels, and their features, without a trace on self."""
        shell = copy.copy(self)
        X, y = shell._validate_with_labels(X, y)
        return (_in_order_of_rows(X), y), shell._validated_features()

    def _validated_rows_for_fit(self, X) -> tuple[Rows, Features]:
        """The same of rows that have no labels."""
        shell = copy.copy(self)
        X = shell._validate(X)
        return _in_order_of_rows(X), shell._validated_features()

    def _validated_features(self) -> Features:
        """The features that the last validation left on self."""
        return Features(
            n_features_in=getattr(self, "n_features_in_", None),
            feature_names_in=getattr(self, "feature_names_in_", None),
        )

    def _validated_public_rows(self, X, y) -> tuple[Rows, np.ndarray]:
        """Rows for a fitted aggregator, and the indices of their classes."""
        check_is_fitted(self)
        X, y = self._validate_with_labels(X, y, reset=False)
        return X, encode_labels(y, self.classes_)

    def _publish(self, **attributes: object) -> None:
        """Become fitted, all at once and last: fitted attributes of before are gone.

        Those are the names that end with an underscore; private attributes stay unless
        the new fit sets them.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        vars(self).update(attributes)

    def _exported(self, classifier: BaseEstimator) -> BaseEstimator:
        """A plain classifier as it takes rows: after the front, or with their names."""
        if getattr(self, "_front", None) is not None:
            return Pipeline([("front", self.front_), ("classifier", classifier)])
        if hasattr(self, "feature_names_in_"):
            classifier.feature_names_in_ = self.feature_names_in_
        return classifier

    def _check_no_front(self) -> None:
        if getattr(self, "_front", None) is not None:
            raise ValueError(
                "A torch module would lack the front. Take to_estimator(), which has "
                "it; or transform rows by `front_`, fit an aggregator without a front "
                "to what comes out, and take its module."
            )

    def _validated_logits(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self._logits(self._validate(X, reset=False))

    def decision_function(self, X) -> np.ndarray:
        """Logits of the aggregate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,)
            One column per class; of two the logit of ``classes_[1]`` against the other.
        """
        logits = self._validated_logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``: softmax of the decision values; where these
            are no logits, as of a pooled RidgeClassifier or NearestCentroid, times the
            factor under which the nodes' rows are likeliest.
        """
        return softmax(self._validated_logits(X) * self._factor, axis=1)

    def predict(self, X) -> np.ndarray:
        """Most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        logits = self._validated_logits(X)  # which says so if not fitted
        return self.classes_[np.argmax(logits, axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    def _sk_visual_block_(self) -> VisualBlock:
        estimators = self.estimators
        if is_channel(estimators):
            return VisualBlock("single", None, names=str(estimators))
        if estimators is None:
            estimators = self._default_estimator()
        names, members = named_members(estimators)
        blocks = members[:_MOST_SHOWN]
        titles = [f"node {name}" for name in names[:_MOST_SHOWN]]
        details = [str(member) for member in blocks]
        n_not_shown = len(members) - _MOST_SHOWN
        if n_not_shown > 0:
            blocks.append("...")
            titles.append(f"and {n_not_shown} more")
            details.append(f"{len(members)} nodes in all")
        return VisualBlock("parallel", blocks, names=titles, name_details=details)


def _in_order_of_rows(X: Rows) -> Rows:
    """Arrays in one layout: sums are rounded by it, and it says nothing of the rows."""
    return np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X


def _raise_of_texts(X, error: ValueError) -> NoReturn:
    """Raise for rows with texts, whose conversion to numbers failed with an error.

    That one has the text of a cell in it. It stays the cause where someone has to find
    this cell, and is suppressed where the names of columns say all.
    """
    table = as_rows(X)
    mixed_columns = _columns_that_mix(table)
    if mixed_columns:
        raise ColumnsError(
            "X has texts among the numbers of the columns "
            f"{mixed_columns[:_MOST_COLUMNS_LISTED]}. Write numbers in these cells, or "
            "leave their rows out."
        ) from error
    raise ColumnsError(
        f"X has columns of text, {_text_columns(table)[:_MOST_COLUMNS_LISTED]}, which "
        "have to become numbers first. Give the encoder as front=, a ColumnTransformer "
        "that all nodes share, with members that are not fitted; or call "
        "combine(estimators, X, y, nodes=nodes), which makes a front by itself. "
        "EnsembleAggregator lets fitted pipelines vote as they are."
    ) from None


def _text_columns(table: "np.ndarray | pandas.DataFrame") -> list:
    """The names, or the places, of columns that hold texts."""
    columns = Columns.of(table)
    names = columns.names or range(columns.n)
    return [name for name, is_text in zip(names, columns.text, strict=True) if is_text]


def _columns_that_mix(table: "np.ndarray | pandas.DataFrame") -> list:
    """The names, or the places, of columns that hold texts and numbers."""
    names = list(Columns.of(table).names or range(table.shape[1]))
    mixed = []
    for name in _text_columns(table):
        place = names.index(name)
        cells = table.iloc[:, place] if hasattr(table, "iloc") else table[:, place]
        # NaN, which differs from itself, is a missing text and no number.
        if any(isinstance(cell, Number) and cell == cell for cell in cells):
            mixed.append(name)
    return mixed
