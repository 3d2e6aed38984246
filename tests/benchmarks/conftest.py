from __future__ import annotations

import sys
from pathlib import Path

# The scripts import each other as they do when one is run.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
