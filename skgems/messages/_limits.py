"""How much of anything a message may hold, and how much a request may cost a node.

What a message may *hold* are constants, the same for all: what is honest is far below.
What a request may *cost* is for the owner of the node to say, in :class:`Limits`.
"""

from dataclasses import dataclass, field, fields
from numbers import Real

import numpy as np

from ..base import Page, ResultMixin, Table

# Bytes of a whole file.
MOST_BYTES = 2**32  # 4 GB
# Bytes of the header in JSON, which takes some thirty times its size once it is read,
# of an agreement, which may list names of features, and of a key in PEM form.
MOST_HEADER = 2**22
MOST_DIMENSIONS = 4  # of an array: weights of a convolution have as many
# Bytes of arrays that equal others, which are stored once and checked each time: a file
# of two megabytes could name one of them ten thousand times.
MOST_REPEATED = 2**30
# Tables and lists within each other, and names that stand for places within them.
MOST_DEPTH = 32

# Rows are counted in floats.
MOST_ROWS = 2**53
# Whole numbers in requests that say how much is computed: what all machines can count.
# How much of it a node computes is said by its `Limits`.
MOST_COUNTED = int(np.iinfo(np.int32).max)
# Characters of labels, which numpy makes as long as the longest.
MOST_CHARACTERS = 2**26
# Of classes that moments are of: those of 1,000 take minutes to be made a model of.
MOST_CLASSES = 1000

# Models and factors in one message: a step tries five models at most, and candidates
# are seven; a search for a factor has grids of 17. More show single rows, so that no
# owner of a node can allow more of them.
MOST_MODELS = 7
MOST_FACTORS = 32  # twice those of a grid
# Candidates that are judged by halves of rows; `combine` has eleven at most.
MOST_JUDGED = 16
# Characters of a node's name, of an error, and of a reason why a node sends no sums,
# which has names of columns.
MOST_TEXT = 2000


def _limit(most: int, unit: str, *, of_rows: bool = False) -> int:
    """A field of `Limits` with its default; the unit is said in errors.

    ``of_rows``: whether what is counted depends on how many rows the node has.
    """
    return field(default=most, metadata={"unit": unit, "of_rows": of_rows})


