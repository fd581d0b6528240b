"""Noise on sums, of a size that epsilon and delta prescribe.

A `Privacy` says which facts are public and how much may be learned of one person.

>>> from skgems.private import Privacy
>>> privacy = Privacy(classes=["ill", "well"], low=[20, 0], high=[90, 1], epsilon=1.0)
>>> privacy.sorted_classes().tolist()
['ill', 'well']
"""

from ._accounting import Charge, Spent
from ._privacy import Privacy

# `Privacy` is public as a name of the package itself.
__all__: list[str] = []
