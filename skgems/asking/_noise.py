"""Models of sums with noise: what goes with it, what nodes are asked, what is made."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..base import Allows, BaseAggregator, Method, Takes
from ..messages import Message
from ..moments import ClassMoments
from ..parties import Federation
from ..private import (
    NoisySums,
    NoisyTerms,
    Privacy,
    bounds_of,
    layout_of,
    mend,
    raise_needs_more,
    sigma_of,
)
from ..steps import Front
from ._run import Run

# Why no model of sums with noise is scikit-learn's fit on all rows.
NOISE = "The sums have noise (privacy)."
# Parameters that do not go with noise unless they are as by default, and why.
_NEEDS_MORE: Mapping[str, str] = {
    "epsilon": "good-enough spaces tell how far single rows are, without noise",
    "intersection": "good-enough spaces tell how far single rows are, without noise",
    "spaces": "good-enough spaces tell how far single rows are, without noise",
    "moments": "nodes tell one matrix of all classes or of each, and no clusters",
    "n_rounds": "each further message would need noise of its own",
    "node_weight": "the sums of all nodes are added up as they are",
    "class_weight": "the sums count each row once",
    "fit_intercept": "the model is that of rows about the middle of their bounds",
    "robust": "noise hides whether the sums of a node are of its rows",
    "keep_replies": "update and forget would need noise of their own",
    "disclosure": "the noise is the rule for what leaves a node",
    "front": "nodes would tell of their columns without noise",
}
# Values of these that change nothing where sums have noise.
_MEAN_THE_SAME: Mapping[str, tuple] = {
    "class_weight": (None,),
    "fit_intercept": (True,),
    "moments": ("shared", "class"),
}
# The largest sum that int64 holds, with room for rounding where it is checked.
_LARGEST_TOTAL = 2.0**62


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyMethod(Method):
    """A method that takes one vector of each node, of sums with noise."""

    takes: ClassVar[Takes] = Takes(networks=False, learnt=False, rows_alone=True)
    allows: ClassVar[Allows] = Allows(missing_values=True)
    takes_weights: ClassVar[bool] = False

    privacy: Privacy

    @classmethod
    def from_aggregator(cls, aggregator: BaseAggregator) -> Self:
        method = super().from_aggregator(aggregator)
        check_goes_with_noise(aggregator, method.privacy)
        return method

    @property
    def terms(self) -> NoisyTerms:
        """Return what nodes and server agree on."""
        return NoisyTerms(privacy=self.privacy, by_class=self.by_class)

    @property
    def by_class(self) -> bool:
        """Report whether nodes tell products of columns of each class."""
        return False

    def front_with_bins(self, front: Front | None) -> Front | None:
        """Return the front, to which nothing is added."""
        return front

    def model_of(self, moments: ClassMoments, classes: np.ndarray) -> dict[str, object]:
        """Return the attributes of the model of mended moments."""
        raise NotImplementedError

    def attributes(self, federation: Federation, run: Run) -> dict[str, object]:
        """Add up what the nodes told, mend it, and make the model of it."""
        total, n_nodes = run(_total_plan(self.terms.request()))
        sums = NoisySums.from_vector(
            total,
            layout_of(self.privacy, by_class=self.by_class),
            sigma=sigma_of(self.privacy) * np.sqrt(n_nodes),
        )
        bounds = bounds_of(self.privacy)
        moments = mend(sums).as_moments(
            middle=bounds.middle, scale=bounds.half * bounds.longest
        )
        return {
            **self.model_of(moments, federation.classes),
            "exact_": False,
            "trust_": None,
            "_row_bounds": bounds,
            "_dtype": np.dtype(np.float64),
        }

    # ---- what needs more than sums with noise ----------------------------------------

    def check_takes_weights(self) -> NoReturn:
        raise_needs_more("sample_weight")

    def merged_summary(
        self, aggregator: BaseEstimator, summaries: list, name: str
    ) -> NoReturn:
        raise_needs_more("merge_summaries")

    def check_has_spaces(self, federation: Federation) -> NoReturn:
        raise_needs_more("good_enough_spaces")

    def tuned_attributes(
        self,
        aggregator: BaseAggregator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None,
    ) -> NoReturn:
        raise_needs_more("fine_tune")


def check_goes_with_noise(aggregator: BaseAggregator, privacy: Privacy) -> None:
    """Raise ValueError, which names it, for a parameter that needs more than noise."""
    if privacy.epsilon is None:
        raise ValueError(
            "epsilon=None of Privacy puts no noise on sums, which then only helpers of "
            "sealed sums may add up, and there are none. Set an epsilon, as in "
            "set_params(privacy__epsilon=1.0)."
        )
    default = type(aggregator)()
    for name, reason in _NEEDS_MORE.items():
        if name not in aggregator._get_param_names():
            continue
        value = getattr(aggregator, name)
        default_value = getattr(default, name)
        if repr(aggregator._parameter(name)) in _alike(default, name):
            continue
        raise ValueError(
            f"{name}={value!r} does not go with privacy: {reason}. Set "
            f"{name}={default_value!r}, or privacy=None."
        )


def _alike(default: BaseAggregator, name: str) -> set[str]:
    """Return how a parameter reads that is as by default, or means the same."""
    values = [getattr(default, name), *_MEAN_THE_SAME.get(name, ())]
    return {
        repr(default.set_params(**{name: value})._parameter(name)) for value in values
    }


def _total_plan(request: Message) -> Generator:
    """Plan of the sum of all nodes' vectors, (n_numbers,), and the number of nodes."""
    replies = yield request
    vectors = [reply.vector for _, reply in replies]
    size = np.sum([np.abs(vector, dtype=np.float64) for vector in vectors], axis=0)
    if size.max() > _LARGEST_TOTAL:
        raise ValueError(
            "The sums of all nodes are larger than numbers of 64 bits, so at least one "
            "node told sums of no rows. Ask the nodes how many rows they have."
        )
    return np.sum(vectors, axis=0), len(vectors)
