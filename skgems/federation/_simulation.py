"""Simulated nodes: clones of unfitted classifiers, trained on rows dealt to them."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import itemgetter

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from ..base import seeded_clone
from ..compat import safe_indexing
from ..local import Picklable, at_node, cached, fit_local, net_seed
from . import _nodes


@dataclass(frozen=True)
class Simulation:
    random_state: object = None
    validation_fraction: float = 0.0
    common_seed: int | None = None
    fit: Callable = fit_local
    memory: object = None
    n_jobs: int | None = None

    @classmethod
    def of(cls, aggregator) -> "Simulation":
        """What its parameters say; the rest as it is by default."""
        known, names = vars(aggregator), (own.name for own in fields(cls))
        return cls(**{name: known[name] for name in names if name in known})


def simulate(names, members, X, y, nodes, held_out, simulation: Simulation) -> tuple:
    """Names, trained clones, each row's node, and rows that none was trained on."""
    rng = check_random_state(simulation.random_state)
    if nodes is None:
        codes = _nodes.deal_rows(y, len(members), rng)
    else:
        if len(members) == 1:
            names = _nodes.node_names_of(nodes, X.shape[0])
            members = members * len(names)
        codes = _nodes.node_codes(nodes, names, X.shape[0])
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    if not counts.all():
        _nodes.raise_without_rows(names[np.argmin(counts)])
    given, held_out, jobs = held_out, np.zeros(X.shape[0], dtype=bool), {}
    # What is drawn is drawn in the order of the nodes' first rows, which is the same
    # whatever order and names the nodes have.
    for index in dict.fromkeys(codes[codes >= 0].tolist()):
        member, rows = members[index], np.flatnonzero(codes == index)
        if given is None:
            mask = _nodes.hold_out(y[rows], simulation.validation_fraction, rng)
        elif (mask := given[rows]).all():
            _nodes.raise_all_held_out(names[index])
        held_out[rows[mask]] = True
        common = simulation.common_seed
        own = rng if common is None else np.random.RandomState(common)
        fresh = seeded_clone(member, own)
        jobs[index] = fresh, rows[~mask], net_seed(fresh, own)
    classes = np.unique(y)
    fit = cached(simulation.fit, simulation.memory)
    call = delayed(_trained)
    trained = Parallel(n_jobs=simulation.n_jobs)(
        call(names[k], fit, own, safe_indexing(X, rows), y[rows], classes, seed)
        for k, (own, rows, seed) in sorted(jobs.items(), key=itemgetter(0))
    )
    return names, [own.estimator for own in trained], codes, held_out


def _trained(name, fit, estimator, *rows) -> Picklable:
    with at_node(name, f"{type(estimator).__name__} cannot be fitted to its rows"):
        return Picklable(fit(estimator, *rows))
