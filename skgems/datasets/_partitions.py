"""Deal the rows of one data set over nodes: the ``nodes`` array that ``fit`` takes."""

from collections.abc import Callable, Mapping
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..compat import Interval, RealNotInt, StrOptions, validate_params
from ._groups import shuffled_by_class
from ._labels import PUBLIC, PUBLIC_NAME, missing_labels

RandomState = int | np.random.RandomState | None

_POSITIVE = Interval(Integral, 1, None, closed="left")


def _checked(**constraints) -> Callable:
    """A decorator that validates parameters, ``random_state`` among them."""
    constraints["random_state"] = ["random_state"]
    return validate_params(constraints, prefer_skip_nested_validation=True)


def _encode_labels(y: ArrayLike) -> tuple[NDArray, NDArray[np.intp]]:
    """Sorted classes, and the index of each label among them."""
    missing = missing_labels(y)
    if missing.any():
        raise ValueError(
            f"y has no label (it is None, NaN or NA) for {missing.sum()} of "
            f"{len(missing)} rows. Leave these rows out, y[pandas.notna(y)], or give "
            "them their labels."
        )
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes


def _label_groups(groups: int | list, classes: NDArray, other_labels: str) -> NDArray:
    """Return which group (column) has which class (row): (n_classes, n_groups)."""
    n_classes = len(classes)
    if isinstance(groups, Integral):
        if groups > n_classes:
            raise ValueError(
                f"groups={groups} asks for more groups of labels than y has labels "
                f"({n_classes})."
            )
        groups = np.array_split(classes, groups)
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    holds = np.zeros((n_classes, len(groups)), dtype=bool)
    for k, group in enumerate(groups):
        holds[_codes_of_group(group, code_of, f"groups[{k}]"), k] = True
    in_no_group = classes[~holds.any(axis=1)].tolist()
    if in_no_group and other_labels == "error":
        raise ValueError(
            f"No group holds the labels {in_no_group}: add them to a group, or make "
            "their rows public: other_labels='public'."
        )
    return holds


def _codes_of_group(
    group: ArrayLike, code_of: Mapping[object, int], name: str
) -> list[int]:
    """The codes of a group's labels; ValueError names the group."""
    if isinstance(group, str) or not np.iterable(group):
        raise ValueError(f"{name} must be a list of labels, got {group!r}.")
    labels = np.asarray(group, dtype=object).ravel().tolist()
    if not labels:
        raise ValueError(f"{name} is empty: every node needs a label.")
    absent = [label for label in labels if label not in code_of]
    if absent:
        raise ValueError(f"{name} names labels that y does not have: {absent}")
    return [code_of[label] for label in labels]


@_checked(
    y=["array-like"],
    groups=[_POSITIVE, list, tuple],
    other_labels=[StrOptions({"error", "public"})],
)
def partition_by_label(
    y: ArrayLike,
    groups: int | list,
    *,
    other_labels: str = "error",
    random_state: RandomState = None,
) -> NDArray[np.intp]:
    """Give each node the rows of some labels.

    This is the hardest partition: if the groups are disjoint, no node ever sees the
    labels of another.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any type.
    groups : int or list of lists of labels
        The labels of each node. The rows of a label that is in several groups are dealt
        evenly among these nodes at random. An int `K` cuts the sorted labels into `K`
        runs of equal length, up to one label.
    other_labels : {"error", "public"}, default="error"
        What to do with labels that are in no group: raise an error, or mark their rows
        as public. Use "public" to make a public sample of other classes.
    random_state : int, RandomState instance or None, default=None
        Seed that deals the rows of labels in several groups. Give an int for the same
        partition in each call.

    Returns
    -------
    nodes : ndarray of shape (n_samples,), dtype intp
        The node that owns each row; `-1` for public rows.

    Raises
    ------
    ValueError
        If a label is in no group (unless `other_labels="public"`), or a group is empty
        or has a label that is not in `y`. Also if there are more groups than labels, or
        a node gets no rows.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2019, B.2.

    Examples
    --------
    >>> from skgems.datasets import partition_by_label
    >>> partition_by_label([0, 1, 2, 3, 3, 0], 2)
    array([0, 0, 1, 1, 1, 0])
    >>> partition_by_label(["b", "a", "c"], [["c"], ["a", "b"]])
    array([1, 1, 0])
    """
    classes, codes = _encode_labels(y)
    holds = _label_groups(groups, classes, other_labels)
    rng = check_random_state(random_state)
    order = shuffled_by_class(codes, rng)
    nodes = np.full(len(codes), PUBLIC, dtype=np.intp)
    # Groups that hold a label take turns; who gets the odd row is random.
    for code, offset in enumerate(rng.random_sample(len(classes))):
        rows = order[codes[order] == code]
        holders = np.flatnonzero(holds[code])
        if len(holders):
            turns = np.arange(len(rows)) + int(offset * len(holders))
            nodes[rows] = holders[turns % len(holders)]
    without = np.setdiff1d(np.arange(len(holds.T)), nodes)
    if len(without):
        raise ValueError(
            f"Nodes {without.tolist()} got no rows: their labels have fewer rows than "
            "groups that share them. Give them more labels, or use fewer groups."
        )
    return nodes


