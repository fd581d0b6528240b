"""Log-odds that fitted classifiers give to rows, as columns for one that is above."""

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, TransformerMixin

from ..compat import num_samples
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

    def fit(self, X, y=None) -> "MemberOdds":
        return self

    def transform(self, X) -> np.ndarray:
        """Log-odds (n_samples, n_columns)."""
        low, high = expit(-_BOUND), expit(_BOUND)
        columns = [np.zeros((num_samples(X), 0))]
        for _, model, known, shown in self._models():
            own = model.probabilities(X, known)[:, shown]
            columns.append(logit(np.clip(own, low, high)))
        if self.beside is not None:
            columns.append(self.beside.transform(X))
        return np.hstack(columns)

    def _models(self):
        for name, member in self.members:
            model = local_model(member, name=name)
            known = np.sort(model.description.classes[model.description.seen])
            yield name, model, known, slice(int(len(known) <= 2), None)

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        models = [(name, known[s].tolist()) for name, _, known, s in self._models()]
        names = [f"{name}: {own}" for name, known in models for own in known]
        return np.array(names, dtype=object)

    def __sklearn_is_fitted__(self):
        return True
