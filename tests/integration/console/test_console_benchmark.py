"""The benchmark of the console's pages, in a small home."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import console


@pytest.mark.slow
def test_the_pages_of_a_small_home_are_measured():
    command = [sys.executable, "-m", "tests.benchmarks.console", "--small", "--repeat", "1"]
    root = Path(console.__file__).parents[2]
    told = subprocess.run(command, check=True, cwd=root, stdout=subprocess.PIPE, text=True).stdout

    size = re.search(r"first page with \d+ files: (\d+) kB", told)
    assert int(size[1]) * 1000 <= console.FIRST_PAGE_MAX
    assert len(re.findall(r"^\| /console", told, re.MULTILINE)) > 100
    assert "20 bills as one PDF: " in told
    assert re.search(r"p95 of \d{3} answers: ", told)
