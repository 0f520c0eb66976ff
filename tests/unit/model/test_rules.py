"""Every rule, with the configuration that breaks it and the sentence that it gives."""

import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import Currency, CustomFields
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.errors import Invalid
from tests.organizations import added, after, changed, everything

REGION = {"category": "WHERE", "code": "region", "name": "Region"}
GB = {"category": "MEASURE", "code": "gb", "name": "Sent"}
PRICE = {"fixedPrice": 0, "unitPrice": 1}
EURO = {"code": "EUR", "name": "Euro"}


def bands(*lowers):
    return [{"lowerLimit": lower, **PRICE} for lower in lowers]


def rate(first, second):
    return {"from": first, "to": second, "multiplier": 2}


@pytest.mark.parametrize(
    ("name", "fields", "sentence"),
    [
        (
            "organizationConfig",
            {"timezone": "Mars/Base"},
            "timezone: 'Mars/Base' is not allowed: it must be a tz database name",
        ),
        (
            "organizationConfig",
            {"currency": "XXX"},
            "currency: 'XXX' is not allowed: it must be the code of an existing Currency",
        ),
        (
            "organizationConfig",
            {"currencyConversions": [rate("USD", "GBP")]},
            "currencyConversions[0].to: 'GBP' is not allowed: it must be the code of an existing Currency",
        ),
        (
            "organizationConfig",
            {"currencyConversions": [rate("USD", "USD")]},
            "currencyConversions[0]: 'USD to USD' is not allowed: the pair has a rate already",
        ),
        (
            "organizationConfig",
            {"scheduledBillOffset": 24},
            "scheduledBillOffset: 24 is not allowed: it must be at most 23",
        ),
        (
            "organizationConfig",
            {"scheduledBillOffset": 0},
            "scheduledBillOffset: 0 is not allowed: only bills that are made once a day have an hour; leave it out",
        ),
        (
            "organizationConfig",
            {"autoApproveBillsGracePeriod": 1},
            "autoApproveBillsGracePeriodUnit: null is not allowed: autoApproveBillsGracePeriod needs a unit",
        ),
        (
            "organizationConfig",
            {"defaultStatementDefinitionId": "daily"},
            "defaultStatementDefinitionId: 'daily' is not allowed: it must be the id or the code of an",
        ),
        (
            "meters",
            {"customFields": {"tier": 1}},
            "customFields.tier: 1 is not allowed: customFields.meter has no such field; add it there first",
        ),
        (
            "accounts",
            {"customFields": {"x": "y"}},
            "customFields.account has no such field; add it there first",
        ),
        (
            "accountPlans",
            {"customFields": {"x": "y"}},
            "customFields.accountPlan has no such field; add it there first",
        ),
        (
            "products",
            {"customFields": {"x": "y"}},
            "customFields.product has no such field; add it there first",
        ),
        (
            "plans",
            {"customFields": {"x": "y"}},
            "customFields.plan has no such field; add it there first",
        ),
        (
            "planTemplates",
            {"customFields": {"x": "y"}},
            "customFields.planTemplate has no such field; add it there first",
        ),
        (
            "aggregations",
            {"customFields": {"x": "y"}},
            "customFields.aggregation has no such field; add it there first",
        ),
        (
            "meters",
            {"dataFields": [GB, {**REGION, "code": "gb"}]},
            "dataFields[1].code: 'gb' is not allowed: field 'gb' has this code in other letter case",
        ),
        (
            "meters",
            {"dataFields": [GB, {**GB, "code": "GB"}]},
            "field 'gb' has this code in other letter case",
        ),
        (
            "meters",
            {"dataFields": []},
            "dataFields: [] is not allowed: it must have at least 1 entry",
        ),
        (
            "meters",
            {"dataFields": [{**GB, "code": f"f{n}"} for n in range(16)]},
            "at most 15 entries",
        ),
        ("meters", {"dataFields": None}, "dataFields is required"),
        (
            "aggregations",
            {"targetField": "mb"},
            "targetField: 'mb' is not allowed: it must be a field of meter 'egress'",
        ),
        (
            "aggregations",
            {"targetField": "region"},
            "targetField: 'region' is not allowed: it must be a field of numbers for SUM; it is a WHERE field",
        ),
        (
            "aggregations",
            {"aggregation": "UNIQUE"},
            "targetField: 'gb' is not allowed: it must be a field of text for UNIQUE; it is a MEASURE field",
        ),
        (
            "aggregations",
            {"quantityPerUnit": 0},
            "quantityPerUnit: 0 is not allowed: it must be more than 0",
        ),
        (
            "planTemplates",
            {"currency": "EUR"},
            "currency: 'EUR' is not allowed: it must be the code of an existing Currency",
        ),
        (
            "planTemplates",
            {"currency": "EURO"},
            "currency: 'EURO' is not allowed: it must have at most 3 characters",
        ),
        (
            "accounts",
            {"currency": "EUR"},
            "currency: 'EUR' is not allowed: it must be the code of an existing Currency",
        ),
        (
            "pricings",
            {"planId": None},
            "planId: null is not allowed: give exactly one of planId and planTemplateId",
        ),
        ("pricings", {"planTemplateId": "cloud"}, "exactly one of planId and planTemplateId"),
        (
            "pricings",
            {"aggregationId": None},
            "exactly one of aggregationId and compoundAggregationId",
        ),
        (
            "pricings",
            {"pricingBands": []},
            "pricingBands: [] is not allowed: it must have at least 1 entry",
        ),
        (
            "pricings",
            {"pricingBands": bands(1)},
            "pricingBands[0].lowerLimit: 1 is not allowed: the first band must begin at 0",
        ),
        (
            "pricings",
            {"pricingBands": bands(-1, 0)},
            "pricingBands[0].lowerLimit: -1 is not allowed: it must be 0 or more",
        ),
        (
            "pricings",
            {"pricingBands": bands(0, 0)},
            "pricingBands[1].lowerLimit: 0 is not allowed: it must be more than 0",
        ),
        (
            "pricings",
            {"pricingBands": bands(0, 5, 3)},
            "pricingBands[2].lowerLimit: 3 is not allowed: it must be more than 5",
        ),
        (
            "pricings",
            {"endDate": "2026-01-01T00:00:00Z"},
            "endDate: '2026-01-01T00:00:00Z' is not allowed: it must be after startDate 2026-01-01T00:00:00Z",
        ),
        (
            "accountPlans",
            {"endDate": "2025-01-01T00:00:00Z"},
            "after startDate 2026-01-01T00:00:00Z",
        ),
        ("accountPlans", {"planId": None}, "exactly one of planId and planGroupId"),
    ],
)
def test_a_broken_rule_is_refused_with_a_sentence(name, fields, sentence):
    with pytest.raises(Invalid) as caught:
        after(changed(name, **fields))

    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"all.yaml: {name}")


