"""``python -m skgems._cli`` is ``skgems``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
