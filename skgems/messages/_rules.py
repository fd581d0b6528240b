"""What fields of a message must be to each other, which no shape says."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ..moments import (
    MOST_CATEGORIES,
    SMALLEST,
    SMALLEST_SQUARE,
    ClassMoments,
    moments_kind,
)
from ..networks import Network
from ..steps import ROLES
from ._fields import ROUNDING, Labels, Place, check_definite
from ._limits import MOST_FACTORS, MOST_JUDGED, MOST_MODELS, MOST_NUMBERS, MOST_ROWS

# Of moments with few digits, relative.
_FEW_DIGITS = 5e-2
_MATRICES = ("triangles", "correlations", "factors")
FORMS = {
    "ridge": ("alpha", "fit_intercept", "class_weight"),
    "lda": ("solver", "shrinkage", "priors", "tol"),
    "nearest_centroid": ("shrink_threshold", "priors"),
}


def apart(rule: Callable[[Mapping, Place], None]) -> Callable:
    """A rule of what has other lengths than the rest of the message."""
    return lambda own, place: rule(own, replace(place, lengths={}))


def roles_are_words(columns: Mapping, place: Place) -> None:
    odd = sorted(set(columns.get("roles", ())) - set(ROLES), key=str)
    if odd:
        raise place.at("roles").wrong(f"has {odd[0]!r:.40}, none of {list(ROLES)}")


def layers_fit(own: Mapping, place: Place) -> None:
    layers, names = own["weights"], own["activation"]
    if len(names) != len(layers) or not layers:
        raise place.at("activation").wrong("is not one for each layer")
    # The last row of each is its intercepts.
    if any(W.shape[1] + 1 != len(V) for W, V in zip(layers, layers[1:], strict=False)):
        raise place.at("weights").wrong("do not fit each other")
    # What enters the model of the message is what the last layer gives.
    n_units = layers[-1].shape[1]
    if place.lengths.setdefault("d", n_units) != n_units:
        raise place.at("weights").wrong("do not fit the model")


def network_fits(own: Mapping, place: Place) -> None:
    _check_layers(own, place)
    coefs = own["coefs"]
    for i, (W, b) in enumerate(zip(coefs, own["intercepts"], strict=True)):
        if W.dtype not in (np.float32, np.float64) or b.dtype != W.dtype:
            raise place.at(f"coefs[{i}]").wrong(f"has the dtype {W.dtype}")
    # Outputs of a net may be in any order, each label once.
    Labels(ordered=True).check(sorted(own["labels"]), place.at("labels"))
    if len(own["labels"]) != coefs[-1].shape[1]:
        raise place.at("labels").wrong("are not one for each output")
    place.deny(not own["seen"].any(), "seen", "is true of no class")
    if own["n_features"] != len(coefs[0]):
        raise place.at("n_features").wrong("is not that of the first layer")
    for name in ("feature_names", "center", "scale"):
        if own.get(name) is not None and len(own[name]) != own["n_features"]:
            raise place.at(name).wrong("are not one for each feature")
    _come_together(own, "center", "scale", place)


def _come_together(own: Mapping, name: str, other: str, place: Place) -> None:
    there = own.get(name) is None, own.get(other) is None
    place.deny(there[0] != there[1], other, f"is missing, or {name} is")


def _check_layers(own: Mapping, place: Place) -> None:
    coefs, intercepts = own["coefs"], own["intercepts"]
    if not len(coefs) == len(intercepts) == len(own["activation"]) + 1:
        raise place.at("coefs").wrong("are not one for each layer")
    for i, (W, b) in enumerate(zip(coefs, intercepts, strict=True)):
        if W.shape[1] != len(b) or (i and len(W) != coefs[i - 1].shape[1]):
            raise place.at(f"coefs[{i}]").wrong("does not fit the layers beside it")


def rows_are_some(own: Mapping, place: Place) -> None:
    for role in ("judging", "moments", "training"):
        if own[role].sum(dtype=np.float64) > MOST_ROWS:
            raise place.at(role).wrong(f"are more than {MOST_ROWS} rows")
        place.deny(not own[role].any(), role, "are no rows at all")


def classes_are_of_enough_rows(own: Mapping, place: Place) -> None:
    """No class is of fewer rows than the bound that a node says it answers under."""
    rows, min_rows = own["rows"], own["min_rows"]
    learning = np.maximum(rows["moments"], rows["training"])
    # Of classes whose rows are all held out, these are counted.
    sizes = np.where(learning > 0, learning, rows["judging"])
    few = np.flatnonzero(sizes < min_rows)
    if len(few):
        label = f"{rows['labels'][few[0]]!r:.40}"
        raise place.at("min_rows").wrong(
            f"is {min_rows}, but there are {sizes[few[0]]} rows of the class {label}"
        )


def _check_sums_are_of_enough_rows(own: Mapping, counts, place: Place) -> None:
    """No sum is of fewer rows than the bound that a node says it answers under."""
    least, min_rows = float(np.min(counts)), own["min_rows"]
    if least < min_rows * (1.0 - ROUNDING):
        raise place.at("min_rows").wrong(
            f"is {min_rows}, but there are sums of {least:g} rows"
        )


def counts_are_described(own: Mapping, place: Place) -> None:
    if place.described is not None:
        known = _described(place, "training", own["labels"], unknown=-1)
        differ = not np.array_equal(known, own["counts"])
        place.deny(differ, "counts", "are not those of describe.rows")


def _described(place: Place, role: str, labels: list, unknown=0) -> np.ndarray:
    rows = place.described["rows"]
    known = dict(zip(rows["labels"], rows[role].tolist(), strict=True))
    return np.array([known.get(label, unknown) for label in labels])


def one_model(asked: Mapping, place: Place) -> None:
    if (asked.get("model") is None) == (asked.get("W") is None):
        raise place.at("W").wrong("is missing, or comes beside model='own'")


def columns_are_outputs(asked: Mapping, place: Place) -> None:
    columns = asked.get("columns")
    if "coefs" in asked:
        place.deny(not asked["coefs"], "coefs", "are not the weights of layers")
        _check_layers(asked, place)
        _come_together(asked, "center", "scale", place)
        center, hidden = asked.get("center"), asked.get("hidden")
        n_rows = len(hidden["weights"][0]) - 1 if hidden else len(asked["coefs"][0])
        if center is not None and len(center) != n_rows:
            raise place.at("center").wrong("are not one for each feature")
        n_outputs = asked["coefs"][-1].shape[1]
    else:
        n_outputs = asked["W"].shape[-1]
    if columns is not None and (columns >= n_outputs).any():
        raise place.at("columns").wrong(f"are more than the {n_outputs} outputs")
    others = asked.get("others")
    if others is not None:
        if not set(_MATRICES).isdisjoint(others):
            raise place.at("others").wrong("has more than variances of single features")
        n_features, most = len(asked["coefs"][0]), others["columns"].max()
        most = max(most, others["groups"].max())
        if len(others["origin"]) != n_features or most >= n_outputs:
            raise place.at("others").wrong("does not fit the network")


def models_are_few(asked: Mapping, place: Place) -> None:
    W, factors = asked["W"], asked["factors"]
    if W.ndim == 3 and len(W) > MOST_MODELS:
        raise place.at("W").wrong(f"are {len(W)} models, more than {MOST_MODELS}")
    place.deny(len(factors) > MOST_FACTORS, "factors", f"are more than {MOST_FACTORS}")
    columns_are_outputs(asked, place)


# One of these, if any.
_CORRECTIONS = ("gradient", "gradients", "slope", "slopes")
# Fields of moments with all digits, and with few.
_IN_FULL = {"triangles", "scatter", "roots", "squares", "part_squares"}
_ROUNDED = {"unit", "correlations", "factors", "spreads", "part_spreads"}


def sums_fit(sums: Mapping, place: Place) -> None:
    n_labels = place.lengths.get("l", MOST_ROWS)
    counts, columns, groups = (sums[n] for n in ("counts", "columns", "groups"))
    if not len(counts) or counts.min() < 1.0 - ROUNDING:
        raise place.at("counts").wrong("are not all of a row at least")
    if columns.max() >= n_labels or (np.diff(columns.astype(np.int64)) < 0).any():
        raise place.at("columns").wrong("are no classes, or not in their order")
    n_groups = len(np.unique(groups))
    if not n_groups or groups.max() >= n_labels or n_groups < len(groups):
        raise place.at("groups").wrong("are no classes, or one stands there twice")
    if not set(columns.tolist()) <= set(groups.tolist()) and -1 not in groups:
        raise place.at("groups").wrong("are without a class that has a mean")
    few_digits = "deviations" in sums
    if not few_digits and sums["means"].itemsize < 8:
        raise place.at("means").wrong(f"has the dtype {sums['means'].dtype}")
    for name in sorted((_IN_FULL if few_digits else _ROUNDED) & set(sums)):
        raise place.at(name).wrong("is no field of it with so many digits")
    for name in {"squares", "spreads"} & set(sums):
        wrong = len(sums[name]) != len(np.unique(columns))
        place.deny(wrong, name, f"has the shape {sums[name].shape}")
    _come_together(sums, "root_groups", "roots", place)
    if "roots" in sums:
        _check_roots(sums, place)
    if not few_digits and len({"triangles", "scatter", "roots"} & set(sums)) != 1:
        raise place.at("triangles").wrong("is missing, or there is more beside it")
    place.deny(few_digits and "unit" not in sums, "unit", "is missing")
    n_features, is_made = len(sums["origin"]), {"correlations", "factors"} & set(sums)
    if is_made and n_groups * n_features**2 > MOST_NUMBERS:
        what = f"are of {n_groups} matrices of {n_features} features"
        raise place.at("deviations").wrong(f"{what}, which take too much memory")


def _check_roots(sums: Mapping, place: Place) -> None:
    """Each is of a matrix; they are not more than the rows, nor of one class twice."""
    groups, here = sums["root_groups"], place.at("root_groups")
    here.deny(len(groups) and groups.max() >= len(sums["groups"]), "are of no matrix")
    n_roots = np.bincount(groups, minlength=len(sums["groups"]))
    if np.any(n_roots > sums["group_counts"] * (1.0 + ROUNDING)):
        raise here.wrong("are more than the rows")
    if {"squares", "spreads"} & set(sums):
        raise place.at("squares").wrong("are there, though roots have them")


def moments_fit(own: Mapping, place: Place) -> None:
    """Moments are of the rows that a node has described, and of the kind asked for."""
    asked, labels = place.asked, own["labels"]
    moments = ClassMoments.from_arrays(own["moments"])
    exact = "deviations" not in own["moments"]
    _check_sums_are_of_enough_rows(own, moments.counts, place)
    _check_kind(moments, place, len(labels), asked)
    _check_scatter(moments, place)
    found = [name for name in _CORRECTIONS if name in own]
    for name in found[1:]:
        raise place.at(name).wrong(f"is no field of it beside {found[0]}")
    if ("factor" in own) != (not {"gradient", "gradients"}.isdisjoint(found)):
        raise place.at("gradient").wrong("is missing, or factor is")
    if found and asked.get("model", "own") is None:
        raise place.at(found[0]).wrong("was not asked for")
    by_class = asked.get("class_weight")
    if found and found[0].endswith("s") and not isinstance(by_class, str):
        raise place.at(found[0]).wrong("was not asked for")
    if "class_weight" in own and by_class != "members":
        raise place.at("class_weight").wrong("was not asked for")
    if place.described is None:
        return
    if "penalty" in own and place.described["network"]["output"] == "none":
        raise place.at("penalty").wrong("is there, but the node has no classifier")
    counts = moments.class_counts(len(labels))
    known = _described(place, "moments", labels)
    # A class of too few rows has no mean; of several nodes not all need have too few.
    alike = np.abs(counts - known) <= ROUNDING * known
    if {"slope", "slopes"} & set(own):
        alike = counts <= known * (1.0 + ROUNDING)
    if not np.all((counts == 0) | alike):
        raise place.at("counts").wrong("are not those of describe.rows")
    # Of a few rows of small classes there is not even the scatter.
    n_rows, slack = moments.group_counts.sum(), ROUNDING * known.sum()
    if not counts.sum() - slack <= n_rows <= known.sum() + slack:
        raise place.at("group_counts").wrong("are not those of describe.rows")
    slack, n_rows = ROUNDING if exact else _FEW_DIGITS, moments.n_rows
    if counts.sum() == known.sum():
        _check_origin(moments, place, slack)
    squares = _squares(moments) + moments.counts @ moments.means**2
    limit = (1.0 + slack) * np.sqrt(n_rows * np.append(squares, n_rows))
    if isinstance(by_class, list):
        limit *= max([1.0, *(weight for _, weight in by_class)])
    for name in found:
        # A slope is a gradient less another.
        most = 2.0 if name.startswith("slope") else 1.0
        if np.any(np.abs(own[name]) > most * limit[:, None]):
            raise place.at(name).wrong("is larger than these moments allow")
        # What a row adds to one output it takes from others.
        if most == 1.0 and np.any(np.abs(own[name].sum(axis=-1)) > limit * slack):
            raise place.at(name).wrong("does not sum to 0 over the outputs")


def class_sums_fit(own: Mapping, place: Place) -> None:
    """Sums are of the rows that a node has described, and of the kind asked for."""
    kind, counts, sums = place.asked.get("of"), own["counts"], own["sums"]
    _check_sums_are_of_enough_rows(own, counts, place)
    if ("sizes" in own) != (kind == "categories"):
        raise place.at("sizes").wrong(f"is missing, or {kind!r} was asked for")
    n_columns = place.lengths.get("d", sums.shape[1])
    if kind == "categories":
        sizes = own["sizes"]
        n_columns = sizes.sum(dtype=np.float64)
        if n_columns > MOST_CATEGORIES:
            raise place.at("sizes").wrong(f"are more than {MOST_CATEGORIES}")
    if sums.shape[1] != n_columns:
        raise place.at("sums").wrong(f"are {sums.shape[1]} of a class, not {n_columns}")
    if kind != "values" and np.any(sums > counts[:, None] * (1.0 + ROUNDING)):
        raise place.at("sums").wrong("are more than the rows")
    if kind == "categories":
        ends = np.append(0.0, np.cumsum(sizes))[:-1].astype(int)
        totals = np.add.reduceat(sums, ends, axis=1) if sizes.all() else 0.0
        if np.any(np.abs(totals - counts[:, None]) > ROUNDING * counts[:, None]):
            raise place.at("sums").wrong("are not one category a row")
    if place.described is None:
        return
    known = _described(place, "moments", own["labels"])
    if np.any(np.abs(counts - known) > ROUNDING * known):
        raise place.at("counts").wrong("are not those of describe.rows")


def _check_kind(moments, place: Place, n_labels: int, asked: Mapping) -> None:
    if moments.roots is not None:
        few = moments_kind("auto", moments.n_features, n_labels, 1) == "roots"
        place.deny(asked["kind"] != "auto" or not few, "roots", "were not asked for")
        return
    if asked["kind"] == "auto" and asked.get("hidden") is not None:
        return  # a node decides by the numbers that its rows hold
    kind = moments_kind(asked["kind"], moments.n_features, n_labels)
    if moments.is_diagonal != (kind == "diagonal"):
        name = "scatter" if moments.is_diagonal else "triangles"
        raise place.at(name).wrong(f"is there, but {kind!r} was asked for")
    if kind == "shared" and moments.groups.tolist() != [-1]:
        raise place.at("groups").wrong("are of classes, but 'shared' was asked for")
    if kind == "shared" and moments.squares is None:
        raise place.at("squares").wrong("is missing, but 'shared' was asked for")


def _squares(moments: ClassMoments) -> np.ndarray:
    total = moments.scatter.sum(axis=0)
    return total if moments.is_diagonal else total.diagonal()


def _check_scatter(moments: ClassMoments, place: Place) -> None:
    total = _squares(moments) * (1.0 + _FEW_DIGITS)
    if moments.is_diagonal and moments.squares is not None:
        raise place.at("squares").wrong("are there, though scatter has them")
    if not moments.is_diagonal:
        for group, own in zip(moments.groups.tolist(), moments.scatter, strict=True):
            check_definite(own, place.at(f"triangles of group {group}"))
    for name in ("squares", "part_squares"):
        found = getattr(moments, name)
        if found is not None and np.any(found.sum(axis=0) > total):
            raise place.at(name).wrong("are more than those of all classes")


def _check_origin(moments: ClassMoments, place: Place, slack: float) -> None:
    """The origin is among the rows: no further from their mean than these allow."""
    if not moments.origin.any():
        return  # as of sparse rows
    mean = moments.mean()
    squares = _squares(moments) + moments.counts @ (moments.means - mean) ** 2
    noise = 1e-12 * moments.n_rows * np.square(moments.origin)
    if np.any(np.square(mean) > squares * (1.0 + slack) + noise):
        raise place.at("means").wrong("are further from the origin than counts allow")


def form_is_known(form: Mapping, place: Place) -> None:
    if "reason" in form:
        place.deny(len(form) > 1, max(form), "is no field of it beside the reason")
        return
    kind = form.get("kind")
    place.deny(kind is None, "kind", "is missing")
    given = {"kind", *FORMS[kind]}
    if kind == "lda":
        given -= {"shrinkage"} if form.get("solver") == "svd" else {"tol"}
    for name in sorted(set(form) ^ given):
        raise place.at(name).wrong(f"is missing, or no parameter of {kind!r}")
    if kind == "lda" and isinstance(form["priors"], str):
        raise place.at("priors").wrong("is no list of labels and weights")


def penalty_is_one(penalty: Mapping, place: Place) -> None:
    """A penalty has one strength at most; of a loss that is not named it has none."""
    there = {"C", "alpha"} & set(penalty)
    if len(there) > 1:
        raise place.at("alpha").wrong("is there, though C is")
    if there and penalty["loss"] == "other":
        raise place.at(min(there)).wrong("is no field of it where the loss is 'other'")


# What metrics of geometries are, and whether radii of criteria are those of losses; of
# others than ours nothing is known.
_FAMILIES = {"gram": "gram", "ellipsoid": "diagonal", "ball": "diagonal"}
_BY_LOSS = {"accuracy": False, "log_loss": True}
_GRAM = ("metric_scatter", "metric_mean", "metric_size", "metric_output_weights")
_OF_ROWS = ("radii_radii", "radii_may_lose")
_PARTS = ("knots", "losses", "slope", "gradient", "curvature")
_OF_LOSSES = tuple(f"radii_{name}" for name in _PARTS)


def space_fits(own: Mapping, place: Place) -> None:
    """A space is around the node's own model, and of the geometry asked for."""
    asked, n_own, most_rows = place.asked, place.lengths.get("k"), MOST_ROWS
    W = asked.get("W")
    if place.described is not None:
        network = Network.from_content(place.described["network"])
        most_rows = int(place.described["rows"]["judging"].sum())
        if not network.n_hidden_layers:
            W = network.aligned(np.unique(network.classes[network.seen])).last
    n_outputs, others = own["center"].shape[1], min(1, asked.get("n_others", 1))
    # One stands for all others, unless nothing is said of them.
    if n_own is not None and n_outputs not in (n_own, n_own + others):
        raise place.at("center").wrong(f"has {n_outputs} outputs for {n_own} classes")
    if "outputs" in own and not own["outputs"][: n_outputs - others].all():
        raise place.at("outputs").wrong("are without a class that the model knows")
    _check_metric(own, place)
    _check_radii(own, place, most_rows)
    if W is not None:
        _check_center(own, W, place)


