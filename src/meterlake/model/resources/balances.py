"""What accounts have paid ahead or are charged once: balances with their schedules, commitments, charges."""

from typing import Final

from meterlake.model.catalog.catalog import Product
from meterlake.model.catalog.plans import Plan
from meterlake.model.configuration.organization import Currency, TransactionType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransactionSchedule,
)
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.resources.resource import IDS, VERBS, Filter, Resource
from meterlake.model.rules.balances import (
    advances_within_the_amount,
    amount_or_units,
    billing_plan_has_periods,
    charge_fits_its_entity,
    charge_origin,
    charge_schedule_runs,
    commitment_spent,
    fee_periods_are_in_order,
    one_way_of_billing_fees,
    rollover_has_an_end,
    schedule_lasts,
    separate_overage_without_surcharge,
    service_period_is_in_order,
    service_period_lasts,
    transaction_schedule_runs,
    transaction_type_is_in_use,
)
from meterlake.model.rules.references import contract_is_of_the_account
from meterlake.model.rules.spans import ends_after_start

ROWS: Final = (
    Resource(
        name="balances",
        path="balances",
        entity=Balance,
        refs={
            "account_id": Account,
            "product_ids": Product,
            "contract_id": Contract,
            "consumptions_accounting_product_id": Product,
            "fees_accounting_product_id": Product,
        },
        codes={"currency": Currency},
        rules=(ends_after_start, rollover_has_an_end, contract_is_of_the_account),
        schema="Balance",
        permission="balance",
        event="billing.balance",
        filters=(
            IDS,
            Filter("accountId"),
            Filter("endDateStart", field="endDate", kind="date", op=">="),
            Filter("endDateEnd", field="endDate", kind="date", op="<"),
            Filter("contract", field="contractId"),
            Filter("contractId"),
        ),
    ),
    Resource(
        name="balanceChargeSchedules",
        path="balances/{balanceId}/balancechargeschedules",
        entity=BalanceChargeSchedule,
        refs={"balance_id": Balance},
        codes={"currency": Currency},
        rules=(amount_or_units, service_period_lasts),
        computed=charge_schedule_runs,
        schema="BalanceChargeSchedule",
        permission="balancechargeschedule",
        event="billing.scheduledbalancecharge",
        feature="beta",
        page_max=200,
        frozen=("balance_id",),
        operations={
            "create": "CreateBalanceChargeSchedule",
            "list": "ListBalanceChargeSchedule",
            "update": "UpdateBalanceChargeSchedule",
        },
    ),
    Resource(
        name="balanceTransactionSchedules",
        path="balances/{balanceId}/balancetransactionschedules",
        entity=BalanceTransactionSchedule,
        refs={"balance_id": Balance, "transaction_type_id": TransactionType},
        codes={"currency_paid": Currency},
        rules=(schedule_lasts, transaction_type_is_in_use),
        computed=transaction_schedule_runs,
        schema="BalanceTransactionSchedule",
        permission="balancetransactionschedule",
        event="billing.scheduledbalancetransaction",
        feature="beta",
        page_max=200,
        frozen=("balance_id",),
        operations={
            "create": "CreateBalanceTransactionSchedule",
            "list": "ListBalanceTransactionSchedule",
            "update": "UpdateBalanceTransactionSchedule",
        },
    ),
    Resource(
        name="commitments",
        path="commitments",
        entity=Commitment,
        refs={
            "account_id": Account,
            "billing_plan_id": Plan,
            "product_ids": Product,
            "contract_id": Contract,
            "accounting_product_id": Product,
            "fees_accounting_product_id": Product,
            "drawdowns_accounting_product_id": Product,
        },
        codes={"currency": Currency},
        key=("account_id", "contract_id", "product_ids", "line_item_types", "start_date"),
        rules=(
            ends_after_start,
            one_way_of_billing_fees,
            billing_plan_has_periods,
            fee_periods_are_in_order,
            separate_overage_without_surcharge,
            advances_within_the_amount,
            contract_is_of_the_account,
        ),
        computed=commitment_spent,
        schema="Commitment",
        permission="commitment",
        event="configuration.commitment",
        verbs=VERBS | {"search"},
        filters=(
            IDS,
            Filter("accountId"),
            Filter("productId", field="productIds"),
            Filter("contractId"),
            Filter("date", kind="date", active=("startDate", "endDate")),
            Filter("endDateStart", field="endDate", kind="date", op=">="),
            Filter("endDateEnd", field="endDate", kind="date", op="<"),
        ),
        searchable=frozenset(
            {"startDate", "endDate", "contractId", "accountId", "productId", "productIds"}
        ),
    ),
    Resource(
        name="charges",
        path="charges",
        entity=Charge,
        refs={
            "account_id": Account,
            "entity_id": Balance,
            "accounting_product_id": Product,
            "contract_id": Contract,
        },
        codes={"currency": Currency},
        rules=(
            amount_or_units,
            service_period_is_in_order,
            charge_fits_its_entity,
            contract_is_of_the_account,
        ),
        computed=charge_origin,
        schema="Charge",
        permission="charge",
        event="billing.charge",
        page_max=200,
        filters=(
            IDS,
            Filter("accountId"),
            Filter("entityId"),
            Filter("entityType"),
            Filter("scheduleId"),
            Filter("billDate", kind="date"),
        ),
        operations={"create": "CreateCharge", "update": "UpdateCharge"},
    ),
)
