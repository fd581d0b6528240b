# SPDX-License-Identifier: BSD-3-Clause
"""The repository keeps its own rules."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import skgems

ROOT = Path(__file__).parent.parent

# Folders of machines; addresses of package indexes and the names that only they use.
MACHINE_PATH = re.compile(r"(?<![\w.~$})-])/(work|tmp|opt|root|home)/[\w.]")
INDEX = re.compile(r"pypi[.]org|pythonhosted[.]|download[.]pytorch|[+]cpu")


def repository_files():
    """Files that git tracks, and new ones that it does not ignore."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        run = None
    if run is None or run.returncode or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return [ROOT / name for name in run.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_file_names_a_machine_or_an_index():
    offending_lines = []
    for path in repository_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # not text
            continue
        offending_lines += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if MACHINE_PATH.search(line) or INDEX.search(line)
        ]
    assert offending_lines == []


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
    {"compat", "disclosure"},
    {"networks", "datasets"},
    {"steps"},
    {"base", "moments", "trees"},
    {"evaluation", "messages", "spaces"},
    {"private"},
    {"local"},
    {"parties"},
    {"tasks", "asking", "guard"},
    {"pooled", "gems"},
    {"choice", "pfnm", "averaging", "plotting"},
    {"ensembles", "channels"},
    {"_cli"},
]
ROOMS = sorted(room for floor in FLOORS for room in floor)


def syntax_tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path):
    """Statements ``import ...`` and ``from ... import ...`` of a module."""
    return [
        statement
        for statement in ast.walk(syntax_tree(path))
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]


def is_relative(statement):
    return isinstance(statement, ast.ImportFrom) and statement.level > 0


def imported_rooms(path):
    """Pairs of a room and of names within it that a module imports from other rooms."""
    folders = path.relative_to(ROOT / "skgems").parts[:-1]
    for statement in filter(is_relative, imports_of(path)):
        # One dot stands for the module's folder, each further one for the folder above.
        base = folders[: len(folders) - statement.level + 1]
        parts = [*base, *(statement.module or "").split(".")]
        target = [part for part in parts if part]
        names = [alias.name for alias in statement.names]
        if not target:  # rooms import nothing else from the package itself
            assert names == ["__version__"], path
        elif target[0] != folders[0]:
            room, *inside = target
            yield room, [*inside, *names]


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_each_other_relatively(room):
    for path in (ROOT / "skgems" / room).glob("*.py"):
        for statement in imports_of(path):
            if not is_relative(statement):
                modules = [alias.name for alias in statement.names]
                modules.append(getattr(statement, "module", ""))
                assert not any(name.startswith("skgems") for name in modules), path


def test_private_modules_of_scikit_learn_are_imported_in_one_room():
    rooms = set()
    for path in (ROOT / "skgems").rglob("*.py"):
        for statement in imports_of(path):
            if isinstance(statement, ast.ImportFrom) and not statement.level:
                names = [alias.name for alias in statement.names]
                parts = [*statement.module.split("."), *names]
                if parts[0] == "sklearn" and any(p.startswith("_") for p in parts):
                    rooms.add(path.parent.name)
    assert rooms == {"compat"}


def test_the_rooms_are_those_of_the_design():
    folders = {path.parent.name for path in (ROOT / "skgems").glob("*/__init__.py")}
    assert folders == set(ROOMS)
    assert [path.name for path in (ROOT / "skgems").glob("*.py")] == ["__init__.py"]


