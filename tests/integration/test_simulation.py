"""The cheap sibling of `tests/benchmarks/simulation.py`: a day at 1/100,000 of the load, in a folder."""

import gzip

import pytest

from tests.benchmarks import capacity
from tests.benchmarks.simulation import simulate

ROWS, ACCOUNTS = 3_333, 20


@pytest.mark.long
def test_what_is_simulated_reconciles_and_is_what_the_model_says(tmp_path):
    found = simulate(tmp_path, ROWS, ACCOUNTS, lambda: 0)

    assert found["stored"] == ROWS
    assert (found["files"], found["segments"]) == (1, 1)
    exported = [
        gzip.decompress(path.read_bytes()) for path in tmp_path.rglob("*measurements.csv.gz")
    ]
    assert sum(max(0, text.count(b"\n") - 1) for text in exported) == ROWS
    model, real = capacity.predicted(capacity.values("costs"), found), capacity.measured(found)
    for name in ("objects", "statistics"):
        assert real[name] == pytest.approx(model[name], rel=0.5), name
    # So few rows have more of what each file has once.
    assert 1 <= real["index_bytes"] / model["index_bytes"] < 2
