# SPDX-License-Identifier: BSD-3-Clause
"""Draw the diagrams of the guide, each in light and in dark: python docs/drawings.py

- ``flow``: what hospitals send to the server, and what comes back;
- ``spaces``: the good-enough spaces of three hospitals, and the aggregate;
- ``file``: what the file of a node holds, with the size of each part.

A page names the light diagram. The dark one, whose name ends in ``_dark``, is put
beside it by ``docs/conf.py``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.datasets import load_penguins
from skgems.parties import Summary
from skgems.spaces import GoodEnoughSpace

FOLDER = Path(__file__).parent / "_static"
WIDTH = 720  # of every diagram, about the width of a page's text
FONTS = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Helvetica, Arial, sans-serif"


@dataclass(kw_only=True)
class Palette:
    """Colors of a diagram, as SVG writes them."""

    background: str
    panel: str
    border: str
    text: str
    muted_text: str
    line: str
    aggregate: str
    nodes: tuple[str, str, str]


LIGHT = Palette(
    background="#ffffff",
    panel="#f3f4f5",
    border="#c9c9c9",
    text="#222832",
    muted_text="#48566b",
    line="#5d6878",
    aggregate="#0a7d91",
    nodes=("#b35806", "#7b3fa0", "#1a7f37"),
)
DARK = Palette(
    background="none",
    panel="#29313d",
    border="#5a6b84",
    text="#e3e8ee",
    muted_text="#b4c0ce",
    line="#9ca8b8",
    aggregate="#3fb1c5",
    nodes=("#f5a45d", "#c79bea", "#6fce84"),
)


@dataclass(kw_only=True)
class Drawing:
    """An SVG image that is written element by element."""

    height: int
    palette: Palette
    elements: list[str] = field(default_factory=list)

    def add(self, tag: str, text: str | None = None, **attributes: object) -> None:
        """Add an element; ``stroke_width=2`` becomes ``stroke-width="2"``."""
        written = "".join(
            f' {name.replace("_", "-")}="{_written(value)}"'
            for name, value in attributes.items()
        )
        end = "/>" if text is None else f">{escape(text)}</{tag}>"
        self.elements.append(f"<{tag}{written}{end}")

    def box(
        self,
        *,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str | None = None,
        stroke: str | None = None,
        dashes: str = "none",
    ) -> None:
        """Add a rectangle with round corners."""
        self.add(
            "rect",
            x=x,
            y=y,
            width=width,
            height=height,
            rx=6,
            fill=fill or self.palette.panel,
            stroke=stroke or self.palette.border,
            stroke_dasharray=dashes,
        )

    def write(
        self,
        text: str,
        *,
        x: float,
        y: float,
        size: int = 13,
        bold: bool = False,
        anchor: str = "start",
        color: str | None = None,
    ) -> None:
        """Write one line, whose letters stand on the height ``y``."""
        self.add(
            "text",
            text,
            x=x,
            y=y,
            font_size=size,
            font_weight="bold" if bold else "normal",
            text_anchor=anchor,
            fill=color or self.palette.text,
        )

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], color: str
    ) -> None:
        """Draw a straight arrow."""
        start_point, end_point = np.array(start), np.array(end)
        along = (end_point - start_point) / np.linalg.norm(end_point - start_point)
        across = np.array([-along[1], along[0]])
        base = end_point - 9 * along
        self.line(start, tuple(base), color)
        corners = [end_point, base + 4.5 * across, base - 4.5 * across]
        points = " ".join(f"{_written(x)},{_written(y)}" for x, y in corners)
        self.add("polygon", points=points, fill=color)

    def line(
        self, start: tuple[float, float], end: tuple[float, float], color: str
    ) -> None:
        """Draw a straight line."""
        (x1, y1), (x2, y2) = start, end
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, stroke_width=1.6)

    def svg(self) -> str:
        """The whole image."""
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{self.height}" viewBox="0 0 {WIDTH} {self.height}" '
            f'font-family="{FONTS}">',
            f'<rect width="100%" height="100%" fill="{self.palette.background}"/>',
            *self.elements,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def _written(value: object) -> str:
    """A number with one digit at most behind the point, or a word."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)


# The flow of data ---------------------------------------------------------------------


def draw_flow(palette: Palette) -> str:
    """Draw that rows stay, that one file each goes out, and that one model returns."""
    drawing = Drawing(height=346, palette=palette)
    for k, color in enumerate(palette.nodes):
        _draw_hospital(
            drawing, name=f"Hospital {'ABC'[k]}", color=color, top=8 + 114 * k
        )
    drawing.box(x=556, y=8, width=156, height=330)
    drawing.write("Server", x=634, y=32, size=15, bold=True, anchor="middle")
    drawing.write("has no rows", x=634, y=52, anchor="middle")
    for y, words in ((146, "computes"), (216, "from three files")):
        drawing.write(words, x=634, y=y, anchor="middle")
    _draw_label(drawing, "aggregate", center=(634, 176), color=palette.aggregate)
    return drawing.svg()


