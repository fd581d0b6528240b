"""A node's classifier as a LocalModel, by its kind."""

from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

from ..networks import ModuleState, final_step, is_skorch
from ._model import LocalModel
from ._sklearn import LogisticModel, MLPModel, SGDModel, SklearnModel

# Kinds that can go on training. Subclasses of a kind, as LogisticRegressionCV is one of
# LogisticRegression, are looked up as it is; their model says so if they cannot.
KINDS: dict[type, type[LocalModel]] = {
    MLPClassifier: MLPModel,
    SGDClassifier: SGDModel,
    LogisticRegression: LogisticModel,
}


def local_model(estimator: object, *, name: str = "estimator") -> LocalModel:
    """A classifier of any kind as a `LocalModel`; ``name``, for errors, is the node."""
    classifier = final_step(estimator)
    if is_skorch(classifier):
        # Imports torch, which a skorch net has brought.
        from ._skorch import SkorchModel

        return SkorchModel(estimator, name)
    for kind, model_class in KINDS.items():
        if isinstance(classifier, kind):
            return model_class(estimator, name)
    return SklearnModel(estimator, name)


def net_of_state(template: object, state: ModuleState, *, name: str) -> object:
    """Return a net with a node's numbers, of the module of a skorch net."""
    # Imports torch, which the net has brought.
    from ._skorch import net_of_state

    return net_of_state(template, state, name=name)
