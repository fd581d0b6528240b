"""Pictures of fitted aggregates; needs matplotlib, imported when one is drawn."""

from ._curves import (
    EpsilonDisplay,
    FineTuningDisplay,
    GapDisplay,
    RoundsDisplay,
    SizeAccuracyDisplay,
)
from ._fits import NodeReportDisplay, SpacesDisplay
from ._matching import MatchingDisplay

__all__ = [
    "EpsilonDisplay",
    "FineTuningDisplay",
    "GapDisplay",
    "MatchingDisplay",
    "NodeReportDisplay",
    "RoundsDisplay",
    "SizeAccuracyDisplay",
    "SpacesDisplay",
]
