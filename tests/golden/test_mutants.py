# SPDX-License-Identifier: BSD-3-Clause
"""The program that changes the package at random and looks which tests notice."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / ".ci" / "mutants.py"
SOURCE = '''\
"""A docstring of 3 words."""

import math

LIMIT = 4  # ü
class Judge:
    def verdict(self, x: int = 2, *, strict=True) -> "int":
        """Of 2 numbers."""
        for i in range(x, LIMIT):
            if not x or i + 1 < -x:
                raise ValueError(f"{x + 1} is too small.")
            self.log(x, i)
        return zip(x, strict=True)
'''


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def write_package(folder, source=SOURCE, file="skgems/moments/_judge.py"):
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return path


def test_all_kinds_of_changes_are_found_and_texts_and_types_left_alone(
    mutants, tmp_path
):
    sites = mutants.sites_of(tmp_path, write_package(tmp_path))
    changes = {
        (site.mutant.kind, site.mutant.before, site.mutant.after) for site in sites
    }
    assert changes == {
        ("constant", "4", "5"),
        ("constant", "4", "3"),
        ("arguments", "range(x, LIMIT)", "range(LIMIT, x)"),
        ("condition", "not x or i + 1 < -x", "(not (not x or i + 1 < -x))"),
        ("and, or", "not x or i + 1 < -x", "(not x and i + 1 < -x)"),
        ("not", "not x", "x"),
        ("comparison", "i + 1 < -x", "(i + 1 <= -x)"),
        ("comparison", "i + 1 < -x", "(i + 1 >= -x)"),
        ("arithmetic", "i + 1", "(i - 1)"),
        ("constant", "1", "2"),
        ("constant", "1", "0"),
        ("sign", "-x", "x"),
        ("raise", "raise ValueError(f'{x + 1} is too small.')", "pass"),
        ("statement", "self.log(x, i)", "pass"),
        ("arguments", "self.log(x, i)", "self.log(i, x)"),
        ("return", "return zip(x, strict=True)", "return None"),
    }
    assert {site.mutant.function for site in sites} == {"LIMIT", "Judge.verdict"}
    assert {site.mutant.room for site in sites} == {"moments"}


def test_each_mutant_is_code_and_differs_in_its_own_place(mutants, tmp_path):
    path = write_package(tmp_path)
    source = path.read_bytes()
    for site in mutants.sites_of(tmp_path, path):
        changed = site.applied_to(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        before = source[site.start : site.end].strip()
        assert ast.unparse(ast.parse(before)) == site.mutant.before
        assert site.mutant.line in site.lines


def test_a_draw_is_of_all_rooms_and_of_the_seed(mutants, tmp_path):
    rooms = ("progress", "tuning")
    for room in rooms:
        write_package(tmp_path, file=f"skgems/{room}/_judge.py")
    sample = mutants.drawn(tmp_path, rooms, 9, 0)
    assert [mutant.room for mutant in sample] == [*rooms * 4, "progress"]
    assert len(set(sample)) == 9
    assert sample == mutants.drawn(tmp_path, rooms, 9, 0)
    assert sample != mutants.drawn(tmp_path, rooms, 9, 1)


def test_the_rooms_are_folders_of_the_package(mutants):
    assert len(mutants.ROOMS) == 14
    assert all((mutants.ROOT / "skgems" / room).is_dir() for room in mutants.ROOMS)


def test_a_change_is_found_in_another_file_and_lower(mutants, tmp_path):
    write_package(tmp_path)
    sample = mutants.drawn(tmp_path, ("moments",), 99, 0)
    places = mutants.Places(tmp_path)
    assert [places.of(mutant).mutant for mutant in sample] == sample
    # In another room, three lines lower, and one call changed.
    moved_source = SOURCE.replace("LIMIT = 4", "\n\n\nLIMIT = 4").replace(
        "self.log", "self.say"
    )
    (tmp_path / "skgems/moments/_judge.py").unlink()
    write_package(tmp_path, moved_source, "skgems/spaces/_new.py")
    places = mutants.Places(tmp_path)
    for mutant in sample:
        site = places.of(mutant)
        if "self.log" in mutant.before:
            assert site is None
        else:
            assert site.mutant.file == "skgems/spaces/_new.py"
            assert site.mutant.line == mutant.line + 3
            assert site.mutant.before == mutant.before


def test_a_change_in_a_rewritten_function_is_found_by_its_kind(mutants, tmp_path):
    path = write_package(tmp_path)
    sites = mutants.sites_of(tmp_path, path)
    kinds = {site.mutant.kind: site.mutant for site in sites}
    constants = [site.mutant for site in sites if site.mutant.kind == "constant"]
    of_limit = next(mutant for mutant in constants if mutant.function == "LIMIT")
    rewritten = SOURCE.replace("not x or i + 1 < -x", "x > i + 1 - start")
    write_package(tmp_path, rewritten)
    places = mutants.Places(tmp_path)
    found = places.of(kinds["comparison"]).mutant
    assert found.before == "x > i + 1 - start"
    assert found.function == "Judge.verdict"
    assert places.of(kinds["and, or"]) is None
    assert places.of(of_limit).mutant == of_limit
    # The same change comes before one that only has the same number.
    assert places.of(kinds["arithmetic"]).mutant.before == "i + 1"


def test_a_change_is_found_in_its_function_rather_than_in_an_earlier_one(
    mutants, tmp_path
):
    write_package(tmp_path)
    sample = mutants.drawn(tmp_path, ("moments",), 99, 0)
    # The same function in a file that comes first, and another one.
    write_package(tmp_path, SOURCE, "skgems/base/_a.py")
    write_package(tmp_path, SOURCE.replace("verdict", "other"), "skgems/base/_b.py")
    places = mutants.Places(tmp_path)
    assert all(places.of(mutant).mutant == mutant for mutant in sample)


@pytest.fixture
def project(tmp_path, mutants, monkeypatch):
    """A small package in git, with two tests, at which the program looks."""
    package = (
        "def double(x):\n    return [x, x]\n"
        "def no(x):\n    return {x}\n"
        "def same(x):\n    return x\n"
    )
    test = (
        "from skgems.moments._judge import double, no\n"
        "def test_double():\n    assert double(3)\n"
        "def test_no():\n    no(1)\n"
    )
    write_package(tmp_path, package)
    for name in ("skgems/__init__.py", "skgems/moments/__init__.py"):
        write_package(tmp_path, "", name)
    write_package(tmp_path, test, "tests/moments/test_judge.py")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return tmp_path


KILLER = "tests/moments/test_judge.py::test_double"


def test_tests_that_touch_a_line_kill_its_mutants(project, mutants):
    pytest.importorskip("pytest_cov")
    place = project / "map"
    record = project / "record.json"
    mutants.main(["draw", str(record), "--number", "20", "--rooms", "moments"])
    mutants.main(["trace", str(place)])
    assert_only_the_killer_touches_double(place)
    sources = {path: path.read_bytes() for path in project.glob("skgems/*/*.py")}
    run = ["run", str(record), "--map", str(place)]
    mutants.main([*run, "--minutes", "0"])
    assert not any(mutant.outcome for mutant in mutants.read_record(record))
    mutants.main(run)
    done = mutants.read_record(record)
    assert {(m.before, m.kind): (m.outcome, m.by) for m in done} == {
        ("return [x, x]", "return"): ("killed", KILLER),
        ("return {x}", "return"): ("survived", ""),
        ("return x", "return"): ("untested", ""),
    }
    assert {path: path.read_bytes() for path in sources} == sources
    assert_not_run_again(mutants, record, run)


def assert_only_the_killer_touches_double(place):
    """The map in a folder has two tests, one of which runs line 2 of the package."""
    (written,) = place.glob("*.json")
    traced = json.loads(written.read_text())
    assert len(traced["tests"]) == 2
    (touched,) = traced["touched"]["skgems/moments/_judge.py"]["2"]
    assert traced["tests"][touched] == KILLER


def assert_not_run_again(mutants, record, run):
    """Mutants that are done keep their times, which a second run would change."""
    done = [replace(mutant, seconds=0.0) for mutant in mutants.read_record(record)]
    mutants.write_record(record, done)
    mutants.main(run)
    assert mutants.read_record(record) == done


def test_a_mutant_that_lives_is_run_again_where_more_tests_are_known(mutants, tmp_path):
    write_package(tmp_path)
    (mutant,) = mutants.drawn(tmp_path, ("moments",), 1, 0)
    assert not mutant.is_done(0)
    for outcome in ("survived", "untested"):
        alive = replace(mutant, outcome=outcome, n_places=3)
        assert alive.is_done(3) and not alive.is_done(4)
    for outcome in ("killed", "timeout", "gone"):
        assert replace(mutant, outcome=outcome, n_places=3).is_done(4)


def test_a_mutant_that_loops_is_ended(project, mutants):
    write_package(
        project,
        "def test_loop():\n    while True:\n        pass\n",
        "tests/test_loop.py",
    )
    ended, outcomes = mutants.run_tests(project, ["tests/test_loop.py"], 1.0)
    assert (ended, outcomes) == ("timeout", [])
    ended, outcomes = mutants.run_tests(project, ["tests/moments"], 60.0)
    assert ended == "passed" and [test[1] for test in outcomes] == ["passed"] * 2
    assert mutants.run_tests(project, ["tests/missing"], 60.0)[0] == "not collected"


def test_a_test_that_fails_without_the_mutant_is_not_believed(mutants, monkeypatch):
    def outcome_of(site, tests, tree):
        by = next((name for _, name in tests), "")
        return replace(site, outcome="killed" if by else "survived", by=by)

    tried = []

    def run_tests(tree, words, seconds):
        tried.append(words)
        return ("failed" if "shaky" in words[0] else "passed"), []

    monkeypatch.setattr(mutants, "outcome_of", outcome_of)
    monkeypatch.setattr(mutants, "run_tests", run_tests)
    judges = mutants.Judges(Path())
    words = dict.fromkeys(("room", "file", "function", "kind"), "")
    mutant = mutants.Mutant(**words, line=1, place=0, before="a", after="b")
    tests = [(0.1, "test_a.py::shaky"), (0.2, "test_b.py::sound")]
    for _ in range(2):
        assert judges.outcome_of(mutant, tests).by == "test_b.py::sound"
    assert tried == [["test_a.py::shaky"], ["test_b.py::sound"]]
    assert judges.outcome_of(mutant, tests[:1]).outcome == "survived"


def test_what_was_killed_and_lives_now_is_an_error(mutants, tmp_path):
    write_package(tmp_path)
    old = [
        replace(mutant, outcome="killed")
        for mutant in mutants.drawn(tmp_path, ("moments",), 3, 0)
    ]
    new = [replace(old[0], outcome="gone"), old[1], replace(old[2], outcome="survived")]
    for name, record in {"old": old, "new": new}.items():
        mutants.write_record(tmp_path / name, record)
    words = ["report", str(tmp_path / "new"), "--before", str(tmp_path / "old")]
    with pytest.raises(SystemExit, match="killed before, and live now"):
        mutants.main(words)
    mutants.write_record(tmp_path / "new", new[:2] + old[2:])
    mutants.main(words)
    mutants.main(["again", str(tmp_path / "new"), str(tmp_path / "newer")])
    assert not any(m.outcome for m in mutants.read_record(tmp_path / "newer"))