def _draw_hospital(drawing: Drawing, *, name: str, color: str, top: float) -> None:
    """Draw a hospital, the file that leaves it and the model that it receives."""
    palette = drawing.palette
    drawing.box(x=8, y=top, width=270, height=102)
    drawing.write(name, x=20, y=top + 22, size=14, bold=True, color=color)
    _draw_table(drawing, left=20, top=top + 34, color=color)
    drawing.write("rows stay here", x=20, y=top + 92, size=12)
    for words, y, start in (("local model", 40, 50), ("sums", 76, 64)):
        drawing.arrow((96, top + start), (150, top + y), palette.line)
        _draw_label(drawing, words, center=(210, top + y), color=color)
    _draw_file(drawing, center=(417, top + 32))
    drawing.arrow((278, top + 32), (328, top + 32), palette.line)
    drawing.arrow((506, top + 32), (556, top + 32), palette.line)
    drawing.arrow((556, top + 82), (476, top + 82), palette.aggregate)
    drawing.arrow((358, top + 82), (278, top + 82), palette.aggregate)
    _draw_label(drawing, "aggregate", center=(417, top + 82), color=palette.aggregate)


def _draw_table(drawing: Drawing, *, left: float, top: float, color: str) -> None:
    """Draw a small table: a heading and four rows."""
    drawing.add("rect", x=left, y=top, width=70, height=9, fill=color)
    for row in range(1, 5):
        for column in range(4):
            drawing.add(
                "rect",
                x=left + 17.5 * column,
                y=top + 9 * row,
                width=17.5,
                height=9,
                fill="none",
                stroke=color,
            )


def _draw_label(
    drawing: Drawing, words: str, *, center: tuple[float, float], color: str
) -> None:
    """Draw words in a frame."""
    x, y = center
    drawing.box(
        x=x - 58, y=y - 14, width=116, height=28, stroke=color, fill=_inside(drawing)
    )
    drawing.write(words, x=x, y=y + 4.5, anchor="middle")


def _draw_file(drawing: Drawing, *, center: tuple[float, float]) -> None:
    """Draw a sheet of paper with a folded corner."""
    x, y = center
    left, right, top, bottom = x - 88, x + 88, y - 23, y + 23
    fold = 12
    drawing.add(
        "path",
        d=f"M{left} {top}H{right - fold}l{fold} {fold}V{bottom}H{left}z"
        f"M{right - fold} {top}v{fold}h{fold}",
        fill=_inside(drawing),
        stroke=drawing.palette.line,
    )
    drawing.write("one file", x=x, y=y - 5, bold=True, anchor="middle")
    drawing.write("local model and sums", x=x, y=y + 13, anchor="middle")


def _inside(drawing: Drawing) -> str:
    """Color within small frames: the page's own."""
    return "#ffffff" if drawing.palette is LIGHT else "#14181e"


# Good-enough spaces -------------------------------------------------------------------

EPSILON = 0.9
# The plane of the two weights: of radius from left to right, of texture upwards.
LEAST_WEIGHTS = np.array([1.68, 0.02])
PIXELS_OF_ONE = np.array([360.0, 265.0])
PLANE = {"x": 44, "y": 10, "width": 450, "height": 400}


@dataclass(kw_only=True)
class Ellipse:
    """The edge of a space on the drawing: center, half axes, and degrees of turning."""

    center: np.ndarray  # (2,)
    half_axes: np.ndarray  # (2,)
    degrees: float

    def attributes(self) -> dict[str, object]:
        """As SVG has them."""
        x, y = (_written(pixels) for pixels in self.center)
        turn = f"rotate({_written(self.degrees)} {x} {y})"
        rx, ry = self.half_axes
        return {"cx": x, "cy": y, "rx": rx, "ry": ry, "transform": turn}


def fit_three_hospitals() -> GEMSLogisticAggregator:
    """Fit a classifier of two weights at each hospital, and one that suits all.

    Hospitals differ in how rough the tissue looks: A has most rows of little texture,
    C most of much.
    """
    data = load_breast_cancer()
    features = list(data.feature_names)
    columns = [features.index(name) for name in ("worst radius", "worst texture")]
    X = data.data[:, columns]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    noise = np.random.default_rng(0).normal(size=len(X))
    hospitals = np.empty(len(X), dtype=int)
    hospitals[np.argsort(X[:, 1] + noise)] = np.arange(len(X)) * 3 // len(X)
    clfs = [
        LogisticRegression(fit_intercept=False).fit(
            X[hospitals == k], data.target[hospitals == k]
        )
        for k in range(3)
    ]
    agg = GEMSLogisticAggregator(clfs, epsilon=EPSILON, random_state=0)
    return agg.fit(X, data.target, nodes=hospitals)