@_checked(y=["array-like", _POSITIVE], n_nodes=[_POSITIVE], stratify=["boolean"])
def partition_homogeneous(
    y: ArrayLike | int,
    n_nodes: int,
    *,
    stratify: bool = True,
    random_state: RandomState = None,
) -> NDArray[np.intp]:
    """Deal the rows evenly, so that all nodes see the same distribution.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or int
        Labels of the rows. An int is the number of rows, which are then dealt without
        regard to labels.
    n_nodes : int
        Number of nodes.
    stratify : bool, default=True
        Whether each label is dealt evenly, up to one row. Set it to False if `y` is
        continuous.
    random_state : int, RandomState instance or None, default=None
        Seed that shuffles the rows. Give an int for the same partition in each call.

    Returns
    -------
    nodes : ndarray of shape (n_samples,), dtype intp
        The node that owns each row. The sizes of nodes differ by at most one row.

    Raises
    ------
    ValueError
        If there are fewer rows than nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.datasets import partition_homogeneous
    >>> y = np.repeat([0, 1], [8, 4])
    >>> nodes = partition_homogeneous(y, 4, random_state=0)
    >>> np.bincount(nodes[y == 0]), np.bincount(nodes[y == 1])
    (array([2, 2, 2, 2]), array([1, 1, 1, 1]))
    """
    rng = check_random_state(random_state)
    if isinstance(y, Integral):
        order = rng.permutation(y)
    elif stratify:
        order = shuffled_by_class(_encode_labels(y)[1], rng)
    else:
        order = rng.permutation(len(column_or_1d(y)))
    n_rows = len(order)
    if n_rows < n_nodes:
        raise ValueError(f"{n_rows} rows cannot give {n_nodes} nodes a row each.")
    nodes = np.empty(n_rows, dtype=np.intp)
    nodes[order] = rng.permutation(n_nodes)[np.arange(n_rows) % n_nodes]
    return nodes


