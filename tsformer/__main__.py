"""``python -m tsformer COMMAND [KEY=VALUE ...]``."""

from __future__ import annotations

import sys

from tsformer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
