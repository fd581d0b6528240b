"""Which versions are installed, for whoever reports a problem or keeps a model."""

import platform
from importlib import metadata

# Distributions, by the names that package indexes have for them.
_PACKAGES = (
    "skgems",
    "scikit-learn",
    "numpy",
    "scipy",
    "joblib",
    "safetensors",
    "threadpoolctl",
)
_PACKAGES_OF_EXTRAS = (
    "torch",
    "skorch",
    "pandas",
    "skops",
    "matplotlib",
    "cryptography",
    "flwr",
)


def versions(extras: bool = False) -> dict[str, str]:
    """The versions of Python and of the packages that are installed, by their names."""
    packages = _PACKAGES + _PACKAGES_OF_EXTRAS if extras else _PACKAGES
    version_of = {"Python": platform.python_version()}
    for package in packages:
        try:
            version_of[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return version_of


def show_versions() -> None:
    """Print the versions of Python, skgems and what it uses; reports begin with them.

    Examples
    --------
    >>> import skgems
    >>> skgems.show_versions()  # doctest: +ELLIPSIS
    Python: 3...
    """
    for package, version in versions(extras=True).items():
        print(f"{package}: {version}")
    print(f"system: {platform.platform()}")
