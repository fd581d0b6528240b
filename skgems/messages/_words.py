"""Words for figures: numbers with their nouns, and lists of names."""

from collections.abc import Iterable, Mapping

# As many labels, or names, are listed.
_MOST_LISTED = 8
# Numbers of rows below are shown as they are, weighted ones too; above without
# exponents.
_LARGE = 1e6


def counting(n: object, one: str, many: str | None = None) -> str:
    """Return a number with its noun, as in "1 row" and "2 rows"."""
    return f"{n} {one if str(n) == '1' else many or one + 's'}"


def listed(words: Iterable[str]) -> str:
    """Return the first words of a list, and the number of the others."""
    words = list(words)
    n_others = len(words) - _MOST_LISTED
    first_words = ", ".join(words[:_MOST_LISTED])
    return f"{first_words} and {n_others} more" if n_others > 0 else first_words


def labels_of_features(network: Mapping) -> list:
    """Return the names of a described model's features, or their places."""
    names = network.get("feature_names")
    return list(range(network["n_features"])) if names is None else list(names)


def rows_in_words(n: float) -> str:
    """Return a number of rows in words; it may be a sum of weights."""
    return counting(f"{float(n):g}" if n < _LARGE else f"{int(n)}", "row")


def labels_and_counts(labels: Iterable, counts: Iterable) -> str:
    """Return labels in words, each with its number of rows."""
    return listed(f"{label!r}: {n:g}" for label, n in zip(labels, counts, strict=True))