def in_plane(weights: np.ndarray) -> np.ndarray:
    """The place of a model on the drawing, in pixels.

    ``weights`` (3, 2) has a column for each class, and the intercepts, which are 0, in
    its last row. The columns of two classes are each other's negative.
    """
    right, up = (weights[:2, 0] - LEAST_WEIGHTS) * PIXELS_OF_ONE
    return np.array([PLANE["x"] + right, PLANE["y"] + PLANE["height"] - up])


def ellipse_of(space: GoodEnoughSpace) -> Ellipse:
    """The edge of a space, at which the squared distance is 1."""

    def squared_distance(right: float, down: float) -> float:
        """Of the model that many pixels from the center."""
        step = np.array([right, -down]) / PIXELS_OF_ONE
        both_classes = np.outer(np.append(step, 0.0), [1.0, -1.0])
        return float(space.normalized_squared_distance(space.center + both_classes))

    across, down = squared_distance(1, 0), squared_distance(0, 1)
    mixed = (squared_distance(1, 1) - across - down) / 2
    values, vectors = np.linalg.eigh([[across, mixed], [mixed, down]])
    x, y = vectors[:, 0]
    return Ellipse(
        center=in_plane(space.center),
        half_axes=1 / np.sqrt(values),
        degrees=float(np.degrees(np.arctan(y / x))),
    )


def draw_spaces(palette: Palette) -> str:
    """Draw the spaces of three hospitals, and the aggregate where they overlap."""
    agg = fit_three_hospitals()
    ellipses = [ellipse_of(space) for space in agg.spaces_]
    drawing = Drawing(height=446, palette=palette)
    drawing.box(**PLANE, fill="none")
    _draw_axes(drawing)
    for ellipse, color in zip(ellipses, palette.nodes, strict=True):
        drawing.add("ellipse", **ellipse.attributes(), fill=color, fill_opacity="0.12")
    # What is in all of them: the third within the second within the first.
    for name, ellipse in zip("ab", ellipses, strict=False):
        drawing.elements.append(f'<clipPath id="{name}">')
        drawing.add("ellipse", **ellipse.attributes())
        drawing.elements.append("</clipPath>")
    drawing.elements.append('<g clip-path="url(#a)"><g clip-path="url(#b)">')
    drawing.add(
        "ellipse",
        **ellipses[2].attributes(),
        fill=palette.aggregate,
        fill_opacity="0.55",
    )
    drawing.elements.append("</g></g>")
    for ellipse, color in zip(ellipses, palette.nodes, strict=True):
        drawing.add(
            "ellipse",
            **ellipse.attributes(),
            fill="none",
            stroke=color,
            stroke_width=2,
        )
    for name, ellipse, color in zip("ABC", ellipses, palette.nodes, strict=True):
        x, y = ellipse.center
        drawing.add("circle", cx=x, cy=y, r=5, fill=color)
        # C's name stands where no edge is.
        right, down = (10, 14) if name == "C" else (-20, -8)
        drawing.write(name, x=x + right, y=y + down, bold=True, color=color)
    _draw_star(drawing, *in_plane(agg.intersection_.point))
    _explain_spaces(drawing)
    return drawing.svg()


def _draw_axes(drawing: Drawing) -> None:
    middle = PLANE["x"] + PLANE["width"] / 2
    drawing.write("weight of radius →", x=middle, y=434, anchor="middle")
    drawing.elements.append('<g transform="rotate(-90 28 210)">')
    drawing.write("weight of texture →", x=28, y=210, anchor="middle")
    drawing.elements.append("</g>")


def _draw_star(drawing: Drawing, x: float, y: float) -> None:
    """Draw a star with five points."""
    radii = np.resize([10.0, 4.0], 10)
    angles = np.pi * np.arange(10) / 5
    xs, ys = x + radii * np.sin(angles), y - radii * np.cos(angles)
    points = zip(xs, ys, strict=True)
    drawing.add(
        "polygon",
        points=" ".join(
            f"{_written(right)},{_written(down)}" for right, down in points
        ),
        fill=drawing.palette.text,
    )


