"""Which accounts' bills are sent: an allow list, a deny list, both, and accounts that come later."""

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.customers.accounts import Account
from meterlake.pipeline.integrations.sender import send_runs
from meterlake.worker.rounds import Loop, evaluate_events
from tests.bills import subscribe, use
from tests.deliveries import runs_of
from tests.doubles.receivers import running_receiver
from tests.long_cases import long_after
from tests.sent_bills import account_id, home_with_bills, integrate, make_bills, send_bills


@pytest.fixture
def home(tmp_path):
    with home_with_bills(tmp_path) as opened:
        yield opened


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def sent_to(home, runs):
    names = {account_id(home, code): code for code in ("acme", "bolt")}
    return sorted(names.get(run.content.account_id, "another") for run in runs)


@pytest.mark.parametrize(
    ("allowed", "denied", "sent"),
    long_after(
        3,
        [
            ((), ("bolt",), ["acme"]),
            (("bolt",), (), ["bolt"]),
            (("acme", "bolt"), ("bolt",), ["acme"]),
            (("acme",), ("acme",), []),
            ((), ("acme", "bolt"), []),
            (("acme",), ("bolt",), ["acme"]),
            ((), (), ["acme", "bolt"]),
        ],
    ),
)
def test_the_deny_list_wins_over_the_allow_list(home, receiver, allowed, denied, sent):
    lists = {"accountIds": allowed, "restrictedAccountIds": denied}
    data = {name: [account_id(home, code) for code in codes] for name, codes in lists.items()}
    integrate(home, "HTTP", url=receiver.url("/200"), **data)
    make_bills(home)

    assert sent_to(home, send_bills(home)) == sent
    assert len(receiver.received) == len(sent)


@pytest.mark.parametrize(("name", "sent"), [("accountIds", 1), ("restrictedAccountIds", 2)])
def test_an_account_that_comes_later_is_on_no_list(home, receiver, name, sent):
    integrate(home, "HTTP", url=receiver.url("/200"), **{name: [account_id(home, "acme")]})
    account = {"name": "Cord", "code": "cord", "emailAddress": "cord@x.test"}
    with home.organization.transaction("test") as transaction:
        transaction.create(Account.from_wire(account))
    subscribe(home, "cord")
    use(home, ("9", "cord", 10))
    make_bills(home)

    runs = send_bills(home)
    # Of the allow list it is not, and the deny list does not have it.
    assert len(runs) == sent
    assert ("another" in sent_to(home, runs)) is (name == "restrictedAccountIds")


def test_the_worker_sends_no_bill_of_a_denied_account(home, receiver):
    denied = [account_id(home, "bolt")]
    integrate(home, "HTTP", url=receiver.url("/200"), restrictedAccountIds=denied)
    make_bills(home, with_runs=False)
    loop = Loop(home.stores, None, lambda: False)
    evaluate_events(loop, home.organization, lambda: False)
    looks = iter([False] * 40)
    send_runs(home.stores, lambda: bool(receiver.received) or next(looks, True), 0.05)

    runs = runs_of(home.organization, entity_type="Bill")
    assert sent_to(home, runs) == ["acme"]
    assert {each.status for each in runs} == {RunStatus.COMPLETE}
