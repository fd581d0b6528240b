"""Aggregators in JSON: the method's name and its parameters."""

from collections import ChainMap
from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..base import BaseAggregator, Part
from ..disclosure import Disclosure
from ..gems import GEMSLogisticAggregator, with_objects_of_settings
from ..pooled import CLASSIFIERS, TREES, PooledTransformer
from ..private import NoisyTerms, Privacy
from ..spaces import Construction, Criterion, Geometry
from ..steps import DocumentFront, front_of_content

METHODS = BaseAggregator.methods
# Parameters that belong to the machine that computes, not to what is computed.
_OF_THE_MACHINE = ("estimators", "n_jobs", "verbose", "memory", "keep_replies")
# Objects that have settings, by name; and estimators that are parts of an aggregator.
_KINDS = {"geometry": Geometry, "criterion": Criterion, "construction": Construction}
# Parts are added to `Part.kinds` as their rooms are imported, some after this one.
_CLASSES = ChainMap(CLASSIFIERS, TREES, Part.kinds)

Json = None | bool | int | float | str | list | dict


class OtherVersionError(ValueError):
    """What was written holds parameters that this version does not have."""


def method_of(name: str) -> type[BaseAggregator]:
    """The class of an aggregator; ValueError for names of no method."""
    if name not in METHODS:
        raise ValueError(
            f"{name!r} is not a method; the methods are {sorted(METHODS)}."
        )
    return METHODS[name]


def as_json(aggregator: BaseAggregator) -> dict:
    """An unfitted aggregator for JSON; ValueError names a parameter that JSON lacks."""
    method_of(type(aggregator).__name__)
    params = {
        name: _plain(value, name)
        for name, value in aggregator.get_params(deep=False).items()
        if name not in (*_OF_THE_MACHINE, "front")
    }
    front = aggregator._agreed_front
    if front is not None:
        if front.states:
            raise ValueError(
                "front is fitted already, but an exchange fits it. Pass an unfitted "
                "one."
            )
        params["front"] = {"front": front.agreed}
    return {"method": type(aggregator).__name__, "params": params}


def from_json(state: Mapping) -> BaseAggregator:
    """Inverse of `as_json`; ValueError for parameters of the machine.

    OtherVersionError for parameters that the method does not have.
    """
    method = method_of(state["method"])
    if not state["params"].keys().isdisjoint(_OF_THE_MACHINE):  # a memory holds pickles
        raise ValueError(
            f"an exchange in a folder cannot have the parameters {_OF_THE_MACHINE}."
        )
    _check_parameters(method, state["params"])
    params = {name: _object(value) for name, value in state["params"].items()}
    return method(**params)


def _check_parameters(kind: type[BaseEstimator], params: Mapping) -> None:
    """Raise OtherVersionError for parameters that a class does not have."""
    unknown = sorted(params.keys() - set(kind._get_param_names()))
    if unknown:
        raise OtherVersionError(
            f"{kind.__name__} has no parameters {unknown}, so this exchange was "
            "written by an older version of skgems. Start a new exchange in another "
            "folder, or go on with the version that wrote this one."
        )


def aggregator_of_settings(method: str, settings: Mapping) -> BaseAggregator:
    """Make the aggregator of the settings in a summary or an agreement."""
    if method == NoisyTerms.method:  # whatever is made of its sums, they are the same
        privacy = Privacy.from_settings(settings["privacy"])
        return GEMSLogisticAggregator(privacy=privacy, moments=settings["moments"])
    params = with_objects_of_settings(settings)
    if "pooled" in params:
        params["pooled"] = _object(params["pooled"])
    if "front" in params:
        params["front"] = _front(params["front"])
    return method_of(method)(**params)


def _front(content: Mapping | None) -> TransformerMixin | None:
    if content is None:
        return None
    front = front_of_content(content)
    if isinstance(front, DocumentFront):
        return front.transformer
    return PooledTransformer(front.transformer, bounds=front.bounds)


def _plain(value: object, name: str) -> Json:
    """Return a parameter for JSON; ValueError names what cannot be stored."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(part, name) for part in value]
    if isinstance(value, dict):
        return {"pairs": _plain(list(value.items()), name)}
    return _plain_object(value, name)


def _plain_object(value: object, name: str) -> Json:
    """Return an object among the parameters as a dict, which tells its kind."""
    for name_of_kind, kind in _KINDS.items():
        if isinstance(value, kind):
            return {name_of_kind: value.as_settings()}
    if isinstance(value, Disclosure):
        return {"disclosure": value.as_dict()}
    if isinstance(value, BaseAggregator):
        return as_json(value)
    if type(value) in _CLASSES.values():
        params = {
            key: _plain(part, f"{name}__{key}")
            for key, part in value.get_params(deep=False).items()
        }
        return {"part": type(value).__name__, "params": params}
    raise ValueError(
        f"{name}={value!r} cannot be stored in a folder. Give a number, a text, a "
        "geometry, a criterion, a classifier that can be pooled, or a list of "
        "these."
    )


def _object(value: Json) -> object:
    """The parameter that `_plain` has written."""
    if not isinstance(value, Mapping):
        return value
    if "method" in value:
        return from_json(value)
    if "disclosure" in value:
        return Disclosure(**value["disclosure"])
    if "pairs" in value:
        return dict(value["pairs"])
    if "part" in value:
        _check_parameters(_CLASSES[value["part"]], value["params"])
        params = {name: _object(part) for name, part in value["params"].items()}
        return _CLASSES[value["part"]](**params)
    ((kind, settings),) = value.items()
    return _front(settings) if kind == "front" else _KINDS[kind].from_settings(settings)
