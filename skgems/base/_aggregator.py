"""What every aggregator is to scikit-learn: a classifier with members."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Number
from typing import ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
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

_MOST_SHOWN = 5  # nodes in a diagram; of more, a count


@dataclass(frozen=True, eq=False)
class Features:
    n_features_in: int | None  # None where nobody says
    feature_names_in: np.ndarray | None
    named_by_nodes: bool = False  # rows of fit had no names: these are the nodes'

    def or_names_of(self, known) -> "Features":
        """The same, with the first names that a node knows where the rows had none."""
        names = next((names for names in known if names is not None), None)
        if self.feature_names_in is not None or names is None:
            return self
        return Features(self.n_features_in, names, named_by_nodes=True)

    def attributes(self) -> dict:
        own = {n: getattr(self, n) for n in ("n_features_in", "feature_names_in")}
        found = {f"{name}_": value for name, value in own.items() if value is not None}
        return {"_named_by_nodes": self.named_by_nodes, **found}


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

    def __init_subclass__(cls, **options) -> None:
        super().__init_subclass__(**options)
        if cls._asks_nodes:
            BaseAggregator.methods[cls.__name__] = cls

    def _default_estimator(self):
        """The unfitted classifier that ``estimators=None`` stands for, or None."""
        return LogisticRegression()

    @abstractmethod
    def _logits(self, X) -> np.ndarray:
        """Logits of validated rows, one column per class."""

    def _node_settings(self) -> dict | None:
        """Parameters decided at the nodes, for JSON; None: it needs the classifiers."""
        return None

    def _first_requests(self, **options) -> list:
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
        given = self.front
        if given is None:
            return None
        inner = given.estimator if isinstance(given, FrozenEstimator) else given
        if isinstance(inner, Front):
            return inner
        if hasattr(inner, "as_front"):
            return inner.as_front()
        if takes_documents(inner):
            return DocumentFront.of(inner)
        check_tree(given)
        return Front.of(given)

    def _with_members(self, members: list):
        given = copy.copy(self).set_params(estimators=members)
        if getattr(self, "_front", None) is not None:
            given.front = self._front
        return given

    def _settings_at_nodes(self) -> dict:
        found, front = self._node_settings() or {}, self._agreed_front
        return found if front is None else {**found, "front": front.settings}

    def _validate(self, *arrays, reset=True):
        if len(arrays) > 1:
            check_no_label_missing(arrays[1])
        front = None if reset else getattr(self, "_front", None)
        checks = {"accept_sparse": "csr"}
        if front is not None:
            check = check_X_y if len(arrays) > 1 else check_array
            return check(front.transform(arrays[0]), *arrays[1:], **checks)
        if are_documents(arrays[0]):
            raise ColumnsError(
                "X holds documents, one text or dict a row, which have to become "
                "numbers first. A vectorizer that learns nothing from rows is the same "
                "at all nodes: give front=HashingVectorizer(n_features=4096), or "
                "front=FeatureHasher(n_features=4096) of dicts; fitted pipelines that "
                "begin with an equal one may stay as they are. EnsembleAggregator lets "
                "pipelines vote that begin with any vectorizer."
            )
        check_no_times(arrays[0])
        try:
            with warnings.catch_warnings():
                if not reset and getattr(self, "_named_by_nodes", False):
                    # Those of fit had none either.
                    unnamed = "X does not have valid feature names"
                    warnings.filterwarnings("ignore", unnamed)
                floats = {"dtype": [np.float64, np.float32], "allow_nd": self._allow_nd}
                floats["ensure_all_finite"] = "allow-nan" if self._allow_nan else True
                return validate_data(self, *arrays, reset=reset, **checks, **floats)
        except ValueError as exc:
            if "could not convert string to float" not in str(exc):
                raise
            table = as_rows(arrays[0])
            if mixed := _columns_that_mix(table):
                raise ColumnsError(
                    f"X has texts among the numbers of the columns {mixed[:5]}. Write "
                    "numbers in these cells, or leave their rows out."
                ) from exc  # which has the text of one cell
            raise ColumnsError(
                f"X has columns of text, {_text_columns(table)[:5]}, which have to "
                "become numbers first. Give the encoder as front=, a ColumnTransformer "
                "that all nodes share, with members that are not fitted; or call "
                "combine(estimators, X, y, nodes=nodes), which makes a front by "
                "itself. EnsembleAggregator lets fitted pipelines vote as they are."
            ) from None

    def _validated_for_fit(self, *arrays) -> tuple[tuple, Features]:
        """Validated rows and labels, and their features, without a trace on self."""
        shell = copy.copy(self)
        found = shell._validate(*arrays)
        X, *y = found if len(arrays) > 1 else [found]
        if isinstance(X, np.ndarray):
            # Sums are rounded by how rows lie in memory, which says nothing.
            X = np.ascontiguousarray(X)
        names = getattr(shell, "feature_names_in_", None)
        return (X, *y), Features(getattr(shell, "n_features_in_", None), names)

    def _validated_public_rows(self, X, y):
        check_is_fitted(self)
        X, y = self._validate(X, y, reset=False)
        return X, encode_labels(y, self.classes_)

    def _publish(self, **attributes) -> None:
        """Become fitted, all at once and last: what an earlier fit left is gone."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        vars(self).update(attributes)

    def _exported(self, classifier):
        """A plain classifier as it takes rows: after the front, or with their names."""
        if getattr(self, "_front", None) is not None:
            return Pipeline([("front", self.front_), ("classifier", classifier)])
        if hasattr(self, "feature_names_in_"):
            classifier.feature_names_in_ = self.feature_names_in_
        return classifier

    def _check_no_front(self) -> None:
        if getattr(self, "_front", None) is not None:
            raise ValueError(
                "A torch module would lack the front: take to_estimator(), which has "
                "it, or `front_` and a module of an aggregator that is fitted to what "
                "comes out of it."
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
        tags.input_tags.sparse, tags.input_tags.allow_nan = True, self._allow_nan
        return tags

    def _sk_visual_block_(self):
        given = self.estimators
        if is_channel(given):
            return VisualBlock("single", None, names=str(given))
        given = self._default_estimator() if given is None else given
        names, members = named_members(given)
        shown, more = members[:_MOST_SHOWN], len(members) - _MOST_SHOWN
        names = [f"node {name}" for name in names[:_MOST_SHOWN]]
        details = [str(member) for member in shown]
        if more > 0:
            names.append(f"and {more} more")
            details.append(f"{len(members)} nodes in all")
            shown.append("...")
        return VisualBlock("parallel", shown, names=names, name_details=details)


def _text_columns(table) -> list:
    """The names, or the places, of columns that hold texts."""
    columns = Columns.of(table)
    names = columns.names or range(columns.n)
    return [name for name, is_text in zip(names, columns.text, strict=True) if is_text]


def _columns_that_mix(table) -> list:
    """Those of them that hold numbers, too."""
    names = list(Columns.of(table).names or range(table.shape[1]))
    mixed = []
    for name in _text_columns(table):
        place = names.index(name)
        cells = table.iloc[:, place] if hasattr(table, "iloc") else table[:, place]
        if any(isinstance(cell, Number) and cell == cell for cell in cells):
            mixed.append(name)
    return mixed
