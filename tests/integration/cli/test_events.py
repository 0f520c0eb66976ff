"""`meterlake events` and `meterlake check`: what went wrong, seen to, and whether all fits."""

import json
import shutil
import threading

import pytest

from meterlake.cli import run
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.integrations.sender import send_runs
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.deliveries import add_runs, content_for, new_webhook, send_due
from tests.doubles.receivers import running_receiver
from tests.organizations import prepare_home


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


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def settings_of(home):
    return Settings(home=home, webhook_allow=("127.0.0.1",), _env_file=None)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    home = prepare_home(tmp_path_factory.mktemp("webhooks") / "home")
    initialize(settings_of(home), "Sample")
    return home


@pytest.fixture
def stores(template, tmp_path):
    home = shutil.copytree(template, tmp_path / "home")
    with open_stores(settings_of(home)) as opened:
        yield opened


@pytest.fixture
def org(stores):
    return stores.state.organization().id


@pytest.fixture
def webhook(stores, org, receiver):
    return new_webhook(stores.organization(org), receiver.url(), name="Chat", code="chat")


def cli(stores, *arguments):
    return run(["webhooks", *arguments, "--home", str(stores.home)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ping", "nothing"], "name one of these: chat"),
        (["replay", "nothing", "--since", "2026-10-01"], "name one of these: chat"),
        (["replay", "chat", "--since", "yesterday"], "since"),
        (["replay", "chat"], "--since is required"),
        (["replay"], "--run is required"),
        (["replay", "--run", "nothing"], "nothing"),
        (["replay", "chat", "--run", "nothing"], "give it alone"),
        (["replay", "--run", "nothing", "--since", "2026-10-01"], "give it alone"),
        (["replay", "chat", "--since", "2026-10-01", "--status", "FINE"], "status"),
    ],
)
def test_what_makes_no_sense_is_refused(stores, webhook, capsys, arguments, said):
    assert webhook["code"] == "chat"
    assert cli(stores, *arguments) == 1
    assert said in capsys.readouterr().err


def test_a_ping_that_nobody_sends_says_so(stores, webhook, capsys):
    assert cli(stores, "ping", webhook["id"], "--wait", "0") == 1
    assert "does a worker run?" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "status"), [(200, "COMPLETE"), (410, "ERROR")])
@pytest.mark.usefixtures("webhook")
def test_a_ping_shows_the_answer(stores, receiver, capsys, answer, status):
    receiver.answers["/200"] = answer
    over = threading.Event()
    worker = threading.Thread(target=send_runs, args=(stores, over.is_set, 0.1))
    worker.start()
    try:
        assert cli(stores, "ping", "chat", "--json") == (status != "COMPLETE")
    finally:
        over.set()
        worker.join()

    found = json.loads(capsys.readouterr().out)
    assert found["status"] == status
    assert [each["statusCode"] for each in found["tries"]] == [answer]
    assert len(receiver.received) == 1


def test_runs_are_sent_once_more(stores, org, webhook, receiver, capsys):
    [id_, _] = add_runs(stores.organization(org), [content_for(webhook, n) for n in range(2)])
    send_due(stores)

    assert cli(stores, "replay", "--run", id_, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["replayedFromIntegrationRunId"], again["createdBy"]) == (id_, "cli")
    assert cli(stores, "replay", "Chat", "--since", "2026-01-01", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"runs": 2}
    send_due(stores)
    assert len(receiver.received) == 5
