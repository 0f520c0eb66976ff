"""`meterlake rejected` and `meterlake receipts`: what they print, and how they fail."""

import json
import shlex
import shutil

import pytest

from meterlake.cli import run


@pytest.fixture(scope="module")
def unchanged(sample_home, tmp_path_factory):
    """A home for commands that are refused."""
    return shutil.copytree(sample_home, tmp_path_factory.mktemp("rejected") / "home")


@pytest.fixture
def at(home):
    return ["--home", str(home), "--json"]


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        ["rejected", "list", "--since", "yesterday"],
        ["rejected", "list", "--after", "nonsense"],
        ["rejected", "show", "0123456789ab:1"],
        ["rejected", "export", "rows.xlsx"],
        ["rejected", "requeue", "--from", "gone.csv"],
        ["rejected", "requeue", "--from", "a.csv", "--reason", "InvalidNumber"],
        ["rejected", "requeue", "0123456789ab:1", "--reason", "InvalidNumber"],
        ["rejected", "dismiss", "--because", "a trial"],
        ["rejected", "dismiss", "0123456789ab:1", "--because", "a trial"],
        ["rejected", "dismiss", "--source", "nothing", "--because", "a trial"],
        ["rejected", "reopen"],
        ["receipts", "show", "nothing"],
    ],
)
def test_what_cannot_be_done_is_one_line_of_error(unchanged, capsys, command):
    assert run([*command, "--home", str(unchanged)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("because", [[], ["--because", " "]])
def test_rows_are_given_up_for_a_reason_that_the_message_asks_for(home, capsys, because):
    assert run(["rejected", "dismiss", "--source", "a.csv", *because, "--home", str(home)]) == 1
    told = '--because is required: say why nobody waits for the rows, such as --because "a file of a trial"'
    assert told in capsys.readouterr().err


@pytest.mark.long
def test_rows_are_listed_shown_exported_mended_and_given_in_again(at, tmp_path, capsys):
    assert run(["rejected", "list", *at]) == 0
    listed = lines(capsys)
    assert listed
    assert run(["rejected", "list", "--limit", "2", *at]) == 0
    assert [row["id"] for row in lines(capsys)] == [row["id"] for row in listed[:2]]
    assert run(["rejected", "show", listed[0]["id"], *at]) == 0
    [shown] = lines(capsys)
    assert shown["original"] == listed[0]["original"]
    assert [each["reason"] for each in shown["history"]] == [listed[0]["reason"]]

    path = tmp_path / "mend.ndjson"
    assert run(["rejected", "export", str(path), "--reason", "FutureTimestamp", *at]) == 0
    [exported] = lines(capsys)
    assert exported["rows"] >= 1
    edits = [json.loads(line) for line in path.read_text().splitlines()]
    for edit in edits:
        edit["measurement"]["ts"] = "2025-01-01T00:00:00Z"
    path.write_text("".join(json.dumps(edit) + "\n" for edit in edits))
    for accepted, settled in ((len(edits), 0), (0, len(edits))):
        assert run(["rejected", "requeue", "--from", str(path), *at]) == 0
        [done] = lines(capsys)
        assert (done["accepted"], done["settled"]) == (accepted, settled)

    assert run(["rejected", "list", "--status", "requeued", *at]) == 0
    assert sorted(row["id"] for row in lines(capsys)) == sorted(edit["id"] for edit in edits)
    assert run(["status", *at]) == 0
    [status] = lines(capsys)
    assert sum(status["rejected"].values()) == len(listed) - len(edits)
    assert run(["sql", "SELECT count(*) AS rows FROM rejected", *at]) == 0
    assert lines(capsys) == [{"rows": len(listed) - len(edits)}]


@pytest.mark.long
def test_the_list_of_receipts_says_why_a_file_failed(home, tmp_path, capsys):
    (tmp_path / "cut.csv.gz").write_bytes(b"no gzip")
    assert run(["ingest", str(tmp_path / "cut.csv.gz"), "--home", str(home)]) == 1
    capsys.readouterr()
    assert run(["receipts", "list", "--status", "failed", "--home", str(home)]) == 0

    assert "DamagedCompression" in capsys.readouterr().out


@pytest.mark.long
def test_receipts_of_files_and_of_uids(at, capsys):
    assert run(["receipts", "list", *at]) == 0
    listed = lines(capsys)
    assert {each["name"] for each in listed} >= {"11-llm-bad-rows.csv"}
    assert run(["receipts", "show", listed[0]["identity"][:12], *at]) == 0
    [shown] = lines(capsys)
    assert {name for name in shown if shown[name] != listed[0][name]} == set()
    assert run(["sql", "SELECT min(uid) AS uid FROM storage", *at]) == 0
    [row] = lines(capsys)
    assert run(["receipts", "uid", row["uid"], "nobody", *at]) == 0
    found, unknown = lines(capsys)
    assert (found["status"], found["meter"], unknown["status"]) == (
        "accepted",
        "storage",
        "unknown",
    )


@pytest.mark.parametrize(
    "command",
    [["rejected", "list"], ["rejected", "requeue"], ["receipts", "list"], ["receipts", "uid", "x"]],
)
def test_they_can_be_read(home, capsys, command):
    assert run([*command, "--home", str(home)]) == 0
    assert capsys.readouterr().out


@pytest.mark.long
def test_a_sorted_list_goes_on_after_what_the_one_before_names(at, home, capsys):
    sort = ["--sort", "reason", "--descending"]
    assert run(["rejected", "list", *sort, *at]) == 0
    listed = lines(capsys)
    reasons = [row["reason"] for row in listed]
    assert reasons == sorted(reasons, reverse=True)
    assert len(set(reasons)) > 1

    assert run(["rejected", "list", *sort, "--limit", "2", "--home", str(home)]) == 0
    after = shlex.split(capsys.readouterr().out.partition("--after")[2])[0]
    assert run(["rejected", "list", *sort, "--after", after, *at]) == 0
    assert [row["id"] for row in lines(capsys)] == [row["id"] for row in listed[2:]]


@pytest.mark.long
def test_one_row_can_be_read(at, home, capsys):
    assert run(["rejected", "list", "--limit", "1", *at]) == 0
    [row] = lines(capsys)
    assert run(["rejected", "show", row["id"], "--home", str(home)]) == 0
    assert "What became of it" in capsys.readouterr().out


@pytest.mark.long
def test_rows_are_dismissed_and_requeued_by_name(at, home, capsys):
    assert run(["rejected", "list", "--limit", "2", *at]) == 0
    first, second = (row["id"] for row in lines(capsys))
    assert run(["status", *at]) == 0
    before = sum(lines(capsys)[0]["rejected"].values())
    assert run(["rejected", "dismiss", first, second, "--because", "a trial", *at]) == 0
    assert lines(capsys) == [{"rows": 2, "settled": 0}]
    assert run(["status", *at]) == 0
    assert sum(lines(capsys)[0]["rejected"].values()) == before - 2
    assert run(["sql", "SELECT count(*) AS rows FROM rejected", *at]) == 0
    assert lines(capsys) == [{"rows": before - 2}]
    assert run(["rejected", "show", first, "--home", str(home)]) == 0
    assert "a trial" in capsys.readouterr().out
    assert run(["rejected", "requeue", second, *at]) == 0
    [done] = lines(capsys)
    assert (done["received"], done["rejected"]) == (1, 1)
    assert run(["rejected", "reopen", first, *at]) == 0
    assert lines(capsys) == [{"rows": 1, "settled": 0}]


@pytest.mark.long
def test_a_requeue_says_what_it_left_alone(at, home, capsys):
    assert run(["rejected", "list", *at]) == 0
    reason = lines(capsys)[0]["reason"]
    assert run(["rejected", "dismiss", "--reason", reason, "--because", "a trial", *at]) == 0
    capsys.readouterr()
    for verb in ("requeue", "list"):
        assert run(["rejected", verb, "--reason", reason, "--home", str(home)]) == 0
        assert "--status dismissed" in capsys.readouterr().out
