# SPDX-License-Identifier: BSD-3-Clause
"""Which warnings a fit keeps, for its report."""

from __future__ import annotations

import warnings

import pytest

from skgems.base import (
    as_own_warnings,
    keep_warnings_out_of_report,
    keeps_warnings,
    noted_warnings,
    silenced,
    warn_user,
)


class Fitted:
    """What warns in its fit, and whose fit has another as a part of it."""

    def __init__(self, text, part=None):
        self.text = text
        self.part = part

    @keeps_warnings
    def fit(self):
        if self.part is not None:
            self.part.fit()
        warn_user(self.text)
        warn_user(self.text)
        return self


@pytest.mark.parametrize("action", ["ignore", "always"])
def test_a_fit_keeps_its_own_and_those_of_its_parts(action):
    inner = Fitted("the\n  inner one")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        outer = Fitted("the outer one", inner).fit()
    assert len(caught) == (4 if action == "always" else 0)
    assert inner._fit_warnings == ("the inner one",)
    assert outer._fit_warnings == ("the inner one", "the outer one")


def test_what_is_only_tried_is_neither_shown_nor_kept():
    with noted_warnings() as texts, silenced():  # a warning shown is an error here
        tried = Fitted("a candidate").fit()
    assert texts == [] and tried._fit_warnings == ("a candidate",)


def test_a_node_in_this_process_warns_and_its_server_keeps_nothing():
    with (
        noted_warnings() as texts,
        pytest.warns(UserWarning, match="of the node"),
        keep_warnings_out_of_report(),
    ):
        warn_user("of the node")
    assert texts == []


def test_warnings_of_other_packages_are_kept_with_their_category():
    with noted_warnings() as texts:
        with pytest.warns(FutureWarning, match="of another package"):
            with as_own_warnings():
                warnings.warn("of another package", FutureWarning, stacklevel=1)
    assert texts == ["of another package"]


def test_a_fit_that_fails_hands_on_what_it_has_warned_of():
    class Failing(Fitted):
        @keeps_warnings
        def fit(self):
            warn_user(self.text)
            raise ValueError("it fails")

    failing = Failing("before it failed")
    with warnings.catch_warnings(), noted_warnings() as texts:
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="it fails"):
            failing.fit()
    assert texts == ["before it failed"] and not hasattr(failing, "_fit_warnings")
