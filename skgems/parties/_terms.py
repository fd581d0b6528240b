"""Terms of methods, made of settings that come from outside."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..messages import TASKS, TERMS, Message, NotAgreedError, Terms, is_summary


def allows_missing(request: Message) -> bool:
    """Report whether the rows that answer a request may lack values."""
    if not is_summary(request):
        return TASKS[request.task].allows_missing
    terms = terms_of(
        request.content["method"],
        settings=request.content["settings"],
        further_settings={},
    )
    return terms.allows_missing


def terms_of(method: str, *, settings: Mapping, further_settings: Mapping) -> Terms:
    """The terms of a method by settings from outside, which may be of any form."""
    if method not in TERMS:
        raise NotAgreedError(
            f"the method {method!r:.80} is not known at this node: import the module "
            "that defines it, or install the version of skgems that the server has."
        )
    with settings_of_strangers(method):
        return TERMS[method].from_settings(settings, further_settings)


@contextmanager
def settings_of_strangers(method: str) -> Iterator[None]:
    """Raise NotAgreedError for whatever settings of any form let raise."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotAgreedError(
            f"the settings of {method} cannot be read at this node: "
            f"{type(error).__name__}: {error!s:.200}."
        ) from None
