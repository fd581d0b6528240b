# SPDX-License-Identifier: BSD-3-Clause
"""Parameters are set within words that are short for objects."""

from __future__ import annotations

import pytest
from sklearn.base import BaseEstimator, clone

from skgems.base._short_forms import ShortFormsMixin


class Paint(BaseEstimator):
    def __init__(self, color="red", *, coats=1):
        self.color = color
        self.coats = coats


class Wall(ShortFormsMixin, BaseEstimator):
    def __init__(self, paint="red", *, height=2.0):
        self.paint = paint
        self.height = height

    def _long_form(self, name, value):
        if name == "paint" and isinstance(value, str):
            return Paint(value)
        return super()._long_form(name, value)


def test_the_object_takes_the_place_of_its_word():
    wall = Wall().set_params(paint__coats=3)
    assert repr(wall.paint) == "Paint(coats=3)"
    # Of the word that is set in the same call.
    wall = Wall().set_params(paint="blue", paint__coats=2, height=1.0)
    assert repr(wall.paint) == "Paint(coats=2, color='blue')"
    assert wall.height == 1.0


def test_a_word_stays_where_nothing_within_it_is_set():
    assert Wall("blue").set_params(height=3.0).paint == "blue"
    assert clone(Wall("blue")).paint == "blue"


def test_an_object_is_set_as_it_is():
    paint = Paint("green")
    assert Wall(paint).set_params(paint__coats=2).paint is paint


def test_what_is_no_short_form_is_left_to_scikit_learn():
    with pytest.raises(ValueError, match="Invalid parameter 'door'"):
        Wall().set_params(door__width=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        Wall().set_params(paint__width=1.0)
