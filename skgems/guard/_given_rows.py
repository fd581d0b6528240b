"""What a node gives to be summarized: rows, or chunks of them, and not both."""

from collections.abc import Mapping
from typing import NoReturn


def raise_without_rows(name: str) -> NoReturn:
    raise ValueError(
        f"Node {name!r}: pass X and y, or chunks=, a function that returns them chunk "
        "by chunk."
    )


def check_chunks_stand_alone(rows: Mapping[str, object], *, name: str) -> None:
    """Raise ValueError where a node gives rows beside its chunks."""
    names = [
        key for key in ("X", "y", "held_out", "sample_weight") if rows[key] is not None
    ]
    if names:
        raise ValueError(
            f"Node {name!r}: with chunks=, X, y, held_out and sample_weight come from "
            f"chunks(), but {names} were passed too. Leave these out, or leave chunks "
            "out."
        )
    if rows["groups"] is not None:
        raise ValueError(
            f"Node {name!r}: groups= needs all rows at once, and chunks= gives them "
            "one after the other. Pass X and y, or leave groups out."
        )
