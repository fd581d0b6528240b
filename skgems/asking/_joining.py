"""Nodes behind a channel: the first message to them, and fits that lose some of them.

A fit over a channel begins with one message, ``join``, to which each node replies with
all that can be said before others are known: a `Summary`. A node that is lost later may
have been in what the others were asked since, so that the fit begins again without it,
on the same run, which still has what the others replied.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from ..base import BaseAggregator, noted_warnings
from ..compat import fit_context, showing
from ..messages import Agreement
from ..parties import Summary
from ..spaces import EmptyIntersectionError, NoSpaceError
from ._asked_nodes import AskedNodes, Context
from ._channel import Channel, as_channel
from ._fronts import front_plan
from ._run import NodesLostError, Run


def join_channel(
    aggregator: BaseAggregator, channel: Channel
) -> tuple[Run, list[Summary]]:
    """Send the first message to all nodes, after the front is fitted if there is one.

    Where a fit begins again the run is the same, over the nodes that are left.
    """
    aggregator._validate_params()
    if aggregator._method().terms is None:
        raise TypeError(
            f"{type(aggregator).__name__} needs the classifiers themselves, not a "
            "channel to them: give it the fitted estimators."
        )
    run = getattr(aggregator, "_run_of_remaining_nodes", None)
    if run is None:
        run = _new_run(aggregator, channel)
    front = aggregator._agreed_front
    if front is not None and run.context.front is None:
        if front.columns is None:
            front = run(front_plan(front)).front
        run.context = replace(run.context, front=front.as_content())
    request = aggregator._agreed_terms.first_message()
    joined = [name for name, _ in run.ask(request)]
    # A summary is a message, which may be saved with its signature.
    messages = [
        run.nodes.recorded(name, request, run.context.digest) for name in joined
    ]
    return run, [Summary(message) for message in messages]


def _new_run(aggregator: BaseAggregator, channel: Channel) -> Run:
    channel = as_channel(channel)
    if channel.agreement is None:  # later fits are of the same exchange
        channel.agreement = Agreement.of(aggregator, disclosure=channel.disclosure)
    takes = aggregator._method().takes
    return Run(
        channel,
        AskedNodes.from_channel(channel, keeps=True),
        context=Context.from_channel(channel, rows_alone=not takes.learnt),
        may_lose=True,
    )


def federated_fit(fit: Callable) -> Callable:
    """The ``fit`` of an aggregator.

    Its parameters are validated, progress is shown, warnings are kept for the report;
    and it begins again without nodes behind a channel that it loses.
    """

    @fit_context(prefer_skip_nested_validation=False)
    @wraps(fit)
    def fit_on_remaining_nodes(
        aggregator: BaseAggregator, *args: object, **kwargs: object
    ) -> object:
        with noted_warnings() as texts, showing(aggregator.verbose):
            try:
                while True:
                    try:
                        fitted = fit(aggregator, *args, **kwargs)
                        break
                    except NodesLostError as error:
                        # It has the names of who is left, and the history.
                        aggregator._run_of_remaining_nodes = error.run
                    except (NoSpaceError, EmptyIntersectionError) as error:
                        # A search prints the traceback of each fit that fails, and
                        # what is called in here says nothing of a level that is too
                        # high.
                        raise error.with_traceback(None) from None
            finally:
                vars(aggregator).pop("_run_of_remaining_nodes", None)
        # The same warning may come from several nodes; a report says it once.
        aggregator._fit_warnings = tuple(dict.fromkeys(texts))
        return fitted

    return fit_on_remaining_nodes
