# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx configuration."""

from __future__ import annotations

import warnings
from pathlib import Path

import skgems
from skgems.messages import table_of_tasks

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

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 10,
    "show_memory": False,
}

# matplotlib's Agg canvas cannot show; sphinx-gallery takes the figure itself.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


# The table of the guide's page of messages.
_tasks = Path(__file__).parent / "generated" / "tasks.inc"
_tasks.parent.mkdir(exist_ok=True)
_tasks.write_text(table_of_tasks(), encoding="utf-8")


def skip_foreign_members(app, what, name, obj, skip, options):
    """Leave out what classes inherit from scikit-learn: its links lead nowhere here."""
    module = getattr(obj, "__module__", None)
    return skip or (module is not None and not module.startswith("skgems"))


def setup(app):
    app.connect("autodoc-skip-member", skip_foreign_members)