def _only(own: Mapping, wanted, others, place: Place) -> None:
    for name in (*wanted, *others):
        if (name in own) != (name in wanted):
            what = "is missing" if name in wanted else "is no field of it"
            raise place.at(name).wrong(what)


def _check_metric(own: Mapping, place: Place) -> None:
    family = own["family"]
    expected = _FAMILIES.get(place.asked["geometry"]["name"], family)
    if expected != family:
        raise place.at("family").wrong(f"is {family!r}, but {expected!r} was asked for")
    if family == "gram":
        _only(own, _GRAM[:3], ("metric_precision",), place)
        scatter = own["metric_scatter"]
        if not np.array_equal(scatter, scatter.T):
            raise place.at("metric_scatter").wrong("is not symmetric")
        check_definite(scatter, place.at("metric_scatter"))
        return
    _only(own, ("metric_precision",), _GRAM, place)
    precision = own["metric_precision"]
    if ((precision > 0) & (precision < SMALLEST_SQUARE)).any():
        raise place.at("metric_precision").wrong("has values that are all but 0")


def _check_radii(own: Mapping, place: Place, most_rows: int) -> None:
    """Radii are what the criterion makes; the model was tried on so many rows."""
    by_loss = "radii_knots" in own
    criterion = place.asked["criterion"]["name"]
    if _BY_LOSS.get(criterion, by_loss) != by_loss:
        part = "radii_knots" if by_loss else "radii_radii"
        raise place.at(part).wrong(f"is there, but {criterion} was asked for")
    n_rows = int(own["radii_n_rows"])
    place.deny(n_rows > most_rows, "radii_n_rows", "is more than describe.rows has")
    score = float(own["radii_score"])
    if by_loss:
        _only(own, _OF_LOSSES, _OF_ROWS, place)
        knots, losses = own["radii_knots"], own["radii_losses"]
        if not len(knots) or knots[0] != 0 or (np.diff(knots) < SMALLEST).any():
            raise place.at("radii_knots").wrong("do not rise from 0")
        if abs(losses[0] - score) > ROUNDING * score:
            raise place.at("radii_losses").wrong("do not begin with the score")
        return
    _only(own, _OF_ROWS, _OF_LOSSES, place)
    place.deny(score > 1.0, "radii_score", f"is {score:g}, not between 0 and 1")
    radii, lost = own["radii_radii"], own["radii_may_lose"]
    place.deny((radii[1:] < radii[:-1]).any(), "radii_radii", "are not in their order")
    if lost[0] != 0 or (lost[1:] < lost[:-1]).any():
        raise place.at("radii_may_lose").wrong("does not rise from 0")
    right = int(lost[-1])
    wrong = right > n_rows or abs(score - right / n_rows) > ROUNDING
    place.deny(wrong, "radii_score", f"is {score:g} of {n_rows} rows, not {right}")


