from decimal import Decimal
from uuid import uuid4

import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.plans import Plan, PlanTemplate, Pricing
from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.errors import Invalid, MeterlakeError, Required
from meterlake.model.resources.proposal import Document
from meterlake.model.values.ids import derived_id
from meterlake.stages.config.diff import propose
from tests.organizations import DOCUMENTS, added, after, changed, empty, everything

ACME = {"code": "acme", "name": "Acme", "emailAddress": "a@b.example"}
TEMPLATE = {key: value for key, value in DOCUMENTS["planTemplates"][0].items() if key != "code"}
PLAN = {"planId": "basic", "accountId": "bolt", "startDate": "2026-01-01T00:00:00Z"}


def proposed(documents, before=None):
    return propose("org", before or empty(), documents, lambda: str(uuid4()))


def refused(content, before=None):
    with pytest.raises(MeterlakeError) as caught:
        proposed([Document("a.yaml", content)], before)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "a.yaml: [] is not allowed: it must be a map such as `accounts: [...]`"),
        ("accounts", "a.yaml: 'accounts' is not allowed: it must be a map such as `accounts: [...]`"),
        ({"acounts": []}, "a.yaml: acounts is unknown: did you mean 'accounts'?"),
        ({"accounts": {}}, "a.yaml: accounts: {} is not allowed: it must be a list"),
        ({"accounts": ["acme"]}, "a.yaml: accounts[0]: 'acme' is not allowed: it must be a map of fields"),
        ({"organizationConfig": []}, "a.yaml: organizationConfig: [] is not allowed: it must be a map of fields"),
        ({"accounts": [ACME, ACME]}, "a.yaml: accounts[1].code: 'acme' is not allowed: a.yaml: accounts[0] is the same entity; keep one of both"),
        ({"accounts": [{**ACME, "id": 5}]}, "a.yaml: accounts[0].id: 5 is not allowed: it must be text of 1 to 80 characters"),
        ({"accounts": [{**ACME, "code": None}]}, "a.yaml: accounts[0].code is required"),
        ({"accounts": [{**ACME, "code": 5}]}, "a.yaml: accounts[0].code: 5 is not allowed: it must be text (in quotes, if it looks like something else)"),
        ({"planTemplates": [TEMPLATE | {"productId": 5}]}, "a.yaml: planTemplates[0].productId: 5 is not allowed: it must be text"),
        ({"currencies": [{"name": "Euro"}]}, "a.yaml: currencies[0].code is required"),
        ({"accounts": [ACME], "accountPlans": [{**PLAN, "accountId": "acm"}]}, "a.yaml: accountPlans[0].accountId: 'acm' is not allowed: it must be the id or the code of an existing Account (is it 'acme'?)"),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_refused_with_its_place(content, sentence):
    assert sentence in refused(content)


@pytest.mark.parametrize("name", ["permissionPolicies", "serviceUsers"])
def test_access_is_no_part_of_configuration_files(name):
    assert f"{name} is unknown" in refused({name: []})


@pytest.mark.parametrize("content", [None, {}, {"accounts": None}, {"accounts": []}])
def test_nothing_is_nothing(content):
    assert proposed([Document("a.yaml", content)]) == []


def test_the_first_problems_of_all_files_are_told_together():
    documents = [
        Document("a.yaml", {"accounts": [{**ACME, "emailAddress": "x"}]}),
        Document("b.yaml", {"products": [{"code": "p"}]}),
    ]

    with pytest.raises(Invalid) as caught:
        proposed(documents)

    assert str(caught.value) == (
        "2 problems: b.yaml: products[0].name is required;"
        " a.yaml: accounts[0].emailAddress: 'x' is not allowed: it must be an e-mail address"
    )


def test_entities_refer_to_each_other_in_any_order_across_files():
    content = everything()[0].content
    documents = [Document(name, {name: content[name]}) for name in reversed(content)]

    proposals = {p.resource.entity: p for p in proposed(documents)}

    assert proposals[Plan].entity.plan_template_id == proposals[PlanTemplate].id
    assert proposals[Pricing].entity.plan_id == proposals[Plan].id
    assert proposals[AccountPlan].entity.plan_id == proposals[Plan].id


def test_an_entity_is_known_again_by_its_code_or_id():
    before = after(everything())
    account = before.find(Account, "acme")

    [by_code] = proposed(added("accounts", **ACME), before)
    [by_id] = proposed(added("accounts", **{**ACME, "code": "new", "id": account.id}), before)

    assert by_code.id == by_id.id == account.id
    assert by_id.before == account
    assert by_id.entity.code == "new"


def test_a_reference_may_be_an_id():
    before = after(everything())
    account = before.find(Account, "bolt")

    [proposal] = proposed(added("accountPlans", **{**PLAN, "accountId": account.id}), before)

    assert proposal.entity.account_id == account.id


def test_an_id_is_meant_before_a_code_that_looks_like_it():
    before = after(everything())
    account = before.find(Account, "bolt")
    documents = added("accounts", **{**ACME, "code": account.id})
    documents += added("accountPlans", **{**PLAN, "accountId": account.id})

    [_, proposal] = proposed(documents, before)

    assert proposal.entity.account_id == account.id


