"""Summaries of many nodes made one, that of a region, since sums add up."""

import hashlib
import os
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from ..federation import Summary, is_path, load_message, read_federation, region_summary
from ..moments import fewer_parts
from ..networks import Coordinates, Network
from ..progress import tracked
from ._likelihood import warn_of_same_rows

# Nodes that are taken in at once, or bytes of their files; of more, groups become one.
GROUP, _GROUP_BYTES = 256, 2**27
# Means that a region sends at most.
PARTS = 512


def merged_summary(aggregator, summaries: Sequence, name: str) -> Summary:
    one = {"estimators": list(summaries), "epsilon": "auto", "n_rounds": 1}
    region = copy(aggregator).set_params(**one)
    federation = read_federation(region)
    nodes = region._asked(federation, federation.classes)
    stage = region._stage(nodes)
    likelihood, found = region._run(federation)(stage.likelihood_plan(nodes))
    warn_of_same_rows(likelihood, federation.names)
    sums = likelihood.loss.moments
    W = likelihood.to_rows(likelihood.discriminant_analysis())
    W -= W.mean(axis=1, keepdims=True)
    labels, form = federation.classes.tolist(), found.form
    seen, names = np.ones(len(labels), bool), federation.features.feature_names_in
    network = Network(
        coefs=(W[:-1],),
        intercepts=(W[-1],),
        activation=(),
        output="softmax",
        classes=federation.classes,
        seen=seen,
        n_features_in=len(W) - 1,
        feature_names_in=names,
    )
    zero_row = found.penalty.zero_row
    if zero_row is not None:
        coordinates = Coordinates(center=zero_row, scale=np.ones(len(zero_row)))
        network = replace(network, coordinates=coordinates)
    sums = fewer_parts(sums, PARTS)
    # In the order of classes, not of nodes.
    sums = sums.some_parts(np.argsort(sums.columns, kind="stable"))
    told = {"reason": form.reason.rstrip(".")}
    if form.is_exact:
        told = {"kind": form.kind, **form.parameters}
    content = {"labels": labels, "moments": sums.as_arrays(), "form": told}
    content["scaled"] = found.scaled
    if any(loss.is_by_class for loss in found.losses):
        content["slopes"] = likelihood.slopes(found.losses)
    else:
        content["slope"] = likelihood.slope
    if region.class_weight == "members" and found.agreed is not None:
        content["class_weight"] = found.agreed
    if found.penalty.content is not None:
        content["penalty"] = dict(found.penalty.content)
    asked = region._moments_request()
    return region_summary(aggregator, federation, network, asked, content, name)


def in_groups(aggregator, paths: Sequence) -> list[Summary]:
    """Summaries of groups of nodes, cut by what they sent, not by names or order."""
    found = {}
    for path in paths:
        message = load_message(path)  # checked when its group is taken in
        name = str(message.settings.get("name"))
        if name in found:
            raise ValueError(f"estimators has two nodes of the same name: {[name]!r}.")
        digest = hashlib.sha256()
        for field, array in sorted(message.arrays.items()):
            if field.startswith("describe."):
                digest.update(np.ascontiguousarray(array).data)
        found[name] = digest.hexdigest(), path
    cuts, size = [[]], 0
    for _, path in sorted(found.values(), key=lambda pair: pair[0]):
        own = os.path.getsize(path)
        if cuts[-1] and (len(cuts[-1]) == GROUP or size + own > _GROUP_BYTES):
            cuts.append([])
            size = 0
        cuts[-1].append(path)
        size += own
    return [
        merged_summary(aggregator, list(map(Summary.load, paths)), f"group {k}")
        for k, paths in enumerate(tracked(cuts, "groups of summaries"))
    ]


def many_paths(aggregator, nodes) -> bool:
    estimators = aggregator.estimators
    return (
        isinstance(estimators, list)
        and len(estimators) > GROUP
        and all(map(is_path, estimators))
        and nodes is None
        and not aggregator._needs_spaces
        and aggregator._rounds.n == 1
        and not aggregator.keep_replies
        and aggregator.node_weight in ("auto", "n_samples")
    )
