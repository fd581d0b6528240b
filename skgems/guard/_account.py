"""What a node's replies with noise have spent, as its ledger counts it.

The account belongs to the ledger, whatever rows the replies were of: two tables of one
hospital may have the same people. A reply that is sent again spends nothing, as it has
the noise that it had.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Self

from ..messages import NotAgreedError, counting
from ..private import Charge, Spent, delta_in_words, unit_in_words

# An epsilon that was spent is above the one that was agreed by no more than this share:
# the sigma between them is rounded.
_ROUNDING = 1e-6


class NoiseSpentError(NotAgreedError):
    """The noise of a reply would not keep what its epsilon promises.

    Either the node's replies would spend more than ``most_epsilon`` of
    :class:`~skgems.guard.Limits`, or the same rows were, or would be, told of
    without noise.
    """


@dataclass(frozen=True, kw_only=True)
class Account:
    """What the entries of a ledger have spent, and what its owner allows."""

    spent: Spent
    n_exchanges: int  # in which something was spent
    most_epsilon: float | None  # the last limit of the owner; None: nothing was spent
    rows_of_one: int  # rows that one person has at most, as the exchanges say

    @classmethod
    def from_entries(cls, entries: Iterable[Mapping]) -> Self:
        """Add up the entries of a ledger."""
        with_noise = [entry for entry in entries if entry.get("charges")]
        charges = [
            Charge(**charge) for entry in with_noise for charge in entry["charges"]
        ]
        return cls(
            spent=Spent(charges),
            n_exchanges=len({entry["exchange"] for entry in with_noise}),
            most_epsilon=with_noise[-1]["most_epsilon"] if with_noise else None,
            rows_of_one=max((charge.rows_of_one for charge in charges), default=1),
        )

    def check_allows(
        self, charges: Iterable[Charge], *, most_epsilon: float, node: str
    ) -> None:
        """Raise NoiseSpentError if more than ``most_epsilon`` would be spent."""
        after = Spent([*self.spent.charges, *charges])
        if after.epsilon <= most_epsilon * (1.0 + _ROUNDING):
            return
        before = Spent(self.spent.charges, delta=after.delta)
        left = before.epsilon_left(most_epsilon) * (1.0 + _ROUNDING)
        left = math.floor(100.0 * left) / 100.0
        raise NoiseSpentError(
            f"Node {node!r} has spent epsilon {before.epsilon:.2f} of "
            f"{most_epsilon:.2f} at delta {delta_in_words(after.delta)}, by "
            f"{counting(self.n_exchanges, 'exchange')}. With this reply it would be "
            f"{after.epsilon:.2f}. Nothing was computed. What is left for one more "
            f"reply is epsilon {left:.2f}: have the server ask for no more. If the "
            f"owner of the rows allows more, raise most_epsilon: limits="
            f"Limits(most_epsilon={_rounded_up(after.epsilon)}), or on the "
            f"command line --limit most_epsilon={_rounded_up(after.epsilon)}."
        )

    def as_dict(self) -> dict[str, float | int | None]:
        """Return its numbers, as JSON has them."""
        return {
            "epsilon": self.spent.epsilon,
            "most_epsilon": self.most_epsilon,
            "delta": self.spent.delta,
            "rho": self.spent.rho,
            "epsilon_of_rho": self.spent.epsilon_of_rho,
            "n_exchanges": self.n_exchanges,
            "rows_of_one": self.rows_of_one,
        }

    def says(self, *, most_epsilon: float | None = None) -> str:
        """Return what was spent in sentences; None stands for the last limit."""
        if not self.spent.charges:
            return "These rows: nothing was spent, as no reply had noise."
        most = self.most_epsilon if most_epsilon is None else most_epsilon
        return (
            f"These rows: epsilon {self.spent.epsilon:.2f} of {most:.2f} spent at "
            f"delta {delta_in_words(self.spent.delta)}, by "
            f"{counting(self.n_exchanges, 'exchange')}; "
            f"{unit_in_words(self.rows_of_one)}. By rho alone, which is "
            f"{self.spent.rho:.4f}, it would be epsilon "
            f"{self.spent.epsilon_of_rho:.2f}."
        )


def has_noise(entry: Mapping) -> bool:
    """Report whether an entry of a ledger is of a request for sums with noise."""
    return entry.get("has_noise", False)  # entries of earlier versions do not say it


def charges_as_json(charges: Iterable[Charge]) -> list[dict]:
    """Return charges as an entry of the ledger has them."""
    return [asdict(charge) for charge in charges]


def _rounded_up(epsilon: float) -> float:
    """Return epsilon with two decimals, so that it is allowed."""
    return math.ceil(100.0 * epsilon / (1.0 + _ROUNDING)) / 100.0
