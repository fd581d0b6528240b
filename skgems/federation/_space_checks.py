# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces that a node told, checked before anything is made of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..moments import LARGEST, LARGEST_SQUARE, SMALLEST, SMALLEST_SQUARE
from ..networks import Network
from ._fields import MOST_ROWS, ROUNDING, Fields, check_definite

# What metrics of geometries are, and whether radii of criteria are those of losses; of
# others than ours nothing is known.
_FAMILIES = {"Gram": "gram", "Ellipsoid": "diagonal", "Ball": "diagonal"}
_BY_LOSS = {"Accuracy": False, "LogLoss": True}


def check_space(told: Fields, described: Mapping, asked: Mapping) -> None:
    network = described["network"]
    n_params, n_own = network["n_features"] + 1, int(network["seen"].sum())
    _check_space_of(told, n_params, n_own, asked)
    _check_radii_of(told, int(described["rows"]["judging"].sum()))
    if len(network["coefs"]) == 1:
        own = Network.from_content(network)
        _check_center(told, own.aligned(np.unique(own.classes[own.seen])).last)


def check_late_space(told: Fields, asked: Mapping) -> None:
    n_params, n_own = asked["W"].shape
    _check_space_of(told, n_params, n_own, asked)
    _check_radii_of(told, MOST_ROWS)
    _check_center(told, asked["W"])


def _check_space_of(told: Fields, n_params: int, n_own: int, asked: Mapping) -> None:
    """A space around a model of so many parameters and classes of its own."""
    center = told.array("center", (n_params, None))
    n_outputs = center.shape[1]
    others = asked.get("n_others", 1)
    # One stands for all others, unless nothing is said of them.
    if n_outputs not in (n_own, n_own + min(1, others if type(others) is int else 1)):
        raise told.wrong("center", f"has {n_outputs} outputs for {n_own} classes")
    told.number("scale", low=SMALLEST, high=LARGEST)
    if "outputs" in told.content:
        outputs = told.array("outputs", (n_outputs,), "b")
        if not outputs[:n_own].all():
            raise told.wrong("outputs", "are without a class that the model knows")
    family = told.text("family", among=("gram", "diagonal"))
    geometry = asked.get("geometry")
    name = str(geometry.get("name")) if isinstance(geometry, Mapping) else ""
    expected = _FAMILIES.get(name.rpartition(".")[2])
    if expected not in (None, family):
        raise told.wrong("family", f"is {family!r}, but {expected!r} was asked for")
    fields = {"center", "scale", "outputs", "family"}
    if family == "gram":
        fields |= {"metric_scatter", "metric_mean", "metric_size"}
        fields |= {"metric_output_weights"}
        shape = n_params - 1, n_params - 1
        scatter = told.array("metric_scatter", shape, high=LARGEST_SQUARE)
        told.array("metric_mean", (n_params - 1,))
        told.number("metric_size", low=SMALLEST_SQUARE, high=LARGEST_SQUARE)
        if "metric_output_weights" in told.content:
            told.array("metric_output_weights", (n_outputs,), low=SMALLEST)
        if not np.array_equal(scatter, scatter.T):
            raise told.wrong("metric_scatter", "is not symmetric")
        check_definite(told, "metric_scatter", scatter)
    else:
        fields |= {"metric_precision"}
        shape, limit = (n_params, n_outputs), LARGEST_SQUARE
        precision = told.array("metric_precision", shape, low=0.0, high=limit)
        if ((precision > 0) & (precision < SMALLEST_SQUARE)).any():
            raise told.wrong("metric_precision", "has values that are all but 0")
    by_loss = "radii_knots" in told.content
    criterion = asked.get("criterion")
    name = str(criterion.get("name")) if isinstance(criterion, Mapping) else ""
    if _BY_LOSS.get(name.rpartition(".")[2], by_loss) != by_loss:
        part = "radii_knots" if by_loss else "radii_radii"
        raise told.wrong(part, f"is there, but {name.rpartition('.')[2]} was asked for")
    fields |= {"radii_n_rows", "radii_score"}
    if by_loss:
        fields |= {"radii_knots", "radii_losses"}
        fields |= {"radii_slope", "radii_gradient", "radii_curvature"}
    else:
        fields |= {"radii_radii", "radii_may_lose"}
    told.only(*fields)


def _check_center(told: Fields, W: np.ndarray) -> None:
    """The centre is the model itself, but for its scale and what outputs share."""
    center = told.get("center")[:, : W.shape[1]]
    center = told.number("scale") * (center - center.mean(axis=1, keepdims=True))
    own = W.astype(np.float64)
    away = center - (own - own.mean(axis=1, keepdims=True))
    # Rounding of float32, where that is what the model has.
    if np.abs(away).max() > ROUNDING * max(np.abs(own).max(), np.abs(center).max()):
        raise told.wrong("center", "is not the model itself")


def _check_radii_of(told: Fields, most_rows: int) -> None:
    """What is told of radii; the model was tried on so many rows at most."""
    n_rows = told.count("radii_n_rows", low=1)
    if n_rows > most_rows:
        raise told.wrong("radii_n_rows", "is more than describe.rows has")
    if "radii_knots" in told.content:
        _check_losses(told)
    else:
        _check_radii(told, n_rows)


def _check_radii(told: Fields, n_rows: int) -> None:
    score = told.number("radii_score", low=0.0, high=1.0)
    # Rows that no change loses have an infinite radius; max_radius bounds it.
    radii = told.array("radii_radii", (None,), low=0.0, unbounded=True)
    if (radii[1:] < radii[:-1]).any():
        raise told.wrong("radii_radii", "are not in their order")
    lost = told.array("radii_may_lose", (len(radii) + 1,), "i", low=0)
    right = int(lost[-1])
    if lost[0] != 0 or (lost[1:] < lost[:-1]).any():
        raise told.wrong("radii_may_lose", "does not rise from 0")
    if right > n_rows or abs(score - right / n_rows) > ROUNDING:
        raise told.wrong("radii_score", f"is {score:g} of {n_rows} rows, not {right}")


def _check_losses(told: Fields) -> None:
    score = told.number("radii_score", low=0.0, high=LARGEST)
    knots = told.array("radii_knots", (None,), low=0.0)
    if not len(knots) or knots[0] != 0 or (np.diff(knots) < SMALLEST).any():
        raise told.wrong("radii_knots", "do not rise from 0")
    losses = told.array("radii_losses", knots.shape, low=0.0)
    if abs(losses[0] - score) > ROUNDING * score:
        raise told.wrong("radii_losses", "do not begin with the score")
    told.number("radii_slope", unbounded=True, low=-LARGEST, high=LARGEST)
    for name in ("radii_gradient", "radii_curvature"):
        told.number(name, low=0.0, high=LARGEST_SQUARE, unbounded=True)
