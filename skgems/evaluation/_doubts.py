"""Doubts about a model: numbers that are no better than what needs no model."""

from collections.abc import Iterable, Sequence

from ..base import shortened

# Accuracy or AUC that a node loses before it is told of: smaller ones are chance.
_LOSES = 0.02
# Relative rounding of shares that are equal.
_ROUNDING = 1e-9


def doubts_about_accuracies(
    names: Iterable[str],
    accuracies: Iterable[float | None],
    shares: Iterable[float | None],
) -> list[str]:
    """List nodes where a constant prediction would be as accurate as the aggregate.

    ``shares`` are those of the largest class of each node; None where nothing is known.
    """
    no_better = []
    of_one_class = []
    for name, accuracy, share in zip(names, accuracies, shares, strict=False):
        if accuracy is None or share is None:
            continue
        if share == 1.0:
            of_one_class.append(repr(name))
        elif accuracy <= share * (1.0 + _ROUNDING):
            no_better.append(f"{name!r} ({accuracy:.3f}, {share:.3f})")
    doubts = []
    if no_better:
        doubts.append(
            "The aggregate is no more accurate than always predicting the largest "
            f"class at these nodes: {shortened(no_better)}. The numbers are its "
            "accuracy and the share of this class."
        )
    if of_one_class:
        doubts.append(
            "The rows that score have one class only at these nodes: "
            f"{shortened(of_one_class)}. The accuracies there do not say whether the "
            "aggregate tells classes apart."
        )
    return doubts


def doubts_about_gains(
    names: Iterable[str], gains: Iterable[float | None]
) -> list[str]:
    """List nodes whose own model is more accurate, by the gain of the aggregate."""
    return [
        f"Node {name!r} loses: the accuracy of its local model is {-gain:.3f} higher "
        "than that of the aggregate."
        for name, gain in zip(names, gains, strict=False)
        if gain is not None and gain < -_LOSES
    ]


def doubts_about_labels(labels: Sequence) -> list[str]:
    """Say which labels of rows are of no class that the model knows."""
    if not labels:
        return []
    return [
        "The aggregate knows no class with these labels: "
        f"{shortened(list(map(repr, labels)))}. It is wrong about each of their rows, "
        "which the evaluation by site leaves out."
    ]


def doubts_about_areas(
    names: Iterable[str],
    areas: Iterable[float | None],
    own_areas: Iterable[float | None],
) -> list[str]:
    """List nodes where scores are no better than chance, or than those of its model."""
    of_chance = []
    behind = []
    for name, area, own_area in zip(names, areas, own_areas, strict=True):
        if area is None:
            continue
        if area <= 0.5:
            of_chance.append(f"{name!r} ({area:.3f})")
        if own_area is not None and area < own_area - _LOSES:
            behind.append(f"{name!r} ({area:.3f}, {own_area:.3f})")
    doubts = []
    if of_chance:
        doubts.append(
            "The aggregate tells classes apart no better than chance, by its AUC, at "
            f"these nodes: {shortened(of_chance)}."
        )
    if behind:
        doubts.append(
            "The node's own model tells classes apart better than the aggregate at "
            f"these nodes: {shortened(behind)}. The numbers are the AUC of the "
            "aggregate and that of the own model, which may know these rows."
        )
    return doubts


def doubts_about_predictions(
    names: Iterable[str],
    sensitivities: Iterable[float | None],
    specificities: Iterable[float | None],
) -> list[str]:
    """List nodes where predicted labels say nothing of the class.

    Then positive and negative predictive values are no larger than the shares of the
    classes are.
    """
    saying_nothing = [
        f"{name!r} ({sensitivity:.3f}, {specificity:.3f})"
        for name, sensitivity, specificity in zip(
            names, sensitivities, specificities, strict=True
        )
        if sensitivity is not None
        and specificity is not None
        and sensitivity + specificity <= 1.0
    ]
    if not saying_nothing:
        return []
    return [
        "Predicted labels are no better than drawn ones at these nodes: "
        f"{shortened(saying_nothing)}. The numbers are sensitivity and specificity, "
        "which add up to 1 for drawn labels."
    ]


def doubts_about_calibration(
    names: Iterable[str], slopes: Iterable[float | None]
) -> list[str]:
    """List nodes where larger probabilities do not mean more rows of the class."""
    falling = [
        f"{name!r} ({slope:.2f})"
        for name, slope in zip(names, slopes, strict=True)
        if slope is not None and slope <= 0.0
    ]
    if not falling:
        return []
    return [
        "Larger probabilities do not mean more rows of the class at these nodes: "
        f"{shortened(falling)}. The numbers are calibration slopes, which are 1 for a "
        "calibrated model and 0 for constant probabilities."
    ]