@dataclass(frozen=True, kw_only=True)
class Limits(ResultMixin):
    """The most that one request may cost a node, checked before it is answered.

    A request of a few hundred bytes can ask for hours of computation, or for more
    memory than a machine has. A node refuses such a request with a
    :class:`~skgems.guard.LimitError`. It decides by the request and the shape of
    its rows only, before anything is computed.

    With the defaults, a request needs at most 1 GB of memory beside the rows. It needs
    at most ten times the processor time of a default fit, or ten seconds if that is
    more. A default fit is that of :class:`~sklearn.neural_network.MLPClassifier` with
    its defaults on the same rows. Everything that the library asks for by default stays
    below the limits. If you have a larger machine and know what a request is for, raise
    a single limit by its name.

    Parameters
    ----------
    methods : int, default=16
        Number of methods whose sums are asked for in one message, as in
        :func:`~skgems.combine`, which has up to eleven. Each takes about as long as a
        summary.
    classes : int, default=1_000
        Number of classes of one model in a request, including classes that the node has
        not seen.
    parameters : int, default=25_000_000
        Number of parameters of all models in a request, and of weights that steps of a
        front draw. Each row is multiplied with each of them. A network with 784
        features and 1,000 hidden units has 800,000 parameters;
        ``RandomFeatures(10000)`` on 784 columns has 7.8 million.
    losses : int, default=250_000
        Number of logarithms and exponentials per row: the number of models, times the
        classes, times the factors on their logits for which losses are summed. Seven
        models with 1,000 classes and 32 factors have 224,000.
    row_outputs : int, default=15_000_000
        Rows times classes of one model. So many numbers are in memory at once, at least
        six times over. The default allows 1,000 classes on 15,000 rows.
    epochs : int, default=2_000
        Epochs of training in one message: ten times the 200 of a default fit. Training
        by messages asks for 5 epochs at first, which may be doubled from round to
        round.
    epoch_units : int, default=200_000
        Epochs times hidden units of the layers that are trained: ten times a default
        fit, which has 200 epochs of 100 units. Layers with P parameters, d inputs and C
        outputs count as P / (d + C + 1) units. They count five times as much if rows of
        other nodes are drawn from moments beside the node's own rows.
    hidden_numbers : int, default=60_000_000
        Rows times hidden units of all layers in a request, which is 480 MB. The default
        allows 1,000 units on 60,000 rows. In requests about trees it is rows times
        trees.
    clusters : int, default=256
        Number of clusters that each class is divided into; requests ask for 16 by
        default.
    cluster_numbers : int, default=70_000_000
        Rows of the largest class times its clusters. These are distances that are in
        memory at once, 560 MB. The default allows 16 clusters of 4.3 million rows. In
        requests about trees it is the counts in histograms: leaves times features times
        bins times classes.
    moment_numbers : int, default=30_000_000
        Numbers in the covariance matrices, means and gradients that are made of the
        rows, 240 MB, some of them several times over. The default allows one matrix of
        5,477 features, or one matrix of 1,732 features for each of ten classes.
    directions : int, default=5_000
        Number of rays along which a good-enough space is explored: ten times the
        default.
    ray_outputs : int, default=50_000
        Rays times classes: ten times the default of 500 rays with ten classes.
    ray_units : int, default=500_000
        Rays times hidden units: ten times the default of 500 rays with 100 units.
    step_size : int, default=10_000
        Number of components, bins, knots or quantiles, or the degree, of one step of a
        front.
    front_columns : int, default=50_000
        Number of columns that all steps of a front return together.
    power_columns : int, default=5_000
        Number of columns that a PowerTransformer is fitted to. It looks at 25 powers of
        each value.
    tree_bytes : int, default=20_000_000
        Bytes of all replies about trees in one exchange, 20 MB. It is the only limit on
        what a node sends, and is checked when a reply has been made. Without a ledger
        each reply is checked by itself. 100 trees of depth 10 on 100,000 rows of 20
        columns have 11 MB.
    front_numbers : int, default=100_000_000
        Rows times the columns that steps of a front make and that are in memory at
        once, 800 MB, together with the numbers that the steps themselves hold. The
        default allows ``RandomFeatures(10000)`` on 9,000 rows, or 1,600 columns on
        60,000 rows. A PCA of d columns counts as 3 d^2 more.
    most_epsilon : float, default=1.0
        Epsilon of all replies with noise of the ledger together, under a
        :class:`~skgems.Privacy`. It is the only limit that is not about one request. It
        holds at the smallest delta of these replies, which is taken as 1e-5 if it is
        larger. Above it a node refuses with a
        :class:`~skgems.guard.NoiseSpentError`.

    See Also
    --------
    reply_to : Takes them as the parameter ``limits``.

    Examples
    --------
    >>> from skgems.guard import Limits
    >>> Limits(epochs=10_000).epochs
    10000
    """

    methods: int = _limit(16, "methods")
    classes: int = _limit(1_000, "classes")
    parameters: int = _limit(25_000_000, "parameters")
    losses: int = _limit(250_000, "models times classes times factors")
    row_outputs: int = _limit(15_000_000, "rows times classes", of_rows=True)
    epochs: int = _limit(2_000, "epochs")
    epoch_units: int = _limit(200_000, "epochs times hidden units")
    hidden_numbers: int = _limit(
        60_000_000, "rows times hidden units or trees", of_rows=True
    )
    clusters: int = _limit(256, "clusters of a class")
    cluster_numbers: int = _limit(
        70_000_000, "rows times clusters or counts in histograms", of_rows=True
    )
    moment_numbers: int = _limit(30_000_000, "numbers in sums", of_rows=True)
    directions: int = _limit(5_000, "rays")
    ray_outputs: int = _limit(50_000, "rays times classes")
    ray_units: int = _limit(500_000, "rays times hidden units")
    step_size: int = _limit(10_000, "components, bins or knots of a step")
    front_columns: int = _limit(50_000, "columns of all steps")
    power_columns: int = _limit(5_000, "columns of a PowerTransformer")
    tree_bytes: int = _limit(20_000_000, "bytes about trees")
    front_numbers: int = _limit(
        100_000_000, "numbers that steps hold at once", of_rows=True
    )
    most_epsilon: float = field(
        default=1.0, metadata={"unit": "epsilon of all replies with noise"}
    )

    def _page(self) -> Page:
        rows = [
            [limit.name, getattr(self, limit.name), limit.metadata.get("unit", "")]
            for limit in fields(self)
        ]
        limits = Table(heads=["limit", "at most", "of"], rows=rows)
        return Page(title="The most that one request may cost", parts=[limits])

    def __post_init__(self) -> None:
        _check_epsilon(self.most_epsilon)
        for limit in fields(self):
            most = getattr(self, limit.name)
            if limit.type is float:  # checked above
                continue
            if isinstance(most, bool) or not isinstance(most, int) or most < 1:
                raise ValueError(
                    f"the limit {limit.name} must be a whole number of 1 or more, got "
                    f"{most!r}."
                )


def _check_epsilon(most: object) -> None:
    """Raise ValueError unless a node can spend that much."""
    is_number = isinstance(most, Real) and not isinstance(most, bool)
    if not is_number or not 0 < most < np.inf:
        raise ValueError(
            f"the limit most_epsilon must be a number above 0, got {most!r}."
        )
