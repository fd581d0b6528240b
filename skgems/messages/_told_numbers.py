"""How many numbers a reply tells of which rows, and what can be guessed from them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..disclosure import guess_advantage, told_share
from ._message import Message
from ._tasks import reply_in, task_named


@dataclass(frozen=True, kw_only=True, eq=False)
class ToldNumbers:
    """Numbers that are sums over the same rows.

    Attributes
    ----------
    rows : mapping of tuple to float
        What the sums are of, as the class and the half of rows, and how many rows. None
        stands for all classes, or for no half.
    n_numbers : float
        How many numbers there are.
    of_a_row : float
        The numbers that one of these rows is in, each over the rows of its sum. Where
        parts of the rows have sums of their own, it is that of the smallest part. It is
        infinite for a number of a single row.
    """

    rows: Mapping[tuple[object, str | None], float]
    n_numbers: float
    of_a_row: float

    def of_classes(self, sizes: Mapping[object, float]) -> "ToldNumbers":
        """Return the same with the classes named where they are of all of them."""
        if (None, None) not in self.rows:
            return self
        rows = {(label, None): n_rows for label, n_rows in sizes.items()}
        return replace(self, rows=rows)

    def as_json(self) -> list:
        """Return lists that `of_json` makes the same of."""
        rows = [[label, half, n_rows] for (label, half), n_rows in self.rows.items()]
        return [rows, float(self.n_numbers), float(self.of_a_row)]

    @classmethod
    def of_json(cls, lists: list) -> "ToldNumbers":
        """Return what `as_json` made lists of."""
        rows, n_numbers, of_a_row = lists
        return cls(
            rows={(label, half): n_rows for label, half, n_rows in rows},
            n_numbers=n_numbers,
            of_a_row=of_a_row,
        )

    def of_half(self, half: str) -> "ToldNumbers":
        """Return the same of rows that are one half."""
        rows = {(label, half): n_rows for (label, _), n_rows in self.rows.items()}
        return replace(self, rows=rows)


def told_in_words(message: Message, *, n_columns: int | None = None) -> str:
    """Return in two sentences what can be guessed; empty where no sums are told.

    Parameters
    ----------
    message : Message
        A reply, or a summary.
    n_columns : int, default=None
        Columns of the table before any front; None: as many as the message has of them.
    """
    told = list(told_numbers(message))
    if not told:
        return ""
    if n_columns is None:
        n_columns = _n_columns_in(message)
    (label, half), advantage = _best_guess(told)
    rows = "a row" if label is None else f"a row of class {label!r}"
    if half is not None:
        rows += f" in the {half} half"
    sentences = (
        f"Whoever knows {rows} can guess from these sums whether it took part, up to "
        f"{advantage:.2f} better than chance (0: no better; 1: always right)."
    )
    if n_columns is None:
        return sentences
    return (
        f"{sentences} The numbers told are {_largest_share(told, n_columns):.2f} times "
        "as many as the numbers that the rows are."
    )


def told_numbers(message: Message) -> Iterator[ToldNumbers]:
    """Yield what the parts of a reply tell, of classes and halves of the rows."""
    told = task_named(message.task).told
    if told is not None:
        yield from told(reply_in(message))


def _n_columns_in(message: Message) -> int | None:
    """Return how many columns a message says that the node has; None: it does not."""
    n_columns = task_named(message.task).n_columns
    return None if n_columns is None else n_columns(reply_in(message))


def _best_guess(
    told: Iterable[ToldNumbers],
) -> tuple[tuple[object, str | None], float]:
    """Return of which rows it is guessed best whether one took part, and how well."""
    sums: dict[tuple[object, str | None], float] = {}
    for numbers in told:
        for key in numbers.rows:
            sums[key] = sums.get(key, 0.0) + numbers.of_a_row
    best = max(sums, key=sums.__getitem__)
    return best, guess_advantage(sums[best], 1.0)


def _largest_share(told: list[ToldNumbers], n_columns: int) -> float:
    """Return the largest share of numbers told, of all sets of rows with such numbers.

    Numbers of some of the rows of a set are told of the set, too.
    """
    shares = []
    for numbers in told:
        keys = numbers.rows.keys()
        n_numbers = sum(other.n_numbers for other in told if other.rows.keys() <= keys)
        shares.append(told_share(n_numbers, sum(numbers.rows.values()), n_columns))
    return max(shares)
