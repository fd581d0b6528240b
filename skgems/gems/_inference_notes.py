"""What a table of odds ratios rests on, in sentences."""

from dataclasses import dataclass

from ..messages import listed
from ._inference_fit import LEAST_SITES, InferenceFit


@dataclass(frozen=True, kw_only=True)
class ChosenErrors:
    """Which standard errors a table has, and why."""

    cov_type: str  # "nonrobust", "robust" or "site"
    notes: tuple[str, ...] = ()


def choose_errors(fit: InferenceFit, cov_type: str) -> ChosenErrors:
    """Return the errors that are asked for, or those that nodes told enough for."""
    if cov_type == "site":
        return _errors_by_site(fit)
    if fit.rows_are_shared:
        note = (
            "Nodes share rows, and each counts once in all: errors are those of the "
            "model. Give the node of each row for others."
        )
        return _errors_of_model(fit, [note])
    is_implied = fit.has_weighted_rows or fit.has_groups
    if cov_type == "nonrobust" or (cov_type == "auto" and not is_implied):
        return _errors_of_model(fit, _notes_on_weights(fit))
    return _robust_errors(fit)


def _robust_errors(fit: InferenceFit) -> ChosenErrors:
    """Return robust errors where all nodes told products of their scores."""
    if fit.has_all_middles:
        units = "groups, such as patients," if fit.has_groups else "rows"
        note = f"Errors are robust: {units} are the units."
        return ChosenErrors(cov_type="robust", notes=(note,))
    notes = [
        "There are no robust errors: nodes did not tell products of their scores, "
        "under the rule of disclosure or because they were not asked."
    ]
    if fit.has_groups:
        notes.append("Errors take the rows of a group for independent.")
    return _errors_of_model(fit, [*notes, *_notes_on_weights(fit)])


def _errors_by_site(fit: InferenceFit) -> ChosenErrors:
    """Return errors whose units are nodes; ValueError where some told too little."""
    if not fit.nodes:
        raise ValueError(
            "cov_type='site' needs the gradient and information of all nodes, and none "
            "was asked. Call inference(X, y, nodes), or fit over a channel."
        )
    if not fit.has_all_information:
        raise ValueError(
            "cov_type='site' needs the gradient and information of all nodes, and "
            f"nodes {listed(map(repr, fit.names_without_information))} did not tell "
            "them. Use cov_type='auto'."
        )
    note = f"Errors are by site: {len(fit.nodes)} nodes are the units."
    return ChosenErrors(cov_type="site", notes=(note,))


def _notes_on_weights(fit: InferenceFit) -> list[str]:
    """Say that rows have weights, with which errors of the model mean nothing."""
    if not fit.has_weighted_rows:
        return []
    return [
        "Rows have weights, of which the model's errors say nothing, so that the table "
        "has none."
    ]


def _errors_of_model(fit: InferenceFit, notes: list[str]) -> ChosenErrors:
    """Return errors that hold if the model does, after notes on why."""
    if len(fit.names) > 1 and not fit.site_intercepts:
        few = ""
        if len(fit.names) < LEAST_SITES:
            few = f", which errors by site would need {LEAST_SITES} nodes for"
        notes = [
            *notes,
            f"Errors take the rows of a node for independent{few}. "
            "site_intercepts=True takes out the levels of nodes.",
        ]
    return ChosenErrors(cov_type="nonrobust", notes=tuple(notes))


def notes_on_replies(fit: InferenceFit) -> list[str]:
    """Say what nodes did not tell, and what stands in for it."""
    notes = _notes_on_trust(fit)
    if not fit.nodes:
        return notes
    return [
        *notes,
        *_notes_on_gradients(fit),
        *_notes_on_information(fit),
        *_notes_on_classes(fit),
        *_notes_on_lowered_weights(fit),
    ]


def _notes_on_trust(fit: InferenceFit) -> list[str]:
    """Name nodes that the fit left out, or of which it counts a part of the rows."""
    notes = []
    if fit.trust.left_out:
        notes.append(
            f"Nodes {listed(map(repr, fit.trust.left_out))} are left out, as in the "
            "fit (robust): the table is that of the other nodes, and its errors do not "
            "know of this choice."
        )
    if fit.trust.factors:
        notes.append(
            f"Nodes {listed(map(repr, fit.trust.factors))} count with a part of their "
            "rows, as in the fit (robust)."
        )
    return notes


def _notes_on_gradients(fit: InferenceFit) -> list[str]:
    silent = [node.name for node in fit.nodes if node.gradient is None]
    if not silent:
        return []
    part = "their part is" if fit.uses_gradients else "all is"
    return [
        f"Approximate: nodes {listed(map(repr, silent))} told no gradient, so that "
        f"{part} expected from the sums of the fit, and there are no p values."
    ]


def _notes_on_information(fit: InferenceFit) -> list[str]:
    partly = [
        node.name
        for node in fit.nodes
        if node.gradient is not None and node.information is None
    ]
    if not partly or not fit.uses_gradients:
        return []
    part = "their part of the errors is" if fit.uses_information else "errors are"
    return [
        f"Nodes {listed(map(repr, partly))} told a gradient, but no information under "
        f"the rule of disclosure: {part} expected from the sums of the fit."
    ]


def _notes_on_classes(fit: InferenceFit) -> list[str]:
    fewer = [node.name for node in fit.nodes if node.has_rule and node.lacks_classes]
    if not fewer:
        return []
    return [
        f"Nodes {listed(map(repr, fewer))} told of no rows of some classes. If the "
        "rule of disclosure left these out, since they are few, coefficients are those "
        "of the other rows, and levels of such nodes are biased."
    ]


def _notes_on_lowered_weights(fit: InferenceFit) -> list[str]:
    n_rows = round(sum(node.n_rows for node in fit.nodes))
    count = sum(node.count for node in fit.nodes)
    if fit.has_weighted_rows or fit.rows_are_shared or count >= n_rows:
        return []
    return [
        "Rows of large leverage count for less under the rule of disclosure: "
        f"{n_rows} rows count as {count:.4g}."
    ]
