"""What both sides read and write: models, and packages that they need for it."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType
from unicodedata import normalize

import joblib
from sklearn.base import BaseEstimator

from ..messages import write_bytes

# A type of numbers, which skops asks about though reading it runs nothing: files have
# it for each SimpleImputer.
_HARMLESS = ("numpy.dtype",)


def composed(text: str) -> str:
    """A text in the normal form NFC, in which systems but macOS write letters."""
    return normalize("NFC", text)


def write_table(path: str, csv: str) -> None:
    """Write a table as CSV, and say where."""
    write_bytes(path, csv.encode("utf-8"), mode=0o644)
    print(f"Table written to {path}.")


def needed(module: str) -> ModuleType:
    """Import a module of the extra ``cli``; an ImportError says what to install."""
    try:
        return import_module(module)
    except ImportError as exc:
        package = module.partition(".")[0]
        raise ImportError(
            f"This needs the package {package}: pip install skgems[cli]."
        ) from exc


class UntrustedTypesError(ValueError):
    """A file of skops has ``types`` that nobody trusts."""

    def __init__(self, text: str, types: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.types = list(types)


def load_skops(path: str, *, trusted: Iterable[str] = ()) -> object:
    """Load a file of skops; UntrustedTypesError for types that it does not trust."""
    io = needed("skops.io")
    untrusted = set(io.get_untrusted_types(file=path))
    if unknown := sorted(untrusted - {*trusted, *_HARMLESS}):
        raise UntrustedTypesError(
            f"the file has types that skops does not trust: {' '.join(unknown)}.",
            unknown,
        )
    return io.load(path, trusted=sorted(untrusted))


def writer_of(out: Path) -> Callable[[object], str]:
    """Return the function that writes a model, looked up before the model is made."""
    kind = out.suffix.lower()
    if not out.parent.is_dir():
        raise FileNotFoundError(f"{out.parent}: there is no such folder.")
    if kind == ".skops":
        needed("skops.io")
        return partial(_write_skops, out)
    if kind == ".joblib":
        return partial(_write_joblib, out)
    raise ValueError(f"--out {out}: the file name must end in .skops or .joblib.")


def _write_skops(out: Path, model: BaseEstimator) -> str:
    io = needed("skops.io")
    dumped = io.dumps(model)
    write_bytes(out, dumped, mode=0o644)
    trusted = sorted(io.get_untrusted_types(data=dumped))
    arguments = f"{str(out)!r}, trusted={trusted}" if trusted else repr(str(out))
    return f"Written to {out}. In Python: skops.io.load({arguments})"


def _write_joblib(out: Path, model: BaseEstimator) -> str:
    buffer = BytesIO()
    joblib.dump(model, buffer)
    write_bytes(out, buffer.getvalue(), mode=0o644)
    return f"Written to {out}. In Python: joblib.load({str(out)!r})"
