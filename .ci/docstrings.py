# SPDX-License-Identifier: BSD-3-Clause
"""Check docstrings of public names by numpydoc, but for what the project leaves out."""

import importlib
import inspect
import pkgutil
import sys
from dataclasses import is_dataclass

from numpydoc.validate import validate

import skgems

# Extended summaries, examples, "See Also" and "Yields" are not of everything; returns
# are named, and several parameters may be described together.
LEFT_OUT = {"ES01", "EX01", "SA01", "YD01", "RT01", "RT02", "RT03", "SS05"}
LEFT_OUT |= {"PR03", "PR04", "PR07", "PR08", "PR09"}


def _is_error(own) -> bool:
    return inspect.isclass(own) and issubclass(own, Exception)


def public_names():
    """Pairs of a full name and whether parameters have to be documented."""
    rooms = [own.name for own in pkgutil.iter_modules(skgems.__path__)]
    rooms = [f"skgems.{own}" for own in rooms if not own.startswith("_")]
    for room in ["skgems", *rooms]:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", ()):
            own = getattr(module, name)
            is_plain = not (is_dataclass(own) or _is_error(own))
            yield f"{room}.{name}", is_plain
            for method, function in vars(own).items() if inspect.isclass(own) else ():
                if not method.startswith("_") and inspect.isfunction(function):
                    yield f"{room}.{name}.{method}", False


def main() -> int:
    wrong = 0
    for name, has_parameters in public_names():
        left_out = LEFT_OUT if has_parameters else LEFT_OUT | {"PR01"}
        for code, text in validate(name)["errors"]:
            # Names that begin with an underscore are nobody's parameters.
            if code not in left_out and "{'_" not in text:
                print(f"{name}: {code} {text}")
                wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
