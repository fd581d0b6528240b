# SPDX-License-Identifier: BSD-3-Clause
"""Lines and bars that show how far a long run is."""

import logging
import sys

import pytest
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems import GEMSLogisticAggregator
from skgems.compat import LOGGER, _progress, say, showing, tracked


@pytest.fixture
def slow_clock(monkeypatch):
    """A clock that goes on by a second each time it is read, and no tqdm."""
    seconds = iter(range(1000))
    monkeypatch.setattr(_progress, "perf_counter", lambda: float(next(seconds)))
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # as if it were not there


def test_nothing_is_shown_unless_it_is_asked_for(capsys):
    nodes = [1, 2, 3]
    assert tracked(nodes, "nodes") is nodes
    with showing(0):
        assert tracked(nodes, "nodes") is nodes
        say("a line")
    # An inner run shows what the outer one was asked to show.
    with showing(1), showing(0):
        # A run that ends within the delay shows no bar.
        assert list(tracked(iter(nodes), "nodes", total=3)) == nodes
        assert tracked(nodes, "nodes") is not nodes
    assert tracked(nodes, "nodes") is nodes
    assert capsys.readouterr() == ("", "")


def test_nothing_is_shown_after_an_error_has_ended_a_run():
    with pytest.raises(KeyError), showing(True):
        raise KeyError
    assert tracked([1], "nodes") == [1]


def test_lines_are_shown_where_tqdm_is_not_installed(slow_clock, capsys):
    with showing(1):
        assert list(tracked(range(6), "nodes")) == list(range(6))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[skgems] nodes: 2 of 6, about 4 s left"
    assert len(lines) == 2  # every two seconds, and none at the end


def test_lines_go_to_handlers_of_the_logger_and_otherwise_to_stderr(
    slow_clock, caplog, capsys
):
    with caplog.at_level(logging.INFO, logger="skgems"), showing(True):
        list(tracked(range(6), "files"))
        say("done")
    assert caplog.messages[0] == "files: 2 of 6, about 4 s left"
    assert caplog.messages[-1] == "done"
    assert capsys.readouterr().err == ""
    with caplog.at_level(logging.WARNING, logger="skgems"), showing(True):
        say("asked for, so it is shown")
    assert capsys.readouterr().err == "[skgems] asked for, so it is shown\n"
    assert LOGGER.name == "skgems"


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_verbose_node_shows_its_progress_through_statistics(
    verbose, slow_clock, capsys
):
    X, y = load_iris(return_X_y=True)
    clf = LinearDiscriminantAnalysis().fit(X, y)
    agg = GEMSLogisticAggregator(epsilon=0.9, random_state=0, verbose=verbose)
    # With its spaces, since a line is shown every two seconds of this clock.
    summary = agg.summarize(clf, X, y, name="lyon", space=True)
    assert ("statistics: 2 of" in capsys.readouterr().err) == bool(verbose)
    assert len(summary.requests) > 2


def test_a_bar_is_shown_where_tqdm_is_installed(capsys, monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(_progress, "_DELAY", 0)
    with showing(2):
        assert list(tracked(range(3), "sweeps")) == [0, 1, 2]
    assert "sweeps" in capsys.readouterr().err
    assert tqdm.__name__ in sys.modules
