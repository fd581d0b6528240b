# SPDX-License-Identifier: BSD-3-Clause
"""The repository keeps its own rules."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import skgems

ROOT = Path(__file__).parent.parent

# Folders of machines; addresses of package indexes and the names that only they use.
MACHINE_PATH = re.compile(r"(?<![\w.~$})-])/(work|tmp|opt|root|home)/[\w.]")
INDEX = re.compile(r"pypi[.]org|pythonhosted[.]|download[.]pytorch|[+]cpu")


def repository_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        run = None
    if run is None or run.returncode or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return [ROOT / name for name in run.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_file_names_a_machine_or_an_index():
    found = []
    for path in repository_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # not text
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if MACHINE_PATH.search(line) or INDEX.search(line)
        ]
    assert found == []


def test_the_package_has_a_licence_and_every_other_python_file_names_it():
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")
    assert 'license = "BSD-3-Clause"' in (ROOT / "pyproject.toml").read_text()
    first_lines = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8").partition("\n")[0]
        for path in repository_files()
        if path.suffix == ".py" and ROOT / "skgems" not in path.parents
    }
    assert first_lines
    wrong = [
        str(name)
        for name, line in first_lines.items()
        if line != "# SPDX-License-Identifier: BSD-3-Clause"
    ]
    assert wrong == []


# Rooms from the ground up: a room imports from those below it, not from its own floor.
FLOORS = [
    {"compat", "progress"},
    {"networks", "datasets"},
    {"steps"},
    {"base", "moments", "matching"},
    {"spaces", "messages"},
    {"tuning"},
    {"local"},
    {"federation"},
    {"tasks"},
    {"pooled"},
    {"gems", "choice"},
    {"pfnm", "averaging", "ensembles", "plotting"},
    {"channels"},
    {"candidates"},
    {"_cli"},
]
ROOMS = sorted(room for floor in FLOORS for room in floor)


def imported_rooms(path):
    """Pairs of a room and the path within it that a module imports from others."""
    here = path.relative_to(ROOT / "skgems").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            target = [*base, *(node.module or "").split(".")]
            names = [n.name for n in node.names]
            if not any(target):  # the package itself has one thing for its rooms
                assert names == ["__version__"], path
                continue
            room, *inside = [part for part in target if part]
            if room != here[0]:
                yield room, [*inside, *names]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None)] + [n.name for n in node.names]
            assert not any(str(name).startswith("skgems") for name in names), path


def test_what_scikit_learn_keeps_to_itself_is_imported_in_one_room():
    found = set()
    for path in (ROOT / "skgems").rglob("*.py"):
        for own in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(own, ast.ImportFrom) and not own.level:
                parts = [*own.module.split("."), *(name.name for name in own.names)]
                if parts[0] == "sklearn" and any(p.startswith("_") for p in parts):
                    found.add(path.parent.name)
    assert found == {"compat"}


def test_the_rooms_are_those_of_the_design():
    folders = {path.parent.name for path in (ROOT / "skgems").glob("*/__init__.py")}
    assert folders == set(ROOMS)
    assert [path.name for path in (ROOT / "skgems").glob("*.py")] == ["__init__.py"]


def offered(room):
    """Names that a room has for others: those that its `__init__` imports."""
    tree = ast.parse((ROOT / "skgems" / room / "__init__.py").read_text("utf-8"))
    imports = [own for own in ast.walk(tree) if isinstance(own, ast.ImportFrom)]
    return {name.asname or name.name for own in imports for name in own.names}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_from_the_floors_below_by_public_names(room):
    floor = next(i for i, rooms in enumerate(FLOORS) if room in rooms)
    below = set().union(*FLOORS[:floor])
    for path in (ROOT / "skgems" / room).glob("*.py"):
        for other, names in imported_rooms(path):
            assert other in below, f"{path.name} imports from {other}"
            assert not [name for name in names if name.startswith("_")], path.name
            more = set(names) - offered(other)
            assert not more, f"{path.name} imports {more} of {other}"


def test_rooms_know_few_others():
    """How many pairs of rooms there are of which one imports from the other."""
    arrows = {
        (room, other)
        for room in ROOMS
        for path in (ROOT / "skgems" / room).glob("*.py")
        for other, _ in imported_rooms(path)
    }
    # A number that may fall: with each arrow more a room is harder to change alone.
    # Nine of them are those of the room `tasks`, which one file a task takes.
    assert len(arrows) <= 137


def imported_modules(path):
    """Modules of the same room that a module imports, inside functions, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from [node.module] if node.module else [n.name for n in node.names]


@pytest.mark.parametrize("room", ROOMS)
def test_modules_of_a_room_do_not_import_each_other_in_a_circle(room):
    paths = (ROOT / "skgems" / room).glob("*.py")
    graph = {path.stem: set(imported_modules(path)) for path in paths}
    graph.pop("__init__")
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_says_what_it_is_for_and_what_is_public(room):
    module = importlib.import_module(f"skgems.{room}")
    first_line = module.__doc__.strip().partition("\n")[0]
    assert first_line.endswith(".") and len(first_line) < 90
    assert set(getattr(module, "__all__", ())) <= offered(room)


