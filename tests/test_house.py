# SPDX-License-Identifier: BSD-3-Clause
"""The repository keeps its own rules."""

from __future__ import annotations

import importlib
import re
import subprocess
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
    if run is None or run.returncode:
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


def test_every_python_file_names_its_licence():
    first_lines = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8").partition("\n")[0]
        for path in repository_files()
        if path.suffix == ".py"
    }
    assert first_lines
    wrong = [
        str(name)
        for name, line in first_lines.items()
        if line != "# SPDX-License-Identifier: BSD-3-Clause"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "package", ["skgems", "skgems.datasets", "skgems.networks", "skgems.spaces"]
)
def test_public_names_are_documented(package):
    documented = set((ROOT / "docs" / "api.rst").read_text().split())
    module = importlib.import_module(package)
    public = [name for name in module.__all__ if not name.startswith("__")]
    assert all(hasattr(module, name) for name in public)
    assert sorted(set(public) - documented) == []


def test_changelog_tells_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    section = rf"(?ms)^## \[({re.escape(skgems.__version__)}|Unreleased)\].*?^- \S"
    assert re.search(section, text)
