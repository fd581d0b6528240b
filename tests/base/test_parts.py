# SPDX-License-Identifier: BSD-3-Clause
"""Parameters that are objects, and what may be short for one."""

from __future__ import annotations

import pickle
import warnings

import pytest
from sklearn.base import clone

from skgems.base import BaseAggregator, Part
from skgems.compat import StrOptions


class Brush(Part):
    short_forms = [StrOptions({"wide", "thin"}), None]
    _parameter_constraints = {"shape": short_forms, "hairs": [int]}

    def __init__(self, shape="wide", *, hairs=100):
        self.shape = shape
        self.hairs = hairs

    def _with_objects(self):
        return self.set_params(hairs=self.hairs + 1)


class Painter(BaseAggregator):
    _parts = {"brush": Brush}

    def __init__(self, estimators=None, *, brush="wide", n_jobs=None):
        self.estimators = estimators
        self.brush = brush
        self.n_jobs = n_jobs

    def _logits(self, X):
        raise NotImplementedError


def test_a_word_and_the_object_give_equal_parts():
    assert repr(Brush.from_value("thin")) == repr(Brush.from_value(Brush("thin")))
    assert repr(Brush.from_value(None)) == repr(Brush.from_value(Brush()))


def test_the_object_of_a_user_is_not_changed():
    brush = Brush(hairs=5)
    assert Painter(brush=brush)._parameter("brush").hairs == 6
    assert brush.hairs == 5


@pytest.mark.parametrize("brush", ["broad", Brush("broad"), Brush(hairs="many"), 3])
def test_what_is_no_such_part_is_refused(brush):
    with pytest.raises(ValueError, match="parameter of"):
        Painter(brush=brush)._validate_params()


@pytest.mark.parametrize("brush", ["thin", None, Brush("thin")])
def test_parts_are_set_within_short_forms(brush):
    painter = Painter(brush=brush).set_params(brush__hairs=7)
    assert painter.brush.hairs == 7
    assert painter.brush.shape == ("wide" if brush is None else "thin")
    assert clone(painter).brush.hairs == 7


def test_parts_are_known_by_name_as_folders_hold_them():
    assert Part.kinds["Brush"] is Brush
    assert {"Spaces", "Moments", "HiddenLayers", "Rounds"} < Part.kinds.keys()


def test_a_pickle_of_a_version_with_other_parameters_says_so():
    state = Painter(brush="thin").__getstate__()
    del state["brush"]
    painter = Painter.__new__(Painter)
    with pytest.warns(UserWarning, match=r"had no parameters \['brush'\].*predicts"):
        painter.__setstate__(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.loads(pickle.dumps(Painter()))


def test_only_parts_that_users_can_make_are_known_by_name(monkeypatch):
    monkeypatch.setattr(Part, "kinds", dict(Part.kinds))

    class _Tool(Part):
        """What several parts have in common."""

    class Comb(_Tool):
        """A part of its own."""

    assert Part.kinds["Comb"] is Comb
    assert "_Tool" not in Part.kinds