@pytest.mark.parametrize(
    "fields",
    [
        {"timezone": "UTC+1:00"},
        {"scheduledBillInterval": 0},
        {"scheduledBillInterval": 24, "scheduledBillOffset": 23},
        {"autoApproveBillsGracePeriod": 1, "autoApproveBillsGracePeriodUnit": "DAYS"},
        {"currencyConversions": []},
    ],
)
def test_settings_that_are_right_pass(fields):
    after(changed("organizationConfig", **fields))


@pytest.mark.parametrize("reduce", ["COUNT", "UNIQUE"])
def test_texts_are_counted_whole_or_by_difference(reduce):
    after(changed("aggregations", aggregation=reduce, targetField="region"))


@pytest.mark.parametrize("reduce", ["SUM", "MIN", "MAX", "COUNT", "LATEST", "MEAN"])
def test_numbers_are_folded_by_all_but_unique(reduce):
    after(changed("aggregations", aggregation=reduce))


def refused(documents, before):
    with pytest.raises(Invalid) as caught:
        after(documents, before)
    return str(caught.value)


def test_a_custom_field_may_be_carried_once_the_organization_has_it():
    documents = changed("accounts", customFields={"industry": "ships"})
    documents += added_singleton("customFields", account={"industry": "unknown"})

    configuration = after(documents)

    assert refused(added_singleton("customFields", account={}), configuration) == (
        "new.yaml: customFields.account: 'industry' is not allowed: Account 'acme' has it; keep it, or take it away there first"
    )
    assert after(added_singleton("customFields", account={"industry": 1}), configuration)


def added_singleton(name, /, **fields):
    [document] = added(name, **fields)
    document.content[name] = document.content[name][0]
    return [document]


@pytest.mark.parametrize(
    "fields", [[REGION], [{**GB, "category": "WHAT"}], [{**GB, "category": "COST"}]]
)
def test_a_field_that_an_aggregation_reads_stays(fields):
    configuration = after(everything())

    sentence = refused(changed("meters", dataFields=fields), configuration)

    assert sentence == (
        "all.yaml: meters[0].dataFields: 'gb' is not allowed:"
        " aggregation 'egress_gb' reads it as a field of category MEASURE; keep that, or change the aggregation first"
    )


def test_a_field_that_nobody_reads_may_go():
    configuration = after(changed("meters", dataFields=[GB]), after(everything()))

    assert len(configuration.find(Meter, "egress").entity.data_fields) == 1


def test_an_aggregation_of_a_product_prices_only_that_product():
    rule = "aggregationId: 'egress_gb' is not allowed: it must be an aggregation of the plan's product, or a global one"

    assert rule in refused(changed("meters", productId="shop"), None)
    after(changed("meters", productId=None))


def test_a_change_elsewhere_that_breaks_the_product_scope_is_refused_too():
    configuration = after(everything())

    template = {**changed("planTemplates")[0].content["planTemplates"][0], "productId": "shop"}
    sentence = refused(added("planTemplates", **template), configuration)

    assert sentence.startswith("Pricing 'egress'.aggregationId: ")


