"""Changes of the configuration that wait for a review: made, looked at, decided on, applied together."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.values import wire
from meterlake.model.values.period import Month
from tests.e2e.api.test_authorization import policy, service_user, token_of
from tests.homes import HEADER, Home, csv_row
from tests.integration.api.billing.test_price_scales import prices, use_egress
from tests.organizations import Clock
from tests.people import allow
from tests.served import served

SCALE = {"plans": ["basic"], "from": "2030-01-01", "by": Decimal("1.5")}


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", use_egress) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def send(http, method, path, status=200, body=None):
    content = None if body is None else wire.dumps(body)
    answer = http.request(method, f"/changeproposals{path}", content=content)
    assert answer.status_code == status, answer.text
    return wire.loads(answer.content)


def propose(http, status=200, **changes):
    body = {"name": "2027", "reason": "Energy costs more", "scale": SCALE, **changes}
    return send(http, "POST", "", status, {k: v for k, v in body.items() if v is not None})


def act(http, proposal, verb, status=200, **body):
    return send(http, "POST", f"/{proposal['id']}/{verb}", status, body)


def show(http, proposal):
    return send(http, "GET", f"/{proposal['id']}")


def reprice(http, unit_price):
    """Somebody gives the only price another one."""
    [price] = prices(http)
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": unit_price}]
    body = wire.dumps({**price, "pricingBands": bands})
    assert http.put(f"/pricings/{price['id']}", content=body).status_code == 200


def unit_prices(price):
    return [each["unitPrice"] for each in price["bands"]]


def another(server, http, *statements):
    """Another service user."""
    _, key, secret = service_user(http, policy(http, "reviewers", *statements))
    return server.http(token_of(server, key, secret))


@pytest.mark.sees("ProposeChanges")
@pytest.mark.sees("GetChangeProposal")
def test_a_proposal_shows_every_price_and_changes_nothing(http):
    before = prices(http)
    found = show(http, propose(http))

    assert (found["status"], found["reason"]) == ("PROPOSED", "Energy costs more")
    [price] = found["prices"]
    assert (price["plan"], price["priced"], price["currency"]) == ("basic", "sent", "USD")
    assert price["from"] == "2030-01-01T00:00:00Z"
    assert unit_prices(price) == [{"old": 1, "new": Decimal("1.5")}, {"old": 0, "new": 0}]
    assert sorted(each["action"] for each in found["changes"]) == ["created", "updated"]
    assert found["stale"] == found["problems"] == []
    assert prices(http) == before


@pytest.mark.sees("ApproveChangeProposal")
@pytest.mark.sees("ApplyChangeProposal")
@pytest.mark.sees("ListChangeProposals")
def test_an_approved_proposal_is_applied_and_says_who_did_what(http):
    made = propose(http)
    act(http, made, "apply", 409)
    act(http, made, "approve", comment="As agreed")
    done = act(http, made, "apply")

    assert [each["status"] for each in done["acts"]] == ["PROPOSED", "APPROVED", "APPLIED"]
    assert done["acts"][1]["comment"] == "As agreed"
    old, new = prices(http)
    assert old["endDate"] == new["startDate"] == "2030-01-01T00:00:00Z"
    assert new["createdBy"] == done["acts"][2]["by"]
    assert new["pricingBands"][0]["unitPrice"] == Decimal("1.5")
    # It ends once, and its name is free again.
    assert "must be approved" in act(http, made, "apply", 409)["message"]
    propose(http)
    listed = send(http, "GET", "?status=APPLIED")["data"]
    assert [each["id"] for each in listed] == [made["id"]]
    # Both the price that ended and the one that it created say which proposal it was.
    for each in (old, new):
        found = send(http, "GET", f"?status=APPLIED&entityId={each['id']}")["data"]
        assert [proposal["id"] for proposal in found] == [made["id"]]
    assert send(http, "GET", f"?entityId={made['id']}")["data"] == []
    # The price that ends and the one that follows are one price.
    counts = [listed[0][name] for name in ("entities", "priceCount", "otherCount")]
    assert counts == [2, 1, 0]


@pytest.mark.sees("GetChangeProposalEffect")
def test_the_effect_is_that_of_last_month_and_this_one_by_customer(http, server):
    today = datetime.now(UTC)
    this = Month(today.year, today.month)
    last = this.moved(-1)
    clock = Clock()
    clock.time = today
    row = csv_row("last", 20, "acme", ts=f"{last}-03T10:00:00Z")
    Home(server.stores, server.org_id, clock).ingest("last.csv", HEADER + row)
    found = send(http, "GET", f"/{propose(http)['id']}/effect")

    assert found["months"] == {"first": str(last), "last": str(this)}
    # Of the 20 units each would have cost half as much again.
    assert [(each["month"], each["difference"]) for each in found["byMonth"]] == [
        (str(last), 10),
        (str(this), 0),
    ]
    [customer] = found["byCustomer"]
    assert (customer["account"], customer["month"]) == ("acme", str(last))
    assert (customer["difference"], found["customersChanged"]) == (10, 1)


def test_a_proposal_that_no_longer_fits_says_what_changed(http):
    made = propose(http)
    act(http, made, "approve")
    reprice(http, 3)
    found = show(http, made)

    assert [(each["kind"], each["what"]) for each in found["stale"]] == [("pricings", "changed")]
    refused = act(http, made, "apply", 409)["message"]
    assert "no longer fits" in refused
    assert "sent" in refused
    assert len(prices(http)) == 1
    act(http, made, "reject", comment="Too late")
    again = propose(http)
    act(http, again, "approve")
    act(http, again, "apply")
    assert prices(http)[1]["pricingBands"][0]["unitPrice"] == Decimal("4.5")


@pytest.mark.sees("ProposeChangesAgain")
def test_a_proposal_that_ended_is_made_again_against_the_configuration_of_now(server, http):
    first = propose(http)
    act(http, first, "again", 409)
    reprice(http, 3)
    assert show(http, first)["stale"]
    act(http, first, "withdraw")
    with another(server, http, allow("config:retrieve")) as reader:
        act(reader, first, "again", 403)
    again = act(http, first, "again")

    assert again["id"] != first["id"]
    assert (again["name"], again["reason"]) == (first["name"], first["reason"])
    assert again["status"] == "PROPOSED"
    assert show(http, again)["stale"] == []
    act(http, again, "approve")
    act(http, again, "apply")
    act(http, again, "again", 409)


@pytest.mark.sees("RejectChangeProposal")
@pytest.mark.sees("WithdrawChangeProposal")
def test_a_proposal_ends_by_its_author_or_by_a_reviewer(server, http):
    first = propose(http)
    with another(server, http, allow("config:retrieve"), allow("config:create")) as reader:
        assert "only who made" in act(reader, first, "withdraw", 403)["message"]
        act(reader, first, "reject", 403, comment="No")
    assert act(http, first, "withdraw")["status"] == "WITHDRAWN"
    second = propose(http)
    act(http, second, "reject", 400)
    done = act(http, second, "reject", comment="Guaranteed until 2028")
    assert done["acts"][-1]["comment"] == "Guaranteed until 2028"
    act(http, second, "approve", 409)
    assert len(prices(http)) == 1


def test_two_persons_look_at_a_proposal_if_the_organization_wants_that(server, http):
    settings = wire.loads(http.get("/organizationconfig").content)
    settings["twoPersonApproval"] = True
    assert http.put("/organizationconfig", content=wire.dumps(settings)).status_code == 200
    made = propose(http)

    assert "you made it; ask a colleague" in act(http, made, "approve", 403)["message"]
    with another(server, http, allow()) as colleague:
        act(colleague, made, "approve")
    assert act(http, made, "apply")["status"] == "APPLIED"


def test_own_approvals_end_when_the_organization_comes_to_want_two_persons(http):
    made = propose(http)
    act(http, made, "approve")
    settings = wire.loads(http.get("/organizationconfig").content)
    settings["twoPersonApproval"] = True
    http.put("/organizationconfig", content=wire.dumps(settings))

    act(http, made, "apply", 403)
    assert len(prices(http)) == 1


def test_files_and_single_prices_are_proposed_in_the_same_way(http):
    [price] = prices(http)
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2}]
    change = {
        "pricingId": price["id"],
        "startDate": "2030-01-01T00:00:00Z",
        "pricingBands": bands,
    }
    single = show(http, propose(http, scale=None, price=change, name="One price"))
    assert unit_prices(single["prices"][0])[0] == {"old": 1, "new": 2}

    product = {"products": [{"code": "support", "name": "Support"}]}
    files = propose(http, scale=None, configuration=product, name="A product")
    act(http, files, "approve")
    act(http, files, "apply")
    codes = [each["code"] for each in wire.loads(http.get("/products").content)["data"]]
    assert "support" in codes


def test_a_plan_gets_prices_of_its_own_in_place_of_its_templates(server, http):
    row = prices(http)[0]
    shared = {**row, "planTemplateId": http.get("/plans").json()["data"][0]["planTemplateId"]}
    del shared["planId"]
    assert http.delete(f"/pricings/{row['id']}").status_code == 200
    assert http.post("/pricings", content=wire.dumps(shared)).status_code == 200
    scale = {**SCALE, "ownPrices": True}
    found = wire.loads(http.post("/pricings/scale/propose", content=wire.dumps(scale)).content)
    [price] = found["changed"]
    assert (price["plan"], price["template"]) == ("basic", "cloud")
    [template] = found["templates"]
    assert (template["chosen"], template["plans"][0]["customers"]) == (False, 1)
    assert [(each["charge"], each["amount"]) for each in found["charges"]] == [
        ("STANDING_CHARGE", 31)
    ]
    today = datetime.now(UTC)
    last = Month(today.year, today.month).moved(-1)
    clock = Clock()
    clock.time = today
    csv = HEADER + csv_row("last", 20, "acme", ts=f"{last}-03T10:00:00Z")
    Home(server.stores, server.org_id, clock).ingest("last.csv", csv)
    made = show(http, propose(http, scale=scale))
    assert unit_prices(made["prices"][0])[0] == {"old": 1, "new": Decimal("1.5")}
    effect = send(http, "GET", f"/{made['id']}/effect")
    assert [each["difference"] for each in effect["byMonth"]] == [10, 0]
    act(http, made, "approve")
    act(http, made, "apply")
    kept, own = prices(http)
    assert kept.get("endDate") is None
    assert (own.get("planTemplateId"), own["startDate"]) == (None, "2030-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"scale": None}, "exactly one of configuration, scale and price"),
        ({"configuration": {}}, "exactly one of configuration, scale and price"),
        ({"scale": None, "configuration": {}}, "it must change something"),
        ({"scale": {**SCALE, "plans": ["gold"]}}, "'gold' is not allowed"),
        ({"reason": " "}, "reason"),
        ({"scale": None, "configuration": {"webhookDestinations": [{"code": "w"}]}}, "webhook"),
    ],
)
def test_what_cannot_be_proposed_is_refused_in_words(http, changes, sentence):
    assert sentence in propose(http, 400, **changes)["message"]
    assert send(http, "GET", "")["data"] == []


def test_two_open_proposals_have_two_names(http):
    propose(http)

    assert "already" in propose(http, 409)["message"]


def test_who_may_not_change_prices_may_not_apply_their_proposal(server, http):
    made = propose(http)
    act(http, made, "approve")
    rights = (allow("config:retrieve"), allow("config:update", "config:changeproposal"))
    with another(server, http, *rights) as reviewer:
        act(reviewer, made, "apply", 403)
    assert len(prices(http)) == 1


def test_the_log_of_acts_has_what_was_done_with_a_proposal(http):
    made = propose(http)
    act(http, made, "approve", comment="As agreed")
    rows = wire.loads(http.get("/auditlog?kinds=changeProposals").content)["data"]

    assert [(each["action"], each["name"], each.get("reason")) for each in rows] == [
        ("approved", "2027", "As agreed"),
        ("proposed", "2027", "Energy costs more"),
    ]
