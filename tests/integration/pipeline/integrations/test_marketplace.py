"""Bills are reported to the AWS Marketplace: by difference, in cents, one record an hour."""

from datetime import timedelta

import pytest

from meterlake.model.integrations import RunStatus
from meterlake.pipeline.integrations.usage_reports import usage_reports
from meterlake.stores.state.core.pages import Page
from tests.bills import use
from tests.doubles.marketplace import running_marketplace
from tests.homes import Home, open_home
from tests.sent_bills import (
    account_id,
    create,
    home_with_bills,
    integrate,
    make_bills,
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
def home(tmp_path, market, request):
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    market.now = lambda: clock.time.timestamp()  # noqa: PLW0108 - the clock's time changes
    options = {"marketplace_endpoint": market.url, "export_credentials": request.param}
    with open_home(tmp_path / "home", org_id, clock, **options) as opened:
        yield opened


def integrate_market(home: Home, customer: str = "cust-1") -> None:
    """Only acme, whose bill is 73.50."""
    names = {"externalSystem": "AWS", "externalTable": "Customer", "externalId": customer}
    create(
        home, "externalMappings", m3terEntity="Account", m3terId=account_id(home, "acme"), **names
    )
    integrate(home, "AWS", accountIds=[account_id(home, "acme")], **OPTIONS)


def change_bill(home: Home, number: int, gigabytes: object) -> None:
    use(home, (f"more{number}", "acme", gigabytes))
    make_bills(home)


def statuses(home):
    return sorted(each.status.value for each in send_bills(home))


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


@pytest.mark.parametrize("customer", ["cust-1", "123456789012"])
def test_a_bill_is_reported_in_cents_at_the_hour(home, market, customer):
    integrate_market(home, customer)
    make_bills(home)

    assert statuses(home) == ["COMPLETE"]
    [((who, dimension, moment), quantity)] = market.taken.items()
    assert (who, dimension, quantity, moment % 3600) == (customer, "cents", 7350, 0)


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
    [report] = usage_reports(home.stores, home.org_id, {}, None, Page(50))["data"]
    assert (report["externalSystem"], set(report["reportedUsage"])) == ("AWS", {"prod-cents"})
    assert sum(report["reportedUsage"]["prod-cents"].values()) == 7855
    for filters in ({"account_id": "x"}, {"system": "GCP"}):
        assert usage_reports(home.stores, home.org_id, filters, None, Page(50)) == {"data": []}


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


@pytest.mark.parametrize("trouble", ["lost", "busy"])
def test_a_record_whose_answer_is_not_known_counts_once(home, market, trouble):
    integrate_market(home)
    make_bills(home)
    setattr(market, trouble, 1)
    assert statuses(home) == ["AWAITING_RETRY"]
    home.clock.time += HOUR

    assert statuses(home) == ["COMPLETE"]
    assert (market.total(), len(market.taken)) == (7350, 1)


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


def test_the_stand_in_of_others_knows_no_customer_and_says_so(tmp_path, market):
    """moto takes CustomerIdentifier alone, and answers that nobody subscribes."""
    from moto.server import ThreadedMotoServer

    del market
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{server._server.server_port}"
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    options = {"marketplace_endpoint": endpoint, "export_credentials": "own"}
    with open_home(tmp_path / "home", org_id, clock, **options) as home:
        integrate_market(home)
        make_bills(home)
        [run] = send_bills(home)
    server.stop()

    assert run.status is RunStatus.ERROR
    assert "CustomerNotSubscribed" in run.job.error