def offered(room):
    """Names that a room has for others: those that its `__init__` imports."""
    return {
        alias.asname or alias.name
        for statement in imports_of(ROOT / "skgems" / room / "__init__.py")
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_from_the_floors_below_by_public_names(room):
    floor = next(i for i, rooms in enumerate(FLOORS) if room in rooms)
    below = set().union(*FLOORS[:floor])
    for path in (ROOT / "skgems" / room).glob("*.py"):
        for other, names in imported_rooms(path):
            assert other in below, f"{path.name} imports from {other}"
            assert not [name for name in names if name.startswith("_")], path.name
            private = set(names) - offered(other)
            assert not private, f"{path.name} imports {private} of {other}"


def test_rooms_know_few_others():
    """How many pairs of rooms there are of which one imports from the other."""
    arrows = {
        (room, other)
        for room in ROOMS
        for path in (ROOT / "skgems" / room).glob("*.py")
        for other, _ in imported_rooms(path)
    }
    # A number that may fall: with each arrow more a room is harder to change alone.
    # Nine of them are those of the room `tasks`, which one file a task takes. Two lead
    # to the room `trees`: nodes fill histograms, and the server grows trees from them.
    # One is of `local` to `base`: a node warns where its rows are, which a server has
    # not, of features that its sums cannot hold.
    # Thirteen lead to the room `disclosure`: it says of what leaves under which rule,
    # and sums rows by label as `moments` do.
    # One is of `gems` to `steps`: coefficients are in units of the columns before a
    # front.
    # One is of `gems` to `tasks`: plans read replies, which are classes there. One is
    # of `spaces` to `base`: names of parameters are read once a class.
    # Forty came when one room became three, `parties`, `asking` and `guard`, of which
    # the last two do not know each other; as many went with rooms that few others took
    # little from.
    # Two lead to the room `evaluation`: nodes tell how good a model is, and the server
    # makes metrics of it.
    # Thirteen are of the room `private`: it makes a part of parameters, terms, moments.
    # Parties, tasks, forms, the likelihood and folders take sums with noise, and the
    # shell writes and reads what is public.
    # One is of `evaluation` to `base`, whose pages show it.
    assert len(arrows) <= 174


def names_of_other_rooms(path):
    """Names that a module takes from other rooms; of a module that is imported whole,
    the attributes that are used.
    """
    taken = set()
    used = [
        (node.value.id, node.attr)
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    for room, names in imported_rooms(path):
        module = importlib.import_module(f"skgems.{room}")
        for name in names:
            if isinstance(getattr(module, name, None), ModuleType):
                taken |= {(room, attr) for owner, attr in used if owner == name}
            else:
                taken.add((room, name))
    return taken


def test_files_take_few_names_from_other_rooms():
    """Twenty are as many as a reader can look up: both numbers may only fall."""
    numbers = {
        f"{room}/{path.name}": len(names_of_other_rooms(path))
        for room in ROOMS
        for path in (ROOT / "skgems" / room).glob("*.py")
    }
    file = max(numbers, key=numbers.get)
    # The largest is `reply_to`, which takes the rows of the node from `parties`.
    assert numbers[file] <= 59, file
    above_20 = sorted(file for file, number in numbers.items() if number > 20)
    assert len(above_20) <= 8, above_20


def imported_modules(path):
    """Modules of the same room that a module imports, inside functions, too."""
    for node in filter(is_relative, imports_of(path)):
        if node.level == 1:
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
    "skgems.disclosure": ["guess_advantage", "told_share"],
    "skgems.evaluation": [
        *("ClassMetrics", "Evaluation", "ScoreBins", "SiteMetrics"),
        *("Heterogeneity", "Inference"),
    ],
    "skgems.gems": ["Candidates", "HiddenLayers", "Moments", "Rounds", "Spaces"],
    "skgems.averaging": ["Downpour", "Schedule", "StartedApartWarning"],
    "skgems.pfnm": ["Matching", "PoorMatchWarning"],
    "skgems.pooled": ["Description", "TableOne"],
    "skgems.steps": ["Backbone", "ColumnsOf", "NotPooledError", "RandomFeatures"],
    "skgems.spaces": [
        *("Geometry", "Gram", "Ellipsoid", "Ball", "Metric", "GramMetric"),
        *("Criterion", "Accuracy", "LogLoss", "Registered", "build_space", "intersect"),
        *("Construction", "Sampled", "Certified"),
        *("GoodEnoughSpace", "Intersection", "NoSpaceError"),
        *("EmptyIntersectionError", "EmptyIntersectionWarning"),
    ],
    "skgems.parties": [
        *("Federation", "Node", "Record", "Summary"),
        *("ClassesLeftOutWarning", "IdentifierWarning", "UnseenClassesWarning"),
    ],
    "skgems.asking": [
        *("Channel", "Nodes", "RowsAlone", "run", "Message"),
        *("fit_method", "read_federation", "Report", "ReportMixin"),
        *("LeftOutError", "RepliesMissingError", "TooFewNodesError", "AskAgainError"),
        *("ClassWeightWarning", "HeavyTailsWarning", "InterceptWarning"),
        *("ManyRowsWarning", "NodesDisagreeWarning", "PenaltyWarning"),
        *("SameRowsWarning", "SharedCovarianceWarning", "VariancesOnlyWarning"),
    ],
    "skgems.guard": [
        *("reply_to", "SummarizingMixin", "client_app", "inspect", "Inspected"),
        *("Agreement", "Limits", "sign", "signing_keys"),
        *("NotAgreedError", "SignatureError", "LimitError", "ReplyDeclinedError"),
        *("RowsAskedAgainError", "RowsAskedAgainWarning", "RowsChangedError"),
        "NoiseSpentError",
        *("LedgerError", "LedgerBusyError", "LedgerCopiedError"),
        *("LedgerDamagedError", "LedgerOlderError"),
    ],
    "skgems.channels": ["Folder", "FlowerNodes", "server_app"],
    "skgems.base": [
        *("BaseAggregator", "MemberParametersMixin", "Method", "NetworkExportMixin"),
    ],
    **{
        name: importlib.import_module(name).__all__
        for name in ("skgems.datasets", "skgems.plotting")
    },
}


def test_the_page_of_the_api_has_the_public_names_and_no_others():
    documented = {}
    module_name = ""
    for line in (ROOT / "docs" / "api.rst").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module_name = line.split()[-1]
        elif re.fullmatch("   [A-Za-z_]+", line):
            documented.setdefault(module_name, []).append(line.strip())
    assert {module: sorted(names) for module, names in documented.items()} == {
        module: sorted(names) for module, names in PUBLIC.items()
    }


@pytest.mark.parametrize("module_name", PUBLIC)
def test_public_names_are_those_of_all_and_have_docstrings(module_name):
    module = importlib.import_module(module_name)
    assert sorted(module.__all__) == sorted(PUBLIC[module_name])
    for name in PUBLIC[module_name]:
        assert getattr(module, name).__doc__, name


def test_classes_of_classifiers_are_asked_for_in_four_rooms_only():
    """Elsewhere a model is what these rooms read of it, whatever its class."""
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
LEADS_TO_USERS_CODE = {"naming_node", "trace", "_output_of", "_model", "computed_reply"}


def is_named(node, name):
    return isinstance(node, ast.Name) and node.id == name


def is_text_of(node, name):
    """Whether a node of a syntax tree is {name} in an f-string, or x = str(name)."""
    if isinstance(node, ast.FormattedValue):
        return is_named(node.value, name)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        call = node.value
        return is_named(call.func, "str") and is_named(call.args[0], name)
    return False


def chains_a_repetition(handler):
    """Whether it raises an error from its cause, and repeats the text of the cause."""
    is_chained = any(
        isinstance(node, ast.Raise) and is_named(node.cause, handler.name)
        for node in ast.walk(handler)
    )
    return is_chained and any(
        is_text_of(node, handler.name) for node in ast.walk(handler)
    )


def chained_repetitions(node, within=()):
    """Functions that raise an error from a cause, and repeat the text of the cause.

    ``within`` are the functions that a node of a syntax tree stands in.
    """
    if isinstance(node, ast.FunctionDef):
        within = (*within, node.name)
    if isinstance(node, ast.ExceptHandler) and node.name and chains_a_repetition(node):
        yield from within
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):  # in which no handler stands
            yield from chained_repetitions(child, within)


