"""Pictures of fitted aggregates; needs matplotlib, imported when one is drawn."""

from ._fits import NodeReportDisplay, SpacesDisplay
from ._matching import MatchingDisplay

__all__ = [
    "MatchingDisplay",
    "NodeReportDisplay",
    "SpacesDisplay",
]
