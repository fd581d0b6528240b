# SPDX-License-Identifier: BSD-3-Clause
"""Do tests notice faults? Small random changes of the package, and who fails by them.

Three steps, each of which goes on where it was stopped::

    python .ci/mutants.py draw record.json --number 200 --seed 0
    python .ci/mutants.py trace map --minutes 60
    python .ci/mutants.py run record.json --map map --minutes 60

``draw`` writes random mutants of the working tree into a record: one changed operator,
constant, condition or statement each, equally many of every room. ``trace`` runs the
tests under coverage, a folder at a time, and writes into the folder ``map`` which test
touches which line. ``run`` makes each mutant in a temporary copy of the tree, never in
place, runs the tests that touch its lines, quick ones first, and notes who failed.

After the code was rewritten::

    python .ci/mutants.py again record.json new.json

keeps the mutants, to be run anew. ``run`` finds each by its function and the kind of
the change: the same change if it is there, else the change of this kind that is the
nearest in order. So a function may be rewritten or move to another file. Those whose
function has no such change any more, or is gone, are "gone". ``report new.json --before
record.json`` fails if what was killed before survives.

Two kept tools were tried in place of this file. mutmut 3.8 numbers the mutants of a
function, whatever they change, and leaves decorated functions as they are, all
properties among them. cosmic-ray 8.7 finds a change by its number in the file, and runs
one command for all, so that which tests touch which line would still be ours to find.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The rooms of mathematics and of what travels.
ROOMS = (
    *("asking", "base", "disclosure", "gems", "guard", "local", "messages", "moments"),
    *("networks", "parties", "pooled", "spaces", "steps", "tasks"),
)
# Tests over every aggregator take minutes under coverage, and nearly all fails them.
NOT_TRACED = ("test_common", "test_contract", "test_demo")
# Seconds of tests for one mutant, by the times that they took unmutated.
MOST_SECONDS = 60.0
# A mutant that loops is ended after so many times the seconds that its tests took, and
# a start of Python and torch on a machine that does other things.
PATIENCE, SECONDS_TO_START = 5.0, 60.0
# Where the plugin below writes what each test did.
OUTCOMES = "SKGEMS_MUTANTS_OUTCOMES"
COVERAGE = "coverage.data"

# ---- mutants ------------------------------------------------------------------

COMPARISONS: dict[type, list[type]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
ARITHMETIC: dict[type, list[type]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.Pow: [ast.Mult],
}
LOGIC: dict[type, type] = {ast.And: ast.Or, ast.Or: ast.And}
# Fields of nodes in which nothing is changed: types, and names of what is imported.
UNCHANGED = {"annotation", "returns", "decorator_list", "type_params"}


@dataclass(frozen=True)
class Mutant:
    """One change of one statement, and what came of it."""

    room: str
    file: str
    function: str  # in which it is, with its classes; of a module what is assigned
    line: int
    kind: str
    place: int  # which of the changes of this kind in the function it is
    before: str
    after: str
    outcome: str = ""  # killed, survived, timeout, untested, gone, or not run yet
    by: str = ""  # the test that failed first
    n_tests: int = 0
    n_places: int = 0  # of tests that had been traced then
    seconds: float = 0.0

    def is_same_change(self, other: Mutant) -> bool:
        return (self.before, self.after) == (other.before, other.after)

    @property
    def is_killed(self) -> bool:
        return self.outcome in ("killed", "timeout")

    @property
    def is_alive(self) -> bool:
        return self.outcome in ("survived", "untested")

    def is_done(self, n_places: int) -> bool:
        """Whether no test that has been traced since could kill it."""
        if self.is_alive:
            return self.n_places >= n_places
        return bool(self.outcome)


@dataclass(frozen=True)
class Site:
    """A mutant, and which bytes of its file it replaces by which others."""

    mutant: Mutant
    start: int
    end: int
    lines: range  # of the statement

    def applied_to(self, source: bytes) -> bytes:
        return source[: self.start] + self.mutant.after.encode() + source[self.end :]


def changes_of(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node may be changed to, with the kind of the change."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                changed = copy.deepcopy(node)
                changed.ops[i] = other()
                yield "comparison", changed
    elif isinstance(node, ast.BinOp):
        for other in ARITHMETIC.get(type(node.op), []):
            changed = copy.deepcopy(node)
            changed.op = other()
            yield "arithmetic", changed
    elif isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = LOGIC[type(node.op)]()
        yield "and, or", changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node.operand
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant):
        yield from (("constant", ast.Constant(value)) for value in others_than(node))
    elif isinstance(node, ast.Call) and _has_two_places(node):
        changed = copy.deepcopy(node)
        changed.args[:2] = changed.args[1::-1]
        yield "arguments", changed
    elif isinstance(node, ast.stmt):
        yield from changes_of_statement(node)


def others_than(constant: ast.Constant) -> list:
    value = constant.value
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        changed = [value + 1, value - 1]
        return changed if changed[0] != value else [2 * value]
    return []


def _has_two_places(call: ast.Call) -> bool:
    starred = any(isinstance(argument, ast.Starred) for argument in call.args[:2])
    return len(call.args) >= 2 and not starred


def changes_of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Statements left out; an assignment to a name only where it adds to one.

    Without its first assignment a name is unknown, which every test notices.
    """
    if isinstance(node, ast.Raise):
        yield "raise", ast.Pass()
    elif isinstance(node, ast.Return) and not _is_falsy(node.value):
        yield "return", ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "statement", ast.Pass()
    elif isinstance(node, ast.AugAssign | ast.Break | ast.Continue | ast.Delete):
        yield "statement", ast.Pass()
    elif isinstance(node, ast.Assign) and not _assigns_names(node):
        yield "statement", ast.Pass()
    elif isinstance(node, ast.If | ast.While):
        changed = ast.UnaryOp(ast.Not(), node.test)
        yield "condition", ast.copy_location(changed, node.test)


