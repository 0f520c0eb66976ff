"""`meterlake demo --prefect`: the same month through the flows, in processes of their own."""

import pytest

from meterlake.cli import run


def test_json_lines_are_refused_rather_than_mixed_with_other_output(tmp_path, capfd):
    assert run(["demo", "--prefect", "--json", "--home", str(tmp_path / "home")]) == 1
    assert "--prefect" in capfd.readouterr().err


@pytest.mark.slow
def test_the_flows_run_and_say_where_to_look_at_them(tmp_path, capfd):
    assert run(["demo", "--prefect", "--home", str(tmp_path / "home")]) == 0
    out = capfd.readouterr().out
    assert "http://127.0.0.1:" in out
    assert "flows.server" in out
    assert out.count("\n  meterlake ") == 3
