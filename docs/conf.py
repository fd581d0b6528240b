# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx configuration."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx_gallery.sorting import ExplicitOrder

import skgems
from skgems.messages import REQUIRED, TASKS, Field, Table

sys.path.insert(0, str(Path(__file__).parent))
from node_files import list_of_files  # noqa: E402 it stands beside this file

project = "skgems"
author = "skgems developers"
copyright = "2026, skgems developers"
version = release = skgems.__version__

extensions = [
    "matplotlib.sphinxext.plot_directive",
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
# The list "On this page" has room for the name of a method, not for its class as well.
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"skgems {version}"
html_show_sourcelink = False
html_css_files = ["skgems.css"]
# These pages have none below them.
html_sidebars = {page: [] for page in ("index", "getting_started", "changelog")}

# MathJax goes out with the pages, from a package that holds its files, so that formulas
# are shown without a network. The SVG variant is one file, which contains its glyphs.
_mathjax = files("mathjax") / "static" / "mathjax" / "es5" / "tex-svg.js"
html_static_path = ["_static", str(_mathjax)]
mathjax_path = "tex-svg.js"

# Pages that draw show what they drew, without links to files of it.
plot_html_show_formats = False
plot_html_show_source_link = False
plot_formats = [("png", 110)]

# The order of the gallery: the simplest first, then files, messages and networks. An
# example that is not listed here stops the build.
GALLERY = [
    "plot_two_hospitals.py",
    "plot_hospitals.py",
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
    """The table of tasks as reStructuredText: for each its request and its reply."""
    lines = []
    for name, task in TASKS.items():
        lines += [f"``{name}``", f"  Asks for {task.asks}; {task.often}."]
        lines += ["", f"  *Goes out*: {_request_fields(task.request.fields)}.", ""]
        lines += ["  *Comes back*:", ""]
        # Fields that say the same about rows share a line.
        fields_by_sentence: dict[str, list[str]] = {}
        for path, field in _described_fields(task.reply.fields):
            fields_of_sentence = fields_by_sentence.setdefault(field.says, [])
            fields_of_sentence.append(f"``{path}``{_shape_in_brackets(field)}")
        for sentence, fields in fields_by_sentence.items():
            listed = ", ".join(fields)
            lines.append(f"  - {listed}: {sentence}" if sentence else f"  - {listed}")
        lines.append("")
    return "\n".join(lines)


def _described_fields(
    fields: Mapping[str, Field], prefix: str = ""
) -> Iterator[tuple[str, Field]]:
    """Fields with their paths. A table without a sentence is replaced by its fields."""
    for name, field in fields.items():
        if isinstance(field, Table) and not field.says:
            # The name of a table that is written inline is in no path.
            inner_prefix = prefix if field.inline else f"{prefix}{name}."
            yield from _described_fields(field.fields, inner_prefix)
        else:
            yield prefix + name, field


def _request_fields(fields: Mapping[str, Field]) -> str:
    """The names of the fields of a request, in one line."""
    words = []
    for name, field in fields.items():
        optional = "" if field.default is REQUIRED else " (optional)"
        words.append(f"``{name}``{_shape_in_brackets(field)}{optional}")
    return ", ".join(words) or "nothing"


def _shape_in_brackets(field: Field) -> str:
    """`` (n x d or any)`` for the shape ``"n d | *"``; nothing for any shape."""
    shape = getattr(field, "shape", "")
    if not shape.strip(" *."):
        return ""
    alternatives = [" x ".join(shape.split()) for shape in shape.split("|")]
    return f" ({' or '.join(alternatives).replace('*', 'any')})"


# The table of the guide's page of messages.
_tasks = Path(__file__).parent / "generated" / "tasks.inc"
_tasks.parent.mkdir(exist_ok=True)
_tasks.write_text(table_of_tasks(), encoding="utf-8")
# The list of the page *What runs at a node*.
_tasks.with_name("node_files.inc").write_text(list_of_files(), encoding="utf-8")


def changelog_as_rst() -> str:
    """CHANGELOG.md from its first version on, as reStructuredText."""
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    text = text[text.index("\n## ") :]
    # [words](address) becomes `words <address>`__.
    text = re.sub(r"\[([^]\n]+)\]\((https?://[^)]+)\)", r"`\1 <\2>`__", text)
    # The brackets of "## [0.1] - 2026-01-01" are no part of the title.
    return re.sub(r"(?m)^(###?) \[?(.+?)\]?( - .+)?$", _underlined_heading, text)


def _underlined_heading(heading: re.Match[str]) -> str:
    level, version, date = heading.groups(default="")
    title = version + date
    underline = {"##": "-", "###": "~"}[level] * len(title)
    return f"{title}\n{underline}\n"


_changes = _tasks.parent / "changelog.inc"
_changes.write_text(changelog_as_rst(), encoding="utf-8")


def skip_foreign_members(  # noqa: PLR0917
    app: Sphinx, kind: str, name: str, member: object, skip: bool, options: object
) -> bool:
    """Leave out members inherited from scikit-learn, whose links lead nowhere here.

    Sphinx calls it with these six arguments, by position.
    """
    module = getattr(member, "__module__", None)
    return skip or (module is not None and not module.startswith("skgems"))


# Pages whose sections hold lists of pages.
PAGES_OF_LISTS = ("user_guide/index", "api")


def caption_the_sidebar(app: Sphinx, doctree: nodes.document) -> None:
    """Put the title of a section over the pages that it lists, in the sidebar only.

    The theme shows the caption of a list in the sidebar. It would also stand on the
    page, below the title of the section, if it were given there.
    """
    page = app.env.docname
    if page not in PAGES_OF_LISTS:
        return
    # The sidebar is made of copies of the lists, in the order of the page.
    copies = app.env.tocs[page].findall(addnodes.toctree)
    last_title = None
    for original, copy in zip(doctree.findall(addnodes.toctree), copies, strict=True):
        section = original.parent
        while not isinstance(section, nodes.section):
            section = section.parent
        title = section[0].astext()
        if title != last_title:
            copy["caption"] = copy["rawcaption"] = title
        last_title = title


def add_dark_pictures(app: Sphinx, doctree: nodes.document) -> None:
    """Put beside each picture the one that is drawn for the dark mode, if there is one.

    The theme shows pictures of the class only-light or only-dark in one mode alone.
    """
    page = Path(app.env.doc2path(app.env.docname))
    for image in list(doctree.findall(nodes.image)):
        uri = Path(image["uri"])
        dark_uri = uri.with_stem(f"{uri.stem}_dark")
        folder = Path(app.srcdir) if dark_uri.is_absolute() else page.parent
        if (folder / str(dark_uri).lstrip("/")).is_file():
            dark_image = image.copy()
            dark_image["uri"] = dark_uri.as_posix()
            image["classes"] = [*image["classes"], "only-light"]
            dark_image["classes"] = [*dark_image["classes"], "only-dark"]
            image.parent.insert(image.parent.index(image) + 1, dark_image)


LONGEST_SIGNATURE = 150  # characters, about two lines
SHORTENED_SIGNATURE = 80


def shorten_signatures(app: Sphinx, doctree: nodes.document) -> None:
    """End a long signature with an ellipsis; its parameters are listed below it."""
    for parameters in doctree.findall(addnodes.desc_parameterlist):
        if len(parameters.astext()) <= LONGEST_SIGNATURE:
            continue
        n_characters = 0
        for parameter in list(parameters):
            n_characters += len(parameter.astext()) + len(", ")
            if n_characters > SHORTENED_SIGNATURE:
                parameters.remove(parameter)
        parameters += addnodes.desc_parameter("", "…")


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", skip_foreign_members)
    # After Sphinx has made the lists of the sidebar, which it does at 500.
    app.connect("doctree-read", caption_the_sidebar, priority=600)
    app.connect("doctree-read", shorten_signatures)
    # Before Sphinx collects the pages' pictures, which it does at 500.
    app.connect("doctree-read", add_dark_pictures, priority=400)
