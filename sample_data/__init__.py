"""One believable month of a platform that sells LLM tokens, API calls and storage.

See README.md. `make.py` makes the measurement files and the books; the configuration is written by
hand.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent
CONFIGURATION: Final = ROOT / "configuration"
MEASUREMENTS: Final = ROOT / "measurements"
MAPPINGS: Final = ROOT / "mappings"
EXPECTED: Final = ROOT / "expected.json"

MONTH: Final = "2026-10"
