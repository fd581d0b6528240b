"""The rule of disclosure as it is typed, such as ``rows=3,min_rows=20``."""

import argparse
from dataclasses import fields

from ..disclosure import Disclosure

_WITHOUT_RULE = "none"
_TYPES = {field.name: type(field.default) for field in fields(Disclosure)}


def disclosure_of_text(text: str) -> Disclosure | None:
    """Return the typed rule; what is not typed has its default."""
    if text.strip().lower() == _WITHOUT_RULE:
        return None
    options: dict[str, int | float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in _TYPES or name in options:
            raise argparse.ArgumentTypeError(
                f"{part.strip()!r} of {text!r} is none of {', '.join(_TYPES)}, once "
                "each and with a number. Type for example rows=3,min_rows=20, or none "
                "if single rows may be known"
            )
        try:
            options[name] = _TYPES[name](value)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{part.strip()!r} of {text!r} has no "
                f"{'whole ' if _TYPES[name] is int else ''}number"
            ) from None
    try:
        return Disclosure(**options)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None
