# SPDX-License-Identifier: BSD-3-Clause
"""Draw the picture of the home page and the README: python docs/picture.py

What each island's classifier says of every penguin, and what the one made of the files
says. Two of the four measures are used, so that it can be drawn.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.patches import FancyArrowPatch
from PIL import Image
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.datasets import load_penguins

PICTURE = Path(__file__).parent / "_static" / "one_model.png"
COLOURS = {"Adelie": "#e08214", "Chinstrap": "#8856a7", "Gentoo": "#1b7f79"}
SIDES = [31, 61, 170, 234]  # of the two measures


def fitted(X, y):
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


def drawn(ax, clf, X, y, size):
    """Colour the plane by what a classifier says, and rows by what they are."""
    left, right, low, high = SIDES
    grid = np.meshgrid(np.linspace(left, right, 300), np.linspace(low, high, 300))
    said = clf.predict(np.column_stack([own.ravel() for own in grid]))
    codes = np.searchsorted(list(COLOURS), said).reshape(300, 300)
    pale = [0.72 + 0.28 * np.array(to_rgb(colour)) for colour in COLOURS.values()]
    ax.imshow(
        codes,
        extent=SIDES,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(pale),
        vmin=0,
        vmax=2,
    )
    for species, colour in COLOURS.items():
        rows = X[y == species]
        ax.scatter(*rows.T, size, color=colour, linewidths=0)
    ax.set(xticks=[], yticks=[], xlim=SIDES[:2], ylim=SIDES[2:])


def main():
    plt.rcParams["font.size"] = 12
    X, y, islands = load_penguins()
    X = X[:, [0, 2]]
    names = np.unique(islands)
    agg = GEMSLogisticAggregator(random_state=0)
    clfs = [fitted(X[islands == name], y[islands == name]) for name in names]
    files = [
        agg.summarize(clf, X[islands == name], y[islands == name], name=str(name))
        for name, clf in zip(names, clfs, strict=True)
    ]
    agg.set_params(estimators=files).fit()

    figure = plt.figure(figsize=(7.6, 4.5), facecolor="white")
    text = {"ha": "center", "va": "center"}
    figure.text(0.15, 0.95, "rows stay here", fontweight="bold", **text)
    figure.text(0.435, 0.95, "one file each leaves", fontweight="bold", **text)
    figure.text(0.79, 0.95, "one classifier", fontweight="bold", **text)
    for k, (name, clf) in enumerate(zip(names, clfs, strict=True)):
        own, bottom = islands == name, 0.65 - 0.305 * k
        ax = figure.add_axes([0.04, bottom, 0.22, 0.25])
        drawn(ax, clf, X[own], y[own], 4)
        ax.set_title(name, x=0.02, y=0.72, loc="left", fontsize=11)
        middle = bottom + 0.125
        said = "its classifier,\na few sums"
        figure.text(0.41, middle, said, fontsize=11, **text)
        figure.patches += [
            _arrow(figure, (0.268, middle), (0.32, middle)),
            _arrow(figure, (0.5, middle), (0.575, 0.475 + 0.22 * (middle - 0.475))),
        ]
    ax = figure.add_axes([0.59, 0.13, 0.4, 0.72])
    drawn(ax, agg, X, y, 7)
    at = {"Adelie": (34.4, 175), "Chinstrap": (54, 173.5), "Gentoo": (42, 230)}
    for species, place in at.items():
        ax.text(*place, species, color=COLOURS[species], fontweight="bold", **text)
    caption = "background: what the classifier says; dots: what the penguins are"
    figure.text(0.79, 0.075, caption.replace("; ", "\n"), fontsize=10, **text)
    canvas = BytesIO()
    figure.savefig(canvas, dpi=200)
    Image.open(canvas).convert("RGB").quantize(48).save(PICTURE, optimize=True)


def _arrow(figure, start, end):
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
