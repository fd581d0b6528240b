"""Match the hidden units of one layer: beliefs about atoms, and assignments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln
from sklearn.utils import check_random_state

from ..progress import tracked


@dataclass(frozen=True, eq=False)
class Atoms:
    """Gaussian beliefs about numbers of each atom; the first have one precision."""

    linear: np.ndarray = field(repr=False)  # (n_atoms, n_numbers): precision times mean
    # (n_atoms, 1 + n_numbers - n_shared): of the shared numbers, then of each other.
    precision: np.ndarray = field(repr=False)
    n_shared: int

    @property
    def mean(self) -> np.ndarray:
        return scaled(self.linear, self.precision, self.n_shared, np.divide)

    def without_prior(self, prior_precision: float) -> np.ndarray:
        """What the neurons alone say of each atom; zero where they say nothing."""
        own = self.precision - self.precision.dtype.type(prior_precision)
        nothing = own <= 1e-6 * prior_precision
        own = np.where(nothing, np.inf, own)
        return scaled(self.linear, own, self.n_shared, np.divide)

    def __len__(self) -> int:
        return len(self.linear)


def scaled(V: np.ndarray, precision, n_shared: int, by=np.multiply) -> np.ndarray:
    """Neurons times the precision of each of their numbers, of all or of each."""
    result = by(V, precision[..., :1])
    result[:, n_shared:] = by(V[:, n_shared:], precision[..., 1:])
    return result


def squares(V: np.ndarray, n_shared: int) -> np.ndarray:
    """Sum of squares of the shared numbers, then the square of each other one."""
    result = np.empty((len(V), 1 + V.shape[1] - n_shared), dtype=V.dtype)
    shared = V[:, :n_shared]
    np.einsum("ld,ld->l", shared, shared, out=result[:, 0])
    np.square(V[:, n_shared:], out=result[:, 1:])
    return result


def evidence_gains(
    V: np.ndarray,  # v, neurons of one node
    precision: np.ndarray,  # p, one row as in Atoms
    linear: np.ndarray,  # a, of the atoms without this node
    atom_precision: np.ndarray,  # q
    n_shared: int,
    linear_squares: np.ndarray,  # squares(linear, n_shared)
) -> np.ndarray:
    """What neurons add to atoms: sum of (a_d + p_d v_d)^2/(q_d + p_d) - a_d^2/q_d."""
    inverse = 1.0 / (atom_precision + precision)
    # The largest product needs no copy of the atoms: its factor is one per atom.
    gains = V[:, :n_shared] @ linear[:, :n_shared].T
    gains *= 2.0 * precision[0] * inverse[:, 0]
    own = V[:, n_shared:] * (2.0 * precision[1:])
    left = np.hstack([squares(V, n_shared) * precision**2, own])
    right = np.hstack([inverse, linear[:, n_shared:] * inverse[:, 1:]])
    gains += left @ right.T
    change = inverse - 1.0 / atom_precision
    gains += np.sum(linear_squares * change, axis=1)
    return gains


def first_evidence(V, precision, prior_precision: float, n_shared: int) -> np.ndarray:
    """The same for an atom of its own: zero mean, ``prior_precision``."""
    factor = precision**2 / (prior_precision + precision)
    return squares(V, n_shared) @ factor


# Sigma, as a share of the median norm of a layer's neurons. Small: where it is large,
# how many nodes use an atom outweighs what its neurons are like.
SIGMA = 0.1
# What a new atom costs, in squares of the median norm: the first that explains enough.
# It costs -2 log(mass), a neuron all unlike its atom |v|^2 / sigma^2 or so.
PRICES = (0.2, 0.16, 0.12, 0.08, 0.04, 0.0)
# What the atoms must explain of the neurons' squared norm.
EXPLAINED = 2 / 3


@dataclass(frozen=True, eq=False)
class LayerMatch:
    assignments: list[np.ndarray] = field(repr=False)  # atom of each group's neurons
    atoms: Atoms = field(repr=False)  # their posterior
    popularity: np.ndarray = field(repr=False)  # (n_atoms,): groups that use each atom
    # (n_iter + 1,): log-posterior, up to a constant, of the first pass and each sweep.
    objective: np.ndarray = field(repr=False)
    n_iter: int  # sweeps after the first pass
    converged: bool  # whether no assignment changes any more

    @property
    def uses(self) -> np.ndarray:
        n = len(self.atoms)
        return np.stack([np.bincount(own, minlength=n) for own in self.assignments])


@dataclass(frozen=True, eq=False)
class History:
    """What earlier steps of a stream left: the prior of this step."""

    atoms: Atoms  # their posterior
    counts: np.ndarray  # (n_groups, n_atoms): earlier uses of each atom by each group
    n_steps: int  # earlier steps, at least 1


def canonical_order(groups: Sequence[np.ndarray]) -> np.ndarray:
    """Order of groups, largest first, whatever the order of groups and units given."""
    # Sums over units are rounded: their last digits depend on the units' order.
    sizes = [float(np.sum(np.square(V, dtype=np.float64))) for V in groups]
    return np.lexsort(([-float(f"{s:.9g}") for s in sizes], [-len(V) for V in groups]))


def match_layer(
    groups: Sequence[np.ndarray],  # (n_neurons_j, n_numbers) each; may have no neuron
    precisions: Sequence[np.ndarray],  # a row each as in Atoms; 0 is no evidence
    *,
    n_shared: int,
    prior_precision: float,  # of an atom's numbers, about zero
    gamma0: float,  # mass of the beta process: how readily new atoms are opened
    max_iter: int = 100,  # sweeps after the first pass
    tol: float = 0.0,  # least gain of a sweep, as a share of the objective's size
    max_units: int | None = None,
    new_atom_cost: str = "exchangeable",  # or "paper"
    history: History | None = None,
    random_state=None,
) -> LayerMatch:
    """Match neurons of groups to atoms (PFNM 2018, Propositions 1 and 2, Eq. 11)."""
    groups = [_without_subnormals(V) for V in groups]
    rng, order = check_random_state(random_state), canonical_order(groups)
    most = np.inf if max_units is None else max_units
    given = groups, precisions, n_shared, prior_precision, gamma0, most
    matcher = partial(_Matcher, *given, history=history)
    if new_atom_cost == "paper":
        # The i-th new atom of a group costs 2 log(i) more: a sweep can lower the rest.
        search = _Search(matcher(ordered_prior=True), order, rng)
    else:
        # Either first pass may lead to a poor optimum; one sweep shows it.
        ordered = matcher(ordered_prior=True)
        search, other = (_Search(own, order, rng) for own in (matcher(), ordered))
        ordered.ordered_prior = False
        value, otherwise = (own.run(1, tol).objective[-1] for own in (search, other))
        # Where they came to the same, rounding must not choose.
        if otherwise > value + 1e-9 * abs(value):
            search = other
    return search.matcher.result(search.run(max_iter, tol))


class _Search:
    """Sweeps of groups in random order; ``objective``: of the first pass and each."""

    def __init__(self, matcher: "_Matcher", order: np.ndarray, rng):
        self.matcher, self.order, self.rng = matcher, order, rng
        for group in order:
            matcher.step(group)
        self.objective, self.best = [matcher.objective()], list(matcher.rows)
        # Nothing changes for a group unless another one changed since its last step.
        self.unchanged, self.converged, self.gain = 0, len(order) == 1, np.inf

    def run(self, max_iter: int, tol: float) -> "_Search":
        """Sweep until nothing changes or little is gained, or so often in all."""
        while not self.converged and len(self.objective) <= max_iter:
            if tol and self.gain < tol * abs(self.objective[-1]):
                break
            order = self.order[self.rng.permutation(len(self.order))]
            for group in tracked(order, f"sweep {len(self.objective)}"):
                changed = self.matcher.step(group)
                self.unchanged = 0 if changed else self.unchanged + 1
                self.converged = self.unchanged >= len(self.order)
                if self.converged:
                    break
            self.objective.append(self.matcher.objective())
            self.gain = self.objective[-1] - max(self.objective[:-1])
            if self.gain > 0:
                self.best = list(self.matcher.rows)
        return self


def _without_subnormals(V: np.ndarray) -> np.ndarray:
    """Zeros for numbers with subnormal products, which multiply ten times slower."""
    small = np.abs(V) < np.sqrt(np.finfo(V.dtype).tiny)
    return np.where(small, np.zeros((), V.dtype), V)


@dataclass(eq=False, repr=False)
class _Matcher:
    """The assignment of all groups, and the atoms' posterior kept up to date."""

    groups: Sequence[np.ndarray]
    precisions: Sequence[np.ndarray]
    n_shared: int
    prior_precision: float
    gamma0: float
    max_units: float = np.inf
    ordered_prior: bool = False
    history: History | None = None

    def __post_init__(self) -> None:
        groups, history, self.n_groups = self.groups, self.history, len(self.groups)
        self.dtype = np.result_type(*groups)
        self.rows = [None] * self.n_groups
        self.log_new = np.log(self.gamma0 / self.n_groups)
        # Rows are atoms, those of earlier steps first; unused ones have the prior.
        widths = groups[0].shape[1], len(self.precisions[0])
        none = Atoms(*(np.zeros((0, n)) for n in widths), self.n_shared)
        self.base = none if history is None else history.atoms
        self.n_base = self.n_rows = len(self.base)
        self.linear = self.base.linear.astype(self.dtype)
        self.precision = self.base.precision.astype(self.dtype)
        self.squares = squares(self.base.linear, self.n_shared).astype(self.dtype)
        self.popularity = np.zeros(self.n_base, dtype=np.intp)
        if history is not None:
            n_steps, counts = history.n_steps + 1, history.counts
            self.log_new -= np.log(n_steps)
            self.log_odds = np.log(1 + counts) - np.log(n_steps - counts)
            self.log_odds_of_young = -np.log(n_steps)
        self._grow(max(len(V) for V in groups))

    def _grow(self, n_rows: int) -> None:
        n_more = max(n_rows, 2 * len(self.linear)) - len(self.linear)
        more, prior = ((0, n_more), (0, 0)), self.prior_precision
        self.linear = np.pad(self.linear, more)
        self.precision = np.pad(self.precision, more, constant_values=prior)
        self.squares = np.pad(self.squares, more)
        self.popularity = np.pad(self.popularity, (0, n_more))

    def step(self, group: int) -> bool:
        """Give one group its best assignment; whether that changed it."""
        V, precision = self.groups[group], self.precisions[group]
        if not len(V):
            return False
        weighted = scaled(V, precision, self.n_shared)
        old = self.rows[group]
        if old is not None:
            self._take_out(old, weighted, precision)
        n_rows = self.n_rows
        used = self.popularity[:n_rows] > 0
        used[: self.n_base] = True
        atoms = np.flatnonzero(used)
        columns = self._best_columns(group, V, precision, used, atoms)
        rows = self._new_rows(columns, atoms, old, used)
        self.linear[rows] += weighted
        self.precision[rows] += precision
        self.popularity[rows] += 1
        self.squares[rows] = squares(self.linear[rows], self.n_shared)
        self.rows[group] = rows
        return old is None or not np.array_equal(rows, old)

    def _take_out(self, rows, weighted, precision) -> None:
        self.linear[rows] -= weighted
        self.precision[rows] -= precision
        self.popularity[rows] -= 1
        # Rounding must not stay behind where nothing else is.
        empty = rows[self.popularity[rows] == 0]
        self.linear[empty] = 0.0
        self.precision[empty] = self.prior_precision
        empty = empty[empty < self.n_base]
        self.linear[empty] = self.base.linear[empty]
        self.precision[empty] = self.base.precision[empty]
        self.squares[rows] = squares(self.linear[rows], self.n_shared)

    def _log_odds(self, group, atoms) -> np.ndarray:
        if self.history is None:
            users = self.popularity[atoms]
            return np.log(users / (self.n_groups - users))
        result = np.full(len(atoms), self.log_odds_of_young)
        result[: self.n_base] = self.log_odds[group]
        return result

    def _best_columns(self, group, V, precision, used, atoms) -> np.ndarray:
        """Best position in ``atoms`` of each neuron; len(atoms) + i is new atom i."""
        n_neurons, n_atoms, n_rows = len(V), len(atoms), len(used)
        known = self.linear[:n_rows], self.precision[:n_rows], self.n_shared
        gains = evidence_gains(V, precision, *known, self.squares[:n_rows])
        if n_atoms < n_rows:
            gains = gains[:, used]
        gains += (2.0 * self._log_odds(group, atoms)).astype(gains.dtype)
        new = first_evidence(V, precision, self.prior_precision, self.n_shared)
        gains -= (new + 2.0 * self.log_new)[:, None].astype(gains.dtype)
        n_new = int(min(n_neurons, max(self.max_units - n_atoms, 0)))
        columns = n_atoms + np.arange(n_neurons)
        if n_new == n_neurons and not self.ordered_prior:
            # Only what beats a new atom can be in the best assignment.
            better = gains > 0
            lines = np.flatnonzero(better.any(axis=1))
            places = np.flatnonzero(better.any(axis=0))
            worth = np.maximum(gains[np.ix_(lines, places)], 0)
            line, place = linear_sum_assignment(worth, maximize=True)
            kept = worth[line, place] > 0
            columns[lines[line[kept]]] = places[place[kept]]
            return columns
        price = -2.0 * self.ordered_prior * np.log1p(np.arange(n_new))
        table = np.hstack([gains, np.broadcast_to(price, (n_neurons, n_new))])
        return linear_sum_assignment(table, maximize=True)[1]

    def _new_rows(self, columns, atoms, old, used) -> np.ndarray:
        """Rows of the chosen columns; a neuron that stays alone keeps its row."""
        rows = np.empty(len(columns), dtype=np.intp)
        to_new = columns >= len(atoms)
        rows[~to_new] = atoms[columns[~to_new]]
        free = ~used
        if old is not None:
            stays = to_new & ~np.append(used, False)[np.minimum(old, len(used))]
            rows[stays] = old[stays]
            free[old[stays]] = False
            to_new &= ~stays
        needed = np.count_nonzero(to_new)
        free = np.flatnonzero(free)[:needed]
        more = needed - len(free)
        if self.n_rows + more > len(self.linear):
            self._grow(self.n_rows + more)
        rows[to_new] = np.append(free, self.n_rows + np.arange(more))
        self.n_rows += more
        return rows

    def objective(self) -> float:
        n_rows = self.n_rows
        users = self.popularity[:n_rows]
        used = users > 0
        fits = np.sum(self.squares[:n_rows] / self.precision[:n_rows], axis=1)
        total = 0.5 * np.sum(fits[used].astype(np.float64))
        if self.history is None:
            users, J = users[used], self.n_groups
            orders = gammaln(J - users + 1) + gammaln(users) - gammaln(J + 1)
            new = len(users) * (self.log_new + np.log(J))
            return float(total + new + np.sum(orders))
        old = squares(self.base.linear, self.n_shared) / self.base.precision
        total -= 0.5 * np.sum(np.sum(old, axis=1)[used[: self.n_base]])
        young = users[self.n_base :][used[self.n_base :]]
        total += np.sum(self.log_new + (young - 1) * self.log_odds_of_young)
        for rows, odds in zip(self.rows, self.log_odds, strict=True):
            if rows is not None:
                total += np.sum(odds[rows[rows < self.n_base]])
        return float(total)

    def result(self, search: _Search) -> LayerMatch:
        empty = np.empty(0, dtype=np.intp)
        rows = [empty if own is None else own for own in search.best]
        popularity = np.bincount(np.concatenate(rows), minlength=self.n_base)
        used = popularity > 0
        used[: self.n_base] = True
        position = np.cumsum(used) - 1
        assignments = [position[own] for own in rows]
        # Summed afresh, so that the posterior does not depend on the path to it.
        base, prior = self.base, self.prior_precision
        more = (0, np.count_nonzero(used) - self.n_base), (0, 0)
        linear = np.pad(base.linear.astype(self.dtype), more)
        precision = base.precision.astype(self.dtype)
        precision = np.pad(precision, more, constant_values=prior)
        groups = zip(self.groups, self.precisions, assignments, strict=True)
        for V, own, atoms in groups:
            linear[atoms] += scaled(V, own, self.n_shared)
            precision[atoms] += own
        atoms = Atoms(linear, precision, self.n_shared)
        found, n_iter = np.array(search.objective), len(search.objective) - 1
        known = popularity[used], found, n_iter, search.converged
        return LayerMatch(assignments, atoms, *known)


