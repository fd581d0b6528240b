# SPDX-License-Identifier: BSD-3-Clause
"""Print, as constraints, the lowest versions that pyproject.toml allows.

Arguments are constraints that come instead: python .ci/floors.py torch==2.13.0
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def floors(project: dict) -> dict[str, str]:
    """The lowest version of each requirement of a project and its extras."""
    lines = [*project["dependencies"]]
    lines += [
        line for extra in project["optional-dependencies"].values() for line in extra
    ]
    lowest = {}
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        if name == project["name"]:
            continue
        (floor,) = (s.version for s in requirement.specifier if s.operator == ">=")
        if lowest.setdefault(name, floor) != floor:
            raise ValueError(f"{name} has two floors: {lowest[name]} and {floor}.")
    return lowest


if __name__ == "__main__":
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    constraints = {n: f"{n}=={v}" for n, v in floors(pyproject["project"]).items()}
    constraints |= {canonicalize_name(Requirement(a).name): a for a in sys.argv[1:]}
    print("\n".join(constraints[name] for name in sorted(constraints)))