@pytest.mark.parametrize(
    ("start", "end", "free"),
    [
        ("2026-06-01T00:00:00Z", None, False),
        ("2025-06-01T00:00:00Z", None, False),
        ("2025-06-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", False),
        ("2025-06-01T00:00:00Z", "2026-01-01T00:00:00Z", True),
    ],
)
def test_an_aggregation_has_one_price_at_a_time(start, end, free):
    pricing = {**everything()[0].content["pricings"][0], "code": "other", "startDate": start}
    documents = added("pricings", **pricing, endDate=end)

    if free:
        after(documents, after(everything()))
    else:
        assert (
            "Pricing 'egress' holds from 2026-01-01T00:00:00Z on, and prices of one aggregation"
            in refused(documents, after(everything()))
        )


def test_a_plan_and_its_template_may_price_the_same_aggregation():
    pricing = everything()[0].content["pricings"][0]
    del pricing["planId"], pricing["code"]

    after(added("pricings", **pricing, planTemplateId="cloud"), after(everything()))


def test_a_field_keeps_the_letters_of_its_code():
    configuration = after(everything())

    sentence = refused(changed("meters", dataFields=[{**GB, "code": "Gb"}, REGION]), configuration)

    assert sentence.endswith(
        "meters[0].dataFields[0].code: 'Gb' is not allowed: the lake knows the field as 'gb',"
        " whatever the letter case; keep 'gb'"
    )


def second_plan(**fields):
    return {"accountId": "acme", "planId": "basic", "startDate": "2026-06-01T00:00:00Z"} | fields


def test_an_account_is_on_one_plan_per_product_at_a_time():
    configuration = after(everything())

    sentence = refused(added("accountPlans", **second_plan()), configuration)

    assert sentence == (
        "new.yaml: accountPlans[0].startDate: '2026-06-01T00:00:00Z' is not allowed:"
        " AccountPlan 'acme-basic' holds from 2026-01-01T00:00:00Z on, and plans of one product may"
        " not overlap while allowOverlappingPlans is false; end one before the other starts, or"
        " set allowOverlappingPlans to true"
    )
    after(added("accountPlans", **second_plan(accountId="bolt")), configuration)
    after(
        added(
            "accountPlans",
            **second_plan(startDate="2025-01-01T00:00:00Z", endDate="2026-01-01T00:00:00Z"),
        ),
        configuration,
    )


def test_an_organization_may_allow_overlapping_plans():
    configuration = after(changed("organizationConfig", allowOverlappingPlans=True))

    both = after(added("accountPlans", **second_plan()), configuration)

    assert len(list(both.all(AccountPlan))) == 2
    sentence = refused(changed("organizationConfig", allowOverlappingPlans=False), both)
    assert sentence.endswith(
        "allowOverlappingPlans: false is not allowed: plans of one product overlap:"
        f" Account 'acme': AccountPlan 'acme-basic' from 2026-01-01T00:00:00Z on, {second(both)}"
        " from 2026-06-01T00:00:00Z on; end one of them before the other starts, or send"
        " allowOverlappingPlans: true"
    )
    after(changed("organizationConfig", allowOverlappingPlans=False), configuration)


def second(configuration):
    """The account plan that has no code, as sentences name it."""
    plans = configuration.all(AccountPlan)
    return next(f"AccountPlan {each.id!r}" for each in plans if each.entity.code is None)


def test_plans_of_different_products_may_overlap():
    documents = everything()
    documents += added(
        "planTemplates",
        **{**documents[0].content["planTemplates"][0], "code": "shop", "productId": "shop"},
    )
    documents += added("plans", code="store", name="Store", planTemplateId="shop")
    documents += added("accountPlans", **second_plan(planId="store"))

    after(documents)


def test_a_plan_made_for_one_account_stays_with_it():
    documents = changed("plans", accountId="acme", bespoke=True)
    configuration = after(documents)

    assert "the plan was made for another account; choose" in refused(
        added("accountPlans", **second_plan(accountId="bolt")), configuration
    )
    assert "and stays there; make another plan" in refused(
        changed("plans", accountId="bolt", bespoke=True), configuration
    )


@pytest.mark.parametrize(
    ("documents", "user"),
    [
        (changed("accounts", currency="EUR"), "Account 'acme'"),
        (changed("planTemplates", currency="EUR"), "PlanTemplate 'cloud'"),
        (changed("organizationConfig", currency="EUR"), "the organization's configuration"),
    ],
)
def test_a_currency_that_is_named_keeps_its_code(documents, user):
    configuration = after([*added("currencies", **EURO), *documents])
    euro = configuration.find(Currency, "EUR")

    sentence = refused(added("currencies", id=euro.id, code="EUX", name="Euro"), configuration)

    assert f"code: 'EUX' is not allowed: {user} is in 'EUR'; keep that" in sentence


def test_custom_fields_are_one_map_per_kind():
    configuration = after(added_singleton("customFields", planTemplate={"a": 1}))

    assert configuration.single(CustomFields).entity.plan_template == {"a": 1}
