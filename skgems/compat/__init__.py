"""What all rooms stand on: scikit-learn's private parts, and progress of long runs.

Private functions of scikit-learn are imported here and nowhere else, so that a new
version breaks one file. Begin with `fit_context`, which validates parameters, and
`safe_indexing`. `shown` wraps methods of estimators whose ``verbose`` says whether to
show how far a long run is. Within them, `say` logs a line, and `tracked` an iterable's
progress; they are silent elsewhere, so that functions on arrays may call them.

>>> import numpy as np
>>> from skgems.compat import safe_indexing
>>> safe_indexing(np.array([[1, 2], [3, 4], [5, 6]]), [0, 2])
array([[1, 2],
       [5, 6]])
>>> from skgems.compat import tracked
>>> [2 * k for k in tracked(range(3), "doubling", 3)]
[0, 2, 4]
"""

from sklearn.base import _clone_parametrized as clone_parametrized  # clone() calls it
from sklearn.base import _fit_context as fit_context
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import NODE_DTYPE, Tree
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._indexing import _get_column_indices as get_column_indices
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    RealNotInt,
    StrOptions,
    validate_params,
)
from sklearn.utils.metaestimators import _BaseComposition as BaseComposition
from sklearn.utils.multiclass import _ovr_decision_function as ovr_decision_function
from sklearn.utils.validation import _num_samples as num_samples

try:
    from sklearn.utils._repr_html.estimator import _VisualBlock as VisualBlock
except ImportError:  # scikit-learn < 1.8
    from sklearn.utils._estimator_html_repr import _VisualBlock as VisualBlock

from ._progress import LOGGER, say, showing, shown, tracked
