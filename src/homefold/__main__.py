"""`python -m homefold` is the command `homefold`."""

from __future__ import annotations

import sys

from homefold.cli import main

if __name__ == "__main__":
    sys.exit(main())
