"""What whoever saves something is told although nothing is wrong with it."""

import pytest

from meterlake.cli import run
from tests.e2e.api.world import World
from tests.served import served

RULE = {"name": "Rule", "description": "d"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("cautions") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def world(server):
    sdk = server.sdk()
    for code in ("EUR", "GBP"):
        sdk.currencies.create(code=code, name=code)
    return World(sdk)


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


def warned(answer):
    assert answer.status_code == 200, answer.text
    return answer.headers.get("Warning", "")


@pytest.mark.parametrize(
    ("event", "rule", "said"),
    [
        ("billing.bill.created", {}, "no calculation, and alwaysFireEvent is not set"),
        ("billing.billjob.deleted", {"alwaysFireEvent": True}, "does not happen, as jobs are kept"),
        ("integration.perform.error", {"alwaysFireEvent": True}, "follows from another event"),
        ("billing.bill.updated", {"calculation": "1 == 2"}, "1 == 2 is not true"),
        ("billing.bill.created", {"calculation": "old.billTotal > 1"}, "no old.billTotal"),
        ("billing.bill.updated", {"calculation": 'new.status == "PAID"'}, "one of APPROVED, "),
        (
            "configuration.pricing.created",
            {"calculation": 'new.type == "DEBT"'},
            "never 'DEBT': did you mean DEBIT?",
        ),
        ("billing.bill.updated", {"calculation": "new.billTotal > 9"}, ""),
        ("billing.bill.updated", {"alwaysFireEvent": True, "calculation": "1 == 2"}, ""),
        ("billing.bill.created", {"calculation": "old.billTotal == null"}, ""),
    ],
)
def test_a_rule_that_never_fires_is_saved_with_a_warning(http, world, event, rule, said):
    body = {**RULE, "code": world.code(), "eventName": event, **rule}

    made = http.post("/notifications/configurations", json=body)
    again = http.put(f"/notifications/configurations/{made.json()['id']}", json=made.json())
    for answer in (made, again):
        assert said in warned(answer)
        assert bool(warned(answer)) == bool(said)


def test_an_integration_whose_lists_leave_no_account_is_saved_with_a_warning(http, world):
    lists = {"accountIds": [world.account], "restrictedAccountIds": [world.account]}
    config = {"url": "https://books.example.com/", **lists}
    body = {"entityType": "Bill", "destination": "HTTP", "configData": config}

    assert "sends nothing" in warned(http.post("/integrationconfigs", json=body))
    config["restrictedAccountIds"] = [world.new_account()]
    assert warned(http.post("/integrationconfigs", json=body)) == ""


def test_a_currency_without_a_rate_is_warned_of_when_the_plan_is_attached(http, world):
    account = world.new_account(currency="EUR")
    body = {"accountId": account, "planId": world.plan, "startDate": "2026-01-01T00:00:00Z"}

    made = http.post("/accountplans", json=body)
    assert "no conversion rate from USD to EUR" in warned(made)
    assert "currencyConversions" in warned(made)
    here = http.get(f"/accounts/{account}").json()
    assert "from USD to EUR" in warned(http.put(f"/accounts/{account}", json=here))
    settings = http.get("/organizationconfig").json()
    rate = {"from": "USD", "to": "EUR", "multiplier": 0.9}
    http.put("/organizationconfig", json={**settings, "currencyConversions": [rate]})
    assert warned(http.put(f"/accountplans/{made.json()['id']}", json=made.json())) == ""
    fresh = http.get("/organizationconfig").json()
    http.put("/organizationconfig", json={**fresh, "currencyConversions": []}).raise_for_status()


def test_a_plan_of_a_child_is_warned_of_by_the_currency_of_whoever_is_billed(http, world):
    parent = world.new_account(currency="EUR")
    child = world.new_account(parent_account_id=parent)
    body = {"accountId": child, "planId": world.plan, "startDate": "2026-01-01T00:00:00Z"}

    made = http.post("/accountplans", json=body)
    assert "from USD to EUR" in warned(made)
    alone = {**made.json(), "childBillingMode": "CHILD"}
    assert warned(http.put(f"/accountplans/{made.json()['id']}", json=alone)) == ""


def test_what_pays_in_a_currency_without_a_rate_is_warned_of(http, world):
    year = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
    body = {"accountId": world.account, "name": "b", "code": world.code(), **year}

    assert "the balance is in GBP" in warned(
        http.post("/balances", json={**body, "currency": "GBP"})
    )
    assert (
        warned(http.post("/balances", json={**body, "code": world.code(), "currency": "USD"})) == ""
    )


def test_files_are_told_the_same(server, tmp_path, capsys):
    file = tmp_path / "rules.yaml"
    file.write_text(
        "notificationConfigurations:\n"
        "  - {code: never, name: Never, description: d, eventName: billing.bill.created}\n"
    )
    assert run(["config", "apply", str(file), "--home", str(server.settings.home)]) == 0
    printed = capsys.readouterr()
    assert "note: notificationConfigurations never: it never goes out" in printed.out + printed.err