def _explain_spaces(drawing: Drawing) -> None:
    """Write at the right what the marks are."""
    palette = drawing.palette
    for k, color in enumerate(palette.nodes):
        name, y = "ABC"[k], 40 + 66 * k
        drawing.add("circle", cx=520, cy=y - 5, r=5, fill=color)
        drawing.write(f"local model of hospital {name}", x=538, y=y)
        drawing.add(
            "ellipse",
            cx=520,
            cy=y + 18,
            rx=10,
            ry=7,
            fill=color,
            fill_opacity="0.12",
            stroke=color,
            stroke_width=2,
        )
        drawing.write(f"good enough for {name}", x=538, y=y + 23)
    drawing.add(
        "rect",
        x=510,
        y=242,
        width=20,
        height=14,
        fill=palette.aggregate,
        fill_opacity="0.55",
    )
    drawing.write("good enough for all", x=538, y=254)
    _draw_star(drawing, 520, 280)
    drawing.write("aggregate", x=538, y=285, bold=True)
    lines = ("Good enough: right for", "90 % of the hospital's", "rows, or more.")
    for k, words in enumerate(lines):
        drawing.write(words, x=510, y=330 + 20 * k, color=palette.muted_text)


# What a file holds --------------------------------------------------------------------

FILE_PARTS = {
    "header": "settings, names of classes, what each array is",
    "classifier": "weights and intercepts",
    "counts": "rows per class",
    "means": "mean of the features in each class",
    "variances": "variances of the features in each class",
    "second moments": "sums that give the covariances of each class",
    "origin": "mean of the features over all rows",
}


def summary_of_biscoe() -> tuple[Summary, tuple[int, int]]:
    """The summary of the island Biscoe, and the shape of its rows."""
    X, y, islands = load_penguins()
    X, y = X[islands == "Biscoe"], y[islands == "Biscoe"]
    clf = LogisticRegression(max_iter=5000).fit(X, y)
    agg = GEMSLogisticAggregator(random_state=0)
    return agg.summarize(clf, X, y, name="Biscoe"), X.shape


def bytes_of_parts(summary: Summary) -> dict[str, int]:
    """The bytes of each part of a summary's file; together they are the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "summary.safetensors"
        summary.save(path)
        content = path.read_bytes()
    # A safetensors file: 8 bytes that say how long the header is, the header, arrays.
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    del header["__metadata__"]
    sizes = dict.fromkeys(FILE_PARTS, 0)
    sizes["header"] = 8 + length
    for name, array in header.items():
        start, end = array["data_offsets"]
        sizes[part_of(name)] += end - start
    return sizes


def part_of(name: str) -> str:
    """The part of a file that an array belongs to."""
    if name.startswith("describe.network."):
        return "classifier"
    parts_by_ending = {
        "origin": "origin",
        "means": "means",
        "part_squares": "variances",
        "triangles": "second moments",
        # Counts, and the classes that means and matrices are of.
        "counts": "counts",
        "group_counts": "counts",
        "columns": "counts",
        "groups": "counts",
        "judging": "counts",
    }
    return parts_by_ending[name.rpartition(".")[2]]


def draw_file(palette: Palette) -> str:
    """Draw the parts of a file as lines of a list, and what is not in it."""
    summary, (n_rows, n_features) = summary_of_biscoe()
    sizes = bytes_of_parts(summary)
    drawing = Drawing(height=398, palette=palette)
    drawing.box(x=8, y=8, width=704, height=302)
    drawing.write("biscoe.safetensors", x=24, y=36, size=15, bold=True)
    total = _rounded_bytes(sum(sizes.values()))
    drawing.write(total, x=696, y=36, size=15, bold=True, anchor="end")
    for k, (part, size) in enumerate(sizes.items()):
        y = 68 + 36 * k
        drawing.add("rect", x=24, y=y - 20, width=672, height=1, fill=palette.border)
        drawing.write(part, x=24, y=y + 4, bold=True, color=palette.aggregate)
        drawing.write(FILE_PARTS[part], x=170, y=y + 4)
        drawing.write(_rounded_bytes(size), x=696, y=y + 4, anchor="end")
    drawing.box(x=8, y=326, width=704, height=64, fill="none", dashes="6 4")
    drawing.write("not in the file", x=24, y=352, bold=True, color=palette.nodes[0])
    drawing.write(
        f"the {n_rows} rows of {n_features} features, and the label of each row",
        x=170,
        y=352,
    )
    warning = "But sums of few rows can reveal these rows."
    drawing.write(warning, x=170, y=374, color=palette.muted_text)
    return drawing.svg()


def _rounded_bytes(size: int) -> str:
    """In bytes below 1,000, and in kB with one digit behind the point above."""
    return f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} kB"


DRAWINGS = {"flow": draw_flow, "spaces": draw_spaces, "file": draw_file}


def drawn() -> Iterator[tuple[Path, str]]:
    """The path of each diagram, and what is in its file."""
    for name, draw in DRAWINGS.items():
        yield FOLDER / f"{name}.svg", draw(LIGHT)
        yield FOLDER / f"{name}_dark.svg", draw(DARK)


def main() -> None:
    for path, svg in drawn():
        path.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
