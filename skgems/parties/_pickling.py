"""The error of a classifier that cannot be sent to, or by, a worker's process."""

import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from joblib.externals.loky.backend.reduction import dumps

from ..local import LocalModel


@contextmanager
def told_if_not_pickled(
    n_jobs: int | None, classifiers: Mapping[str, object]
) -> Iterator[None]:
    """Raise TypeError that says what cannot be pickled, where workers cannot be used.

    ``classifiers`` has those that are sent, by name of the node. joblib's own error
    has the reason only in the traceback of its cause, and no name.
    """
    try:
        yield
    except pickle.PicklingError as error:
        for name, classifier in classifiers.items():
            try:
                dumps(classifier)
            except Exception as reason:  # a class of a user may raise anything
                raise TypeError(
                    f"n_jobs={n_jobs} sends classifiers to other processes, but that "
                    f"of node {name!r} cannot be pickled ({_in_words(reason)}). Set "
                    "n_jobs=None. Modules of torch whose weights are parametrized, as "
                    "by weight_norm of torch.nn.utils.parametrizations, can never be "
                    "pickled."
                ) from error
        raise


@dataclass(frozen=True)
class Trained:
    """A classifier that a worker has trained, and sends back."""

    model: LocalModel

    def __reduce__(self) -> tuple:
        """Pickle it here, so that what cannot be pickled has the name of its node."""
        try:
            content = bytes(dumps(self.model))
        except Exception as reason:
            raise TypeError(
                f"Node {self.model.name!r}: the classifier that a worker has trained "
                f"cannot be pickled ({_in_words(reason)}). Set n_jobs=None. Modules "
                "of torch whose weights are parametrized, as by weight_norm of "
                "torch.nn.utils.parametrizations, can never be pickled."
            ) from None
        return _trained_of, (content,)


def _trained_of(content: bytes) -> Trained:
    return Trained(pickle.loads(content))


def _in_words(reason: Exception) -> str:
    """Return the first sentence of an error, which may go on with an address."""
    return re.split(r"\.\s", f"{type(reason).__name__}: {reason}\n")[0].strip()
