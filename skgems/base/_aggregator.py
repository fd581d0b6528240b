"""What every aggregator is to scikit-learn: a classifier with members."""

import copy
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted

from ..compat import HasMethods, Interval, StrOptions, VisualBlock
from ..disclosure import Disclosure
from ..networks import takes_documents
from ..steps import (
    DocumentFront,
    Front,
    check_tree,
    public_front,
)
from ._members import MemberParametersMixin, NodePairs, is_channel, named_members
from ._method import Method
from ._parts import Part
from ._shown import Columns, Records
from ._validation import Rows, as_numbers, check_no_label_missing
from ._warnings import MOST_LISTED, warn_user


@dataclass(frozen=True, kw_only=True)
class Allows:
    """What rows may be like, in a fit and in a prediction."""

    more_dimensions: bool = False  # as images have
    missing_values: bool = False
    sparse: bool = True
    named_inputs: bool = False  # a dict of arrays, which enter a module by name


# Fitted attributes that are tables, and what shows each of them as one.
_TABLES = {"history_": Records, "node_scores_": Columns, "trust_": Columns}


class BaseAggregator(ClassifierMixin, MemberParametersMixin):
    """Base of classifiers made of a list of local estimators.

    A subclass names its parameters in ``__init__`` and implements ``fit``, which ends
    with :meth:`_publish`. The hooks, most of which have a default, are ``_logits``,
    ``_method_class``, ``_allows``, ``_parts`` and ``_default_estimator``.
    """

    _parameter_constraints: dict = {
        "estimators": "no_validation",  # named_members and readers check it
        "n_jobs": [None, int],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "front": [HasMethods(["fit", "transform"]), None],
        # Parameters of several aggregators, which mean the same thing at each.
        "disclosure": [StrOptions({"auto"}), Disclosure, None],
        "keep_replies": ["boolean"],
        "memory": [None, str, HasMethods(["cache"])],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    front = None  # transformers that all agree on; a parameter of most
    disclosure = "auto"  # the rule for what nodes tell of rows; a parameter of most
    privacy = None  # the noise on what nodes tell of rows; a parameter of some
    _factor = 1.0  # on decision values, which makes them logits
    _row_bounds = None  # what rows are put within before the model; None: as they are
    _has_sums = True  # whether what nodes sent is here, which a pickle leaves out
    _allows: Allows = Allows()  # what rows may be like; may be a property
    # What it does with its nodes. Its fields are parameters of the aggregator.
    _method_class: ClassVar[type[Method]] = Method
    # What it does where `privacy` puts noise on what nodes tell.
    _noisy_method_class: ClassVar[type[Method]] = Method
    # Aggregators that have terms, by name: those whose `estimators` may be a channel.
    methods: "ClassVar[dict[str, type[BaseAggregator]]]" = {}
    # Parameters that are objects, by name: the class of each.
    _parts: ClassVar[dict[str, type[Part]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        constraints = {
            name: [*part.short_forms, part] for name, part in cls._parts.items()
        }
        constraints = {**cls._parameter_constraints, **constraints}
        # Those that all aggregators share are of parameters that some do not have.
        cls._parameter_constraints = {
            name: constraints[name]
            for name in constraints
            if name in cls._get_param_names()
        }
        if cls._method_class.terms is not None:
            BaseAggregator.methods[cls.__name__] = cls

    def __getstate__(self) -> dict:
        """Return what a pickle holds: not what nodes sent, unless that is kept."""
        state = super().__getstate__()
        if getattr(self, "keep_replies", False):
            return state
        return self._drop_sums(state)

    def _drop_sums(self, state: dict) -> dict:
        """Return a state in which no attribute holds what nodes sent."""
        return state

    def __copy__(self) -> Self:
        """Return a copy in this process, which has all that the aggregate has."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict) -> Self:
        """Return a deep copy in this process, with all that the aggregate has."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def _check_has_sums(self) -> None:
        """Raise ValueError if the aggregate was pickled without what nodes sent."""
        if self._has_sums:
            return
        raise ValueError(
            "This aggregate was read from a pickle, which leaves out what the nodes "
            "sent, and fine-tuning needs their sums. Fine-tune before you pickle it, "
            "or pass public rows to fit. With its parameter keep_replies a "
            "GEMSLogisticAggregator keeps the sums in pickles, too."
        )

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        unknown = [name for name in self._get_param_names() if name not in vars(self)]
        if unknown:
            warn_user(
                f"This {type(self).__name__} was pickled by another version of skgems, "
                f"which had no parameters {unknown}. It predicts, and to_estimator "
                "works, but its parameters cannot be read. Fit it again before you use "
                "anything else."
            )

    def _validate_params(self) -> None:
        for name, part in self._parts.items():
            part.check_is_no_part_of_it(getattr(self, name), parameter=name)
        super()._validate_params()
        for name in self._parts:
            self._parameter(name)

    def _parameter(self, name: str) -> Any:
        """Return a parameter, with a checked object where it is short for one."""
        value = getattr(self, name)
        part = self._parts.get(name)
        return value if part is None else part.from_value(value)

    def _long_form(self, name: str, value: object) -> object | None:
        """The object that a parameter's word stands for; None: it is no such word."""
        part = self._parts.get(name)
        if part is None or isinstance(value, part):
            return super()._long_form(name, value)
        return part.from_short_form(value)

    def _default_estimator(self) -> BaseEstimator | None:
        """The unfitted classifier that ``estimators=None`` stands for, or None."""
        return LogisticRegression()

    @abstractmethod
    def _logits(self, X) -> np.ndarray:
        """Logits of validated rows, one column per class."""

    def _method(self) -> Method:
        """Return what the aggregator does with its nodes, by its parameters."""
        if self.privacy is not None:
            return self._noisy_method_class.from_aggregator(self)
        return self._method_class.from_aggregator(self)

    @property
    def _agreed_front(self) -> Front | None:
        """Make the front of `front`, fitted or not; ValueError if it can be none.

        With privacy it is fitted to what is agreed, and ValueError if it learns more.
        """
        front = self._front_of_parameter
        if front is None or self.privacy is None:
            return front
        return public_front(front)

    @property
    def _front_of_parameter(self) -> Front | None:
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
            return DocumentFront.from_vectorizer(unfrozen)
        check_tree(transformer)
        return Front.from_transformer(transformer)

    @property
    def _agreed_terms(self) -> Any:
        """The terms with the front, as messages and agreements have them; or None."""
        terms = self._method().terms
        return None if terms is None else replace(terms, front=self._agreed_front)

    def _with_members(self, members: Iterable[tuple]) -> "BaseAggregator":
        """A copy of other members, which takes rows through the front of the fit."""
        aggregator = copy.copy(self).set_params(estimators=NodePairs(members))
        if getattr(self, "_front", None) is not None:
            aggregator.front = self._front
        return aggregator

    def _validate(self, X, *, reset: bool = True) -> Rows:
        """Rows as numbers: behind the front of the fit, or as they are given.

        With ``reset`` the aggregator is about to be fitted, and remembers the features;
        without, the rows must have those of the fit.
        """
        front = None if reset else getattr(self, "_front", None)
        if front is not None:
            rows = check_array(
                front.transform(X),
                accept_sparse="csr",
                ensure_all_finite=self._finite_values,
            )
        else:
            rows = as_numbers(self, X, reset=reset)
        if reset or self._row_bounds is None:
            return rows
        return self._row_bounds.within(rows)

    @property
    def _has_front_of_its_own(self) -> bool:
        """Report whether it has a front that no node's classifier was fitted behind.

        Such a front is that of trees, whose columns are bins.
        """
        return getattr(self, "_front", None) is not None and self.front is None

    def _rows_of_local_models(self, X) -> Rows:
        """Rows as the nodes' own classifiers take them, behind a common front."""
        if self._has_front_of_its_own:
            return as_numbers(self, X, reset=False)
        return self._validate(X, reset=False)

    @property
    def _finite_values(self) -> "bool | str":
        """Return the `ensure_all_finite` of scikit-learn's validation."""
        return "allow-nan" if self._allows.missing_values else True

    def _validate_with_labels(
        self, X, y, *, reset: bool = True
    ) -> tuple[Rows, np.ndarray]:
        """Rows as numbers and their labels, none of which is missing."""
        check_no_label_missing(y)
        front = None if reset else getattr(self, "_front", None)
        if front is not None:
            return check_X_y(
                front.transform(X),
                y,
                accept_sparse="csr",
                ensure_all_finite=self._finite_values,
            )
        return as_numbers(self, X, y, reset=reset)

    def _publish(self, **attributes: object) -> None:
        """Become fitted, all at once and last: fitted attributes of before are gone.

        Those are the names that end with an underscore; private attributes stay unless
        the new fit sets them.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        vars(self).pop("_has_sums", None)  # of one that was read from a pickle
        vars(self).pop("_row_bounds", None)  # of a fit with privacy
        for name, kind in _TABLES.items():
            if attributes.get(name) is not None:
                attributes[name] = kind(attributes[name])
        vars(self).update(attributes)

    def _exported(self, classifier: BaseEstimator) -> BaseEstimator:
        """A plain classifier as it takes rows: after the front, or with their names."""
        if self._row_bounds is not None:
            steps = [("bounds", self._row_bounds.as_step()), ("classifier", classifier)]
            if getattr(self, "_front", None) is not None:
                steps.insert(0, ("front", self.front_))
            return Pipeline(steps)
        if getattr(self, "_front", None) is not None:
            return Pipeline([("front", self.front_), ("classifier", classifier)])
        if hasattr(self, "feature_names_in_"):
            classifier.feature_names_in_ = self.feature_names_in_
        return classifier

    def _with_threshold(self, classifier: BaseEstimator) -> BaseEstimator:
        """A plain classifier that predicts by the threshold, if the aggregate has one.

        It is made fitted, since a FixedThresholdClassifier can only be fitted to rows.
        """
        threshold = getattr(self, "threshold_", None)
        if threshold is None:
            return classifier
        fixed = FixedThresholdClassifier(
            FrozenEstimator(classifier),
            threshold=threshold,
            pos_label=self.classes_[1].item(),
            response_method="predict_proba",
        )
        fixed.estimator_ = classifier
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(classifier, name):
                setattr(fixed, name, getattr(classifier, name))
        return fixed

    def _check_no_front(self) -> None:
        if getattr(self, "_front", None) is not None:
            raise ValueError(
                "A torch module cannot contain the front. Use to_estimator(), which "
                "contains it. Or transform the rows with `front_`, fit an aggregator "
                "without a front to them, and use its module."
            )

    @property
    def features_used_(self) -> list | None:
        """Names or places of the features that the aggregate uses."""
        check_is_fitted(self)
        n_features = getattr(self, "n_features_in_", None)
        if n_features is None:
            return None
        labels = getattr(self, "feature_names_in_", np.arange(n_features))
        used = getattr(self, "_columns_used", None)
        return labels.tolist() if used is None else labels[used].tolist()

    def _validated_logits(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self._logits(self._validate(X, reset=False))

    def _probabilities(self, X) -> np.ndarray:
        """Return what `predict_proba` returns, from which labels are taken, too."""
        return softmax(self._validated_logits(X) * self._factor, axis=1)

    def decision_function(self, X) -> np.ndarray:
        """Compute the logits of the aggregate for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with the features of the fit.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            One column per class, in the order of ``classes_``. With two classes it is
            one number per row: the logit of ``classes_[1]`` relative to
            ``classes_[0]``.
        """
        logits = self._validated_logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X) -> np.ndarray:
        """Predict the probability of each class for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with the features of the fit.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities, with columns in the order of ``classes_``. They are the
            softmax of the decision values. If the aggregate is a RidgeClassifier or a
            NearestCentroid, these are not logits, and are first multiplied by the
            factor under which the rows of the nodes are most likely.
        """
        return self._probabilities(X)

    def predict(self, X) -> np.ndarray:
        """Predict the most probable class of each row.

        If the aggregate has a ``threshold_``, it predicts ``classes_[1]`` for rows
        whose probability of this class is at least the threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, with the features of the fit.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Predicted labels, which have the largest numbers of `predict_proba`. If
            several classes have the same number, it is the first of these.
        """
        proba = self._probabilities(X)  # which says so if not fitted
        threshold = getattr(self, "threshold_", None)
        if threshold is not None:
            return self.classes_[(proba[:, 1] >= threshold).astype(np.intp)]
        return self.classes_[np.argmax(proba, axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._allows.sparse
        tags.input_tags.allow_nan = self._allows.missing_values
        return tags

    def _sk_visual_block_(self) -> VisualBlock:
        estimators = self.estimators
        if is_channel(estimators):
            return VisualBlock("single", None, names=str(estimators))
        if estimators is None:
            estimators = self._default_estimator()
        names, members = named_members(estimators)
        blocks = members[:MOST_LISTED]
        titles = [f"node {name}" for name in names[:MOST_LISTED]]
        details = [str(member) for member in blocks]
        n_not_shown = len(members) - MOST_LISTED
        if n_not_shown > 0:
            blocks.append("...")
            titles.append(f"and {n_not_shown} more")
            details.append(f"{len(members)} nodes in all")
        return VisualBlock("parallel", blocks, names=titles, name_details=details)
