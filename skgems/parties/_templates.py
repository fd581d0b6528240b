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
    pairs = list(zip(names, members, strict=True))
    of_modules = [name for name, member in pairs if _is_of_module(member)]
    template = None
    if of_modules:
        template = _template(members, name=of_modules[0])
        if not _is_fitted(template):
            pairs = [(name, member) for name, member in pairs if member is not template]
    classifiers = [_classifier(member, template, name=name) for name, member in pairs]
    return [name for name, _ in pairs], [member for _, member in pairs], classifiers


def _is_of_module(member: object) -> bool:
    return isinstance(member, Summary) and isinstance(member.network, ModuleState)


def _classifier(member: object, template: object, *, name: str) -> object:
    """Return the classifier of a node; ``template`` is a net if any needs one."""
    if _is_of_module(member):
        return net_of_state(template, member.network, name=name)
    return member.network if isinstance(member, Summary) else member


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
            "one beside the summaries, as the list [net, *summaries]."
        )
    return (unfitted or nets)[0]


def _is_fitted(net: object) -> bool:
    return is_fitted(final_step(net))
