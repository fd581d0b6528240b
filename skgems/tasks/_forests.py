"""Trees in messages: their fields, and how they fit together."""

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from typing import Annotated

import numpy as np

from ..local import Member
from ..messages import MOST_CLASSES, Array, Labels, Place, Request
from ..trees import N_BINS, Forest
from ._shared import whole_number

# Trees in one request, which are so many numbers for each row.
MOST_TREES = 10_000


# Levels of these trees: each is a step for the rows, and honest ones are far fewer.
_MOST_LEVELS = 64


def trees_are_sound(content: Mapping, place: Place) -> None:
    """Children follow their parents, and each has one.

    So no row goes round in circles, however a server made the trees.
    """
    left = content["left"]
    n_vertices = len(content["feature"])
    is_split = content["feature"] >= 0
    place.deny(content["n_trees"] > n_vertices, "n_trees", "are more than vertices")
    follow = left[is_split] > np.flatnonzero(is_split)
    children = np.sort(np.concatenate([left[is_split], left[is_split] + 1]))
    all_but_roots = np.arange(content["n_trees"], n_vertices)
    is_sound = follow.all() and np.array_equal(children, all_but_roots)
    place.deny(not is_sound, "left", "are not those of trees")
    place.deny((content["bin"] >= N_BINS).any(), "bin", f"are not below {N_BINS}")
    forest = Forest.from_content(content)
    # Not by the depth, for which all levels of deep trees are walked through.
    is_deep = any(islice(map(len, forest.levels()), _MOST_LEVELS + 1, None))
    place.deny(is_deep, "left", f"are of trees with more than {_MOST_LEVELS} levels")


def check_leaves(request: "GrowthRequest", place: Place) -> None:
    """Raise ValueError for trees that are not sound, or leaves out of their order."""
    trees_are_sound(vars(request), place)
    feature = request.feature
    leaves = request.leaves
    are_leaves = (leaves < len(feature)).all() and (feature[leaves] < 0).all()
    place.deny(not are_leaves, "leaves", "are not all leaves")
    by_tree = np.diff(request.forest.trees[leaves])
    in_order = (by_tree >= 0).all() and len(np.unique(leaves)) == len(leaves)
    place.deny(not in_order, "leaves", "are not in the order of trees")


# Vertices v of all trees; children follow their parents, -1 stands for none.
FOREST_FIELDS = {
    "n_trees": whole_number(low=1, high=MOST_TREES),
    "feature": Array("v", kinds="i", low=-1),
    "bin": Array("v", kinds="i", low=0),
    "missing_left": Array("v", kinds="b"),
    "left": Array("v", kinds="i", low=-1),
}


class GrowthRequest(Request):
    """Trees so far, and the leaves a that are asked about."""

    classes: Annotated[list, Labels("k", ordered=True, most=MOST_CLASSES)]
    n_trees: Annotated[int, FOREST_FIELDS["n_trees"]]
    feature: Annotated[np.ndarray, FOREST_FIELDS["feature"]]
    bin: Annotated[np.ndarray, FOREST_FIELDS["bin"]]
    missing_left: Annotated[np.ndarray, FOREST_FIELDS["missing_left"]]
    left: Annotated[np.ndarray, FOREST_FIELDS["left"]]
    leaves: Annotated[np.ndarray, Array("a", kinds="i", low=0)]

    @cached_property
    def forest(self) -> Forest:
        """Return the trees that the request brings."""
        return Forest.from_content(vars(self))


def check_features(member: Member, *features: np.ndarray, n_features: int) -> None:
    """Raise ValueError for splits by a feature that the rows do not have."""
    last_feature = max(indices.max(initial=-1) for indices in features)
    if last_feature >= n_features:
        raise ValueError(
            f"Node {member.name!r} has {n_features} features, but trees are to be "
            f"split by feature {last_feature}."
        )


def has_grown_from(forest: Forest, before: Forest) -> bool:
    """Report whether trees are those ``before`` with some of their leaves split."""
    if forest.n_trees != before.n_trees or forest.n_vertices < before.n_vertices:
        return False
    was_split = np.flatnonzero(before.feature >= 0)
    names = ("feature", "bin", "missing_left", "left")
    pairs = [(getattr(forest, name), getattr(before, name)) for name in names]
    return all(np.array_equal(new[was_split], old[was_split]) for new, old in pairs)
