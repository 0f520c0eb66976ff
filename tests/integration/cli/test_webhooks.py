"""`meterlake webhooks`: a test of a webhook, and runs that are sent once more."""

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
