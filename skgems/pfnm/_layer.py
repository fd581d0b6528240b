r"""Match the hidden units of one layer: beliefs about atoms, and assignments.

Unit l of group j, a row :math:`v_{jl}`, is a noisy copy of an atom :math:`\theta_i`:

.. math:: v_{jl} \sim N(\theta_i, p_j^{-1}), \qquad \theta_i \sim N(0, p_0^{-1}).

Of the units of an atom two sums are kept, :math:`a = \sum p_j v_{jl}` and :math:`q =
p_0 + \sum p_j`. Its posterior has mean :math:`a / q` and precision :math:`q`, and the
evidence of its units is :math:`\sum_d a_d^2 / q_d / 2`, up to a constant. Which atoms a
group uses follows a Beta-Bernoulli process: one that m of the other J - 1 groups use
has the odds :math:`m / (J - m)`, and a new one :math:`\gamma_0 / J`.

One step takes a group out and gives its units the best atoms, each at most one: a
linear assignment. A sweep is such a step for every group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln
from sklearn.utils import check_random_state

from ..compat import tracked
from ._sums import PairSums, SumTable, Units, squares

# Share of the prior's precision up to which what is left without it is rounding, of
# float32 too: units said nothing of such a number.
NO_EVIDENCE = 1e-6
# Share of the objective within which two first passes came to the same: deep networks
# whose passes differ by 1e-6 of it have other assignments.
_SAME_OBJECTIVE = 1e-9
# Sigma, as a share of the median norm of a layer's neurons. Small: where it is large,
# how many nodes use an atom outweighs what its neurons are like.
SIGMA = 0.1
# Sigma of atoms, as a multiple of a node's sigma, with several hidden layers. At 1 the
# prior halves a unit that one node has, and halves again what leads on from it. That
# costs four layers on MNIST 3 to 11 points, and one layer none.
DEEP_SIGMA0 = 3.0
# What a new atom costs, in squares of the median norm: the first that explains enough.
# It costs -2 log(mass), a neuron all unlike its atom |v|^2 / sigma^2 or so. At the last
# even equal neurons stay apart. Prices below zero are for networks of common first
# weights, whose units stay alike where rows say nothing: of ten nodes of MNIST with
# digits by Dirichlet(0.2) 0.48 is right at a price of 0, 0.81 at the last.
PRICES = (0.2, 0.16, 0.12, 0.08, 0.04, 0.0, -0.1, -0.2, -0.3, -0.4, -0.5)
# The same, tried before these, where there are several hidden layers: where the prior
# draws little to zero, to stay apart costs little, and only a price makes atoms join.
DEEP_PRICES = (2.0, 1.5, 1.2, 1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.25)
# What the atoms must explain of the neurons' squared norm, of what is beyond chance: a
# mean of n neurons that have nothing in common explains 1 / n. So nodes that share few
# classes keep more of their neurons.
EXPLAINED = 5 / 8
# The same with several hidden layers, whose errors add up. Ten networks of two to four
# layers, in 20 sets of MNIST and CIFAR-10: 0.75 is 0.3 points less accurate with 6 %
# fewer units, 0.85 is 0.3 points more accurate with 8 % more.
DEEP_EXPLAINED = 0.8
# What they must explain of outgoing weights alone, by nodes' shares of classes, of what
# is beyond chance. They are few beside incoming ones, but say what a neuron is for. At
# five nodes of digits by Dirichlet(0.1) that share first weights 0.53 is right with a
# half, 0.78 with 3/4. Networks of MNIST of other first weights have 0.74 at least.
EXPLAINED_OUTGOING = 0.7
# How much more atoms may explain after further sweeps than after the first. Networks of
# MNIST came to 0.03 more where atoms explained half, and small ones of digits to 0.1.
_MOST_GROWTH = 0.15
# Products of two exponentials of as much do not overflow, and none of minus this is a
# mass of 0, which has no logarithm.
_MOST_LOG_MASS = np.log(np.sqrt(np.finfo(np.float64).max))


@dataclass(frozen=True, kw_only=True, eq=False)
class Atoms:
    """Gaussian beliefs about numbers of each atom; the first have one precision."""

    linear: np.ndarray = field(repr=False)  # (n_atoms, n_numbers): precision times mean
    # (n_atoms, 1 + n_numbers - n_shared): of the shared numbers, then of each other.
    precision: np.ndarray = field(repr=False)
    n_shared: int

    @property
    def mean(self) -> np.ndarray:
        return scaled(
            self.linear, self.precision, n_shared=self.n_shared, operation=np.divide
        )

    def subtract_prior(self, prior_precision: float) -> np.ndarray:
        """Return each atom by its neurons alone; zero where these say nothing."""
        precision = self.precision - self.precision.dtype.type(prior_precision)
        precision = np.where(
            precision <= NO_EVIDENCE * prior_precision, np.inf, precision
        )
        return scaled(
            self.linear, precision, n_shared=self.n_shared, operation=np.divide
        )

    def __len__(self) -> int:
        return len(self.linear)


def scaled(
    V: np.ndarray,  # (n_rows, n_numbers)
    precision: np.ndarray,  # as in Atoms, a row for all or one for each
    *,
    n_shared: int,
    operation: np.ufunc = np.multiply,
) -> np.ndarray:
    """Return neurons times, or divided by, the precision of each of their numbers."""
    product = operation(V, precision[..., :1])
    product[:, n_shared:] = operation(V[:, n_shared:], precision[..., 1:])
    return product


def evidence_gains(
    products: np.ndarray,  # (n_atoms, n_neurons): v times a, of the shared numbers
    precision: np.ndarray,  # p, one row as in Atoms
    *,
    factors: np.ndarray,  # neuron_factors of v
    atoms: np.ndarray,  # a, (n_atoms, n_numbers - n_shared): their other numbers
    atom_precision: np.ndarray,  # q
    atom_squares: np.ndarray,  # squares(a, n_shared)
    atom_terms: np.ndarray,  # (n_atoms,): added whatever neuron comes
) -> np.ndarray:
    """Compute what neurons add: sum of (a_d + p_d v_d)^2/(q_d + p_d) - a_d^2/q_d.

    That is ``2 a p v / (q + p) + p^2 v^2 / (q + p) + a^2 (1 / (q + p) - 1 / q)``. The
    array has a row for each atom and a column for each neuron.
    """
    inverse = 1.0 / (atom_precision + precision)
    change = inverse - 1.0 / atom_precision
    # All but the large products are products of a few factors.
    atom_factors = np.empty((len(atoms), factors.shape[1]), dtype=products.dtype)
    n_columns = inverse.shape[1]
    atom_factors[:, :n_columns] = inverse
    np.multiply(atoms, inverse[:, 1:], out=atom_factors[:, n_columns:-2])
    atom_factors[:, -2] = np.einsum("id,id->i", atom_squares, change)
    atom_factors[:, -2] += atom_terms
    atom_factors[:, -1] = 1.0
    gains = atom_factors @ factors.T
    gains += products * (2.0 * precision[0] * inverse[:, :1])
    return gains


def neuron_factors(
    V: np.ndarray,  # v
    precision: np.ndarray,
    *,
    n_shared: int,
    neuron_squares: np.ndarray,  # squares(v, n_shared)
    neuron_terms: np.ndarray,  # (n_neurons,): added whatever atom a neuron goes to
) -> np.ndarray:
    """Return what evidence_gains needs of neurons, beside products: a row for each."""
    columns = [
        neuron_squares * precision**2,
        V[:, n_shared:] * (2.0 * precision[1:]),
        np.ones((len(V), 1)),
        neuron_terms[:, None],
    ]
    return np.hstack(columns, dtype=V.dtype, casting="same_kind")


def first_evidence(
    neuron_squares: np.ndarray,  # as in evidence_gains
    precision: np.ndarray,
    *,
    prior_precision: float,
) -> np.ndarray:
    """Return the evidence gain of a new atom, a = 0 and q = ``prior_precision``."""
    return neuron_squares @ (precision**2 / (prior_precision + precision))


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerMatch:
    assignments: list[np.ndarray] = field(repr=False)  # atom of each group's neurons
    atoms: Atoms = field(repr=False)  # their posterior
    popularity: np.ndarray = field(repr=False)  # (n_atoms,): groups that use each atom
    # (n_iter + 1,): log-posterior, up to a constant, of the first pass and each sweep.
    objective: np.ndarray = field(repr=False)
    n_iter: int  # sweeps after the first pass
    converged: bool  # whether no assignment changes any more
    explained: float = 1.0  # explained_share of the neurons
    explained_outgoing: float = 1.0  # the same of their outgoing weights
    # (n_atoms, n_shared): what a merged network adds to the sums of shared numbers, so
    # that its incoming weights are other means than those of the posterior; or None.
    excess: np.ndarray | None = field(default=None, repr=False)

    @property
    def uses(self) -> np.ndarray:
        """Report whether each group uses each atom, 1 or 0, (n_groups, n_atoms)."""
        n_atoms = len(self.atoms)
        return np.stack(
            [np.bincount(atoms, minlength=n_atoms) for atoms in self.assignments]
        )

    @property
    def merged_atoms(self) -> Atoms:
        """Return the atoms as a merged network takes them, with the excess."""
        if self.excess is None:
            return self.atoms
        linear = self.atoms.linear.copy()
        linear[:, : self.atoms.n_shared] += self.excess
        return replace(self.atoms, linear=linear)


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """What earlier steps of a stream left: the prior of this step."""

    atoms: Atoms  # their posterior
    counts: np.ndarray  # (n_groups, n_atoms): earlier uses of each atom by each group
    n_steps: int  # earlier steps, at least 1


def canonical_order(groups: Sequence[np.ndarray]) -> np.ndarray:
    """Order of groups, largest first, whatever the order of groups and units given."""
    squared_norms = [float(np.sum(np.square(V, dtype=np.float64))) for V in groups]
    # Sums over units are rounded: their last digits depend on the units' order.
    rounded = [float(f"{squared_norm:.9g}") for squared_norm in squared_norms]
    # lexsort takes the last key first.
    return np.lexsort(
        ([-squared_norm for squared_norm in rounded], [-len(V) for V in groups])
    )


def match_layer(
    # (n_neurons_j, n_numbers) each; may have no neuron. Units: of several matches.
    groups: Sequence[np.ndarray] | Units,
    precisions: Sequence[np.ndarray],  # a row each as in Atoms; 0 is no evidence
    *,
    n_shared: int,
    prior_precision: float,  # of an atom's numbers, about zero
    gamma0: float,  # mass of the beta process: how readily new atoms are opened
    max_iter: int = 100,  # sweeps after the first pass
    tol: float = 0.0,  # least gain of a sweep, as a share of the objective's size
    max_units: int | None = None,
    new_atom_cost: str = "exchangeable",  # or "ordered" or "paper"
    history: History | None = None,
    # Where atoms explain less than this share after the first sweep, it is the last.
    least_share: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
) -> LayerMatch:
    """Match neurons of groups to atoms (PFNM 2018, Propositions 1 and 2, Eq. 11)."""
    units = Units.from_groups(groups, n_shared)
    order = canonical_order(units.groups)
    rng = check_random_state(random_state)

    def first_pass(*, ordered_prior: bool) -> _Search:
        matcher = _Matcher(
            units=units,
            precisions=precisions,
            prior_precision=prior_precision,
            gamma0=gamma0,
            max_units=np.inf if max_units is None else max_units,
            ordered_prior=ordered_prior,
            odds_factor=1.0 if new_atom_cost == "paper" else 2.0,
            history=history,
        )
        return _Search(matcher, order=order, rng=rng)

    if new_atom_cost != "exchangeable":
        search = first_pass(ordered_prior=True)
    else:
        search = _better_first_pass(
            first_pass(ordered_prior=False), first_pass(ordered_prior=True), tol=tol
        )
    if least_share > 0 and search.run(max_iter=1, tol=tol).explains_less(least_share):
        return search.best_match()
    return search.run(max_iter=max_iter, tol=tol).best_match()


def _better_first_pass(
    exchangeable: "_Search", ordered: "_Search", *, tol: float
) -> "_Search":
    """Return the search to go on with, with exchangeable new atoms.

    Either first pass may lead to a poor optimum; one sweep shows it.
    """
    ordered.matcher.ordered_prior = False
    objective = exchangeable.run(max_iter=1, tol=tol).objective[-1]
    ordered_objective = ordered.run(max_iter=1, tol=tol).objective[-1]
    # Where they came to the same, rounding must not choose.
    margin = _SAME_OBJECTIVE * abs(objective)
    return ordered if ordered_objective > objective + margin else exchangeable


class _Search:
    """Sweeps of groups in random order; ``objective``: of the first pass and each."""

    def __init__(
        self, matcher: "_Matcher", *, order: np.ndarray, rng: np.random.RandomState
    ) -> None:
        self.matcher = matcher
        self.order = order
        self.rng = rng
        for group in order:
            matcher.step(group)
        self.objective = [matcher.objective()]
        self.best_rows = list(matcher.rows)
        # Nothing changes for a group unless another one changed since its last step.
        self.n_unchanged = 0
        self.converged = len(order) == 1
        self.gain = np.inf  # of the last sweep

    def run(self, *, max_iter: int, tol: float) -> "_Search":
        """Sweep until nothing changes or little is gained, or so often in all."""
        while not self.converged and len(self.objective) <= max_iter:
            if tol and self.gain < tol * abs(self.objective[-1]):
                break
            self._sweep()
        return self

    def _sweep(self) -> None:
        order = self.order[self.rng.permutation(len(self.order))]
        for group in tracked(order, f"sweep {len(self.objective)}"):
            changed = self.matcher.step(group)
            self.n_unchanged = 0 if changed else self.n_unchanged + 1
            self.converged = self.n_unchanged >= len(self.order)
            if self.converged:
                break
        self.objective.append(self.matcher.objective())
        self.gain = self.objective[-1] - max(self.objective[:-1])
        # Under the ordered prior a sweep may lower the objective.
        if self.gain > 0:
            self.best_rows = list(self.matcher.rows)

    def explains_less(self, share: float) -> bool:
        """Report whether atoms explain less, though there may be more of them."""
        rows = [rows for rows in self.best_rows if rows is not None]
        if not rows or len(np.unique(np.concatenate(rows))) == self.matcher.max_units:
            return False
        groups = [V for V in self.matcher.groups if len(V)]
        return explained_share(groups, rows) < share

    def best_match(self) -> LayerMatch:
        return self.matcher.match_of_rows(
            self.best_rows,
            objective=np.array(self.objective),
            converged=self.converged,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class _Matcher:
    """The assignment of all groups, and the atoms' posterior kept up to date.

    Atoms are rows of tables, those of earlier steps first, which stay. Others lie
    where there was room: a row that no group uses has the prior, and is used again.
    """

    units: Units
    precisions: Sequence[np.ndarray]
    prior_precision: float
    gamma0: float
    max_units: float = np.inf
    # Whether the i-th new atom of a group costs 2 log(i) more, as in the paper.
    ordered_prior: bool = False
    # Of the log odds of an atom that others use. Twice the log-posterior has 2, the
    # paper's Equation 9 has 1.
    odds_factor: float = 2.0
    history: History | None = None

    def __post_init__(self) -> None:
        self.groups = self.units.groups
        self.n_shared = self.units.n_shared
        self.n_groups = len(self.groups)
        self.dtype = self.units.dtype
        self.rows: list = [None] * self.n_groups  # of each group's neurons
        self.factors: list = [None] * self.n_groups  # see _neuron_factors
        # Of a new atom: log(gamma0 / J), over the steps of a stream.
        self.log_odds_of_new = np.log(self.gamma0 / self.n_groups)
        if self.history is None:
            self.base = Atoms(
                linear=np.zeros((0, self.groups[0].shape[1])),
                precision=np.zeros((0, len(self.precisions[0]))),
                n_shared=self.n_shared,
            )
        else:
            self.base = self.history.atoms
            self._set_odds_of_stream(self.history)
        self.n_base = len(self.base)
        self.n_rows = self.n_base  # those in use, with gaps
        self.sums: SumTable | PairSums = SumTable(
            self.units,
            np.array([precision[0] for precision in self.precisions]),
            self.base.linear[:, : self.n_shared],
        )
        # (n_rows, n_numbers - n_shared): sums of the other numbers
        self.others = self.base.linear[:, self.n_shared :].astype(self.dtype)
        self.precision = self.base.precision.astype(self.dtype)
        # They are kept up to date by adding, so with more digits than the sums.
        self.base_squares = squares(self.base.linear, self.n_shared)
        self.squares = self.base_squares.astype(np.float64)
        self.popularity = np.zeros(self.n_base, dtype=np.intp)
        self._make_room(max(len(V) for V in self.groups))

    def _set_odds_of_stream(self, history: History) -> None:
        """Return odds that a group uses an atom: by how often it did, of all steps."""
        n_steps = history.n_steps + 1
        self.log_odds_of_new -= np.log(n_steps)
        # (n_groups, n_base)
        self.log_odds = np.log(1 + history.counts) - np.log(n_steps - history.counts)
        # Of atoms that another group opened in this step: used in none before.
        self.log_odds_of_young = -np.log(n_steps)

    def _make_room(self, n_rows: int) -> None:
        """Lengthen the tables to so many rows, or to twice as many as they have."""
        n_more = max(n_rows, 2 * len(self.popularity)) - len(self.popularity)
        padding = ((0, n_more), (0, 0))
        self.others = np.pad(self.others, padding)
        self.precision = np.pad(
            self.precision, padding, constant_values=self.prior_precision
        )
        self.squares = np.pad(self.squares, padding)
        self.popularity = np.pad(self.popularity, (0, n_more))
        self.sums.make_room(len(self.popularity))

    def step(self, group: int) -> bool:
        """Give one group its best assignment; whether that changed it."""
        if not len(self.groups[group]):
            return False
        old_rows = self.rows[group]
        if old_rows is not None:
            self._take_out(group, old_rows)
        is_used = self.popularity[: self.n_rows] > 0
        is_used[: self.n_base] = True
        atoms = np.flatnonzero(is_used)
        if self._pairs_are_cheaper(group, n_atoms=len(atoms)):
            self.units.make_pair_products()
            self.sums = PairSums(
                self.units,
                self.sums.weights,
                self.rows,
                n_rows=len(self.popularity),
            )
            self.sums.remove(group, old_rows)
        products = self.sums.products(group, atoms)
        if old_rows is not None:
            self._shrink_squares(group, old_rows, atoms=atoms, products=products)
        columns = self._best_columns(group, atoms=atoms, products=products)
        rows = self._rows_of_columns(columns, old_rows=old_rows, is_used=is_used)
        self._put_in(group, rows, columns=columns, products=products)
        self.rows[group] = rows
        return old_rows is None or not np.array_equal(rows, old_rows)

    def _pairs_are_cheaper(self, group: int, *, n_atoms: int) -> bool:
        """Report whether to go on with products of pairs from this step on."""
        # Sums of earlier steps of a stream have no products with units.
        if self.n_base or isinstance(self.sums, PairSums):
            return False
        return self.units.pairs_have_paid(group, n_atoms)

    def _take_out(self, group: int, rows: np.ndarray) -> None:
        """Take a group out of all but the shared squares of atoms that stay."""
        precision = self.precisions[group]
        self.popularity[rows] -= 1
        self.sums.remove(group, rows)
        self.others[rows] -= self._other_numbers(group) * precision[1:]
        self.precision[rows] -= precision
        # Rounding must not stay behind where nothing else is.
        empty = rows[self.popularity[rows] == 0]
        self.sums.clear(empty)
        self.others[empty] = 0.0
        self.precision[empty] = self.prior_precision
        self.squares[empty] = 0.0
        empty_base = empty[empty < self.n_base]
        self.others[empty_base] = self.base.linear[empty_base, self.n_shared :]
        self.precision[empty_base] = self.base.precision[empty_base]
        self.squares[empty_base] = self.base_squares[empty_base]
        self.squares[rows, 1:] = np.square(self.others[rows])

    def _shrink_squares(
        self,
        group: int,
        rows: np.ndarray,
        *,
        atoms: np.ndarray,
        products: np.ndarray,
    ) -> None:
        """Take a group out of the squares of shared numbers, |a|^2."""
        neurons = np.flatnonzero(self.popularity[rows] > 0)
        columns = np.searchsorted(atoms, rows[neurons])
        p = float(self.precisions[group][0])
        # |a|^2 = |a + p v|^2 - 2 p a v - p^2 |v|^2
        self.squares[rows[neurons], 0] -= (
            2.0 * p * products[columns, neurons]
            + p**2 * self.units.squares[group][neurons, 0]
        )

    def _put_in(
        self,
        group: int,
        rows: np.ndarray,
        *,
        columns: np.ndarray,
        products: np.ndarray,
    ) -> None:
        precision = self.precisions[group]
        self.popularity[rows] += 1
        self.sums.add(group, rows)
        self.others[rows] += self._other_numbers(group) * precision[1:]
        self.precision[rows] += precision
        self.squares[rows, 1:] = np.square(self.others[rows])
        p = float(precision[0])
        joins = np.flatnonzero(columns < len(products))
        self.squares[rows, 0] += p**2 * self.units.squares[group][:, 0]
        self.squares[rows[joins], 0] += 2.0 * p * products[columns[joins], joins]

    def _other_numbers(self, group: int) -> np.ndarray:
        return self.groups[group][:, self.n_shared :]

    def _log_odds(self, group: int, atoms: np.ndarray) -> np.ndarray:
        """Return log odds that a group uses each of the atoms, by those that do."""
        if self.history is None:
            users = self.popularity[atoms]
            return np.log(users / (self.n_groups - users))
        log_odds = np.full(len(atoms), self.log_odds_of_young)
        log_odds[: self.n_base] = self.log_odds[group]
        return log_odds

    def _best_columns(
        self, group: int, *, atoms: np.ndarray, products: np.ndarray
    ) -> np.ndarray:
        """Best place of each neuron among atoms in use; n_atoms + i is new atom i."""
        n_neurons = len(self.groups[group])
        n_atoms = len(atoms)
        gains = self._gains(group, atoms=atoms, products=products)
        n_new = int(min(n_neurons, max(self.max_units - n_atoms, 0)))
        if n_new == n_neurons:
            if self.ordered_prior:
                return _columns_at_rising_price(gains)
            return _columns_that_beat_new_atoms(gains)
        price = -2.0 * self.ordered_prior * np.log1p(np.arange(n_new))
        table = np.hstack([gains.T, np.broadcast_to(price, (n_neurons, n_new))])
        return linear_sum_assignment(table, maximize=True)[1]

    def _gains(
        self, group: int, *, atoms: np.ndarray, products: np.ndarray
    ) -> np.ndarray:
        """Twice the log-posterior of each neuron at each atom, over that at a new one.

        The array has a row for each of ``atoms`` and a column for each neuron.
        """
        return evidence_gains(
            products,
            self.precisions[group],
            factors=self._neuron_factors(group),
            atoms=self.others[atoms],
            atom_precision=self.precision[atoms],
            atom_squares=self.squares[atoms],
            atom_terms=self.odds_factor * self._log_odds(group, atoms),
        )

    def _neuron_factors(self, group: int) -> np.ndarray:
        """Return the `neuron_factors` of a group over a new atom, computed once."""
        if self.factors[group] is None:
            new = first_evidence(
                self.units.squares[group],
                self.precisions[group],
                prior_precision=self.prior_precision,
            )
            self.factors[group] = neuron_factors(
                self.groups[group],
                self.precisions[group],
                n_shared=self.n_shared,
                neuron_squares=self.units.squares[group],
                neuron_terms=-(new + 2.0 * self.log_odds_of_new),
            )
        return self.factors[group]

    def _rows_of_columns(
        self,
        columns: np.ndarray,
        *,
        old_rows: np.ndarray | None,
        is_used: np.ndarray,
    ) -> np.ndarray:
        """Rows of the chosen columns; a neuron that stays alone keeps its row."""
        atoms = np.flatnonzero(is_used)
        rows = np.empty(len(columns), dtype=np.intp)
        is_new = columns >= len(atoms)
        rows[~is_new] = atoms[columns[~is_new]]
        is_free = ~is_used
        if old_rows is not None:
            # Rows beyond those that are looked at are not used by others either.
            is_used_by_others = np.append(is_used, False)[
                np.minimum(old_rows, len(is_used))
            ]
            stays = is_new & ~is_used_by_others
            rows[stays] = old_rows[stays]
            is_free[old_rows[stays]] = False
            is_new &= ~stays
        n_new = np.count_nonzero(is_new)
        free_rows = np.flatnonzero(is_free)[:n_new]
        n_more = n_new - len(free_rows)
        if self.n_rows + n_more > len(self.popularity):
            self._make_room(self.n_rows + n_more)
        rows[is_new] = np.append(free_rows, self.n_rows + np.arange(n_more))
        self.n_rows += n_more
        return rows

    def objective(self) -> float:
        """Return log-posterior of the assignments of all groups, up to a constant."""
        users = self.popularity[: self.n_rows]
        is_used = users > 0
        fits = np.sum(
            self.squares[: self.n_rows] / self.precision[: self.n_rows], axis=1
        )
        evidence = 0.5 * np.sum(fits[is_used].astype(np.float64))
        if self.history is None:
            return self._with_prior(evidence, users[is_used])
        return self._with_prior_of_stream(evidence, users)

    def _with_prior(self, evidence: float, users: np.ndarray) -> float:
        """Return evidence, and the log of the Indian buffet of J groups and K atoms.

        That is ``K log(gamma0) + sum of log((J - m)! (m - 1)! / J!)`` for atoms that m
        groups use each.
        """
        J = self.n_groups
        orders = gammaln(J - users + 1) + gammaln(users) - gammaln(J + 1)
        new = len(users) * (self.log_odds_of_new + np.log(J))
        return float(evidence + new + np.sum(orders))

    def _with_prior_of_stream(self, evidence: float, users: np.ndarray) -> float:
        """Evidence of this step alone, and the log odds of what its groups use."""
        is_used = users > 0
        earlier = squares(self.base.linear, self.n_shared) / self.base.precision
        total = evidence
        total -= 0.5 * np.sum(np.sum(earlier, axis=1)[is_used[: self.n_base]])
        # Atoms of this step: the first group that uses one opened it.
        young = users[self.n_base :][is_used[self.n_base :]]
        total += np.sum(self.log_odds_of_new + (young - 1) * self.log_odds_of_young)
        for rows, log_odds in zip(self.rows, self.log_odds, strict=True):
            if rows is not None:
                total += np.sum(log_odds[rows[rows < self.n_base]])
        return float(total)

    def match_of_rows(
        self,
        rows_by_group: Sequence[np.ndarray | None],  # None: a group without neurons
        *,
        objective: np.ndarray,
        converged: bool,
    ) -> LayerMatch:
        """The match in which each neuron is at such a row, with atoms without gaps."""
        empty = np.empty(0, dtype=np.intp)
        rows_by_group = [empty if rows is None else rows for rows in rows_by_group]
        popularity = np.bincount(np.concatenate(rows_by_group), minlength=self.n_base)
        is_used = popularity > 0
        is_used[: self.n_base] = True
        atom_of_row = np.cumsum(is_used) - 1
        assignments = [atom_of_row[rows] for rows in rows_by_group]
        return LayerMatch(
            assignments=assignments,
            atoms=self._posterior(assignments, n_atoms=np.count_nonzero(is_used)),
            popularity=popularity[is_used],
            objective=objective,
            n_iter=len(objective) - 1,
            converged=converged,
            explained=explained_share(self.groups, rows_by_group),
            explained_outgoing=explained_share(
                [self._other_numbers(group) for group in range(self.n_groups)],
                rows_by_group,
                precisions=[precision[1:] for precision in self.precisions],
            ),
        )

    def _posterior(self, assignments: Sequence[np.ndarray], *, n_atoms: int) -> Atoms:
        """Summed afresh, so that it does not depend on the path to the assignments."""
        padding = ((0, n_atoms - self.n_base), (0, 0))
        linear = np.pad(self.base.linear.astype(self.dtype), padding)
        precision = np.pad(
            self.base.precision.astype(self.dtype),
            padding,
            constant_values=self.prior_precision,
        )
        for V, group_precision, atoms in zip(
            self.groups, self.precisions, assignments, strict=True
        ):
            linear[atoms] += scaled(V, group_precision, n_shared=self.n_shared)
            precision[atoms] += group_precision
        return Atoms(linear=linear, precision=precision, n_shared=self.n_shared)


def _columns_that_beat_new_atoms(gains: np.ndarray) -> np.ndarray:
    """Return the best assignment where each neuron may have a new atom, which gains 0.

    ``gains`` is (n_atoms, n_neurons). Only what beats a new atom can be in the best
    assignment, so that rows and columns without such are left out before.
    """
    n_atoms, n_neurons = gains.shape
    columns = n_atoms + np.arange(n_neurons)
    is_better = gains > 0
    atoms = np.flatnonzero(is_better.any(axis=1))
    neurons = np.flatnonzero(is_better.any(axis=0))
    worth = np.maximum(gains[np.ix_(atoms, neurons)], 0)
    atom, neuron = linear_sum_assignment(worth, maximize=True)
    beats_new = worth[atom, neuron] > 0
    columns[neurons[neuron[beats_new]]] = atoms[atom[beats_new]]
    return columns


def _columns_at_rising_price(gains: np.ndarray) -> np.ndarray:
    """Return the best assignment where the i-th new atom costs 2 log(i).

    ``gains`` is (n_atoms, n_neurons). Neurons that no atom suits stay out of the table
    of costs: many equal rows take the search of an assignment very long.
    """
    n_atoms, n_neurons = gains.shape
    columns = _columns_that_beat_new_atoms(gains)
    # What is free is not bought less often than what has a price.
    most_new = np.count_nonzero(columns >= n_atoms)
    if most_new == 0:
        return columns
    # A neuron that gains less than this at an atom gains more at one more new atom.
    can_match = gains > -2.0 * np.log1p(most_new)
    atoms = np.flatnonzero(can_match.any(axis=1))
    neurons = np.flatnonzero(can_match.any(axis=0))
    # The others take the first new atoms.
    n_taken = n_neurons - len(neurons)
    prices = 2.0 * np.log1p(np.arange(n_taken, most_new))
    table = np.hstack(
        [
            gains[np.ix_(atoms, neurons)].T,
            np.broadcast_to(-prices, (len(neurons), len(prices))),
        ]
    )
    chosen = linear_sum_assignment(table, maximize=True)[1]
    is_match = chosen < len(atoms)
    columns = n_atoms + np.arange(n_neurons)
    columns[neurons[is_match]] = atoms[chosen[is_match]]
    return columns


def median_norm(groups: Sequence[np.ndarray]) -> float:
    """Return the median norm of all neurons; 1 where it is 0, as it is a divisor."""
    norms = [np.sqrt(np.sum(np.square(V, dtype=np.float64), axis=1)) for V in groups]
    return float(np.median(np.concatenate(norms))) or 1.0


def auto_sigma(groups: Sequence[np.ndarray]) -> float:
    return SIGMA * median_norm(groups)


def match_at_auto_gamma0(
    match_with: Callable[..., LayerMatch],  # of ``gamma0``
    groups: Sequence[np.ndarray],
    *,
    sigma: float,
    n_sharing: float,  # nodes that share what neurons lead to, at least 1
    max_units: int | None = None,
    is_deep: bool = False,  # whether there are several hidden layers
) -> tuple[float, LayerMatch]:
    """Match with the smallest mass, by prices, at which atoms explain the neurons."""
    prices = (*DEEP_PRICES, *PRICES) if is_deep else PRICES
    by_chance = 1 / n_sharing
    explained = DEEP_EXPLAINED if is_deep else EXPLAINED
    least_explained = by_chance + explained * (1 - by_chance)
    squared = (median_norm(groups) / sigma) ** 2
    for price in prices:
        log_mass = np.clip(-price * squared / 2, -_MOST_LOG_MASS, _MOST_LOG_MASS)
        gamma0 = float(np.exp(log_mass))
        # The last price is taken, whatever its atoms explain.
        least_share = least_explained - _MOST_GROWTH if price > PRICES[-1] else 0.0
        match = match_with(gamma0=gamma0, least_share=least_share)
        # Where the cap binds, a larger mass would open no more atoms.
        if len(match.atoms) == max_units:
            break
        outgoing = beyond_chance(match.explained_outgoing, n_sharing)
        if match.explained >= least_explained and outgoing >= EXPLAINED_OUTGOING:
            break
    return gamma0, match


def beyond_chance(share: float, n_sharing: float) -> float:
    """Return the share that is explained of what is left by chance; 1 if none is."""
    by_chance = 1 / n_sharing
    return (share - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0


def explained_share(
    groups: Sequence[np.ndarray],
    assignments: Sequence[np.ndarray],
    *,
    precisions: Sequence[np.ndarray] | None = None,  # (n_numbers,) each; None: equal
) -> float:
    """Return the share of squared norm that remains if each neuron is its atom's mean.

    Means and squares are weighted by the precisions. It is 1 if all squares are 0.
    """
    if precisions is None:
        precisions = [np.ones(1)] * len(groups)
    n_atoms = 1 + np.max(np.concatenate(assignments), initial=0)
    sums = np.zeros((n_atoms, groups[0].shape[1]))
    weights = np.zeros((n_atoms, len(precisions[0])))
    total = 0.0
    for V, precision, atoms in zip(groups, precisions, assignments, strict=True):
        sums[atoms] += V * precision
        weights[atoms] += precision
        total += np.sum(precision * np.square(V, dtype=np.float64))
    # Where nothing is summed up, the sum is 0.
    explained = np.sum(np.square(sums) / np.where(weights > 0, weights, 1.0))
    return float(explained / total) if total > 0 else 1.0
