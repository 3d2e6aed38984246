"""``python -m tsformer COMMAND [KEY=VALUE ...]``."""

from __future__ import annotations

import gc
import sys

from tsformer.cli.main import main

if __name__ == "__main__":
    # A million objects come with torch and stay: to look for garbage among them took a sixth of a small forecast.
    gc.set_threshold(50_000)
    status = main()
    gc.freeze()  # nor is there a search on the way out
    sys.exit(status)