def test_an_entity_without_a_code_is_known_again_by_its_natural_key():
    before = after(changed("accountPlans", code=None))
    document = changed("accountPlans", code=None, endDate="2027-01-01T00:00:00Z")

    [plan] = [p for p in proposed(document, before) if p.resource.entity is AccountPlan]

    assert plan.before is not None
    assert plan.changed


def test_the_same_natural_key_twice_is_refused():
    content = {"accountPlans": [PLAN, PLAN | {"startDate": "2026-01-01T01:00:00+01:00"}]}

    assert "accountPlans[1].id" in refused(content, after(everything()))


def test_a_natural_key_that_fits_several_asks_for_the_id():
    overlapping = changed("organizationConfig", allowOverlappingPlans=True)
    twins = [added("accountPlans", **PLAN, code=code)[0] for code in ("a", "b")]
    before = after([*overlapping, *twins])

    assert "the id of one of them" in refused({"accountPlans": [PLAN]}, before)


def test_a_label_names_an_entity_without_a_code_for_ever():
    documents = added("planTemplates", **TEMPLATE, id="monthly")
    documents += added("plans", code="pro", name="Pro", planTemplateId="monthly")
    before = after(everything())

    configuration = after(documents, before)
    plan = configuration.find(Plan, "pro").entity

    assert plan.plan_template_id == derived_id("org", "PlanTemplate", "monthly")
    assert not any(p.changed for p in proposed(documents, configuration))


def test_a_field_that_is_left_out_takes_its_default():
    before = after(changed("accounts", purchaseOrderNumber="PO-1"))

    [proposal] = proposed(added("accounts", **DOCUMENTS["accounts"][0]), before)

    assert proposal.changed
    assert proposal.entity.purchase_order_number is None


@pytest.mark.parametrize("name", ["standingCharge", "billFrequencyInterval"])
def test_a_number_that_is_written_differently_is_no_change(name):
    before = after(changed("planTemplates", standingCharge=1, billFrequencyInterval=1))
    documents = changed("planTemplates", **{"standingCharge": 1, name: Decimal("1.00")})

    assert not any(p.changed for p in proposed(documents, before))


def test_null_is_the_same_as_nothing():
    documents = added("accounts", **ACME, currency=None, address={"country": None})

    assert proposed(documents)[0].entity.address.country is None


def test_the_one_configuration_of_an_organization_is_always_the_same_entity():
    before = empty()

    [proposal] = proposed([Document("a", {"organizationConfig": {"daysBeforeBillDue": 3}})], before)

    assert proposal.id == before.single(OrganizationConfig).id
    assert "organizationConfig.id" in refused_twice()


def refused_twice():
    document = Document("a", {"organizationConfig": {"daysBeforeBillDue": 3}})
    with pytest.raises(Invalid) as caught:
        proposed([document, Document("b", document.content)])
    return str(caught.value)


def test_names_that_mean_nothing_are_refused_all_at_once_with_the_one_that_may_be_meant():
    content = {"accounts": [{**ACME, "version": 3, "currncy": "USD", "address": {"postcode": "x"}}]}
    content["pricings"] = [{"pricingBands": [{"lowerLimit": 0, "unit_price": 1}]}]

    text = refused(content)

    for sentence in (
        "a.yaml: accounts[0].version is unknown: meterlake writes it by itself; leave it out",
        "a.yaml: accounts[0].currncy is unknown: did you mean 'currency'?",
        "a.yaml: accounts[0].address.postcode is unknown: did you mean 'postCode'?",
        "a.yaml: pricings[0].pricingBands[0].unit_price is unknown: did you mean 'unitPrice'?",
    ):
        assert sentence in text


def test_a_name_that_is_like_no_other_is_told_which_there_are():
    content = {"meterGroups": [{"name": "Traffic", "qqq": 1}]}

    assert "meterGroups[0].qqq is unknown: it must be one of name" in refused(content)


def test_names_that_mean_nothing_are_only_reported_where_they_are_allowed():
    documents = added("accounts", **ACME, version=3, colour="red", address={"street": "x"})

    [proposal] = propose("org", empty(), documents, lambda: str(uuid4()), allow_unknown=True)

    assert proposal.ignored == ("version", "colour", "address.street")


def test_a_label_that_looks_like_an_id_is_the_id_of_what_is_new():
    twins = ("2054cfc5-18df-47ce-926c-5817033073b4", "2054cfc5-18df-47ce-926c-5817033073b5")
    content = {"meterGroups": [{"id": each, "name": "Traffic"} for each in twins]}

    assert [each.id for each in proposed([Document("a", content)])] == list(twins)


def test_what_is_required_stays_required():
    with pytest.raises(Required, match="billFrequency is required"):
        proposed(changed("planTemplates", billFrequency=None))


def test_proposals_come_after_what_they_refer_to():
    kinds = [
        p.resource.entity
        for p in proposed([*everything(), *added("currencies", code="EUR", name="Euro")])
    ]

    assert kinds.index(Currency) < kinds.index(PlanTemplate) < kinds.index(Plan)
    assert kinds.index(Meter) < kinds.index(Pricing)
