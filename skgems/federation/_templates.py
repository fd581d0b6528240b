"""The module that summaries have only the numbers of: one net that the server has."""

from ..local import local_model, net_of_state
from ..networks import ModuleState, final_step, is_fitted
from ._summary import Summary


def with_modules(
    names: list[str], members: list[object]
) -> tuple[list[str], list[object], list[object]]:
    """Return names, members and classifiers, in which numbers of modules are nets.

    An unfitted net beside summaries is no node: it is the module that they are of, and
    is left out.
    """
    of_modules = [
        name
        for name, member in zip(names, members, strict=True)
        if isinstance(member, Summary) and isinstance(member.network, ModuleState)
    ]
    template = None
    if of_modules:
        template = _template(members, name=of_modules[0])
        is_node = [member is not template or _is_fitted(member) for member in members]
        names = [name for name, is_one in zip(names, is_node, strict=True) if is_one]
        members = [
            member for member, is_one in zip(members, is_node, strict=True) if is_one
        ]
    classifiers = []
    for name, member in zip(names, members, strict=True):
        classifier = member.network if isinstance(member, Summary) else member
        if isinstance(classifier, ModuleState):
            classifier = net_of_state(template, classifier, name=name)
        classifiers.append(classifier)
    return names, members, classifiers


def _template(members: list[object], *, name: str) -> object:
    """Return the net whose module is that of summaries; ``name`` is a node of these."""
    nets = [
        member
        for member in members
        if not isinstance(member, Summary) and local_model(member).has_module
    ]
    unfitted = [net for net in nets if not _is_fitted(net)]
    if not nets or len(unfitted) > 1:
        raise ValueError(
            f"The summary of node {name!r} has the numbers of a module, but no code, "
            f"and estimators has {len(unfitted)} unfitted nets of such a module. Give "
            "one beside the summaries: estimators=[net, *summaries]."
        )
    return (unfitted or nets)[0]


def _is_fitted(net: object) -> bool:
    return is_fitted(final_step(net))
