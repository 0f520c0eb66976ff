"""Rules of charges, commitments, balances and their schedules, and the limits of their fields."""

import copy

import pytest

from meterlake.model.configuration.organization import BillGroupingKey, CreditReason
from meterlake.model.configuration.statements import StatementDefinition
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransaction,
    BalanceTransactionSchedule,
)
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_ENTITY, response
from meterlake.model.resources.proposal import Document
from meterlake.stages.config.describe import describe_all
from tests.entity_rules import refused, required
from tests.organizations import added, after, everything

ID = "0" * 8 + "-0000-4000-8000-" + "0" * 12
YEAR = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
SERVICE = {
    "servicePeriodStartDate": "2026-01-01T00:00:00Z",
    "servicePeriodEndDate": "2026-03-01T00:00:00Z",
}
BALANCE = {"code": "prepaid", "name": "Prepaid", "accountId": "acme", "currency": "USD", **YEAR}
COMMITMENT = {
    "accountId": "acme",
    "startDate": "2026-01-01",
    "endDate": "2027-01-01",
    "currency": "USD",
    "amount": 1200,
}
CHARGE = {
    "name": "Set-up",
    "code": "setup",
    "accountId": "acme",
    "currency": "USD",
    "entityType": "AD_HOC",
    "lineItemType": "AD_HOC",
    "amount": -5,
    **SERVICE,
}
CHARGE_SCHEDULE = {
    "balanceId": "prepaid",
    "name": "Fee",
    "code": "fee",
    "currency": "USD",
    "billFrequency": "MONTHLY",
    "billFrequencyInterval": 1,
    "billInAdvance": True,
    "chargeDescription": "Fee",
    "amount": 0,
    **SERVICE,
}
TRANSACTION_SCHEDULE = {
    "balanceId": "prepaid",
    "name": "Top up",
    "code": "top",
    "amount": 10,
    "transactionDescription": "Top up",
    "transactionTypeId": "top_up",
    "frequency": "WEEKLY",
    "frequencyInterval": 2,
    **YEAR,
}
FEE = {"date": "2026-02-01", "amount": 100, **SERVICE}
DOCUMENTS = {
    "transactionTypes": [
        {"code": "top_up", "name": "Top up"},
        {"code": "old", "name": "Old", "archived": True},
    ],
    "contracts": [
        {"code": "acme-1", "name": "Acme", "accountId": "acme", "startDate": "2026-01-01", "endDate": "2027-01-01"},
        {"code": "bolt-1", "name": "Bolt", "accountId": "bolt", "startDate": "2026-01-01", "endDate": "2027-01-01"},
    ],
    "balances": [BALANCE, {**BALANCE, "code": "bolts", "accountId": "bolt"}],
    "balanceChargeSchedules": [CHARGE_SCHEDULE],
    "balanceTransactionSchedules": [TRANSACTION_SCHEDULE],
    "commitments": [COMMITMENT],
    "charges": [CHARGE],
}  # fmt: skip


def documents(name="balances", /, **changes):
    content = copy.deepcopy(DOCUMENTS)
    entity = {**content[name][0], **changes}
    content[name][0] = {key: value for key, value in entity.items() if value is not None}
    [document, *_] = everything()
    document.content.update(content)
    return [document]


