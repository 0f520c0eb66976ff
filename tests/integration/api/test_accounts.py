"""The named operations of accounts, plans and counters, through the official SDK."""

import pytest
from m3ter import BadRequestError, NotFoundError

from tests.rule_world import AGGREGATION, GB, START, TEMPLATE
from tests.served import served

JULY = "2026-07-01T00:00:00Z"
ALL = ["CONTRACT", "ACCOUNTPLAN", "PREPAYMENT", "PRICINGS", "COUNTER_PRICINGS"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="module")
def sdk(server):
    return server.sdk()


@pytest.fixture(scope="module")
def plan(sdk):
    product = sdk.products.create(code="cloud", name="Cloud")
    fields = {key: value for key, value in TEMPLATE.items() if key in {"name", "currency"}}
    template = sdk.plan_templates.create(
        **fields, product_id=product.id, standing_charge=0, bill_frequency="MONTHLY"
    )
    return sdk.plans.create(code="cloud", name="P", plan_template_id=template.id)


def account(sdk, code, **fields):
    return sdk.accounts.create(code=code, name=code, email_address="a@b.example", **fields)


def test_the_children_of_an_account_are_listed(sdk):
    parent = account(sdk, "parent")
    children = [account(sdk, f"child {n}", parent_account_id=parent.id).id for n in range(3)]

    found = sdk.accounts.list_children(id=parent.id, page_size=2)

    assert sorted(each.id for each in found) == sorted(children)
    with pytest.raises(NotFoundError):
        sdk.accounts.list_children(id="nobody")
    with pytest.raises(BadRequestError, match="pageSize"):
        sdk.accounts.list_children(id=parent.id, page_size=201)


def test_what_an_account_has_ends_together(server, sdk, plan):
    owner = account(sdk, "ending")
    attached = sdk.account_plans.create(account_id=owner.id, plan_id=plan.id, start_date=START)

    with server.http() as http:
        found = http.put(
            f"/accounts/{owner.id}/enddatebillingentities",
            json={"endDate": JULY, "billingEntities": ALL},
        ).json()

    assert found == {
        "statusMessage": f"1 entities end at {JULY}",
        "updatedEntities": {"ACCOUNTPLAN": [attached.id]},
        "failedEntities": {},
    }
    again = sdk.accounts.end_date_billing_entities(
        id=owner.id, end_date=JULY, billing_entities=["ACCOUNTPLAN"]
    )
    assert again.status_message == f"0 entities end at {JULY}"


@pytest.mark.sees("EndDateBillingEntitiesForContract")
def test_a_contract_ends(server, sdk):
    owner = account(sdk, "contracted")
    contract = sdk.contracts.create(
        account_id=owner.id, name="C", start_date="2026-01-01", end_date="2027-01-01"
    )

    with pytest.raises(BadRequestError, match="billingEntities"):
        sdk.contracts.end_date_billing_entities(id=contract.id, end_date=JULY, billing_entities=[])
    # The SDK models a set of ids as `{"empty": bool}`; only a lenient one takes the ids themselves.
    lenient = server.sdk(_strict_response_validation=False)
    lenient.contracts.end_date_billing_entities(
        id=contract.id, end_date=JULY, billing_entities=["CONTRACT"]
    )

    assert str(sdk.contracts.retrieve(id=contract.id).end_date) == "2026-07-01"


def grouping_key(sdk, code, *, exclusive, **more):
    """The SDK has no method for grouping keys."""
    path = f"/organizations/{sdk.org_id}/picklists/billgroupingkeys"
    body = {"name": code, "code": code, "exclusive": exclusive, **more}
    if "id" in more:
        return sdk.put(f"{path}/{more['id']}", cast_to=object, body=body)
    return sdk.post(path, cast_to=object, body=body)


