"""Log-odds that fitted classifiers give to rows, as columns for one that is above."""

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, TransformerMixin

from ..compat import num_samples
from ..local import LocalModel, local_model

# Log-odds beyond say no more than that a member is sure.
_BOUND = 5.0


class MemberOdds(TransformerMixin, BaseEstimator):
    """Log-odds of the classes that each member knows, within five of zero.

    A member of two classes has one column, one of a single class none. The columns of
    a fitted transformer may stand beside.
    """

    def __init__(self, members=None, beside=None):
        self.members = members
        self.beside = beside

    def fit(self, X, y=None) -> "MemberOdds":
        return self

    def transform(self, X) -> np.ndarray:
        """Log-odds (n_samples, n_columns)."""
        low = expit(-_BOUND)
        high = expit(_BOUND)
        columns = [np.zeros((num_samples(X), 0))]
        for name, member in self.members:
            model = local_model(member, name=name)
            classes = _known_classes(model)
            proba = model.probabilities(X, classes)[:, _columns_of(classes)]
            columns.append(logit(np.clip(proba, low, high)))
        if self.beside is not None:
            columns.append(self.beside.transform(X))
        return np.hstack(columns)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Names "node: class" of the members' columns."""
        names = []
        for name, member in self.members:
            classes = _known_classes(local_model(member, name=name))
            names += [
                f"{name}: {label}" for label in classes[_columns_of(classes)].tolist()
            ]
        return np.array(names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _known_classes(model: LocalModel) -> np.ndarray:
    """Sorted classes that a member has seen."""
    return np.sort(model.description.classes[model.description.seen])


def _columns_of(classes: np.ndarray) -> slice:
    """The classes that have a column: of two the second one, of one none."""
    return slice(1 if len(classes) <= 2 else 0, None)