def _is_falsy(value: ast.expr | None) -> bool:
    """Whether callers that ask for truth see no difference to None."""
    return value is None or isinstance(value, ast.Constant) and not value.value


def _assigns_names(assignment: ast.Assign) -> bool:
    return any(
        isinstance(target, ast.Name | ast.Tuple) for target in assignment.targets
    )


class Sites(ast.NodeVisitor):
    """All mutants of one file."""

    def __init__(self, room: str, file: str, source: bytes) -> None:
        self.room = room
        self.file = file
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.names: list[str] = []
        self.counts: Counter[tuple[str, str]] = Counter()  # by function and kind
        self.found: list[Site] = []
        for statement in ast.parse(source).body:
            self.visit(statement)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node):
            return
        named = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        if named:
            self.names.append(node.name)
        elif isinstance(node, ast.stmt):
            self._add(node)
        for block in blocks_of(node):
            for statement in block:
                self.visit(statement)
        if named:
            self.names.pop()

    def _add(self, statement: ast.stmt) -> None:
        function = ".".join(self.names) or name_assigned_by(statement)
        for node in nodes_of(statement):
            for kind, changed in changes_of(node):
                # The condition of a statement is changed, and not the statement.
                replaced = statement.test if kind == "condition" else node
                if ast.unparse(replaced) == ast.unparse(changed):  # f(a, a)
                    continue
                mutant = Mutant(
                    room=self.room,
                    file=self.file,
                    function=function,
                    line=statement.lineno,
                    kind=kind,
                    place=self.counts[function, kind],
                    before=ast.unparse(replaced),
                    after=_in_brackets(changed),
                )
                self.counts[function, kind] += 1
                self.found.append(
                    Site(
                        mutant,
                        self._offset(replaced.lineno, replaced.col_offset),
                        self._offset(replaced.end_lineno, replaced.end_col_offset),
                        range(statement.lineno, _last_line(statement) + 1),
                    )
                )

    def _offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column


