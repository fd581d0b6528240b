"""What one message says, in figures: sentences that follow those of the table."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ..steps import IDENTIFIES

# As many labels, or names, are listed.
_MOST_LISTED = 8
# The origin is the median of so many rows, or one of them where there are fewer.
_FEW_ROWS = 8


def counting(n, one: str, many: str | None = None) -> str:
    return f"{n} {one if str(n) == '1' else many or one + 's'}"


def listed(words: Iterable[str]) -> str:
    words = list(words)
    more = len(words) - _MOST_LISTED
    shown = ", ".join(words[:_MOST_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


def rows(n) -> str:
    return counting(f"{float(n):g}" if n < 1e6 else f"{int(n)}", "row")


def _counted(labels, counts) -> str:
    return listed(f"{label!r} {n:g}" for label, n in zip(labels, counts, strict=True))


# Each gets the table of fields, and the reply that it is part of.


def _of_length(name: str, one: str, before: str = "") -> Callable:
    return lambda own, reply: f"{before}{counting(len(own[name]), one)}."


of_radii, of_units = _of_length("radii_radii", "distance"), _of_length("sizes", "unit")
of_knots = _of_length("radii_knots", "distance", "At ")


def of_told(own: Mapping, reply: Mapping) -> str:
    told = own["parts"].items()
    parts = listed(f"{part['statistic']} (step {path})" for path, part in told)
    return f"Here {parts or 'nothing'}."


def of_roles(own: Mapping, reply: Mapping) -> str:
    labels = own.get("names") or range(len(own["roles"]))
    pairs = zip(labels, own["roles"], strict=True)
    named = [repr(label) for label, role in pairs if role == IDENTIFIES]
    return f"These do: {listed(named)}." if named else "None does."


def of_network(own: Mapping, reply: Mapping) -> str:
    if own["output"] == "none":
        return "There is no classifier: these are zeros."
    layers, numbers = counting(len(own["coefs"]), "layer"), of_arrays(own, reply)
    return f"{numbers.rstrip('.')} in {layers}, of {own['n_features']} features."


def of_labels(own: Mapping, reply: Mapping) -> str:
    pairs = zip(own["labels"], own["seen"], strict=True)
    return f"It has seen {listed(repr(label) for label, seen in pairs if seen)}."


def of_rows(own: Mapping, reply: Mapping) -> str:
    counts, labels = own["moments"], own["labels"]
    least = int(np.argmin(counts))
    smallest = f"{labels[least]!r}, of {rows(counts[least])}"
    words = f"{_counted(labels, counts)}. The smallest class is {smallest}."
    if not np.array_equal(own["judging"], own["training"]):
        judging, training = own["judging"].sum(), own["training"].sum()
        words += f" {rows(judging)} judge models, {training} train."
    return words


def of_penalty(penalty: Mapping, reply: Mapping) -> str:
    strengths = (f"{key}={penalty[key]:g}" for key in ("C", "alpha") if key in penalty)
    words = [f"loss {penalty['loss']!r}", *strengths]
    if "fit_intercept" in penalty:
        words.append(f"fit_intercept={penalty['fit_intercept']}")
    return f"Here {', '.join(words)}."


def of_origin(sums: Mapping, reply: Mapping) -> str:
    if not sums["origin"].any():
        return "Here it is 0."
    if sums["group_counts"].sum() <= _FEW_ROWS:
        return f"Of {_FEW_ROWS} rows or fewer it may be one of them."
    return ""


def of_means(sums: Mapping, reply: Mapping) -> str:
    counts, columns = sums["counts"], sums["columns"]
    labels = reply.get("labels")
    least, n_classes = int(np.argmin(counts)), len(np.unique(columns))
    which = columns[least] if labels is None else repr(labels[columns[least]])
    what = "cluster" if len(counts) > n_classes else "class"
    words = (
        f"{len(sums['origin'])} features, {counting(len(counts), 'mean')} in "
        f"{counting(n_classes, 'class', 'classes')}. The smallest {what}, of class "
        f"{which}, has {rows(counts[least])}."
    )
    if single := int(np.sum(counts <= 1)):
        means = counting(single, "mean is", "means are")
        words += f" {means} of one row alone: the row as it is."
    few = [repr(label) for i, label in enumerate(labels or ()) if i not in columns]
    if few:
        words += f" None of classes of too few rows, by name: {listed(few)}."
    return words


def of_scatter(sums: Mapping, reply: Mapping) -> str:
    groups, sizes = sums["groups"], sums["group_counts"]
    labels = reply.get("labels") or range(int(groups.max()) + 1)
    named = ["all classes" if g < 0 else repr(labels[g]) for g in groups]
    least, n_own = int(np.argmin(sizes)), int((groups >= 0).sum())
    if not n_own:
        return f"Of all classes together, {rows(sizes.sum())}."
    words = (
        f"For each of {counting(n_own, 'class', 'classes')}; the fewest rows are those "
        f"of {named[least]}: {rows(sizes[least])}."
    )
    if n_own < len(groups):
        words += " Classes of too few rows are in one more for all of them."
    return words


def of_digits(sums: Mapping, reply: Mapping) -> str:
    words, ranks = f"With the digits of {sums['means'].dtype}", sums.get("factors")
    if ranks is not None:
        words += f", and a rank of {ranks.shape[2]} instead of {ranks.shape[1]}"
    return f"{words}."


def of_center(own: Mapping, reply: Mapping) -> str:
    n_params, n_outputs = own["center"].shape
    judging, score = rows(int(own["radii_n_rows"])), float(own["radii_score"])
    return f"{n_params} x {n_outputs} numbers; {judging}, score {score:.3g}."


def of_sums(own: Mapping, reply: Mapping) -> str:
    return f"{rows(own['count'])}, {counting(np.size(own['right']), 'model')}."


def of_score(own: Mapping, reply: Mapping) -> str:
    score = f": {float(own['score']):.4g}" if own["n_rows"] else ""
    return f"Of {rows(own['n_rows'])}{score}."


def of_arrays(own: Mapping, reply: Mapping) -> str:
    lists = (own.get(name, ()) for name in ("parameters", "coefs", "intercepts"))
    return f"{sum(array.size for arrays in lists for array in arrays):,} numbers."


def of_counts(own: Mapping, reply: Mapping) -> str:
    return f"{_counted(own['labels'], own['counts'])}."


def of_effective_rows(own: Mapping, reply: Mapping) -> str:
    found = np.ravel(own["effective_rows"])
    withheld = int(np.isnan(np.reshape(own["gradient"], (len(found), -1))[:, 0]).sum())
    said = f"The fewest are {min(found):.3g}."
    return f"{said} {counting(withheld, 'gradient')} not sent." if withheld else said