FEE_OF = {"entityType": "BALANCE", "lineItemType": "BALANCE_FEE"}


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("balances", {"endDate": YEAR["startDate"]}, "endDate: '2026-01-01T00:00:00Z' is not"),
        ("balances", {"rolloverAmount": 1}, "rolloverAmount: 1 is not allowed: nothing rolls over without"),
        (
            "balances",
            {"rolloverEndDate": YEAR["endDate"]},
            "rolloverEndDate: '2027-01-01T00:00:00Z' is not allowed: it must be after endDate",
        ),
        ("balances", {"currency": "XXX"}, "currency: 'XXX' is not allowed: it must be the code of an"),
        ("balances", {"productIds": ["x"]}, "productIds[0]: 'x' is not allowed: it must be the id or"),
        ("balances", {"contractId": "bolt-1"}, "a contract of the same account"),
        ("commitments", {"endDate": "2026-01-01"}, "endDate: '2026-01-01' is not allowed: it must be after"),
        ("commitments", {"contractId": "bolt-1"}, "a contract of the same account"),
        ("commitments", {"currency": "XXX"}, "currency: 'XXX' is not allowed: it must be the code of an"),
        (
            "commitments",
            {"billingPlanId": "basic", "feeDates": [FEE]},
            "with a plan or on feeDates, not both",
        ),
        ("commitments", {"billingInterval": 1}, "billingInterval: 1 is not allowed: it counts the bills of a billingPlanId"),
        ("commitments", {"billingOffset": 0}, "billingOffset: 0 is not allowed: it counts the bills of a billingPlanId"),
        (
            "commitments",
            {"feeDates": [FEE, {**FEE, "servicePeriodEndDate": "2025-12-31T00:00:00Z"}]},
            "feeDates[1].servicePeriodEndDate: '2025-12-31T00:00:00Z' is not allowed: it must be servicePeriodStartDate",
        ),
        (
            "commitments",
            {"separateOverageUsage": True, "overageSurchargePercent": -5},
            "separateOverageUsage: true is not allowed: overage has lines of its own or a surcharge",
        ),
        ("commitments", {"amountPrePaid": 1201}, "amountPrePaid: 1201 is not allowed: it must be at most"),
        ("commitments", {"amountFirstBill": 1201}, "amountFirstBill: 1201 is not allowed"),
        (
            "commitments",
            {"amountPrePaid": 1000, "amountFirstBill": 201},
            "amountFirstBill: 201 is not allowed: it must be at most what is left of the amount, 200",
        ),
        ("charges", {"units": 1}, "amount: -5 is not allowed: units and unitPrice give the amount"),
        ("charges", {"unitPrice": 1}, "amount: -5 is not allowed: units and unitPrice give the amount"),
        ("charges", {"amount": None}, "units: null is not allowed: give an amount, or both"),
        ("charges", {"amount": None, "units": 1}, "unitPrice: null is not allowed: give an amount"),
        ("charges", {"lineItemType": "BALANCE_FEE"}, "a charge of entityType AD_HOC must have AD_HOC"),
        ("charges", {"entityType": "BALANCE"}, "a charge of entityType BALANCE must have BALANCE_FEE"),
        ("charges", {"entityId": "prepaid"}, "a charge of entityType AD_HOC is for no entity; leave it out"),
        ("charges", FEE_OF, "entityId: null is not allowed: give the id of a balance of the account"),
        ("charges", {**FEE_OF, "entityId": "bolts"}, "the id of a balance of the account"),
        ("charges", {**FEE_OF, "entityId": "x"}, "the id or the code of an existing Balance"),
        ("charges", {"contractId": "bolt-1"}, "a contract of the same account"),
        ("charges", {"currency": "XXX"}, "currency: 'XXX' is not allowed: it must be the code of an"),
        (
            "charges",
            {"servicePeriodEndDate": "2025-12-31T00:00:00Z"},
            "servicePeriodEndDate: '2025-12-31T00:00:00Z' is not allowed: it must be servicePeriodStartDate",
        ),
        ("balanceChargeSchedules", {"units": 1, "unitPrice": 1}, "amount: 0 is not allowed"),
        ("balanceChargeSchedules", {"amount": None}, "give an amount, or both units"),
        ("balanceChargeSchedules", {"balanceId": "x"}, "the id or the code of an existing Bal"),
        (
            "balanceChargeSchedules",
            {"servicePeriodEndDate": SERVICE["servicePeriodStartDate"]},
            "after servicePeriodStartDate 2026-01-01T00:00:00Z",
        ),
        (
            "balanceChargeSchedules",
            {"servicePeriodEndDate": "9999-01-01T00:00:00Z"},
            "servicePeriodEndDate: '9999-01-01T00:00:00Z' is not allowed: it must be a year from 2 to 9998",
        ),
        ("balanceTransactionSchedules", {"endDate": YEAR["startDate"]}, "after startDate 2026"),
        (
            "balanceTransactionSchedules",
            {"startDate": "0001-12-31T00:00:00Z"},
            "a year from 2 to 9998",
        ),
        ("balanceTransactionSchedules", {"transactionTypeId": "old"}, "that is not archived"),
        ("balanceTransactionSchedules", {"currencyPaid": "XXX"}, "currencyPaid: 'XXX' is not"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_refused_with_a_sentence(name, changes, sentence):
    with pytest.raises(Invalid) as caught:
        after(documents(name, **changes))

    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"all.yaml: {name}[0].")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("balances", {"rolloverAmount": 0, "rolloverEndDate": "2027-01-01T00:00:00.000001Z"}),
        ("balances", {"rolloverEndDate": "2028-01-01T00:00:00Z", "contractId": "acme-1"}),
        ("balances", {"productIds": ["cloud", "shop"], "customFields": {"anything": 1}}),
        ("commitments", {"contractId": "acme-1", "amountPrePaid": 1200}),
        ("commitments", {"billingPlanId": "basic", "billingInterval": 3, "billingOffset": 0}),
        ("commitments", {"feeDates": [{**FEE, "servicePeriodEndDate": "2026-01-01T00:00:00Z"}]}),
        ("commitments", {"separateOverageUsage": True, "overageSurchargePercent": 0}),
        ("commitments", {"separateOverageUsage": False, "overageSurchargePercent": 1}),
        ("commitments", {"amountPrePaid": 1000, "amountFirstBill": 200}),
        ("charges", {"amount": None, "units": 2, "unitPrice": 3}),
        ("charges", {"servicePeriodEndDate": SERVICE["servicePeriodStartDate"]}),
        ("charges", {**FEE_OF, "entityId": "prepaid"}),
        ("balanceChargeSchedules", {"amount": None, "units": -1, "unitPrice": 1}),
        ("balanceChargeSchedules", {"customFields": {"anything": "x"}}),
        ("balanceTransactionSchedules", {"currencyPaid": "USD", "paid": -1}),
    ],
)
def test_what_breaks_no_rule_passes(name, changes):
    after(documents(name, **changes))