def _in_brackets(node: ast.AST) -> str:
    """The code of a node, which may stand wherever the one before stood."""
    text = ast.unparse(node)
    is_simple = isinstance(node, ast.stmt | ast.Constant | ast.Name | ast.Call)
    return text if is_simple else f"({text})"


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def blocks_of(node: ast.AST) -> list[list]:
    """Statements within a statement, block by block."""
    blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    handlers = [handler.body for handler in getattr(node, "handlers", [])]
    cases = [case.body for case in getattr(node, "cases", [])]
    return [block for block in [*blocks, *handlers, *cases] if isinstance(block, list)]


def nodes_of(statement: ast.stmt) -> Iterator[ast.AST]:
    """A statement and its expressions, without inner statements, types and texts."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        yield node
        for name, value in ast.iter_fields(node):
            parts = value if isinstance(value, list) else [value]
            if name not in UNCHANGED:
                waiting += [part for part in parts if _is_expression(part)]


def _is_expression(part: object) -> bool:
    if isinstance(part, ast.JoinedStr):  # a text for people
        return False
    if isinstance(part, ast.keyword) and part.arg == "strict":  # of zip: only a check
        return False
    return isinstance(part, ast.expr | ast.keyword | ast.comprehension | ast.withitem)


def name_assigned_by(statement: ast.stmt) -> str:
    """Return the first name that a statement of a module assigns, or nothing."""
    targets = [*getattr(statement, "targets", []), getattr(statement, "target", None)]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names[0] if names else ""


def _last_line(statement: ast.stmt) -> int:
    inner = [part.lineno for block in blocks_of(statement) for part in block]
    return max(statement.lineno, min(inner) - 1) if inner else statement.end_lineno


def sites_in(root: Path, rooms: tuple[str, ...]) -> dict[str, list[Site]]:
    """All mutants of some rooms of a tree."""
    found = {}
    for room in rooms:
        paths = sorted((root / "skgems" / room).glob("*.py"))
        found[room] = [
            site
            for path in paths
            if path.name != "__init__.py"
            for site in sites_of(root, path)
        ]
    return found


def sites_of(root: Path, path: Path) -> list[Site]:
    return Sites(
        path.parent.name, path.relative_to(root).as_posix(), path.read_bytes()
    ).found


def drawn(root: Path, rooms: tuple[str, ...], number: int, seed: int) -> list[Mutant]:
    """Mutants of all rooms in turn, so that the first ones are of all rooms, too."""
    rng = random.Random(seed)
    all_sites = sites_in(root, rooms)
    samples = [
        rng.sample(all_sites[room], min(len(all_sites[room]), -(-number // len(rooms))))
        for room in rooms
    ]
    turns = [site.mutant for turn in zip(*samples, strict=True) for site in turn]
    return turns[:number]


class Places:
    """Where mutants of a record are in a tree, which may have been rewritten."""

    def __init__(self, root: Path) -> None:
        self.sites: dict[tuple[str, str], list[Site]] = {}
        for path in sorted((root / "skgems").glob("*/*.py")):
            for site in sites_of(root, path):
                key = site.mutant.function, site.mutant.kind
                self.sites.setdefault(key, []).append(site)

    def of(self, mutant: Mutant) -> Site | None:
        """Return a change of this kind in the function, the same one if it is there.

        In other files the function may be another one of this name, so that there only
        the same change counts. None if there is no such change.
        """

        def distance(site: Site) -> tuple:
            return (
                site.mutant.file != mutant.file,
                not site.mutant.is_same_change(mutant),
                site.mutant.room != mutant.room,
                abs(site.mutant.place - mutant.place),
            )

        sites = [
            site
            for site in self.sites.get((mutant.function, mutant.kind), [])
            if site.mutant.file == mutant.file or site.mutant.is_same_change(mutant)
        ]
        return min(sites, key=distance, default=None)


# ---- the record ---------------------------------------------------------------


def read_record(path: Path) -> list[Mutant]:
    entries = json.loads(path.read_text("utf-8"))["mutants"]
    return [Mutant(**entry) for entry in entries]


def write_record(path: Path, mutants: list[Mutant]) -> None:
    """All at once, so that a run that is stopped leaves a whole file."""
    written = {"mutants": [asdict(mutant) for mutant in mutants]}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(written, indent=1), "utf-8")
    part.replace(path)


# ---- tests --------------------------------------------------------------------


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of all files that git knows, as they are in the working tree."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout.decode()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, names.split("\0")):
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).exists():
                shutil.copy(ROOT / name, target)
        yield Path(folder)


def environment(tree: Path, outcomes: Path) -> dict[str, str]:
    return {
        **os.environ,
        "COVERAGE_FILE": str(tree / COVERAGE),
        "PYTHONPATH": f"{tree}{os.pathsep}{HERE}",
        "SCIPY_ARRAY_API": "1",
        "OMP_NUM_THREADS": "1",
        OUTCOMES: str(outcomes),
    }


def pytest_runtest_logreport(report) -> None:
    """Of the plugin that this file is: write down what each test did, at once."""
    path = os.environ.get(OUTCOMES)
    if path and (report.when == "call" or report.outcome != "passed"):
        entry = [report.nodeid, report.outcome, report.duration]
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def run_tests(tree: Path, words: list[str], seconds: float) -> tuple[str, list]:
    """Run pytest in a tree: how it ended, and what each test did.

    Its processes, workers of joblib among them, end with it.
    """
    outcomes = tree / "outcomes.jsonl"
    outcomes.write_text("")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", *words]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment(tree, outcomes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(timeout=seconds)
        ended = {0: "passed", 1: "failed", 5: "none"}.get(code, "not collected")
    except subprocess.TimeoutExpired:
        ended = "timeout"
    finally:
        # The group of a process that we have started, which has not been waited for.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = outcomes.read_text("utf-8").splitlines()
    return ended, [json.loads(line) for line in lines]


# ---- tracing ------------------------------------------------------------------


def places_of_tests(tree: Path) -> list[Path]:
    """Folders of tests, and single files beside them; those of drawn rooms first."""
    folder = tree / "tests"
    folders = [path for path in folder.iterdir() if any(path.glob("test_*.py"))]
    files = [p for p in folder.glob("test_*.py") if not p.name.startswith(NOT_TRACED)]
    first = set(ROOMS)

    def order(path: Path) -> tuple:
        return path.name not in first, path.name

    return sorted([*folders, *files], key=order)


def trace(place: Path, tree: Path) -> dict:
    """Which tests of a place touch which lines of a file, and how long they take."""
    from coverage import CoverageData

    data = tree / COVERAGE
    data.unlink(missing_ok=True)
    words = ["--cov=skgems", "--cov-context=test", "--cov-report="]
    _, outcomes = run_tests(tree, [str(place.relative_to(tree)), *words], 3600.0)
    seconds = {test: took for test, outcome, took in outcomes if outcome == "passed"}
    failed = {test for test, outcome, _ in outcomes if outcome == "failed"}
    names = sorted(seconds.keys() - failed)
    numbers = {name: number for number, name in enumerate(names)}
    touched: dict[str, dict[str, list[int]]] = {}
    measured = CoverageData(str(data))
    measured.read()
    for file in measured.measured_files():
        lines = {}
        for line, contexts in measured.contexts_by_lineno(file).items():
            tests = {context.partition("|")[0] for context in contexts}
            if reached := sorted(numbers[test] for test in tests & numbers.keys()):
                lines[str(line)] = reached
        touched[Path(file).relative_to(tree).as_posix()] = lines
    return {
        "tests": names,
        "seconds": [seconds[name] for name in names],
        "touched": touched,
    }


class TestMap:
    """Which tests touch which lines, of all places that have been traced."""

    def __init__(self, folder: Path) -> None:
        self.places = [json.loads(p.read_text()) for p in sorted(folder.glob("*.json"))]

    def tests_of(self, site: Site) -> list[tuple[float, str]]:
        """Seconds and names of the tests that touch a statement, the quick ones first.

        Lines at the level of a module or a class are run when it is imported: all tests
        that touch the file stand for these.
        """
        found = []
        for place in self.places:
            lines = place["touched"].get(site.mutant.file, {})
            numbers = {n for line in site.lines for n in lines.get(str(line), [])}
            if not numbers and not _is_in_function(site.mutant):
                numbers = {n for reached in lines.values() for n in reached}
            found += [(place["seconds"][n], place["tests"][n]) for n in numbers]
        return sorted(found)


def _is_in_function(mutant: Mutant) -> bool:
    last = mutant.function.rpartition(".")[2]
    return bool(last) and not re.match("_*[A-Z]", last)


# ---- running ------------------------------------------------------------------


def outcome_of(site: Site, tests: list[tuple[float, str]], tree: Path) -> Mutant:
    """The mutant with what its tests have said."""
    chosen, total = [], 0.0
    for seconds, name in tests:
        if chosen and total + seconds > MOST_SECONDS:
            break
        chosen.append(name)
        total += seconds
    mutant = replace(site.mutant, n_tests=len(chosen))
    if not chosen:
        return replace(mutant, outcome="untested")
    listed = tree / "tests.txt"
    listed.write_text("\n".join(chosen), "utf-8")
    start = time.monotonic()
    with mutated(site, tree):
        ended, outcomes = run_tests(
            tree, ["-x", f"@{listed}"], SECONDS_TO_START + PATIENCE * total
        )
    failed = [test for test, outcome, _ in outcomes if outcome == "failed"]
    return replace(
        mutant,
        outcome={"passed": "survived", "timeout": "timeout"}.get(ended, "killed"),
        by=failed[0] if failed else "" if ended == "passed" else ended,
        seconds=round(time.monotonic() - start, 1),
    )


class Judges:
    """Tests that are believed when they fail: those that pass without the mutant.

    By themselves, and on a machine that does other things, some do not.
    """

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.passes: dict[str, bool] = {}

    def believes(self, test: str) -> bool:
        if test not in self.passes:
            seconds = SECONDS_TO_START + PATIENCE * MOST_SECONDS
            ended, _ = run_tests(self.tree, [test], seconds)
            self.passes[test] = ended == "passed"
        return self.passes[test]

    def outcome_of(self, site: Site, tests: list[tuple[float, str]]) -> Mutant:
        """The mutant with what tests have said that are believed."""
        while True:
            believed = [test for test in tests if self.passes.get(test[1], True)]
            mutant = outcome_of(site, believed, self.tree)
            killed_by_a_test = mutant.outcome == "killed" and "::" in mutant.by
            if not killed_by_a_test or self.believes(mutant.by):
                return mutant


@contextmanager
def mutated(site: Site, tree: Path) -> Iterator[None]:
    """The copy of the tree, with one file changed for as long as the block lasts."""
    path = tree / site.mutant.file
    source = path.read_bytes()
    path.write_bytes(site.applied_to(source))
    _make_newer(path)
    try:
        yield
    finally:
        path.write_bytes(source)
        _make_newer(path)


_times = iter(range(10**6, 2**31))


def _make_newer(path: Path) -> None:
    """Give a file a time of its own: compiled modules are told apart by seconds."""
    seconds = next(_times)
    os.utime(path, (seconds, seconds))


def run(record: Path, tests: TestMap, minutes: float) -> None:
    """Run the mutants of a record that have not been run, until time is over."""
    end = time.monotonic() + 60 * minutes
    mutants = read_record(record)
    with copied_tree() as tree:
        places, judges = Places(tree), Judges(tree)
        for i, mutant in enumerate(mutants):
            if mutant.is_done(len(tests.places)):
                continue
            if time.monotonic() > end:
                break
            site = places.of(mutant)
            if site is None:
                mutants[i] = replace(mutant, outcome="gone")
            else:
                fresh = judges.outcome_of(site, tests.tests_of(site))
                mutants[i] = replace(fresh, n_places=len(tests.places))
            write_record(record, mutants)
            print(line_of(mutants[i]), flush=True)


# ---- what it says -------------------------------------------------------------


def line_of(mutant: Mutant) -> str:
    where = f"{mutant.file}:{mutant.line}"
    change = f"{mutant.before:.40} -> {mutant.after:.40}"
    return f"{mutant.outcome:9} {where:42} {mutant.kind:10} {change} {mutant.by}"


def report(mutants: list[Mutant]) -> str:
    """A table of rooms, and the mutants that live."""
    kinds = ("killed", "timeout", "survived", "untested", "gone", "")
    lines = [f"{'room':12}" + "".join(f"{kind or 'not run':>10}" for kind in kinds)]
    for room in sorted({mutant.room for mutant in mutants}):
        counts = Counter(mutant.outcome for mutant in mutants if mutant.room == room)
        lines.append(f"{room:12}" + "".join(f"{counts[kind]:10}" for kind in kinds))
    alive = [mutant for mutant in mutants if mutant.is_alive]
    return "\n".join([*lines, *map(line_of, alive)])


def no_longer_killed(now: list[Mutant], before: list[Mutant]) -> list[Mutant]:
    """Mutants that were killed before and live now; both records are of one draw."""
    pairs = zip(now, before, strict=True)
    return [new for new, old in pairs if old.is_killed and new.is_alive]


# ---- commands -----------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    main_parser = argparse.ArgumentParser(prog="mutants.py")
    commands = main_parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw", help="write random mutants into a record")
    draw.add_argument("record", type=Path)
    draw.add_argument("--number", type=int, default=200)
    draw.add_argument("--seed", type=int, default=0)
    draw.add_argument("--rooms", nargs="+", default=ROOMS)
    tracing = commands.add_parser("trace", help="find which tests touch which lines")
    tracing.add_argument("map", type=Path)
    tracing.add_argument("--minutes", type=float, default=60.0)
    running = commands.add_parser("run", help="run the mutants of a record")
    running.add_argument("record", type=Path)
    running.add_argument("--map", type=Path, required=True)
    running.add_argument("--minutes", type=float, default=60.0)
    again = commands.add_parser("again", help="the same mutants, to be run anew")
    again.add_argument("record", type=Path)
    again.add_argument("new", type=Path)
    reporting = commands.add_parser("report", help="say what has come of them")
    reporting.add_argument("record", type=Path)
    reporting.add_argument("--before", type=Path, help="record of an earlier commit")
    return main_parser


def main(words: list[str]) -> None:
    typed = parser().parse_args(words)
    if typed.command == "draw":
        if typed.record.exists():
            sys.exit(f"{typed.record} is there: take another name, or remove it.")
        write_record(
            typed.record,
            drawn(ROOT, tuple(typed.rooms), typed.number, typed.seed),
        )
    elif typed.command == "trace":
        trace_all(typed.map, typed.minutes)
    elif typed.command == "run":
        run(typed.record, TestMap(typed.map), typed.minutes)
    elif typed.command == "again":
        mutants = read_record(typed.record)
        not_run = [
            replace(mutant, outcome="", by="", n_tests=0, n_places=0, seconds=0.0)
            for mutant in mutants
        ]
        write_record(typed.new, not_run)
    else:
        say(typed.record, typed.before)


def trace_all(folder: Path, minutes: float) -> None:
    """Trace the places that have not been traced, until time is over."""
    end = time.monotonic() + 60 * minutes
    folder.mkdir(parents=True, exist_ok=True)
    with copied_tree() as tree:
        for place in places_of_tests(tree):
            written = folder / f"{place.stem}.json"
            if written.exists():
                continue
            if time.monotonic() > end:
                break
            start = time.monotonic()
            found = trace(place, tree)
            written.write_text(json.dumps(found))
            took = time.monotonic() - start
            print(
                f"{place.name}: {len(found['tests'])} tests, {took:.0f} s", flush=True
            )


def say(record: Path, before: Path | None) -> None:
    mutants = read_record(record)
    print(report(mutants))
    if before is not None:
        alive = no_longer_killed(mutants, read_record(before))
        if alive:
            lines = map(line_of, alive)
            sys.exit("\n".join(["These were killed before, and live now:", *lines]))


if __name__ == "__main__":
    main(sys.argv[1:])
