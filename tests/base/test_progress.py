# SPDX-License-Identifier: BSD-3-Clause
"""How far a long run is."""

import logging
import sys

import pytest

from skgems.base import _progress, tracked


@pytest.fixture
def slow(monkeypatch):
    """A clock that goes on by a second each time it is read, and no tqdm."""
    seconds = iter(range(1000))
    monkeypatch.setattr(_progress, "perf_counter", lambda: float(next(seconds)))
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # as if it were not there


def test_nothing_is_shown_unless_it_is_asked_for(capsys):
    items = [1, 2, 3]
    assert tracked(items, "nodes", 0) is items
    assert list(tracked(iter(items), "nodes", 1, total=3)) == items  # quick: no bar yet
    assert "nodes" not in capsys.readouterr().out


def test_lines_where_there_is_no_tqdm(slow, capsys, monkeypatch):
    monkeypatch.setattr(_progress.LOGGER, "propagate", False)  # as if nobody listened
    assert list(tracked(range(6), "nodes", 1)) == list(range(6))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[skgems] nodes: 2 of 6, about 4 s left"
    assert len(lines) == 2  # every two seconds, and none at the end


def test_lines_go_to_the_handlers_of_the_logger(slow, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="skgems"):
        list(tracked(range(6), "files", True))
    assert caplog.messages[0] == "files: 2 of 6, about 4 s left"
    assert "files" not in capsys.readouterr().err


def test_a_bar_where_tqdm_is_installed(capsys, monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(_progress, "_DELAY", 0)
    assert list(tracked(range(3), "sweeps", 2)) == [0, 1, 2]
    assert "sweeps" in capsys.readouterr().err
    assert tqdm.__name__ in sys.modules