@_checked(
    y=["array-like"],
    n_nodes=[_POSITIVE],
    alpha=[Interval(Real, 0, None, closed="neither")],
    min_size=[Interval(Integral, 0, None, closed="left")],
    max_tries=[_POSITIVE],
)
def partition_dirichlet(
    y: ArrayLike,
    n_nodes: int,
    *,
    alpha: float,
    min_size: int = 10,
    max_tries: int = 1000,
    random_state: RandomState = None,
) -> NDArray[np.intp]:
    r"""Deal each label in proportions drawn from a Dirichlet distribution.

    For each label `c`, the shares of the `K` nodes are drawn as :math:`p_c \sim
    \mathrm{Dir}_K(\alpha, \dots, \alpha)`. A small `alpha` makes the nodes very
    different; with a large `alpha` the partition approaches
    :func:`partition_homogeneous`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any type.
    n_nodes : int
        Number of nodes.
    alpha : float
        Concentration, greater than 0. Values from 0.1 to 1 are common in the
        literature.
    min_size : int, default=10
        Smallest number of rows of a node. Proportions are drawn again until every node
        has at least as many.
    max_tries : int, default=1000
        Largest number of draws. Increase it if no draw succeeds.
    random_state : int, RandomState instance or None, default=None
        Seed that draws the proportions and shuffles the rows. Give an int for the same
        partition in each call.

    Returns
    -------
    nodes : ndarray of shape (n_samples,), dtype intp
        The node that owns each row.

    Raises
    ------
    ValueError
        If `y` has fewer than `n_nodes * min_size` rows, or no draw gave every node at
        least `min_size` rows.

    References
    ----------
    M. Yurochkin et al.: Probabilistic Federated Neural Matching, 2018, section 4, which
    has :func:`partition_homogeneous` too.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.datasets import partition_dirichlet
    >>> y = np.repeat([0, 1, 2], 100)
    >>> nodes = partition_dirichlet(y, 3, alpha=0.2, min_size=20, random_state=0)
    >>> nodes.shape, bool(np.bincount(nodes).min() >= 20)
    ((300,), True)
    """
    _, codes = _encode_labels(y)
    if n_nodes * min_size > len(codes):
        raise ValueError(
            f"{len(codes)} rows cannot give {n_nodes} nodes min_size={min_size} rows "
            f"each: at most {len(codes) // n_nodes} is possible."
        )
    rng = check_random_state(random_state)
    n_rows = np.bincount(codes)  # of each class
    best = -1
    shape = (len(n_rows), n_nodes)
    for _ in range(max_tries):
        # log of Gamma(alpha) = log of Gamma(alpha + 1) - Exp(1) / alpha: the gammas
        # themselves all underflow to 0 where alpha is small.
        log_gamma = np.log(rng.standard_gamma(alpha + 1, shape))
        log_gamma -= rng.standard_exponential(shape) / alpha
        shares = softmax(log_gamma, axis=1)
        cuts = np.rint(np.cumsum(shares, axis=1) * n_rows[:, None]).astype(np.intp)
        cuts[:, -1] = n_rows
        counts = np.diff(cuts, axis=1, prepend=0)
        best = max(best, counts.sum(axis=0).min())
        if best >= min_size:
            break
    else:
        raise ValueError(
            f"None of {max_tries} draws gave all {n_nodes} nodes min_size={min_size} "
            f"rows (the best gave its smallest node {best}): use fewer nodes, a "
            f"larger alpha than {alpha}, a smaller min_size or a larger max_tries."
        )
    nodes = np.empty(len(codes), dtype=np.intp)
    node_of_rank = np.repeat(np.tile(np.arange(n_nodes), len(n_rows)), counts.ravel())
    nodes[shuffled_by_class(codes, rng)] = node_of_rank
    return nodes


@_checked(source=["array-like"], mixing=[Interval(Real, 0, 1, closed="both")])
def partition_mixing(
    source: ArrayLike, *, mixing: float, random_state: RandomState = None
) -> NDArray[np.intp]:
    """Deal two sources to two nodes, each with most rows from its own source.

    A fraction `mixing / 2` of the rows of each source goes to the node of the other
    source.

    Parameters
    ----------
    source : array-like of shape (n_samples,)
        Source of each row: any two values. The smaller value is the own source of node
        0. Use a condition such as `X[:, 0] > median` for nodes whose features differ in
        distribution.
    mixing : float
        Degree of mixing, from 0 (each node has rows of its own source only) to 1 (each
        node has half of the rows of both sources).
    random_state : int, RandomState instance or None, default=None
        Seed that shuffles the rows. Give an int for the same partition in each call.

    Returns
    -------
    nodes : ndarray of shape (n_samples,), dtype intp
        The node that owns each row, 0 or 1.

    Raises
    ------
    ValueError
        If `source` does not have exactly two values.

    References
    ----------
    N. Guha, V. Smith: Model Aggregation via Good-Enough Model Spaces, 2018, 6.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.datasets import partition_mixing
    >>> source = np.repeat([0, 1], [8, 4])
    >>> nodes = partition_mixing(source, mixing=1, random_state=0)
    >>> np.bincount(nodes[source == 0]), np.bincount(nodes[source == 1])
    (array([4, 4]), array([2, 2]))
    """
    sources, nodes = np.unique(column_or_1d(source), return_inverse=True)
    if len(sources) != 2:
        raise ValueError(
            f"source must have two values, one for each node; it has {len(sources)}."
        )
    rng = check_random_state(random_state)
    order = shuffled_by_class(nodes, rng)
    n_rows = np.bincount(nodes)
    n_changed = np.rint(n_rows * mixing / 2).astype(np.intp)
    for changed in (order[: n_changed[0]], order[n_rows[0] :][: n_changed[1]]):
        nodes[changed] = 1 - nodes[changed]
    return nodes


