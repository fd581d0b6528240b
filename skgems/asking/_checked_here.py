"""Checks of replies within this process, where no stranger can send any.

The library computes no sums that no rows have, of rows that were validated in this
process: replies have their shapes and keep their rules by construction. But for what a
user gave (`Task.of_user`), all that can be wrong is that numbers are too large or NaN.
"""

from ..messages import TASKS, Message, Reply, Task, check_reply, has_usable_numbers


def check_here(request: Message, reply: Reply) -> None:
    """Raise ValueError or TypeError where labels or parameters make a reply wrong."""
    if not _seems_right(TASKS[request.task], reply):
        # As from elsewhere: some fields may have such numbers, and an error names the
        # field, or a value that no message can have.
        check_reply(request, reply.as_message(request.task))


def _seems_right(task: Task, reply: Reply) -> bool:
    """Report whether nothing that a user gave can have made a reply wrong."""
    if task.of_user is None or not has_usable_numbers(reply):
        return False
    try:
        task.check_fields_of_user(reply)
    except ValueError:
        return False
    return True