# What users import, and what the guide shows them to write: the public names.
PUBLIC = {
    "skgems": skgems.__all__,
    "skgems.choice": ["Choice"],
    "skgems.gems": ["Candidates", "Rounds"],
    "skgems.averaging": ["Downpour", "StartedApartWarning"],
    "skgems.steps": ["Backbone", "ColumnsOf", "NotPooledError", "RandomFeatures"],
    "skgems.spaces": [
        *("Geometry", "Gram", "Ellipsoid", "Ball", "GramMetric"),
        *("Criterion", "Accuracy", "LogLoss", "Registered", "build_space", "intersect"),
        *("Construction", "Sampled", "Certified"),
        *("GoodEnoughSpace", "Intersection", "NoSpaceError"),
        *("UnionIntersection", "intersect_unions"),
        *("EmptyIntersectionError", "EmptyIntersectionWarning"),
    ],
    "skgems.federation": [
        *(
            "Channel",
            "Nodes",
            "RowsAlone",
            "reply_to",
            "run",
            "Message",
            "Record",
            "Summary",
        ),
        *("read_federation", "Federation", "Node", "SummarizingMixin"),
        *("LeftOutError", "RepliesMissingError", "TooFewNodesError", "AskAgainError"),
        *("Report", "ReportMixin"),
        *("sign", "signing_keys", "SignatureError", "Agreement", "NotAgreedError"),
        *("RowsAskedAgainError", "RowsChangedError", "ReplyDeclinedError"),
        *("Limits", "LimitError"),
        *("LedgerError", "LedgerBusyError", "LedgerCopiedError"),
        *("LedgerDamagedError", "LedgerOlderError", "RowsAskedAgainWarning"),
        *("ClassWeightWarning", "ClassesLeftOutWarning", "HeavyTailsWarning"),
        *("NodesDisagreeWarning", "RowsExposedWarning", "SameRowsWarning"),
        "ManyRowsWarning",
        *("IdentifierWarning", "VariancesOnlyWarning", "UnseenClassesWarning"),
        *("InterceptWarning", "PenaltyWarning"),
    ],
    "skgems.channels": [
        *("Folder", "Inspected", "inspect"),
        *("FlowerNodes", "client_app", "server_app"),
    ],
    "skgems.base": ["BaseAggregator", "MemberParametersMixin", "NetworkExportMixin"],
    **{
        name: importlib.import_module(name).__all__
        for name in ("skgems.datasets", "skgems.plotting")
    },
}


def test_public_names_are_documented_and_no_others():
    found, module = {}, ""
    for line in (ROOT / "docs" / "api.rst").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch("   [A-Za-z_]+", line):
            found.setdefault(module, []).append(line.strip())
    assert {name: sorted(names) for name, names in found.items()} == {
        name: sorted(names) for name, names in PUBLIC.items()
    }
    for module, names in PUBLIC.items():
        for name in names:
            own = getattr(importlib.import_module(module), name)
            assert own.__doc__, name
        assert sorted(importlib.import_module(module).__all__) == sorted(names)


def test_kinds_of_model_are_known_in_two_rooms_only():
    kinds = re.compile(
        r"is_skorch|isinstance\([^)]*(MLPClassifier|SGDClassifier|DummyClassifier|"
        r"LogisticRegression\b|Pipeline|NeuralNet)"
    )
    for path in (ROOT / "skgems").glob("*/*.py"):
        if path.parent.name not in ("networks", "local", "steps", "base"):
            assert not kinds.search(path.read_text(encoding="utf-8")), path.name


# Functions whose errors repeat their cause and chain it nevertheless: its traceback
# leads into code of the user, a classifier, a module, a pickled model or what a request
# made of one.
LEADS_TO_USERS_CODE = {"at_node", "trace", "_output_of", "_model", "computed_reply"}


def says(part, name):
    """Whether an error takes over what an exception of this name says."""
    formatted = (own for own in ast.walk(part) if isinstance(own, ast.FormattedValue))
    assigned = (own for own in ast.walk(part) if isinstance(own, ast.Assign))
    texts = [own.value for own in formatted]
    texts += [
        own.value.args[0]
        for own in assigned
        if isinstance(own.value, ast.Call)
        and getattr(own.value.func, "id", "") == "str"
    ]
    return any(isinstance(own, ast.Name) and own.id == name for own in texts)


def chained_repetitions(tree):
    """Functions that raise an error of a cause whose words the error has, too."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for handler in ast.walk(function):
            if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
                continue
            chained = any(
                isinstance(own, ast.Raise)
                and isinstance(own.cause, ast.Name)
                and own.cause.id == handler.name
                for own in ast.walk(handler)
            )
            if chained and says(handler, handler.name):
                yield function.name


def test_an_error_that_repeats_its_cause_does_not_chain_it():
    """A chain would print two tracebacks for one thing that is wrong."""
    found = set()
    for path in (ROOT / "skgems").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {f"{path.name}: {name}" for name in chained_repetitions(tree)}
    assert {own.split()[-1] for own in found} == LEADS_TO_USERS_CODE, sorted(found)
    lines = "def f():\n try: g()\n except E as exc: raise E(f'no: {exc}') from exc"
    assert list(chained_repetitions(ast.parse(lines))) == ["f"]


def test_changelog_tells_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    section = rf"(?ms)^## \[({re.escape(skgems.__version__)}|Unreleased)\].*?^- \S"
    assert re.search(section, text)


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {skgems.__version__}\n" in text


def test_links_of_the_readme_live_on_a_package_index():
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []
    inside = re.findall(r"https://github.com/skgems/skgems/blob/main/([^)#\s]+)", text)
    assert inside
    assert [name for name in inside if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda p: p.name
)
def test_benchmarks_import_what_there_is(path):
    """All that they name of the library at the top, whatever else they need."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skgems"):
            module = importlib.import_module(node.module)
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                if not hasattr(module, name.name):
                    importlib.import_module(inner)
