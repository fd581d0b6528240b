"""How far a long run is, where somebody asked for it.

`shown` wraps methods of estimators whose ``verbose`` says whether to show anything.
Within them, `say` logs a line, and `tracked` an iterable's progress; they are silent
elsewhere, so that functions on arrays may call them.

>>> from skgems.progress import tracked
>>> [2 * k for k in tracked(range(3), "doubling", 3)]
[0, 2, 4]
"""

from ._progress import LOGGER, say, showing, shown, tracked
