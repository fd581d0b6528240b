# SPDX-License-Identifier: BSD-3-Clause
"""The search for the likeliest model in spaces, by a coarser likelihood."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property

import numpy as np
import pytest
from helpers.node_losses import labelled_rows

from skgems.gems._bounded_search import BoundedSearch
from skgems.moments import Likelihood, NodeLoss, class_moments, cluster_classes
from skgems.spaces import GoodEnoughSpace, ball_metric, likeliest


def likelihood_with_clusters():
    X, y = labelled_rows(600)
    parts = cluster_classes(X, y, 4, 10, random_state=0)
    moments = class_moments(X, y, parts=parts)
    return Likelihood.from_nodes([NodeLoss(moments=moments, columns=np.arange(3))], 3)


def space_without_the_minimum(likelihood):
    center = 0.2 * likelihood.to_rows(likelihood.minimize())
    metric = ball_metric(4, np.ones(3, dtype=bool))
    radius = 0.5 * np.linalg.norm(center)
    return GoodEnoughSpace(center=center, metric=metric, radius=radius, epsilon=0.9)


def likeliest_in(space, likelihood):
    search = BoundedSearch(likelihood=likelihood, spaces=[space])
    return likeliest(
        [space],
        minimize=search.minimize,
        start=likelihood.to_rows(likelihood.minimize()),
        n_rows=likelihood.n_rows,
    )


class Alone(Likelihood):
    """A likelihood whose coarser one is itself."""

    @cached_property
    def coarser(self):
        return self


class Flat(Likelihood):
    """A likelihood whose coarser one is so flat that its minima are far away."""

    @cached_property
    def coarser(self):
        flat = replace(self.loss, class_weight=np.full(3, 1e-6))
        return replace(self, loss=flat, C=1e6)


def as_type(cls, likelihood):
    names = [field.name for field in fields(likelihood)]
    return cls(**{name: getattr(likelihood, name) for name in names})


@pytest.mark.parametrize("other", [Alone, Flat])
def test_the_likeliest_model_is_that_of_the_likelihood_itself(other):
    likelihood = likelihood_with_clusters()
    space = space_without_the_minimum(likelihood)
    found = likeliest_in(space, likelihood)
    exact = likeliest_in(space, as_type(other, likelihood))
    assert found.found and exact.found
    losses = [
        likelihood.value_and_gradient(likelihood.from_rows(model.point))[0]
        for model in (found, exact)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4 * likelihood.n_rows)
    np.testing.assert_allclose(found.point, exact.point, atol=0.02)


def test_a_coarser_likelihood_is_similar_and_has_fewer_points():
    likelihood = likelihood_with_clusters()
    coarser = likelihood.coarser
    assert coarser.loss.n_points < likelihood.loss.n_points
    W = likelihood.minimize()
    value = likelihood.value_and_gradient(W)[0]
    coarser_value = coarser.value_and_gradient(W)[0]
    assert value != coarser_value
    assert coarser_value == pytest.approx(value, rel=0.1)


def test_searches_go_on_from_the_last_without_evaluating_it_again(monkeypatch):
    likelihood = likelihood_with_clusters()
    space = space_without_the_minimum(likelihood)
    models = []
    original = Likelihood.value_and_gradient

    def recorded(self, W):
        if self is likelihood:
            models.append(W.tobytes())
        return original(self, W)

    monkeypatch.setattr(Likelihood, "value_and_gradient", recorded)
    start = likelihood.to_rows(likelihood.minimize())
    models.clear()
    search = BoundedSearch(likelihood=likelihood, spaces=[space])
    intersection = likeliest([space], search.minimize, start, likelihood.n_rows)
    assert intersection.n_iter > 2
    assert len(set(models)) == len(models) <= intersection.n_iter + 1
