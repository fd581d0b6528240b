"""What scikit-learn keeps to itself and the other rooms need.

Private functions of scikit-learn are imported here and nowhere else, so that a new
version breaks one file. Nothing is written here but fallbacks for older versions. Begin
with `fit_context`, which validates parameters, and `safe_indexing`.

>>> import numpy as np
>>> from skgems.compat import safe_indexing
>>> safe_indexing(np.array([[1, 2], [3, 4], [5, 6]]), [0, 2])
array([[1, 2],
       [5, 6]])
"""

from sklearn.base import _clone_parametrized as clone_parametrized  # clone() calls it
from sklearn.base import _fit_context as fit_context
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
