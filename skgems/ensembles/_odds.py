"""Log-odds that fitted classifiers give to rows, as columns for one that is above."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, TransformerMixin

from ..local import local_model

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

    def fit(self, X, y=None) -> MemberOdds:
        """Return itself: members are fitted."""
        return self

    def transform(self, X) -> np.ndarray:
        """Log-odds (n_samples, n_columns)."""
        low, high = expit(-_BOUND), expit(_BOUND)
        columns = [np.zeros((X.shape[0], 0))]
        for name, member in self.members:
            model = local_model(member, name=name)
            known = np.sort(model.description.classes[model.description.seen])
            proba = model.probabilities(X, known)
            own = proba[:, 1:] if len(known) <= 2 else proba
            columns.append(logit(np.clip(own, low, high)))
        if self.beside is not None:
            columns.append(self.beside.transform(X))
        return np.hstack(columns)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Of each column the member and the class."""
        found = []
        for name, member in self.members:
            known = local_model(member, name=name).description
            labels = np.sort(known.classes[known.seen]).tolist()
            labels = labels[1:] if len(labels) <= 2 else labels
            found += [f"{name}: {label}" for label in labels]
        return np.array(found, dtype=object)

    def __sklearn_is_fitted__(self):
        return True
