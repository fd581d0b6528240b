# SPDX-License-Identifier: BSD-3-Clause
"""The page *architecture* tells of the package as it is."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skgems
from skgems.asking import Message
from skgems.guard import answer
from skgems.steps import Kind

ROOT = Path(__file__).parent.parent
PACKAGE = Path(skgems.__file__).parent
PAGE = (ROOT / "docs" / "user_guide" / "architecture.rst").read_text(encoding="utf-8")


def module_at(path: Path):
    """A module that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Lists the functions that a call goes through.
path_of_a_fit = module_at(ROOT / ".ci" / "path_of_a_fit.py")


def section(title: str, underline: str) -> str:
    """The text below a heading, up to the next one of its level."""
    line = f"\n{title}\n{underline * len(title)}\n"
    assert PAGE.count(line) == 1, title
    text = PAGE.split(line)[1]
    return re.split(rf"\n{re.escape(underline)}{{4,}}\n", text)[0]


def floors_of_the_page() -> list[set[str]]:
    """Rooms of the table, floor by floor, from the ground up."""
    table = section("The rooms", "-").partition(".. list-table::")[2]
    floors: dict[int, set[str]] = {}
    number = 0
    for row in re.split(r"^   \* - ?", table, flags=re.MULTILINE)[2:]:
        floor_cell, room_cell, _ = re.split(r"^     - ", row, flags=re.MULTILINE)[:3]
        if floor_cell.strip():  # only the first room of a floor has its number
            number = int(floor_cell)
        floors.setdefault(number, set()).add(room_cell.strip().strip("`"))
    assert sorted(floors) == list(range(1, len(floors) + 1))
    assert list(floors) == sorted(floors, reverse=True)
    return [floors[number] for number in sorted(floors)]


def test_the_table_has_the_rooms_on_their_floors():
    floors = floors_of_the_page()
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sum(map(len, floors)) == len(folders)
    assert set().union(*floors) == folders
    assert floors == module_at(ROOT / "tests" / "test_house.py").FLOORS


@pytest.mark.parametrize("room", sorted(set().union(*floors_of_the_page())))
def test_every_room_has_a_paragraph_and_an_example_of_its_own_names(room):
    """Names in backticks exist; the example, which is run, imports from the room."""
    module = importlib.import_module(f"skgems.{room}")
    _, paragraph, example = module.__doc__.split("\n\n", 2)
    assert paragraph.rstrip().endswith(".")
    assert f">>> from skgems.{room} import " in example
    names = re.findall(r"(?<!`)`(\w+)`(?!`)", paragraph)
    assert names
    rooms = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    missing = [n for n in names if not hasattr(module, n) and n not in rooms]
    assert missing == []


def stops_of(title: str) -> list[str]:
    """What a numbered list names as ``file.py:function``, in its order."""
    text = section(title, "~").partition(f"\n{'-' * 4}")[0]
    text = text.split("\nA row's way through")[0]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    stops = re.findall(r"^\d+\. ``([\w/]+\.py:[\w.]+)``", text, re.MULTILINE)
    assert len(stops) == len(numbers) > 10
    return stops


def functions_in(path: Path) -> set[str]:
    """Functions and methods of a file, these as "Class.method"."""
    names = set()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
        elif isinstance(statement, ast.ClassDef):
            methods = [m for m in statement.body if isinstance(m, ast.FunctionDef)]
            names |= {f"{statement.name}.{method.name}" for method in methods}
    return names


def test_every_function_that_the_page_names_exists():
    """Those that are written as ``room/file.py:function``."""
    names = re.findall(r"``([\w/]+\.py):([\w.]+)``", PAGE)
    assert names
    missing = [
        f"{file}:{function}"
        for file, function in names
        if not (PACKAGE / file).is_file()
        or function not in functions_in(PACKAGE / file)
    ]
    assert missing == []


def test_every_file_that_the_page_names_exists():
    """In the package, or in the repository."""
    files = re.findall(r"``(\w+/\w+\.py)``", PAGE)
    assert files
    missing = [
        file
        for file in files
        if not (PACKAGE / file).is_file() and not (ROOT / file).is_file()
    ]
    assert missing == []


def test_a_default_fit_goes_the_way_of_the_page():
    """Files and functions in the order of their first calls."""
    codes = path_of_a_fit.codes_of_a_fit(path_of_a_fit.fit_over_models())
    names = [path_of_a_fit.name_of(code) for code in codes]
    stops = stops_of("One fit")
    assert [name for name in names if name in stops] == stops


