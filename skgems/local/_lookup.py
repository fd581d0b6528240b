"""A node's classifier as a LocalModel, by its kind."""

from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

from ..networks import final_step, is_skorch
from ._model import LocalModel
from ._sklearn import LogisticModel, MLPModel, SGDModel, SklearnModel

KINDS: dict[type, type[LocalModel]] = {
    MLPClassifier: MLPModel,
    SGDClassifier: SGDModel,
    LogisticRegression: LogisticModel,
}


def local_model(estimator, *, name: str = "estimator") -> LocalModel:
    own = final_step(estimator)
    if is_skorch(own):
        # Imports torch, which a skorch net has brought.
        from ._skorch import SkorchModel

        return SkorchModel(estimator, name)
    known = (model for kind, model in KINDS.items() if isinstance(own, kind))
    return next(known, SklearnModel)(estimator, name)
