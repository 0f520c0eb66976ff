"""Bills are reported to the AWS Marketplace: by difference, in cents, one record an hour."""

from collections.abc import Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.pipeline.integrations.bills_elsewhere import usage_reports
from meterlake.pipeline.integrations.runs import replay_run
from meterlake.stores.state.core.pages import Page
from tests.bills import subscribe, use
from tests.doubles.clouds import ROLE, TrustPolicy
from tests.doubles.http_faults import relay
from tests.doubles.marketplace import running_marketplace
from tests.homes import Home, configure, open_home
from tests.long_cases import long_after
from tests.sent_bills import (
    account_id,
    change_integration,
    create,
    home_with_bills,
    integrate,
    make_bills,
    make_runs,
    put_bill,
    send_bills,
)

HOUR = timedelta(hours=1)
OPTIONS = {"productCode": "prod", "dimension": "cents"}


@pytest.fixture
def market(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with running_marketplace() as found:
        yield found


@pytest.fixture(params=["own"])
def home(tmp_path, market, request, home_database):
    del home_database
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    market.now = lambda: clock.time.timestamp()  # noqa: PLW0108 - the clock's time changes
    options = {"marketplace_endpoint": market.url, "export_credentials": request.param}
    with open_home(tmp_path / "home", org_id, clock, **options) as opened:
        yield opened


def integrate_market(home: Home, customer: str = "cust-1") -> dict[str, Any]:
    """Only acme, whose bill is 73.50."""
    map_customer(home, customer)
    return integrate(home, "AWS", accountIds=[account_id(home, "acme")], **OPTIONS)


def map_customer(home: Home, customer: str) -> None:
    names = {"externalSystem": "AWS", "externalTable": "Customer", "externalId": customer}
    create(
        home, "externalMappings", m3terEntity="Account", m3terId=account_id(home, "acme"), **names
    )


def integrate_many(home: Home, market, count: int, customers: Sequence[str] = ()) -> list[str]:
    """Accounts with bills of the standing charge; customers have their codes, unless given."""
    codes = [f"shop{number:02}" for number in range(count)]
    configure(
        home.organization,
        accounts=[{"code": each, "name": each, "emailAddress": "a@b.test"} for each in codes],
    )
    subscribe(home, *codes, start="2026-09-01T00:00:00Z")
    ids = [account_id(home, each) for each in codes]
    names = {"externalSystem": "AWS", "externalTable": "Customer", "m3terEntity": "Account"}
    for id_, customer in zip(ids, [*customers, *codes[len(customers) :]], strict=True):
        create(home, "externalMappings", **names, m3terId=id_, externalId=customer)
    market.customers.update(codes)
    integrate(home, "AWS", accountIds=ids, **OPTIONS)
    return codes


def change_bill(home: Home, number: int, gigabytes: object) -> None:
    use(home, (f"more{number}", "acme", gigabytes))
    make_bills(home)


def statuses(home):
    return sorted(each.status.value for each in send_bills(home))


@pytest.mark.long
@pytest.mark.parametrize("home", ["federated"], indirect=True)
def test_without_a_role_nothing_is_reported(home, market):
    integrate_market(home)
    make_bills(home)

    assert statuses(home) == ["AUTH_FAILED"]
    assert market.taken == {}


def test_an_account_without_a_customer_is_an_error(home, market):
    integrate(home, "AWS", accountIds=[account_id(home, "acme")], **OPTIONS)
    make_bills(home)

    [run] = send_bills(home)
    assert (run.status, market.taken) == (RunStatus.ERROR, {})
    assert "acme is mapped to no customer" in run.job.error


def test_a_bill_in_another_currency_is_not_reported_as_dollars(home, market):
    integrate_market(home)
    put_bill(home, account_id(home, "acme"), 8, 50, currency="EUR")
    make_runs(home)

    [run] = send_bills(home)
    assert (run.status, market.taken) == (RunStatus.ERROR, {})
    assert run.job.error == "the marketplace takes USD, the bill is in EUR"


def test_a_bill_that_fits_no_record_is_refused(home, market):
    integrate_market(home)
    put_bill(home, account_id(home, "acme"), 8, Decimal("21474836.48"))
    make_runs(home)

    [run] = send_bills(home)
    assert (run.status, market.taken) == (RunStatus.ERROR, {})
    assert run.job.error == "2147483648 cents do not fit one record: at most 2147483647"


@pytest.mark.parametrize("customer", ["cust-1", "123456789012"])
def test_a_bill_is_reported_in_cents_at_the_hour(home, market, customer):
    integrate_market(home, customer)
    make_bills(home)

    assert statuses(home) == ["COMPLETE"]
    [((who, dimension, moment), quantity)] = market.taken.items()
    assert (who, dimension, quantity, moment % 3600) == (customer, "cents", 7350, 0)


@pytest.mark.long
def test_the_sum_of_the_records_is_the_bill_however_often_it_changes(home, market):
    """Five changes within one hour need five hours, of which none is older than six."""
    integrate_market(home)
    make_bills(home)
    send_bills(home)
    for number in range(1, 6):
        change_bill(home, number, "1.01")
        send_bills(home)
    # The hours are used up: the last change waits for the next one.
    assert market.total() == 7350 + 4 * 101
    assert statuses(home).count("RATE_LIMIT_RETRY") == 1
    home.clock.time += 2 * HOUR

    assert set(statuses(home)) == {"COMPLETE"}
    assert market.total() == 7350 + 5 * 101
    [report] = usage_reports(home.organization, {}, None, Page(50))["data"]
    assert (report["externalSystem"], set(report["reportedUsage"])) == ("AWS", {"prod-cents"})
    assert sum(report["reportedUsage"]["prod-cents"].values()) == 7855
    for filters in ({"account_id": "x"}, {"system": "GCP"}):
        assert usage_reports(home.organization, filters, None, Page(50)) == {"data": []}


@pytest.mark.long
def test_what_was_reported_too_much_lowers_what_comes(home, market):
    integrate_market(home)
    make_bills(home)
    send_bills(home)
    change_bill(home, 1, -10)
    assert set(statuses(home)) == {"COMPLETE"}
    assert market.total() == 7350
    change_bill(home, 2, 12)

    assert set(statuses(home)) == {"COMPLETE"}
    assert market.total() == 7550


def test_a_record_whose_answer_is_not_known_is_sent_again_as_it_was(home, market):
    integrate_market(home)
    make_bills(home)
    market.lost = 1
    assert statuses(home) == ["AWAITING_RETRY"]
    home.clock.time += HOUR
    put_bill(home, account_id(home, "acme"), 1, 5)
    make_runs(home)

    assert statuses(home) == ["COMPLETE", "COMPLETE"]
    assert sorted(market.taken.values()) == [500, 7350]


@pytest.mark.parametrize("trouble", ["throttled", "busy"])
def test_a_record_whose_answer_is_not_known_counts_once_if_it_is_refused_when_sent_again(
    home, market, trouble
):
    integrate_market(home)
    make_bills(home)
    market.lost = 1
    assert statuses(home) == ["AWAITING_RETRY"]
    market.busy = int(trouble == "busy")
    market.faults = [] if market.busy else [("ThrottlingException", 400)]
    home.clock.time += timedelta(minutes=1)
    [refused] = statuses(home)
    assert refused != "COMPLETE"
    home.clock.time += 2 * HOUR

    assert statuses(home) == ["COMPLETE"]
    assert list(market.taken.values()) == [7350]


@pytest.mark.parametrize(
    ("trouble", "hours"),
    long_after(2, [("throttled", 0), ("busy", 7), ("throttled", 7), ("busy", 0)]),
)
def test_a_record_that_was_surely_not_taken_is_reported_in_the_hour_of_the_next_try(
    home, market, trouble, hours
):
    integrate_market(home)
    make_bills(home)
    market.busy = int(trouble == "busy")
    market.faults = [] if market.busy else [("ThrottlingException", 400)]
    [waiting] = statuses(home)
    assert waiting in {"AWAITING_RETRY", "RATE_LIMIT_RETRY"}
    home.clock.time += hours * HOUR + timedelta(minutes=1)

    assert statuses(home) == ["COMPLETE"]
    assert list(market.taken.values()) == [7350]


@pytest.mark.long
def test_records_of_many_accounts_go_out_together_and_at_most_25(home, market):
    codes = integrate_many(home, market, 30)
    make_bills(home)

    assert set(statuses(home)) == {"COMPLETE"}
    assert market.calls == [25, 5]
    assert market.totals("cents") == dict.fromkeys(codes, 3100)


@pytest.mark.long
def test_of_a_call_each_record_has_its_own_end(home, market):
    """Of five, one has no subscription, and two are not processed and come again."""
    codes = integrate_many(home, market, 5)
    market.customers.remove(codes[0])
    market.left = [2]
    make_bills(home)

    assert statuses(home) == ["AWAITING_RETRY"] * 2 + ["COMPLETE"] * 2 + ["ERROR"]
    before = dict(market.taken)
    home.clock.time += HOUR
    assert statuses(home) == ["COMPLETE"] * 4 + ["ERROR"]
    assert market.calls == [5, 2]
    assert market.totals("cents") == dict.fromkeys(codes[1:], 3100)
    assert market.taken.items() >= before.items()


@pytest.mark.long
def test_a_customer_that_the_marketplace_does_not_know_spoils_no_other_record(home, market):
    codes = integrate_many(home, market, 3, customers=("unknown",))
    make_bills(home)

    assert statuses(home) == ["COMPLETE", "COMPLETE", "ERROR"]
    assert market.calls == [3, 1, 1, 1]
    assert market.totals("cents") == dict.fromkeys(codes[1:], 3100)


@pytest.mark.long
def test_an_account_without_a_free_hour_delays_no_other_one(home, market):
    """Five versions of one bill use up the hours, the sixth waits; the other bill goes out."""
    codes = integrate_many(home, market, 2)
    first, second = (account_id(home, each) for each in codes)
    for total in range(10, 16):
        put_bill(home, first, 1, total)
        make_runs(home)
        send_bills(home)
    put_bill(home, second, 1, 20)
    make_runs(home)

    assert statuses(home) == ["COMPLETE"] * 6 + ["RATE_LIMIT_RETRY"]
    assert market.totals("cents") == {codes[0]: 1400, codes[1]: 2000}


@pytest.mark.long
def test_a_bill_of_which_nothing_was_reported_counts_with_the_next_ones(home, market):
    """Of 31 that are owed no more 20 are used up by the next bill, and 11 by the one after it."""
    [code] = integrate_many(home, market, 1)
    for month, total in ((1, 31), (1, 0), (2, 20), (3, 25), (4, "0.005"), (5, "0.005")):
        put_bill(home, account_id(home, code), month, Decimal(total))
        make_runs(home)
        assert set(statuses(home)) == {"COMPLETE"}

    assert market.totals("cents") == {code: 3100 + 1400 + 1}


@pytest.mark.parametrize("arrived", [False, True])
def test_a_record_that_is_too_old_is_reported_anew_by_a_replay(home, market, arrived):
    """Who looks it up and finds nothing replays the run; nobody else knows."""
    integrate_market(home)
    make_bills(home)
    market.lost = int(arrived)
    market.faults = [] if arrived else [("InternalServiceErrorException", 500)]
    assert statuses(home) == ["AWAITING_RETRY"]
    home.clock.time += 7 * HOUR
    [run] = send_bills(home)
    assert run.status is RunStatus.ERROR
    assert "nobody knows whether the record arrived" in run.job.error
    if not arrived:
        replay_run(home.organization, "someone", run.id)
        assert statuses(home) == ["COMPLETE", "ERROR"]

    assert (market.total(), len(market.taken)) == (7350, 1)


def test_a_record_of_another_dimension_is_not_sent_again_as_one_of_this(home, market):
    made = integrate_market(home)
    make_bills(home)
    market.lost = 1
    assert statuses(home) == ["AWAITING_RETRY"]
    options = {**OPTIONS, "dimension": "units"}
    change_integration(home, made["id"], config_data={**made["configData"], **options})
    home.clock.time += timedelta(minutes=10)

    [run] = send_bills(home)
    assert run.status is RunStatus.ERROR
    assert "it is of prod-cents; a replay reports it anew" in run.job.error
    assert [dimension for _, dimension, _ in market.taken] == ["cents"]


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("ThrottlingException", 400, "RATE_LIMIT_RETRY"),
        ("InternalServiceErrorException", 500, "AWAITING_RETRY"),
        ("AccessDeniedException", 400, "AUTH_FAILED"),
        ("InvalidProductCodeException", 400, "ERROR"),
    ],
)
def test_errors_of_the_service_have_their_status(home, market, code, status, expected):
    integrate_market(home)
    make_bills(home)
    market.faults.append((code, status))

    assert statuses(home) == [expected]
    assert market.taken == {}


