"""An evaluation of all nodes, made of what each tells of each class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ._judging import ToldOfClass, judged_classes
from ._metrics import Evaluation, SiteMetrics
from ._totals import class_metrics, total_of_class


@dataclass(frozen=True, eq=False, kw_only=True)
class ToldOfNode:
    """What a node tells of a model, and of its own."""

    name: str
    n_rows: Sequence[float]  # (n_classes,), the rows that judge
    classes: Sequence[ToldOfClass]  # those that are judged, in their order
    own: Sequence[ToldOfClass] | None = None
    min_rows: int = 1


def evaluation_of(
    told: Sequence[ToldOfNode],
    *,
    classes: list,
    threshold: float | None,
    total: ToldOfNode | None = None,
    unknown_labels: tuple = (),
) -> Evaluation:
    """Make the metrics of all nodes.

    ``total`` is there if all rows are here. ``unknown_labels`` are those of rows that
    are of no class of the model, and are left out.
    """
    if total is None:
        total = ToldOfNode(
            name="all",
            n_rows=np.sum([node.n_rows for node in told], axis=0).tolist(),
            classes=[
                total_of_class([node.classes[place] for node in told])
                for place in range(len(judged_classes(len(classes))))
            ],
        )
    sites = {}
    for node in told:
        support = _support(classes, node.n_rows)
        local = None
        if node.own is not None:
            local = _site(node.name, support, node.own)
        sites[node.name] = _site(node.name, support, node.classes, local=local)
    return Evaluation(
        classes=classes,
        positive=classes[1] if len(classes) == 2 else None,
        threshold=threshold,
        sites=sites,
        total=_site(None, _support(classes, total.n_rows), total.classes),
        min_rows={node.name: node.min_rows for node in told},
        unknown_labels=unknown_labels,
    )


def _support(classes: list, n_rows: Sequence[float]) -> dict:
    """Return the number of rows of each class, by its label."""
    return dict(zip(classes, map(int, n_rows), strict=True))


def _site(
    name: str | None,
    support: Mapping,
    told: Sequence[ToldOfClass],
    *,
    local: SiteMetrics | None = None,
) -> SiteMetrics:
    labels = list(support)
    judged = [labels[k] for k in judged_classes(len(labels))]
    return SiteMetrics(
        node=name,
        support=support,
        accuracy=_accuracy(told),
        by_class={
            label: class_metrics(part, label)
            for label, part in zip(judged, told, strict=True)
        },
        local=local,
    )


def _accuracy(told: Sequence[ToldOfClass]) -> float:
    """Return the share of rows that are right; NaN where some class is not told."""
    if len(told) == 1:
        (part,) = told
        right = [
            (part.true_positives, part.n_positive),
            (part.n_negative - part.false_positives, part.n_negative),
        ]
    else:
        right = [(part.true_positives, part.n_positive) for part in told]
    n_rows = sum(n_rows for _, n_rows in right)
    if not n_rows:
        return np.nan
    return float(sum(n_right for n_right, n_rows in right if n_rows) / n_rows)