@pytest.mark.parametrize(
    ("kind", "document", "changes", "places"),
    [
        (Balance, {**BALANCE, "accountId": ID}, {"name": ""}, {"name"}),
        (Balance, {**BALANCE, "accountId": ID}, {"rolloverAmount": -1}, {"rolloverAmount"}),
        (Balance, {**BALANCE, "accountId": ID}, {"lineItemTypes": ["X"]}, {"lineItemTypes[0]"}),
        (Balance, {**BALANCE, "accountId": ID}, {"overageDescription": "x" * 201}, {"overageDescription"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"amount": 0}, {"amount"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"productIds": [ID] * 101}, {"productIds"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"billingInterval": 0}, {"billingInterval"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"billingInterval": 366}, {"billingInterval"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"billingOffset": 365}, {"billingOffset"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"billingOffset": -1}, {"billingOffset"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"lineItemTypes": ["AD_HOC"]}, {"lineItemTypes[0]"}),
        (Commitment, {**COMMITMENT, "accountId": ID}, {"feeDates": [{**FEE, "amount": 0}]}, {"feeDates[0].amount"}),
        (Charge, {**CHARGE, "accountId": ID}, {"billDate": "soon"}, {"billDate"}),
        (BalanceTransaction, {"amount": 1}, {"amount": "1"}, {"amount"}),
        (BalanceTransaction, {"amount": 1}, {"transactionTypeId": "x y"}, {"transactionTypeId"}),
        (BalanceChargeSchedule, {**CHARGE_SCHEDULE, "balanceId": ID}, {"amount": -1}, {"amount"}),
        (BalanceChargeSchedule, {**CHARGE_SCHEDULE, "balanceId": ID}, {"billFrequencyInterval": 366}, {"billFrequencyInterval"}),
        (BalanceChargeSchedule, {**CHARGE_SCHEDULE, "balanceId": ID}, {"billFrequency": "AD_HOC"}, {"billFrequency"}),
        (BalanceTransactionSchedule, {**TRANSACTION_SCHEDULE, "balanceId": ID, "transactionTypeId": ID}, {"frequencyInterval": 0}, {"frequencyInterval"}),
        (CreditReason, {"name": "Late"}, {"code": "not a code"}, {"code"}),
        (CreditReason, {"name": "Late"}, {"name": "x" * 201}, {"name"}),
        (BillGroupingKey, {"name": "One", "exclusive": True}, {"exclusive": "yes"}, {"exclusive"}),
        (StatementDefinition, {"aggregationFrequency": "DAY"}, {"dimensions": [{"name": "x", "filter": []}]}, {"dimensions[0].filter"}),
        (StatementDefinition, {"aggregationFrequency": "DAY"}, {"measures": [{"aggregations": ["SUM"] * 8}]}, {"measures[0].aggregations"}),
        (StatementDefinition, {"aggregationFrequency": "DAY"}, {"aggregationFrequency": "HOUR"}, {"aggregationFrequency"}),
    ],
)  # fmt: skip
def test_a_field_that_breaks_the_contract_is_refused(kind, document, changes, places):
    assert refused(kind, document, **changes) == places


@pytest.mark.parametrize(
    ("kind", "document", "optional"),
    [
        (Balance, {**BALANCE, "accountId": ID}, set()),
        (Commitment, {**COMMITMENT, "accountId": ID}, set()),
        (Charge, {**CHARGE, "accountId": ID}, {"amount"}),
        (BalanceChargeSchedule, {**CHARGE_SCHEDULE, "balanceId": ID}, {"amount"}),
        (BalanceTransactionSchedule, {**TRANSACTION_SCHEDULE, "balanceId": ID, "transactionTypeId": ID}, set()),
        (BalanceTransaction, {"amount": 1, "paid": 2}, {"paid"}),
        (BillGroupingKey, {"name": "One", "code": "one", "exclusive": True}, {"code"}),
        (StatementDefinition, {"aggregationFrequency": "DAY", "name": "Daily"}, {"name"}),
    ],
)  # fmt: skip
def test_what_the_contract_requires_is_required(kind, document, optional):
    assert required(kind, document) == set(document) - optional