@pytest.mark.long
def test_who_does_not_subscribe_is_an_error_and_nothing_counts(home, market):
    market.customers.clear()
    integrate_market(home)
    make_bills(home)
    [run] = send_bills(home)
    assert "CustomerNotSubscribed" in run.job.error
    market.customers.add("cust-1")
    change_bill(home, 1, 1)
    send_bills(home)

    assert market.total() == 7450


@pytest.fixture(scope="module")
def moto():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server._server.server_port}"
    server.stop()


@contextmanager
def home_with_role(path, market, moto, external_id=None):
    """A home that reports in a role of moto's STS, behind a policy of whom the role trusts."""
    with home_with_bills(path) as made:
        org_id, clock = made.org_id, made.clock
    market.now = lambda: clock.time.timestamp()  # noqa: PLW0108 - the clock's time changes
    with relay(moto) as network:
        network.rule = policy = TrustPolicy(external_id or org_id)
        options = {"marketplace_endpoint": market.url, "sts_endpoint": network.url}
        with open_home(path / "home", org_id, clock, **options) as home:
            map_customer(home, "cust-1")
            credentials = {"type": "AWS_INTEGRATION", "roleArn": ROLE}
            integrate(home, "AWS", credentials, accountIds=[account_id(home, "acme")], **OPTIONS)
            yield home, policy