def test_an_exclusive_grouping_key_has_one_contract(sdk):
    owner, other = account(sdk, "exclusive"), account(sdk, "exclusive too")
    own = grouping_key(sdk, "own", exclusive=True)["id"]
    shared = grouping_key(sdk, "shared", exclusive=False)["id"]
    years = {"start_date": "2026-01-01", "end_date": "2027-01-01"}

    def contract(account_id, name, key):
        return sdk.contracts.create(
            account_id=account_id, name=name, code=name, bill_grouping_key_id=key, **years
        )

    first = contract(owner.id, "first", own)
    one, two = (contract(owner.id, name, shared) for name in ("one", "two"))
    sentence = "billGroupingKeyId: 'own' is not allowed: .* 'first' has it"
    for account_id in (owner.id, other.id):
        with pytest.raises(BadRequestError, match=sentence):
            contract(account_id, "second", own)
    with pytest.raises(BadRequestError, match=sentence):
        sdk.contracts.update(
            one.id, account_id=owner.id, name="one", bill_grouping_key_id=own, version=1, **years
        )
    with pytest.raises(BadRequestError, match=r"exclusive: true .*Contract '(one|two)'"):
        grouping_key(sdk, "shared", exclusive=True, id=shared, version=1)

    # The first contract may change, and leaves its key to another one.
    sdk.contracts.update(
        first.id, account_id=owner.id, name="1st", bill_grouping_key_id=own, version=1, **years
    )
    sdk.contracts.delete(first.id)
    assert contract(other.id, "second", own).bill_grouping_key_id == own
    sdk.contracts.delete(two.id)
    assert grouping_key(sdk, "shared", exclusive=True, id=shared, version=1)["exclusive"] is True


def test_an_account_plan_is_replaced(server, sdk, plan):
    owner = account(sdk, "replacing")
    old = sdk.account_plans.create(account_id=owner.id, plan_id=plan.id, start_date=START)
    document = {"accountId": owner.id, "planId": plan.id, "startDate": JULY}

    with server.http() as http:
        found = http.post(f"/accountplans/{old.id}/replace", json=document).json()

    assert found["originalAccountPlan"]["endDate"] == found["newAccountPlan"]["startDate"] == JULY
    every = sdk.account_plans.list(account=owner.id, includeall=True)
    assert [each.id for each in every] == [found["newAccountPlan"]["id"], old.id]
    assert [each.id for each in sdk.account_plans.list(account=owner.id)] != []
    assert [each.id for each in sdk.account_plans.list(account=owner.id, date=START)] == [old.id]


def test_a_product_of_account_plans_is_asked_for_with_an_account(sdk, plan):
    with pytest.raises(BadRequestError, match=r"product.*give account, too"):
        sdk.account_plans.list(product=plan.product_id)


def test_plans_and_aggregations_are_listed_by_product(server, sdk, plan):
    with server.http() as http:
        meter = http.post(
            "/meters",
            json={
                "code": "m",
                "name": "M",
                "dataFields": [GB],
                "derivedFields": [],
                "productId": plan.product_id,
            },
        ).json()
        http.post("/aggregations", json=AGGREGATION | {"meterId": meter["id"]})

    assert [each.id for each in sdk.plans.list(product_id=plan.product_id)] == [plan.id]
    assert [each.meter_id for each in sdk.aggregations.list(product_id=[plan.product_id])] == [
        meter["id"]
    ]
    assert list(sdk.aggregations.list(product_id=[meter["id"]])) == []


def test_counter_adjustments_are_listed_in_the_order_asked_for(sdk):
    owner, counter = account(sdk, "counted"), sdk.counters.create(name="Seats", unit="seat")
    for day in ("2026-01-02", "2026-01-01"):
        sdk.counter_adjustments.create(
            account_id=owner.id, counter_id=counter.id, date=day, value=1
        )
    both = {"account_id": owner.id, "counter_id": counter.id}

    newest = sdk.counter_adjustments.list(**both)
    rising = sdk.counter_adjustments.list(**both, sort_order="ASC", page_size=1)
    falling = sdk.counter_adjustments.list(**both, sort_order="DESC", date_start="2026-01-02")

    assert [str(each.date) for each in newest] == ["2026-01-01", "2026-01-02"]
    assert [str(each.date) for each in rising] == ["2026-01-01", "2026-01-02"]
    assert [str(each.date) for each in falling] == ["2026-01-02"]
    with pytest.raises(BadRequestError, match="sortOrder"):
        sdk.counter_adjustments.list(**both, sort_order="UP")