def test_a_type_that_is_archived_later_stays_where_it_was_picked():
    configuration = after(documents())

    archived = added("transactionTypes", code="top_up", name="Top up", archived=True)

    after(archived, configuration)
    again = after(archived, configuration)
    after(added("balanceTransactionSchedules", **{**TRANSACTION_SCHEDULE, "amount": 11}), again)


def test_a_contract_of_balances_and_commitments_stays_with_their_account():
    changes = {"contractId": "acme-1"}
    configuration = after(documents("balances", **changes))
    [contract, *_] = copy.deepcopy(DOCUMENTS["contracts"])

    with pytest.raises(Invalid, match="a contract of the same account"):
        after(added("contracts", **{**contract, "accountId": "bolt"}), configuration)


def test_a_schedule_stays_with_its_balance():
    configuration = after(documents())

    with pytest.raises(Invalid, match="balanceId"):
        after(
            added("balanceChargeSchedules", **{**CHARGE_SCHEDULE, "balanceId": "bolts"}),
            configuration,
        )


def computed(kind, **changes):
    configuration = after(documents(BY_ENTITY[kind].name, **changes))
    return response(next(configuration.all(kind)), configuration)


def test_a_schedule_shows_when_it_runs_next():
    in_advance = computed(BalanceChargeSchedule)
    in_arrears = computed(BalanceChargeSchedule, billInAdvance=False)
    top_up = computed(BalanceTransactionSchedule)

    assert str(in_advance["nextRun"]) == "2026-01-01 00:00:00+00:00"
    assert str(in_arrears["nextRun"]) == "2026-01-31 23:00:00+00:00"
    assert str(top_up["nextRun"]) == "2026-01-01 00:00:00+00:00"
    assert "previousRun" not in top_up


def test_nothing_of_a_commitment_is_spent_yet():
    assert computed(Commitment)["amountSpent"] == 0


def test_a_statement_definition_names_meters():
    definition = {
        "id": "daily",
        "aggregationFrequency": "DAY",
        "dimensions": [{"meterId": "egress", "name": "region", "filter": ["*"]}],
        "measures": [{"meterId": "egress", "name": "gb", "aggregations": ["SUM"]}],
    }

    [record] = after([*everything(), *added("statementDefinitions", **definition)]).all(
        StatementDefinition
    )

    assert record.entity.dimensions[0].meter_id == record.entity.measures[0].meter_id
    definition["measures"][0]["meterId"] = "ingress"
    with pytest.raises(Invalid, match=r"measures\[0\].meterId: 'ingress' is not allowed"):
        after([*everything(), *added("statementDefinitions", **definition)])


OWN_ID = "3b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b1{}"


def test_an_export_makes_the_same_elsewhere_and_changes_nothing_at_home():
    definition = {
        "id": "daily",
        "aggregationFrequency": "DAY",
        "dimensions": [{"meterId": "egress", "name": "region", "filter": ["*"]}],
    }
    config = {"daysBeforeBillDue": 1, "defaultStatementDefinitionId": "daily"}
    content = {
        "statementDefinitions": [definition],
        "organizationConfig": config,
        "billConfig": {"billLockDate": "2026-01-01"},
        "creditReasons": [{"code": "late", "name": "Late"}, {"id": "x", "name": "Same"}],
        # Nothing tells these two apart but ids of their own.
        "debitReasons": [{"id": OWN_ID.format(n), "name": "Same"} for n in (1, 2)],
        "billGroupingKeys": [{"code": "one", "name": "One", "exclusive": False}],
    }
    configuration = after(documents("commitments", feeDates=[FEE], productIds=["shop"]))
    configuration = after([Document("more", content)], configuration)
    exported = [Document("export", describe_all(configuration))]

    assert after(exported, configuration).versions() == configuration.versions()
    elsewhere = after(exported)
    assert without_ids(describe_all(elsewhere)) == without_ids(exported[0].content)
    assert after(exported, elsewhere).versions() == elsewhere.versions()


def without_ids(exported):
    """An export in which ids and references to them are left out: they differ elsewhere."""
    return {
        name: sorted(
            str({k: v for k, v in each.items() if k not in {"id", "defaultStatementDefinitionId"}})
            for each in (entities if isinstance(entities, list) else [entities])
        )
        for name, entities in exported.items()
    }