def median_norm(groups: Sequence[np.ndarray]) -> float:
    norms = [np.sqrt(np.sum(np.square(V, dtype=np.float64), axis=1)) for V in groups]
    return float(np.median(np.concatenate(norms))) or 1.0


def auto_sigma(groups: Sequence[np.ndarray]) -> float:
    return SIGMA * median_norm(groups)


def match_at_auto_gamma0(
    match_with: Callable[..., LayerMatch],  # of ``gamma0``
    groups: Sequence[np.ndarray],
    sigma: float,
    max_units: int | None = None,
) -> tuple[float, LayerMatch]:
    """Match with the smallest mass, by PRICES, at which atoms explain the neurons."""
    squared = (median_norm(groups) / sigma) ** 2
    for price in PRICES:
        gamma0 = float(np.exp(-min(price * squared / 2, 500.0)))
        match = match_with(gamma0=gamma0)
        if len(match.atoms) == max_units or explained_share(groups, match) >= EXPLAINED:
            break
    return gamma0, match


def explained_share(groups: Sequence[np.ndarray], match: LayerMatch) -> float:
    """Share of squared norm that remains if each neuron is its atom's mean."""
    sums = np.zeros((len(match.atoms), groups[0].shape[1]))
    total = 0.0
    for V, atoms in zip(groups, match.assignments, strict=True):
        sums[atoms] += V
        total += np.sum(np.square(V, dtype=np.float64))
    kept = np.sum(np.square(sums) / match.popularity[:, None])
    return float(kept / total) if total > 0 else 1.0
