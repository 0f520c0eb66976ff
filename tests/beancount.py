"""`bean-check`, a program of somebody else that adds a ledger up; it is run, never imported."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

PROGRAM: Final = shutil.which("bean-check")

needs_bean_check = pytest.mark.skipif(PROGRAM is None, reason="bean-check is not installed")


def bean_check(file: Path) -> str:
    """What is wrong with a ledger; nothing if it is right."""
    assert PROGRAM is not None
    # Without its cache, which it keeps beside the file.
    command = [PROGRAM, "--no-cache", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr or ("" if done.returncode == 0 else f"ended with {done.returncode}")
