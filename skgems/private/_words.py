"""What epsilon, delta and rho promise, in sentences for people."""

import math

from ._accounting import Charge, Spent

# Of a float: the odds are said to be at least as large.
_LARGEST_EXPONENT = 700.0


def delta_in_words(delta: float) -> str:
    """Return a delta as it is written by hand: 1e-5, and not 1e-05."""
    return f"{delta:.3g}".replace("e-0", "e-")


def unit_in_words(rows_of_one: int) -> str:
    """Say whose part in the rows is hidden."""
    if rows_of_one == 1:
        return "adding or removing one row"
    return f"adding or removing one person, who has at most {rows_of_one} rows"


def noise_in_words(charge: Charge) -> str:
    """Say in sentences what the noise of a message promises, and who is trusted."""
    spent = Spent([charge], delta=charge.delta)
    twice = Spent([charge, charge], delta=charge.delta)
    odds = math.exp(min(spent.epsilon, _LARGEST_EXPONENT))
    return (
        f"The sums have noise: epsilon {spent.epsilon:.2f} at delta "
        f"{delta_in_words(charge.delta)}, for {unit_in_words(charge.rows_of_one)}. "
        "Whatever anybody does with them, the odds that a person is among the rows "
        f"change by a factor of at most {odds:.3g}, but for a chance of delta. "
        f"rho is {spent.rho:.3g}, from which alone epsilon {spent.epsilon_of_rho:.2f} "
        "would follow. A person with rows at two nodes is charged for both: epsilon "
        f"{twice.epsilon:.2f}. Only the node itself must be trusted, which draws the "
        "noise: neither the server nor other nodes."
    )
