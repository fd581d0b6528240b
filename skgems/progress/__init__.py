"""How far a long run is, where somebody asked for it."""

from ._progress import LOGGER, say, showing, shown, tracked