@pytest.mark.long
def test_a_record_that_never_left_is_reported_however_late(tmp_path, market):
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    market.now = lambda: clock.time.timestamp()  # noqa: PLW0108 - the clock's time changes
    options = {"marketplace_endpoint": market.url, "sts_endpoint": "http://127.0.0.1:1"}
    with open_home(tmp_path / "home", org_id, clock, **options) as home:
        map_customer(home, "cust-1")
        credentials = {"type": "AWS_INTEGRATION", "roleArn": ROLE}
        integrate(home, "AWS", credentials, accountIds=[account_id(home, "acme")], **OPTIONS)
        make_bills(home)
        assert (statuses(home), market.calls) == (["AWAITING_RETRY"], [])
    clock.time += 7 * HOUR

    # What the machine itself may does without a role, also if the integration names one.
    with open_home(tmp_path / "home", org_id, clock, **options, export_credentials="own") as home:
        assert statuses(home) == ["COMPLETE"]
    assert (list(market.taken.values()), market.keys) == ([7350], ["key"])


def test_a_role_that_trusts_another_organization_reports_nothing(tmp_path, market, moto):
    with home_with_role(tmp_path, market, moto, "another organization") as (home, policy):
        make_bills(home)
        [run] = send_bills(home)

        assert (run.status, market.keys) == (RunStatus.AUTH_FAILED, [])
        assert "not authorized: sts:AssumeRole" in run.job.error
        policy.external_id = home.org_id
        replay_run(home.organization, "someone", run.id)
        assert statuses(home) == ["AUTH_FAILED", "COMPLETE"]
        assert market.total() == 7350


