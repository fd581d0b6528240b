"""How many numbers about hidden layers leave a node by consent alone.

A server may have made the layers up. Moments behind them are under the rule of
disclosure. Good-enough spaces of units and of models are not: whoever accepts an
agreement consents to them. As long as they are fewer numbers than the rows are, the
rows are not determined by them.
"""

from ..messages import Message, task_named

# Fields that hold what the server sent.
_SENT_BEFORE = ("centers", "center")
# Fields that may hold a symmetric matrix, of which one half says all.
_SYMMETRIC = ("precision", "metric_scatter")


def numbers_about_layers(request: Message, reply: Message) -> int:
    """Count the numbers about hidden layers of a request that no rule bounds."""
    if request.content.get("hidden") is None:
        return 0
    if not task_named(request.task).tells_of_layers:
        return 0
    n_numbers = 0
    for field, array in reply.arrays.items():
        if array.dtype.kind != "f" or field in _SENT_BEFORE:
            continue
        if field in _SYMMETRIC and array.ndim == 2:
            n_numbers += (array.size + len(array)) // 2
        else:
            n_numbers += array.size
    return n_numbers
