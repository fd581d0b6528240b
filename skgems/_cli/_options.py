# SPDX-License-Identifier: BSD-3-Clause
"""Methods and parameters as they are typed, and packages that may be missing."""

import argparse
import json
from collections.abc import Mapping
from importlib import import_module

from ..base import BaseAggregator
from ..exchange import METHODS, of_settings

# One word each, for those who do not write Python.
METHOD_WORDS: Mapping[str, str] = {
    "averaging": "ModelAveragingAggregator",
    "linear": "GEMSLogisticAggregator",
    "matching": "PFNMAggregator",
    "networks": "GEMSMLPAggregator",
    "pooled": "PooledAggregator",
}


def parameter(text: str) -> tuple[str, object]:
    """Name and value of a typed NAME=VALUE: JSON, or else the text as it is."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def aggregator_of(method: str, settings: Mapping, parameters: list) -> BaseAggregator:
    """An unfitted aggregator of a class and settings, which ``parameters`` override."""
    given = dict(parameters)
    known = set(METHODS[method]._get_param_names()) - {"estimators"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(
            f"--set: {unknown[0]!r} is no parameter of {method}; these are: "
            f"{', '.join(sorted(known))}."
        )
    aggregator = of_settings(method, {**settings, **given})
    # Here, where it was typed, and not at the nodes.
    aggregator._validate_params()
    return aggregator


def printable(text: str) -> str:
    """A line that cannot steer the terminal, whoever chose the names in it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def needed(module: str):
    """Import a module of the extra ``cli``; an ImportError says what to install."""
    try:
        return import_module(module)
    except ImportError as exc:
        package = module.partition(".")[0]
        raise ImportError(
            f"This needs the package {package}: pip install skgems[cli]."
        ) from exc
