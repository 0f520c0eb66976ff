"""What is around one entity: what it refers to, what refers to it, and what became of it."""

import pytest

from tests.bills import price_egress, subscribe
from tests.e2e.api.test_authorization import policy, service_user, token_of
from tests.homes import ACCOUNTS, EGRESS, Home, configure
from tests.organizations import Clock
from tests.people import allow
from tests.served import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a plan of one price, on which acme is."""
    with served(tmp_path_factory.mktemp("relations")) as found:
        home = Home(found.stores, found.org_id, Clock())
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme", start="2026-09-01T00:00:00Z")
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def ask(http, path, status=200, **query):
    answer = http.get(path, params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


def one(http, path):
    [found] = [each for each in ask(http, path)["data"] if each.get("code") in {"basic", "sent"}]
    return found


@pytest.mark.sees("ListEntityReferences")
def test_an_entity_says_by_name_what_it_refers_to_and_what_refers_to_it(http):
    plan = one(http, "/plans")
    found = ask(http, f"/configuration/plans/{plan['id']}/references")

    assert found["code"] == "basic"
    [template] = found["refersTo"]
    assert (template["field"], template["kind"], template["code"]) == (
        "planTemplateId",
        "planTemplates",
        "cloud",
    )
    kinds = {each["kind"]: each for each in found["referredBy"]}
    assert [each["code"] for each in kinds["pricings"]["entities"]] == ["sent"]
    assert [each["label"] for each in kinds["accountPlans"]["entities"]] == ["acme-basic"]
    assert not kinds["pricings"]["more"]


def test_what_names_an_entity_by_its_code_refers_to_it_too(http):
    dollars = next(
        each for each in ask(http, "/picklists/currency")["data"] if each["code"] == "USD"
    )
    found = ask(http, f"/configuration/currencies/{dollars['id']}/references")

    assert "planTemplates" in {each["kind"] for each in found["referredBy"]}


@pytest.mark.sees("ListEntityChanges")
def test_each_change_says_who_changed_what_from_what_to_what(http):
    price = one(http, "/pricings")
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 3}]
    answer = http.put(f"/pricings/{price['id']}", json={**price, "pricingBands": bands})
    assert answer.status_code == 200, answer.text
    changed, created = ask(http, f"/configuration/pricings/{price['id']}/changes")["data"]

    assert (created["action"], changed["action"]) == ("created", "updated")
    [field] = changed["changes"]
    assert field["field"] == "pricingBands"
    assert field["old"] == price["pricingBands"]
    assert field["new"] == bands
    assert changed["by"] == answer.json()["lastModifiedBy"]
    assert created["entity"]["aggregationId"] == "sent"


def test_the_changes_of_a_plan_have_those_of_its_prices_also_of_deleted_ones(http):
    plan = one(http, "/plans")
    made = http.post(
        "/pricings",
        json={
            "code": "gone",
            "planId": plan["id"],
            "aggregationId": one_aggregation(http, "mean"),
            "startDate": "2026-01-01T00:00:00Z",
            "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
        },
    ).json()
    assert http.delete(f"/pricings/{made['id']}").status_code == 200
    path = f"/configuration/plans/{plan['id']}/changes"
    newest = ask(http, path, including="pricings", limit=2)["data"]

    assert [(each["label"], each["action"]) for each in newest] == [
        ("gone", "deleted"),
        ("gone", "created"),
    ]
    assert {each["kind"] for each in ask(http, path)["data"]} == {"plans"}


def one_aggregation(http, code):
    return ask(http, "/aggregations", codes=code)["data"][0]["id"]


@pytest.mark.parametrize("path", ["plans/nothing", "planes/42219e9c-a7f0-57a1-b0ab-504138c82b19"])
def test_what_does_not_exist_is_404(http, path):
    for what in ("references", "changes"):
        assert "no " in ask(http, f"/configuration/{path}/{what}", 404)["message"]


def test_who_may_not_read_an_entity_reads_nothing_around_it(server, http):
    plan = one(http, "/plans")
    rights = policy(http, "plans", allow("config:retrieve", "config:plan"))
    _, key, secret = service_user(http, rights)
    with server.http(token_of(server, key, secret)) as client:
        found = ask(client, f"/configuration/plans/{plan['id']}/references")
        changes = ask(client, f"/configuration/plans/{plan['id']}/changes", including="pricings")
        refused = ask(
            client, f"/configuration/pricings/{one(http, '/pricings')['id']}/changes", 403
        )

    assert found["refersTo"] == found["referredBy"] == []
    assert {each["kind"] for each in changes["data"]} == {"plans"}
    assert "no permission for config:retrieve on pricing" in refused["message"]
