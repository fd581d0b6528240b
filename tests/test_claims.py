# SPDX-License-Identifier: BSD-3-Clause
"""Claims of README and guide stand on their pages, and quick forms answer them."""

from __future__ import annotations

import importlib
import math
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"

if not BENCHMARKS.exists():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
if sys.platform == "win32":
    pytest.skip("there is no module resource", allow_module_level=True)


@pytest.fixture
def claims_module(monkeypatch):
    """The benchmarks' module that reads and judges claims."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("_claims")


@pytest.fixture
def quick_module(monkeypatch):
    """The benchmarks' module of quick forms."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("_quick")


@pytest.fixture
def runner(monkeypatch):
    """The program behind ``make bench``."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("run_quick")


# The claims ---------------------------------------------------------------------------


def test_the_words_of_each_claim_stand_on_its_page(claims_module):
    """Change the claim in benchmarks/claims.toml with the page."""
    text_of: dict[str, str] = {}
    gone = []
    for claim in claims_module.read_claims():
        if claim.page not in text_of:
            text_of[claim.page] = (ROOT / claim.page).read_text(encoding="utf-8")
        if not claim.is_on(text_of[claim.page]):
            gone.append((claim.page, claim.text))
    assert gone == []


def test_each_benchmark_has_a_quick_form_and_claims_name_those_that_are_there(
    claims_module, runner
):
    claims = claims_module.read_claims()
    programs = {BENCHMARKS / script.split()[0] for script in runner.all_scripts(claims)}
    assert set(BENCHMARKS.glob("bench_*.py")) < programs
    of_papers = BENCHMARKS / "papers" / "_common.py"
    assert "--quick" in of_papers.read_text()
    for program in programs - {BENCHMARKS / "papers" / "run.py"}:
        assert "parse_with_quick(" in program.read_text(), program


def test_no_claim_is_told_twice_and_each_has_a_bound(claims_module):
    claims = claims_module.read_claims()
    assert all(math.isfinite(max(c.at_least, -c.at_most)) for c in claims)
    abouts = [(claim.page, claim.about) for claim in claims]
    assert len(set(abouts)) == len(abouts) > 30


def make_claim(module, **parts):
    """A claim that a page says 2.5."""
    fixed = {"page": "README.md", "text": "It is 2.5 times.", "about": "times"}
    return module.Claim(**fixed | {"script": "s.py", "figure": "a"} | parts)


@pytest.mark.parametrize(
    "bounds, good, bad",
    [
        ({"at_least": 2.4, "at_most": 2.6}, (2.4, 2.5, 2.6), (2.39, 2.61, math.nan)),
        ({"at_least": 2.0}, (2.0, 9.0), (1.99, math.nan)),
        ({"at_most": 2.0}, (2.0, -9.0), (2.01, math.nan)),
    ],
)
def test_a_claim_holds_within_its_bounds(claims_module, bounds, good, bad):
    claim = make_claim(claims_module, **bounds)
    verdicts = [claim.judge({"a": figure})[0] for figure in good + bad]
    assert verdicts == ["holds"] * len(good) + ["differs"] * len(bad)


def test_a_claim_may_be_about_two_figures(claims_module):
    claim = make_claim(claims_module, at_least=0, less="b")
    assert claim.judge({"a": 6.0, "b": 4.0}) == ("holds", 2.0)


def test_a_claim_without_figure_and_one_that_was_not_run_are_told_apart(claims_module):
    claim = make_claim(claims_module, at_least=0, less="b")
    assert claim.judge({"a": 1.0}) == ("no figure", None)
    assert claim.judge(None) == ("not run", None)


def test_line_ends_do_not_matter_and_numbers_do(claims_module):
    claim = make_claim(claims_module)
    assert claim.is_on("So\nIt is\n   2.5 times. And")
    assert not claim.is_on("It is 2.6 times.")


# Quick forms --------------------------------------------------------------------------


def parse(quick_module, *words):
    """Options of a program that trains on a thousand rows of a file."""
    parser = ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--data")
    return quick_module.parse_with_quick(
        parser, words, quick={"rows": 10}, needs={"data": "SKGEMS_SOME"}
    )


def test_quick_changes_defaults_only(quick_module):
    assert parse(quick_module).rows == 1000
    assert parse(quick_module, "--quick", "--data", "x").rows == 10
    assert parse(quick_module, "--quick", "--data", "x", "--rows", "5").rows == 5


def test_a_quick_form_without_its_data_names_the_variable(
    quick_module, monkeypatch, tmp_path, capsys
):
    figures = tmp_path / "figures.jsonl"
    monkeypatch.setenv(quick_module.FIGURES_VARIABLE, str(figures))
    with pytest.raises(SystemExit) as ended:
        parse(quick_module, "--quick")
    assert ended.value.code == 0
    assert "SKGEMS_SOME" in capsys.readouterr().out
    assert "SKGEMS_SOME" in figures.read_text()
    # A whole run reads its data in its own way.
    assert parse(quick_module).data is None


def test_figures_are_noted_only_where_they_are_asked_for(
    quick_module, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(quick_module.FIGURES_VARIABLE, raising=False)
    quick_module.note_figure("a", 1)
    assert list(tmp_path.iterdir()) == []


# The runner ---------------------------------------------------------------------------

GOOD = """
from _quick import note_figure
note_figure("a", 2.4)
print("a table")
"""
BROKEN = """
raise RuntimeError("no luck")
"""
WITHOUT_DATA = """
from argparse import ArgumentParser
from _quick import parse_with_quick
parser = ArgumentParser()
parser.add_argument("--data")
parse_with_quick(parser, quick={}, needs={"data": "SKGEMS_SOME"})
"""


def test_the_runner_goes_on_behind_failures_and_ends_with_the_claims(
    runner, claims_module, monkeypatch, tmp_path, capsys
):
    scripts = {"bench_a": GOOD, "bench_b": BROKEN, "bench_c": WITHOUT_DATA}
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    claims = [
        make_claim(claims_module, script="bench_a.py", at_least=2.3),
        make_claim(claims_module, script="bench_a.py", at_least=2.49, about="exactly"),
        make_claim(claims_module, script="bench_b.py", at_least=2.3),
        make_claim(claims_module, script="bench_c.py", at_least=2.3),
    ]
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS))
    monkeypatch.setattr(runner, "HERE", tmp_path)
    monkeypatch.setattr(runner, "ALWAYS", ())
    monkeypatch.setattr(runner, "read_claims", lambda: claims)
    output = tmp_path / "output"
    monkeypatch.setattr(sys, "argv", ["run_quick.py", "--output", str(output)])
    assert runner.main() == 1
    told = capsys.readouterr().out
    assert [told.count(word) for word in (" holds ", " differs ", " not run ")] == [
        1,
        1,
        2,
    ]
    assert "1 holds, 1 differs, 2 not run" in told
    assert "set SKGEMS_SOME" in told
    assert "failed: bench_b.py" in told
    assert "no luck" in (output / "bench_b.py.log").read_text()
    assert (output / "bench_a.py.log").read_text() == "a table\n"

    monkeypatch.setattr(runner, "read_claims", lambda: claims[:1])
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "_a", "_c"])
    assert runner.main() == 0
