"""What is said of privacy by numbers: the file that all agree on, and the account."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from ..channels import METHODS
from ..guard import account_in, inspect
from ..messages import MOST_HEADER, naming, read_bytes, signed, write_bytes
from ..private import Privacy, charge_of, noise_in_words
from ._files import composed
from ._node import check_consent, confirm, limits_of, rows_under, say_written

_BEGINNING = """\
What is written here is public, and the same at all nodes. Take classes and bounds from
a book or a guideline, and never from the rows.
"""


def privacy_command(args: argparse.Namespace) -> int:
    """Ask for all facts that are public, and for epsilon, and write them to a file."""
    place = Path(args.file)
    if place.exists() and not args.yes:
        raise ValueError(f"{place}: this file exists already. Add --yes to replace it.")
    print(_BEGINNING)
    privacy = _asked_privacy()
    content = {name: getattr(privacy, name) for name in _NAMES}
    write_bytes(place, f"{json.dumps(content, indent=1)}\n".encode(), mode=0o644)
    print(f"\nWritten to {place}. Send it to the server and to all nodes.")
    print(noise_in_words(charge_of(privacy)))
    return 0


def summarize_command(args: argparse.Namespace) -> int:
    """Write a summary with noise, which the ledger counts, if its owner agrees."""
    place = Path(args.to or f"{args.name}.safetensors")
    check_consent(place, args)
    privacy = read_privacy(args.privacy)
    rows = rows_under(privacy, args)
    # Whatever is made of its sums, they are the same.
    aggregator = METHODS["GEMSLogisticAggregator"](privacy=privacy)
    summary = aggregator.summarize(
        None,
        rows.X,
        rows.y,
        name=args.name,
        held_out=rows.held_out,
        groups=rows.groups,
        state=args.state,
        limits=limits_of(args.limits),
    )
    message = summary.message
    if args.key:
        message = signed(message, args.key)
    if not confirm(message, args=args, place=place):
        print(
            "Nothing was written. The noise is drawn, counted and kept: the same rows "
            "get the same summary."
        )
        return 1
    message.save(place)
    say_written(place)
    print(account_in(args.state).says())
    return 0


def ledger_command(args: argparse.Namespace) -> int:
    """Say what the replies of a node have spent, and list them."""
    if not Path(args.folder).is_dir():
        raise FileNotFoundError(f"{args.folder}: there is no such folder.")
    inspected = inspect(args.folder)  # first, as it says where there is no ledger
    if args.json:
        print(json.dumps(account_in(args.folder).as_dict(), indent=1))
    else:
        print(inspected.words)
    return 0


def read_privacy(path: str) -> Privacy:
    """Return the privacy of a file; ValueError, which names it, for any other file."""
    file_bytes = read_bytes(path, most=MOST_HEADER)
    with naming(path):
        try:
            content = json.loads(file_bytes)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not JSON: {error!s:.200}.") from None
        if not isinstance(content, dict) or set(content) - set(_NAMES):
            raise ValueError(
                "it is not a file of skgems privacy, which has the names "
                f"{', '.join(_NAMES)}."
            )
        privacy = Privacy.from_value(Privacy(**content))
        if privacy.epsilon is None:
            raise ValueError("epsilon is missing. Write it with skgems privacy.")
        return privacy


_NAMES = tuple(Privacy._get_param_names())


def _asked_privacy() -> Privacy:
    """Ask question by question; a question whose answer is wrong is asked again."""
    classes = _asked("Classes, separated by commas", _as_classes)
    columns = _asked("Columns of numbers, separated by commas", _as_names)
    low = {}
    high = {}
    for column in columns:
        question = f"Smallest and largest value that {column} can have, such as 0 90"
        low[column], high[column] = _asked(question, _as_bounds)
    return Privacy.from_value(
        Privacy(
            classes=classes,
            low=low,
            high=high,
            epsilon=_asked("epsilon: smaller is safer", _as_epsilon, default="1"),
            delta=_asked(
                "delta: well below one in the number of people",
                _as_delta,
                default="1e-5",
            ),
            rows_of_one=_asked(
                "Rows that one person has at most, over all nodes",
                _as_whole,
                default="1",
            ),
        )
    )


def _asked(
    question: str, read: Callable[[str], object], *, default: str = ""
) -> object:
    """Return the answer to a question, as it is read; asks until it can be read."""
    shown = f"{question} [{default}]: " if default else f"{question}: "
    while True:
        try:
            answer = input(shown).strip() or default
        except EOFError:
            raise ValueError(
                f"the input ended before this was answered: {question}. Nothing was "
                "written."
            ) from None
        try:
            return read(composed(answer))
        except ValueError as error:
            print(f"  {error}")


def _as_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ValueError("Write each name once, with commas between them.")
    return names


def _as_classes(text: str) -> list:
    """Return labels: whole numbers if all of them are, as they are read of tables."""
    names = _as_names(text)
    if len(names) < 2:
        raise ValueError("Write two classes or more, with commas between them.")
    if all(name.lstrip("+-").isdecimal() for name in names):
        return list(map(int, names))
    return names


def _as_bounds(text: str) -> list[float]:
    numbers = [_as_number(word) for word in text.replace(",", " ").split()]
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise ValueError("Write two numbers, the smaller one first.")
    return numbers


def _as_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number.") from None
    if not abs(number) < float("inf"):
        raise ValueError(f"{text!r} is not a finite number.")
    return number


def _as_epsilon(text: str) -> float:
    number = _as_number(text)
    if number <= 0:
        raise ValueError("Write a number above 0.")
    return number


def _as_delta(text: str) -> float:
    number = _as_number(text)
    if not 0 < number < 1:
        raise ValueError("Write a number between 0 and 1, such as 1e-5.")
    return number


def _as_whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("Write a whole number of 1 or more.")
    return int(text)
