"""The rule of disclosure as fields of a reply, which tell what the node answered under.

``min_rows`` is in every reply about rows, and is all that older versions tell. ``rule``
is a table of the other parameters, and is missing where there is no rule.
"""

from collections.abc import Mapping

from ..disclosure import Disclosure, disclosure_of_min_rows
from ._fields import Place


def fields_of_disclosure(disclosure: Disclosure | None) -> dict:
    """Return the fields of a reply that say under which rule it was made."""
    if disclosure is None:
        return {"min_rows": 1}
    rule = disclosure.as_dict()
    min_rows = rule.pop("min_rows")
    return {"min_rows": min_rows, "rule": rule}


def disclosure_in(content: Mapping) -> Disclosure | None:
    """Return the rule that a reply, or a summary in it, says it was made under.

    A reply without a rule is of an older version, which had a bound on rows alone.
    """
    min_rows = int(content["min_rows"])
    if content.get("rule") is None:
        return disclosure_of_min_rows(min_rows)
    rule = content["rule"]
    return Disclosure(
        rows=int(rule["rows"]),
        cell=int(rule["cell"]),
        unknowns=float(rule["unknowns"]),
        min_rows=min_rows,
    )


def check_disclosed(content: Mapping, place: Place) -> None:
    """Raise ValueError where the parameters of a rule do not fit each other."""
    rule = content.get("rule")
    if rule is not None and rule["rows"] > content["min_rows"]:
        raise place.at("min_rows").wrong(
            f"is {content['min_rows']}, fewer than rule.rows={rule['rows']}"
        )


def disclosure_in_words(disclosure: Disclosure | None) -> str:
    """Return what parties that keep to a rule tell of rows, in sentences."""
    if disclosure is None:
        return "Anything may be told, and single rows may be known (disclosure=None)."
    return (
        "Every number that can be computed by adding and subtracting what a node tells "
        f"depends on at least {disclosure.rows} rows. Where fewer than "
        f"{disclosure.cell} rows of a class have another value of a column than the "
        "commonest one, they take that one. The numbers told of rows are at most "
        f"{disclosure.unknowns:g} times as many as the numbers that these rows are. "
        f"Classes with fewer than {disclosure.min_rows} rows are left out, and no "
        "cluster has fewer."
    )
