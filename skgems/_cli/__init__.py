"""The command line ``skgems``, for those who do not write Python.

Each command is a function of the words that follow it: it reads files of models and
tables, calls what Python would call, writes files, and returns an exit code. Begin with
`main`, and with the modules of the two sides, ``_server.py`` and ``_node.py``.

>>> from skgems._cli import main
>>> main(["--version"])  # doctest: +ELLIPSIS
Traceback (most recent call last):
SystemExit: 0
"""

from ._main import main