def _check_center(own: Mapping, W: np.ndarray, place: Place) -> None:
    """The centre is the model itself, but for its scale and what outputs share."""
    center = own["center"][:, : W.shape[1]]
    center = float(own["scale"]) * (center - center.mean(axis=1, keepdims=True))
    W = W.astype(np.float64)
    away = center - (W - W.mean(axis=1, keepdims=True))
    # Rounding of float32, where that is what the model has.
    if np.abs(away).max() > ROUNDING * max(np.abs(W).max(), np.abs(center).max()):
        raise place.at("center").wrong("is not the model itself")


def right_are_rows(own: Mapping, place: Place) -> None:
    count = own["count"]
    if np.max(own["right"], initial=0.0) > count * (1.0 + ROUNDING):
        raise place.at("right").wrong(f"are more than the {count:g} rows")


def score_is_of_rows(own: Mapping, place: Place) -> None:
    for name in ("score", "beside"):
        score = float(own.get(name, own["score"]))
        if (score != score) != (own["n_rows"] == 0):
            raise place.at(name).wrong("is there without rows, or missing with rows")


def is_one_model(own: Mapping, place: Place) -> None:
    """A linear model, or one of squared distances; the next has its own classes."""
    linear = own.get("W") is not None
    squares = [own.get(name) is not None for name in ("means", "factors", "offsets")]
    place.deny(linear == any(squares) or len(set(squares)) > 1, "is not one model")
    place.lengths.pop("l")


def judged_are_few(asked: Mapping, place: Place) -> None:
    n_models = len(asked["models"])
    if n_models > MOST_JUDGED:
        raise place.at("models").wrong(f"are {n_models}, more than {MOST_JUDGED}")


def judged_are_rows(own: Mapping, place: Place) -> None:
    n_models, right = len(place.asked["models"]), own["right"]
    if right.shape != (n_models, n_models) or len(own["losses"]) != n_models:
        raise place.at("right").wrong(f"is not of {n_models} models")
    if np.max(right, initial=0) > own["n_rows"]:
        raise place.at("right").wrong(f"are more than the {own['n_rows']} rows")
    if own["n_rows"]:  # of too few nobody judges
        _check_sums_are_of_enough_rows(own, own["n_rows"], place)


def precision_is_definite(own: Mapping, place: Place) -> None:
    precision, here = own["precision"], place.at("precision")
    if precision.ndim == 1:
        here.deny((precision < 0).any(), "has values below 0")
        return
    if not np.allclose(precision, precision.T, rtol=1e-9, atol=0.0):
        raise here.wrong("is not symmetric")
    check_definite(precision, here)
