"""Which versions are installed, for whoever reports a problem or keeps a model."""

import platform
from importlib import metadata

_PACKAGES = "skgems scikit-learn numpy scipy joblib safetensors threadpoolctl"
_EXTRAS = "torch skorch pandas skops matplotlib cryptography flwr"


def versions(extras: bool = False) -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in f"{_PACKAGES} {_EXTRAS * extras}".split():
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def show_versions() -> None:
    """Print the versions of Python, skgems and what it uses; reports begin with them.

    Examples
    --------
    >>> import skgems
    >>> skgems.show_versions()  # doctest: +ELLIPSIS
    Python: 3...
    """
    found = versions(extras=True) | {"system": platform.platform()}
    print("\n".join(f"{name}: {own}" for name, own in found.items()))
