"""The error of a classifier that cannot be sent to a worker of another process."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import PicklingError


@contextmanager
def told_if_not_pickled(n_jobs: int | None) -> Iterator[None]:
    """Raise TypeError that says what cannot be pickled, where workers cannot be used.

    joblib's own error has the reason only in the traceback of its cause.
    """
    try:
        yield
    except PicklingError as error:
        reasons = re.findall(r"\w+Error: .*", str(error.__cause__))
        reason = reasons[-1].removesuffix(" See:") if reasons else str(error)
        raise TypeError(
            f"n_jobs={n_jobs} sends classifiers to other processes, but one of them "
            f"cannot be pickled ({reason}). Set n_jobs=None. Modules of torch whose "
            "weights are parametrized, as by weight_norm of "
            "torch.nn.utils.parametrizations, can never be pickled."
        ) from error