def names_under_way(frame) -> Iterator[str]:
    """Functions of the package that are under way, the latest first."""
    while frame is not None:
        code = frame.f_code
        is_function = not code.co_name.startswith("<")  # as generators are not
        if is_function and code.co_filename.startswith(str(PACKAGE)):
            yield path_of_a_fit.name_of(code)
        frame = frame.f_back


@cache
def calls_of_a_default_fit() -> dict[str, tuple[list[str], set[str]]]:
    """For each function the way to its first call, and those that ever call it."""
    call = path_of_a_fit.fit_over_models()
    path_of_a_fit.codes_of_a_fit(call)  # imports all that it needs
    path_of_a_fit.clear_cache()
    calls: dict[str, tuple[list[str], set[str]]] = {}

    def note(frame, event, argument) -> None:
        code = frame.f_code
        is_function = not code.co_name.startswith("<")
        if event != "call" or not is_function:
            return
        if code.co_filename.startswith(str(PACKAGE)):
            names = names_under_way(frame)
            name = next(names)
            caller = next(names, name)
            _, callers = calls.setdefault(name, ([caller, *names], set()))
            callers.add(caller)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


def room_of(name: str) -> str:
    return name.partition("/")[0]


def test_the_picture_of_the_default_way_is_walked_in_its_order_and_rooms():
    text = section("The default way", "-")
    stops = [
        f"{file}:{function}"
        for function, file in re.findall(r"^    ([\w.]+) +(\w+/\w+[.]py)$", text, re.M)
    ]
    assert len(stops) == 8
    calls = calls_of_a_default_fit()
    assert [name for name in calls if name in stops] == stops
    sentence = text.partition("Seven rooms call each other on this way:")[2]
    rooms = set(re.findall(r"`(\w+)`", sentence.partition(".")[0]))
    assert len(rooms) == 7
    ways = [[stop, *calls[stop][0]] for stop in stops]
    assert {room_of(name) for way in ways for name in way} == rooms


def test_a_default_fit_calls_rooms_above_only_by_the_hooks_of_the_page():
    floors = floors_of_the_page()
    floor_of = {room: k for k, rooms in enumerate(floors) for room in rooms}
    rows = re.findall(r"^(`\w+`) +(`\w+`(?:, `\w+`)*)  ", PAGE, re.M)
    hooks = {
        (caller.strip("`"), room)
        for caller, rooms in rows
        for room in re.findall(r"\w+", rooms)
    }
    pairs = {
        (room_of(caller), room_of(name))
        for name, (_, callers) in calls_of_a_default_fit().items()
        for caller in callers
    }
    assert {(a, b) for a, b in pairs if floor_of[a] < floor_of[b]} == hooks


def test_a_message_goes_the_way_of_the_page(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.repeat(["ill", "well"], 30)
    model = LogisticRegression().fit(X, y)
    folder = tmp_path / "exchange"
    aggregator = skgems.GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(folder, aggregator, nodes=["lyon", "paris"])

    def way_of_a_message():
        assert exchange.step() is None
        for request in sorted((folder / "requests").iterdir()):
            name = request.stem.partition("-")[2]  # of "001-lyon.safetensors"
            answer(
                request,
                model,
                X,
                y,
                name=name,
                state=tmp_path / name,
                agreement=folder / "agreement.json",
            )
        assert exchange.step() is not None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both nodes have the same rows
        codes = path_of_a_fit.codes_of(way_of_a_message)
    names = [path_of_a_fit.name_of(code) for code in codes]
    stops = stops_of("One message")
    assert [name for name in names if name in stops] == stops


def test_the_script_lists_a_function_once_and_none_of_other_packages():
    def call():
        Message.of("counts")
        Message.of("counts")

    codes = path_of_a_fit.codes_of(call)
    names = [path_of_a_fit.name_of(code) for code in codes]
    assert names.count("messages/_message.py:Message.of") == 1
    assert len(set(codes)) == len(codes)
    assert path_of_a_fit.codes_of(lambda: np.sort([2, 1])) == []


def test_the_page_has_every_member_of_the_class_kind():
    table = section("Add a step to fronts", "-").partition(".. list-table::")[2]
    first_columns = re.findall(r"^   \* - (.*)$", table, re.MULTILINE)
    names = set(re.findall(r"``(\w+)``", " ".join(first_columns)))
    assert names == {name for name in vars(Kind) if not name.startswith("_")}
