"""Which of several models is taken, by rows that did not make them."""

from ._asking import choose_over
from ._choice import Choice, smallest_of_the_best
from ._judging import Candidate, choose

__all__ = ["Choice"]