def test_a_role_is_assumed_with_the_organization_as_external_id_until_its_credentials_end(
    tmp_path, market, moto
):
    with home_with_role(tmp_path, market, moto) as (home, policy):
        for month in (1, 2):
            put_bill(home, account_id(home, "acme"), month, 10)
            make_runs(home)
            send_bills(home)
        [asked] = policy.assumed
        assert (asked["RoleArn"], asked["ExternalId"]) == (ROLE, home.org_id)
        market.ended.update(market.keys)
        put_bill(home, account_id(home, "acme"), 3, 10)
        make_runs(home)

        assert set(statuses(home)) == {"COMPLETE"}
        assert (len(policy.assumed), market.total()) == (2, 3000)
        old, same, refused, new = market.keys
        assert old == same == refused != new
        assert {each[:4] for each in market.keys} == {"ASIA"}


@pytest.mark.long
def test_the_stand_in_of_others_knows_no_customer_and_says_so(tmp_path, market, moto):
    """moto takes CustomerIdentifier alone, and answers that nobody subscribes."""
    del market
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    options = {"marketplace_endpoint": moto, "export_credentials": "own"}
    with open_home(tmp_path / "home", org_id, clock, **options) as home:
        integrate_market(home)
        make_bills(home)
        [run] = send_bills(home)

    assert run.status is RunStatus.ERROR
    assert "CustomerNotSubscribed" in run.job.error


def test_a_deleted_bill_lowers_what_is_reported_and_a_deleted_credit_raises_it(home, market):
    map_customer(home, "cust-1")
    integrate(home, "AWS", **OPTIONS)
    acme = account_id(home, "acme")
    bill, credit = put_bill(home, acme, 1, 10), put_bill(home, acme, 2, -4)
    make_runs(home)
    send_bills(home)
    home.clock.time += HOUR
    send_bills(home)
    assert market.total() in {600, 1000}

    for id_, total in ((credit, 1000), (bill, 1000)):
        delete_bill(home.organization, "test", id_)
        make_runs(home)
        home.clock.time += HOUR
        runs = send_bills(home)
        assert {each.status for each in runs} == {RunStatus.COMPLETE}
        assert market.total() == total
    # 10 USD too much were reported: the next bill is lowered by them.
    put_bill(home, acme, 3, 15)
    make_runs(home)
    home.clock.time += HOUR
    send_bills(home)
    assert market.total() == 1500
