# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx configuration."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

import skgems
from skgems.messages import REQUIRED, TASKS, Field, Table

project = "skgems"
author = "skgems developers"
copyright = "2026, skgems developers"
version = release = skgems.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "auto_examples/*.ipynb", "auto_examples/*.py"]
default_role = "code"

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc already gives types and shapes
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"skgems {version}"
html_show_sourcelink = False
html_css_files = ["skgems.css"]
# These pages have none below them.
html_sidebars = {page: [] for page in ("index", "getting_started", "changelog")}

# Formulas without a network: MathJax goes out with the pages, from a package that holds
# its files. The one with SVG has its glyphs inside.
_mathjax = files("mathjax") / "static" / "mathjax" / "es5" / "tex-svg.js"
html_static_path = ["_static", str(_mathjax)]
mathjax_path = "tex-svg.js"

# As the story goes: the simplest first, then files, messages, networks. An example that
# is not listed stops the build.
GALLERY = [
    "plot_two_hospitals.py",
    "plot_what_a_summary_says.py",
    "plot_moments.py",
    "plot_more_messages.py",
    "plot_frozen_features.py",
    "plot_gems_mlp.py",
    "plot_pfnm.py",
    "plot_colearning.py",
]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skgems",),
    "within_subsection_order": ExplicitOrder(GALLERY),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 10,
    "thumbnail_size": (760, 500),
    "write_computation_times": False,
    "show_memory": False,
}

# matplotlib's Agg canvas cannot show; sphinx-gallery takes the figure itself.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def table_of_tasks() -> str:
    """The table of tasks as reStructuredText: for each what goes out and comes back."""
    lines = []
    for name, task in TASKS.items():
        lines += [f"``{name}``", f"  Asks for {task.asks}; {task.often}."]
        lines += ["", f"  *Goes out*: {_listed(task.request)}.", ""]
        lines += ["  *Comes back*:", ""]
        parts: dict[str, list[str]] = {}
        for path, field in _leaves(task.reply):
            parts.setdefault(field.says, []).append(f"``{path}``{_shape(field)}")
        for sentence, paths in parts.items():
            lines.append(
                f"  - {', '.join(paths)}" + (f": {sentence}" if sentence else "")
            )
        lines.append("")
    return "\n".join(lines)


def _leaves(fields: Mapping[str, Field], path="") -> Iterator[tuple[str, Field]]:
    for name, field in fields.items():
        if isinstance(field, Table) and not field.says:
            yield from _leaves(field.fields, path if field.inline else f"{path}{name}.")
        else:
            yield path + name, field


def _listed(fields: Mapping[str, Field]) -> str:
    named = [
        f"``{name}``{_shape(field)}"
        + ("" if field.default is REQUIRED else " (optional)")
        for name, field in fields.items()
    ]
    return ", ".join(named) or "nothing"


def _shape(field: Field) -> str:
    shape = getattr(field, "shape", "")
    if not shape.strip(" *."):
        return ""
    shape = " or ".join(" x ".join(part.split()) for part in shape.split("|"))
    return f" ({shape.replace('*', 'any')})"


# The table of the guide's page of messages.
_tasks = Path(__file__).parent / "generated" / "tasks.inc"
_tasks.parent.mkdir(exist_ok=True)
_tasks.write_text(table_of_tasks(), encoding="utf-8")


def changelog_as_rst() -> str:
    """CHANGELOG.md from its first version on, as reStructuredText."""
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    text = text[text.index("\n## ") :]
    text = re.sub(r"\[([^]\n]+)\]\((https?://[^)]+)\)", r"`\1 <\2>`__", text)
    return re.sub(r"(?m)^(###?) \[?(.+?)\]?( - .+)?$", _underlined, text)


def _underlined(heading: re.Match[str]) -> str:
    title = heading[2] + (heading[3] or "")
    return title + "\n" + {"##": "-", "###": "~"}[heading[1]] * len(title) + "\n"


_changes = _tasks.parent / "changelog.inc"
_changes.write_text(changelog_as_rst(), encoding="utf-8")


def skip_foreign_members(app, what, name, obj, skip, options):
    """Leave out what classes inherit from scikit-learn: its links lead nowhere here."""
    module = getattr(obj, "__module__", None)
    return skip or (module is not None and not module.startswith("skgems"))


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign_members)
