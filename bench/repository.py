"""Imported for what it does: what tests/ shares with a bench is found, as it is when pytest runs."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
