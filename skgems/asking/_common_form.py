"""The form of the pooled model, where all nodes have classifiers of the same form."""

from collections.abc import Mapping

from ..base import MOST_LISTED
from ..moments import PooledForm


def common_form(forms: Mapping[str, Mapping]) -> PooledForm:
    """The one pooled form of nodes' forms, ``{kind, parameters}`` or ``{reason}``."""
    if not forms:
        raise ValueError("There are no nodes.")
    reasons = {name: form["reason"] for name, form in forms.items() if "reason" in form}
    if reasons:
        return PooledForm(kind=None, reason=_join(_group_nodes(reasons), "{} at {}"))
    difference = _first_difference(forms)
    if difference:
        return PooledForm(kind=None, reason=difference)
    form = next(iter(forms.values()))
    parameters = {key: value for key, value in form.items() if key != "kind"}
    return PooledForm(kind=form["kind"], parameters=parameters)


def _first_difference(forms: Mapping[str, Mapping]) -> str:
    """Describe the first difference of nodes' forms, with the nodes; "" if none."""
    for key in ["kind", *next(iter(forms.values()))]:
        groups = _group_nodes({node: form.get(key) for node, form in forms.items()})
        if len(groups) > 1:
            subject = "the kind of classifier" if key == "kind" else key
            return f"{subject} is {_join(groups, '{!r} at {}')}"
    return ""


def _join(groups: list[tuple[object, str]], template: str) -> str:
    """``"1 at node 'a' and 2 at node 'b'."``."""
    return " and ".join(template.format(value, nodes) for value, nodes in groups) + "."


def _group_nodes(value_by_node: Mapping) -> list[tuple[object, str]]:
    """Return each different value once, with the nodes that have it, in words."""
    nodes_in_words: list[tuple[object, str]] = []
    # A list is searched: values such as pairs of label and prior cannot be hashed.
    distinct: list[object] = []
    for value in value_by_node.values():
        if value in distinct:
            continue
        distinct.append(value)
        nodes = [repr(node) for node, other in value_by_node.items() if other == value]
        nodes_in_words.append((value, _in_words(nodes)))
    return nodes_in_words


def _in_words(nodes: list[str]) -> str:
    """``"nodes 'a', 'b', 'c' and 2 others"``."""
    noun = "nodes" if len(nodes) > 1 else "node"
    named = ", ".join(nodes[:MOST_LISTED])
    n_others = len(nodes) - MOST_LISTED
    if n_others <= 0:
        return f"{noun} {named}"
    return f"{noun} {named} and {n_others} other{'s' if n_others > 1 else ''}"
