"""Trees that are grown from histograms of rows, on plain arrays.

Rows are in bins: whole numbers, one a feature (`bin_codes`). To grow all trees by a
level, each node counts, for each leaf that is still open, its rows by bin and class
(`class_histograms`). These histograms add up over nodes, and the best split of a leaf
is a function of their sum (`Growth`). So the trees are those that the same bins give
over all rows at one place, however rows are split over nodes. Boosted trees grow so too
(`BoostedGrowth`), from sums of gradients and hessians that are whole numbers
(`BoostedRows`). Totally random trees are drawn before any row is counted
(`random_forest`), so that one message has the counts of all leaves.

>>> import numpy as np
>>> from skgems.trees import Growth, TreeRules, bin_codes, class_histograms, leaves_of
>>> X = np.linspace(-2, 2, 40).reshape(-1, 1)
>>> labels = (X[:, 0] > 0.5).astype(int)
>>> rules = TreeRules(max_depth=2, max_features=1)
>>> growth = Growth(rules, n_trees=1, n_features=1, n_classes=2, random_state=0)
>>> codes = bin_codes(X)
>>> while growth.is_open:
...     leaves = leaves_of(codes, growth.forest)
...     growth.take(class_histograms(codes, labels, leaves, growth.asked, n_classes=2))
>>> growth.counts[leaves_of(codes, growth.forest)[:, 0]].argmax(axis=1).tolist() == (
...     labels.tolist()
... )
True
"""

from ._bins import N_BINS, bin_codes, bytes_of_bins, upper_edges
from ._boosted_rows import BoostedRows, joined_histograms
from ._boosting import BoostedGrowth
from ._forest import Forest, leaves_of, mean_values
from ._gradients import N_SUMS, SCALE, n_outputs, raw_predictions
from ._growth import Growth
from ._histograms import (
    TYPES_OF_COUNTS,
    Asked,
    Cells,
    bootstrap_weights,
    class_cells,
    class_histograms,
    rounded_cells,
    rounded_histograms,
)
from ._levels import LevelGrowth
from ._packed import (
    packed_cells,
    packed_counts,
    packed_numbers,
    unpacked_cells,
    unpacked_counts,
    unpacked_numbers,
)
from ._random_trees import (
    RandomTrees,
    leaf_counts,
    random_forest,
    rounded_leaf_counts,
)
from ._rules import N_MORE_LEVELS, BoostingRules, TreeRules
from ._splits import CRITERIA
