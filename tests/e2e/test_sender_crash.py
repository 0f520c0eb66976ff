"""kill -9 while runs are sent: none is lost, and what comes twice has one id."""

import itertools
from collections import Counter

import pytest

from meterlake.model.configuration.integrations import RunStatus
from tests.databases import copy_home
from tests.deliveries import add_runs, content_for, new_webhook, run_of, tries
from tests.doubles.receivers import running_receiver
from tests.e2e.crashing import zygote
from tests.e2e.lives import marked
from tests.homes import new_home, open_home

ALLOWED = {"webhook_allow": "127.0.0.1"}
SEND, LATER = "tests.e2e.senders:send", "tests.e2e.senders:send_later"


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def home_with_runs(path, receiver, count):
    """A home with runs to one webhook that takes them; the organization and the runs."""
    org_id = new_home(path)
    with open_home(path, org_id, **ALLOWED) as home:
        organization = home.stores.organization(org_id)
        webhook = new_webhook(organization, receiver.url())
        contents = [content_for(webhook, number) for number in range(count)]
        return org_id, add_runs(organization, contents)


@pytest.mark.slow
def test_whoever_dies_at_any_step_nothing_is_lost_and_what_comes_twice_has_one_id(
    home_database, processes, receiver, tmp_path
):
    org_id, ids = home_with_runs(tmp_path / "home", receiver, 3)
    reached = set()
    for nth in itertools.count():
        receiver.received.clear()
        copy = tmp_path / f"copy{nth}"
        copy_home(tmp_path / "home", copy)
        assert (copy / "state.sqlite").exists() == (home_database == "sqlite")
        first = processes.run([copy], org_id, nth, SEND, **ALLOWED)
        reached.update(first["reached"])
        before = Counter(each.id for each in receiver.received)
        assert set(before) <= set(ids)
        assert max(before.values(), default=1) == 1
        if not first["died"]:
            break
        assert not processes.run([copy], org_id, None, LATER, **ALLOWED)["died"]

        got = Counter(each.id for each in receiver.received)
        with open_home(copy, org_id, **ALLOWED) as home:
            organization = home.stores.organization(org_id)
            runs = [run_of(organization, each) for each in ids]
            assert {each.status for each in runs} == {RunStatus.COMPLETE}
            counts = {each: len(tries(organization, each)) for each in ids}
        assert set(got) == set(ids)
        # A try that nobody wrote down is made again; one that is written down is not.
        assert counts == dict.fromkeys(ids, 1)
        assert max(got.values()) <= 2

    assert reached == marked(
        "pipeline/integrations/bookkeeping.py", "pipeline/integrations/sender.py"
    )
    assert nth >= 5