@_checked(
    nodes=["array-like"],
    size=[_POSITIVE, Interval(RealNotInt, 0, 1, closed="neither")],
    y=["array-like", None],
)
def hold_out_public(
    nodes: ArrayLike,
    size: int | float,
    *,
    y: ArrayLike | None = None,
    random_state: RandomState = None,
) -> NDArray:
    """Make some rows of the nodes public, as a sample to fine-tune the aggregate.

    Parameters
    ----------
    nodes : array-like of shape (n_samples,)
        Index or name of the node that owns each row. Rows that are public already stay
        public.
    size : int or float
        Number of rows that become public. A float below 1 is a fraction of the nodes'
        rows.
    y : array-like of shape (n_samples,), default=None
        Labels. If given, each label has the same share of the public sample as of all
        rows, up to one row.
    random_state : int, RandomState instance or None, default=None
        Seed that shuffles the rows. Give an int for the same sample in each call.

    Returns
    -------
    nodes : ndarray of shape (n_samples,), dtype intp or object
        A copy in which public rows are `-1`, or `"public"` if nodes are named.

    Raises
    ------
    ValueError
        If `nodes` has neither integers nor names, `size` leaves no public or no private
        row, or a node would lose its last row.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.datasets import hold_out_public
    >>> y, nodes = np.tile([0, 1], 50), np.repeat([0, 1], 50)
    >>> public = hold_out_public(nodes, 20, y=y, random_state=0) == -1
    >>> np.bincount(y[public])
    array([10, 10])
    """
    nodes = column_or_1d(nodes)
    if nodes.dtype.kind in "iu":
        nodes = nodes.astype(np.intp)
        public = PUBLIC
    elif nodes.dtype.kind in "OUT":
        nodes = nodes.astype(object)
        public = PUBLIC_NAME
    else:
        raise ValueError(f"nodes must hold integers or names, not {nodes.dtype}.")
    owned = np.flatnonzero(nodes != public)
    n_public = size if isinstance(size, Integral) else round(size * len(owned))
    if not 1 <= n_public < len(owned):
        raise ValueError(
            f"size={size} makes {n_public} of the nodes' {len(owned)} rows public; at "
            "least one must be, and at least one must stay."
        )
    rng = check_random_state(random_state)
    if y is None:
        public_rows = rng.permutation(owned)[:n_public]
    else:
        _, codes = _encode_labels(y)
        check_consistent_length(nodes, codes)
        order = owned[shuffled_by_class(codes[owned], rng)]
        # Equal steps through the rows sorted by label take every label's share.
        start = rng.randint(len(owned))
        public_rows = order[(np.arange(n_public) * len(owned) + start) // n_public]
    nodes_and_public = nodes.copy()
    nodes_and_public[public_rows] = public
    emptied = sorted(set(nodes.tolist()) - set(nodes_and_public.tolist()), key=str)
    if emptied:
        raise ValueError(f"size={size} would leave nodes {emptied} without rows.")
    return nodes_and_public
