"""Noise on sums, of a size that epsilon and delta prescribe.

A `Privacy` says which facts are public and how much may be learned of one person. A
node makes one vector of whole numbers of its rows, by `PrivateRows`, and adds noise.
The server adds up the vectors of all nodes, and `mend` makes moments of the total that
rows could have. `Charge` and `Spent` count what the vectors cost.

>>> import numpy as np
>>> from skgems.private import Privacy, PrivateRows, layout_of
>>> privacy = Privacy(classes=["ill", "well"], low=[20, 0], high=[90, 1], epsilon=1.0)
>>> rows = PrivateRows(name="lyon", parts=lambda: [([[55, 1], [70, 0]], ["ill"] * 2)])
>>> rows.vector(privacy)[layout_of(privacy).parts[0]].tolist()
[65534, 0]
"""

from ._accounting import Charge, NoisyPart, Spent, whole_number_epsilon
from ._charges import charges_of, noise_of, noise_told
from ._mending import MendedSums, mend
from ._privacy import Privacy, raise_needs_more
from ._rows import (
    PrivateRows,
    bounds_of,
    charge_of,
    deviations_of,
    layout_of,
    sigma_of,
)
from ._terms import NoisyTerms, privacy_asked
from ._whole_rows import NoisySums, RowBounds, VectorLayout
from ._words import delta_in_words, noise_in_words, unit_in_words

# `Privacy` is public as a name of the package itself.
__all__: list[str] = []
