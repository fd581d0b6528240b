"""The command line ``skgems``, for those who do not write Python."""

from ._main import main
