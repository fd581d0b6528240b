"""Summaries of many nodes made one, that of a region, since sums add up.

An ``aggregator`` is a GEMSLogisticAggregator here, which imports this module.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ..asking import read_federation, region_summary, run_of
from ..base import BaseAggregator
from ..moments import MOST_PARTS, Likelihood, PooledForm, fewer_parts
from ..networks import Coordinates, Network
from ..parties import Federation, Summary
from ._fit_warnings import warn_of_same_rows
from ._sums import Sums


def merged_summary(
    aggregator: BaseAggregator, summaries: Sequence, name: str
) -> Summary:
    """The summary of a region: what its nodes sent, summed, and a model made of it."""
    region = copy(aggregator).set_params(
        estimators=list(summaries), epsilon="auto", n_rounds=1
    )
    federation = read_federation(region)
    method = region._method()
    stage = method.stage(federation, federation.classes)
    likelihood, sums = run_of(region, federation)(stage.likelihood_plan())
    warn_of_same_rows(likelihood, federation.names)
    return region_summary(
        aggregator,
        federation=federation,
        network=_region_network(
            likelihood, federation=federation, zero_row=sums.penalty.zero_row
        ),
        request=method.terms.moments_request(),
        reply=_region_reply(
            likelihood,
            sums=sums,
            labels=federation.classes.tolist(),
            says_class_weight=region.class_weight == "members",
        ),
        name=name,
    )


def _region_network(
    likelihood: Likelihood, *, federation: Federation, zero_row: np.ndarray | None
) -> Network:
    """The discriminant analysis of the region's sums, as the region's own model.

    It stands for a model fitted to the rows of the region; where the nodes have no
    intercepts, ``zero_row`` is the row at which its logits are 0.
    """
    W = likelihood.to_rows(likelihood.discriminant_analysis())
    W -= W.mean(axis=1, keepdims=True)
    network = Network(
        coefs=(W[:-1],),
        intercepts=(W[-1],),
        activation=(),
        output="softmax",
        classes=federation.classes,
        seen=np.ones(len(federation.classes), dtype=bool),
        n_features_in=len(W) - 1,
        feature_names_in=federation.features.feature_names_in,
        dropped=federation.unused,
    )
    if zero_row is None:
        return network
    coordinates = Coordinates(center=zero_row, scale=np.ones(len(zero_row)))
    return replace(network, coordinates=coordinates)


def _region_reply(
    likelihood: Likelihood, *, sums: Sums, labels: list, says_class_weight: bool
) -> dict[str, Any]:
    """Return the region's reply to "moments"."""
    moments = fewer_parts(likelihood.loss.moments, MOST_PARTS)
    # In the order of classes, not of nodes.
    moments = moments.some_parts(np.argsort(moments.columns, kind="stable"))
    content = {
        "labels": labels,
        "moments": moments.as_content(),
        "form": _form_content(sums.form),
        "scaled": sums.scaled,
    }
    if sums.kurtosis_of_nodes:
        content["kurtosis"] = max(sums.kurtosis_of_nodes.values())
    if any(loss.is_by_class for loss in sums.losses):
        content["slopes"] = likelihood.slopes(sums.losses)
    else:
        content["slope"] = likelihood.slope
    if says_class_weight and sums.agreed_class_weight is not None:
        content["class_weight"] = sums.agreed_class_weight
    if sums.penalty.content is not None:
        content["penalty"] = dict(sums.penalty.content)
    return content


def _form_content(form: PooledForm) -> dict[str, Any]:
    """A function of sums as messages have it, or the reason why there is none."""
    if form.is_exact:
        return {"kind": form.kind, **form.parameters}
    return {"reason": form.reason.rstrip(".")}
