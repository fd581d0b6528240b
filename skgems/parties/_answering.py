"""What a party replies to a request by its classifier and rows."""

from dataclasses import replace

from ..local import Member, remember_told
from ..messages import (
    TASKS,
    Message,
    Reply,
    asked_in,
    check_version,
    fields_of_disclosure,
)


def reply_of(request: Message, member: Member) -> Reply:
    """Return the reply of a node's classifier and rows to a request."""
    check_version(request.version)
    if request.task not in TASKS:
        raise ValueError(
            f"Node {member.name!r} knows no task {request.task!r}. It knows the tasks "
            f"{sorted(TASKS)}."
        )
    task = TASKS[request.task]
    reply = task.answer(member, asked_in(request))
    fields = fields_of_disclosure(member.disclosure)
    rule = {name: fields[name] for name in fields if name in reply.fields}
    if rule:
        reply = replace(reply, **rule)
    if member.disclosure is not None and task.told is not None:
        remember_told(member, task.told(reply))
    return reply


def reply_as_message(request: Message, member: Member) -> Message:
    """Return the reply of a node's classifier and rows as it leaves the node."""
    return reply_of(request, member).as_message(request.task)
