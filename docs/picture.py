# SPDX-License-Identifier: BSD-3-Clause
"""Draw the picture of the home page and the README: python docs/picture.py

It shows the predictions of each island's classifier, and those of the one classifier
that is made of the islands' files. Only two of the four measures are used, so that the
predictions can be drawn in a plane.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from PIL import Image
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.datasets import load_penguins

PICTURE = Path(__file__).parent / "_static" / "one_model.png"
COLORS = {"Adelie": "#e08214", "Chinstrap": "#8856a7", "Gentoo": "#1b7f79"}
# Least and largest bill length, and least and largest flipper length, both in mm.
EXTENT = [31, 61, 170, 234]
PIXELS_OF_PLANE = 300  # at each side: finer than the picture's own pixels
SPECIES_NAMES_AT = {
    "Adelie": (34.4, 175),
    "Chinstrap": (54, 173.5),
    "Gentoo": (42, 230),
}
CENTERED = {"ha": "center", "va": "center"}  # for texts


def fit_classifier(X: np.ndarray, y: np.ndarray) -> BaseEstimator:
    """Fit what an island has: Torgersen has one species, and predicts that one."""
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


def draw_predictions(
    ax: Axes, clf: BaseEstimator, X: np.ndarray, y: np.ndarray, *, size: float
) -> None:
    """Color the plane by what a classifier predicts, and the rows by what they are."""
    left, right, low, high = EXTENT
    lengths, heights = np.meshgrid(
        np.linspace(left, right, PIXELS_OF_PLANE),
        np.linspace(low, high, PIXELS_OF_PLANE),
    )
    predicted = clf.predict(np.column_stack([lengths.ravel(), heights.ravel()]))
    codes = np.searchsorted(list(COLORS), predicted).reshape(lengths.shape)
    # Mixed with white, so that the dots stand out.
    pale = [0.72 + 0.28 * np.array(to_rgb(color)) for color in COLORS.values()]
    ax.imshow(
        codes,
        extent=EXTENT,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(pale),
        vmin=0,
        vmax=2,
    )
    for species, color in COLORS.items():
        rows = X[y == species]
        ax.scatter(rows[:, 0], rows[:, 1], size, color=color, linewidths=0)
    ax.set(xticks=[], yticks=[], xlim=EXTENT[:2], ylim=EXTENT[2:])


def draw_island(
    figure: Figure,
    clf: BaseEstimator,
    X: np.ndarray,
    y: np.ndarray,
    *,
    name: str,
    bottom: float,
) -> None:
    """Draw one island at the left, and the arrows from it, over its file, to the right.

    ``bottom`` is the height of its lower border, as a share of the figure's.
    """
    ax = figure.add_axes([0.04, bottom, 0.22, 0.25])
    draw_predictions(ax, clf, X, y, size=4)
    ax.set_title(name, x=0.02, y=0.72, loc="left", fontsize=11)
    middle = bottom + 0.125
    words = "its classifier,\na few sums"
    figure.text(0.41, middle, words, fontsize=11, **CENTERED)
    # The second arrows come together, towards the middle of the large picture.
    end_of_second = 0.475 + 0.22 * (middle - 0.475)
    figure.patches += [
        arrow(figure, (0.268, middle), (0.32, middle)),
        arrow(figure, (0.5, middle), (0.575, end_of_second)),
    ]


def main() -> None:
    plt.rcParams["font.size"] = 12
    X, y, islands = load_penguins()
    X = X[:, [0, 2]]  # the lengths of bill and flipper
    names = np.unique(islands)
    agg = GEMSLogisticAggregator(random_state=0)
    clfs = [fit_classifier(X[islands == name], y[islands == name]) for name in names]
    summaries = [
        agg.summarize(clf, X[islands == name], y[islands == name], name=str(name))
        for name, clf in zip(names, clfs, strict=True)
    ]
    agg.set_params(estimators=summaries).fit()

    figure = plt.figure(figsize=(7.6, 4.5), facecolor="white")
    figure.text(0.15, 0.95, "rows stay here", fontweight="bold", **CENTERED)
    figure.text(0.435, 0.95, "one file each leaves", fontweight="bold", **CENTERED)
    figure.text(0.79, 0.95, "one classifier", fontweight="bold", **CENTERED)
    for k, (name, clf) in enumerate(zip(names, clfs, strict=True)):
        rows = islands == name
        draw_island(figure, clf, X[rows], y[rows], name=name, bottom=0.65 - 0.305 * k)
    ax = figure.add_axes([0.59, 0.13, 0.4, 0.72])
    draw_predictions(ax, agg, X, y, size=7)
    for species, (x, height) in SPECIES_NAMES_AT.items():
        color = COLORS[species]
        ax.text(x, height, species, color=color, fontweight="bold", **CENTERED)
    caption = "background: what the classifier says\ndots: what the penguins are"
    figure.text(0.79, 0.075, caption, fontsize=10, **CENTERED)
    # 48 colors: a third of the bytes, and no difference to the eye.
    canvas = BytesIO()
    figure.savefig(canvas, dpi=200)
    Image.open(canvas).convert("RGB").quantize(48).save(PICTURE, optimize=True)


def arrow(
    figure: Figure, start: tuple[float, float], end: tuple[float, float]
) -> FancyArrowPatch:
    """An arrow between two points, in shares of the figure's width and height."""
    return FancyArrowPatch(
        start,
        end,
        transform=figure.transFigure,
        arrowstyle="-|>",
        mutation_scale=14,
        color="0.35",
        linewidth=1.4,
    )


if __name__ == "__main__":
    main()
