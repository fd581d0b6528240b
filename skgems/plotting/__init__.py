"""Pictures of fitted aggregates; needs matplotlib, imported when one is drawn."""

from ._fits import EpsilonDisplay, NodeReportDisplay, RoundsDisplay, SpacesDisplay
from ._matching import MatchingDisplay

__all__ = [
    "EpsilonDisplay",
    "MatchingDisplay",
    "NodeReportDisplay",
    "RoundsDisplay",
    "SpacesDisplay",
]
