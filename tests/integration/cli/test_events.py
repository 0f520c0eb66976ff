"""`meterlake events` and `meterlake check`: what went wrong, seen to, and whether all fits."""

import json

import pytest

from meterlake.cli import run
from meterlake.settings import Settings
from meterlake.stores import open_stores


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.long
def test_the_events_of_bad_rows_are_listed_shown_and_marked(home, capsys):
    at = ["--home", str(home), "--json"]
    listed = ["events", "list", "--type", "IngestValidationFailure", *at]
    assert run(listed) == 0
    [event] = lines(capsys)
    assert run(["events", "show", event["id"], *at]) == 0
    assert lines(capsys) == [event]

    assert run(["events", "action", event["id"], *at]) == 0
    [marked] = lines(capsys)
    assert marked["dtActioned"] > event["dtActioned"]
    assert run(listed) == 0
    assert lines(capsys) == []
    assert run([*listed, "--actioned"]) == 0
    assert lines(capsys) == [marked]


def test_people_see_what_happened_in_a_sentence(home, capsys):
    assert run(["events", "list", "--limit", "1", "--home", str(home)]) == 0
    assert "11-llm-bad-rows.csv" in capsys.readouterr().out.replace("\n", "")


def test_an_unknown_event_is_an_error(home, capsys):
    for verb in ("show", "action"):
        assert run(["events", verb, "nothing", "--home", str(home)]) == 1
        assert "no event 'nothing'" in capsys.readouterr().err
    assert run(["events", "list", "--type", "Nothing", "--home", str(home)]) == 1


def test_no_alert_is_no_failure(home, capsys, monkeypatch):
    monkeypatch.setenv("METERLAKE_ALERT_REJECT_RATE", "1")
    assert run(["check", "alerts", "--home", str(home)]) == 0
    assert "No alerts." in capsys.readouterr().out


@pytest.mark.long
def test_an_open_alert_is_a_failure_until_it_is_over(home, capsys, monkeypatch):
    monkeypatch.setenv("METERLAKE_ALERT_REJECT_RATE", "0")
    for _ in range(2):
        assert run(["check", "alerts", "--home", str(home), "--json"]) == 1
        [alert] = lines(capsys)
        assert alert["alert"] == "ingest.rejectrate.alert"
    monkeypatch.setenv("METERLAKE_ALERT_REJECT_RATE", "1")
    assert run(["check", "alerts", "--home", str(home), "--json"]) == 0


@pytest.mark.long
def test_books_that_balance_and_books_that_do_not(home, capsys):
    check = ["check", "reconciliation", "--home", str(home)]
    assert run(check) == 0
    assert "received =" in capsys.readouterr().out

    with open_stores(Settings(home=home)) as stores:
        lake = stores.lake(stores.state.organization().id)
        with lake.lock(), lake.transaction() as connection:
            connection.execute(
                "UPDATE lake.source SET accepted = accepted + 1, received = received + 1"
            )
    assert run(check) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "known uids" in captured.err
    assert run([*check, "--json"]) == 1
    [told] = lines(capsys)
    assert len(told["differences"]) >= 2
