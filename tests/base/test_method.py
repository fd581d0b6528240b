# SPDX-License-Identifier: BSD-3-Clause
"""The method of an aggregator: its parameters, with objects where words stand."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

import skgems
from skgems.base import BaseAggregator, Method
from skgems.gems import Rounds, Spaces
from skgems.spaces import Gram


@dataclass(frozen=True, eq=False, kw_only=True)
class Shrinking(Method):
    """A method with a parameter, and with what no aggregator has."""

    strength: float
    n_steps: int = 3


class Shrunk(BaseAggregator):
    _method_class = Shrinking

    def __init__(self, estimators=None, *, strength=0.5, verbose=0):
        self.estimators = estimators
        self.strength = strength
        self.verbose = verbose

    def _logits(self, X):
        raise NotImplementedError


def test_fields_are_the_parameters_of_these_names():
    method = Shrunk(strength=0.25)._method()
    assert method.strength == 0.25
    assert method.n_steps == 3  # which is no parameter


def test_words_and_numbers_are_objects():
    spaces = Spaces("ball")
    method = skgems.GEMSLogisticAggregator(spaces=spaces, n_rounds=4)._method()
    assert isinstance(method.n_rounds, Rounds)
    assert method.n_rounds.n == 4
    assert method.spaces is not spaces  # which stays as the user gave it
    assert spaces.geometry == "ball"
    method = skgems.GEMSLogisticAggregator()._method()
    assert isinstance(method.spaces.geometry, Gram)


def test_wrong_parameters_are_refused_when_the_method_is_made():
    aggregator = skgems.GEMSLogisticAggregator(n_rounds=Rounds(1, candidates="lda"))
    with pytest.raises(ValueError, match="Set n of Rounds to at least 2"):
        aggregator._method()


def test_methods_without_terms_are_not_asked_for_over_channels():
    assert "Shrunk" not in BaseAggregator.methods
    assert "EnsembleAggregator" not in BaseAggregator.methods
    for name, aggregator in BaseAggregator.methods.items():
        if hasattr(skgems, name):
            assert aggregator()._method().terms.method == name


@pytest.mark.parametrize("name", ["GEMSLogisticAggregator", "PFNMAggregator"])
def test_a_parameter_is_a_field_or_matters_to_no_method(name):
    """Parameters of simulation, process and exchange are read elsewhere."""
    aggregator = getattr(skgems, name)()
    elsewhere = {
        *("estimators", "validation_fraction", "keep_replies", "disclosure", "front"),
        *("memory", "n_jobs", "verbose", "privacy"),
    }
    names = {field.name for field in fields(aggregator._method_class)}
    assert set(aggregator.get_params(deep=False)) - elsewhere <= names