def test_an_error_that_repeats_its_cause_does_not_chain_it():
    """A chain would print two tracebacks for one thing that is wrong."""
    places = {
        (path.name, function)
        for path in (ROOT / "skgems").rglob("*.py")
        for function in chained_repetitions(syntax_tree(path))
    }
    functions = {function for _, function in places}
    assert functions == LEADS_TO_USERS_CODE, sorted(places)


@pytest.mark.parametrize(
    "text",
    ["raise E(f'no: {exc}') from exc", "text = str(exc); raise E(text) from exc"],
)
def test_a_chained_repetition_is_seen(text):
    lines = f"def f():\n try: g()\n except E as exc: {text}"
    assert list(chained_repetitions(ast.parse(lines))) == ["f"]


def test_the_changelog_has_a_section_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    section = rf"(?ms)^## \[({re.escape(skgems.__version__)}|Unreleased)\].*?^- \S"
    assert re.search(section, text)


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {skgems.__version__}\n" in text


def test_links_of_the_readme_are_whole_addresses_of_files_that_exist():
    """The page of a package index shows the README where no files lie beside it."""
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []
    files = re.findall(r"https://github.com/skgems/skgems/blob/main/([^)#\s]+)", text)
    assert files
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda p: p.name
)
def test_what_benchmarks_import_exists(path):
    """All that they import of skgems at the top, whatever else they need."""
    for statement in ast.parse(path.read_text()).body:
        is_from = isinstance(statement, ast.ImportFrom)
        if is_from and statement.module.startswith("skgems"):
            module = importlib.import_module(statement.module)
            for alias in statement.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{statement.module}.{alias.name}")
