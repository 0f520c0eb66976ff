"""Which columns of an answer are amounts, and where their currency stands."""

import pytest

from meterlake.stages.publish.amounts import AMOUNTS, amount_columns
from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.tables import BILL_TABLES, NUMBER

# Numbers of published tables that are no money.
OTHERS = {
    *("quantity", "units", "conversion_rate", "quantity_per_unit", "default_value", "percentile"),
    *("scheduled_bill_interval", "review_total_percent", "overage_surcharge_percent"),
}


def test_every_number_of_the_published_tables_is_an_amount_or_is_known_not_to_be():
    tables = [*BILL_TABLES, *(table for each in ENTITY_TABLES for table in (each[1], each[2]))]
    for table in tables:
        numbers = {each.name for each in table.columns if each.type == NUMBER}
        assert numbers - OTHERS == AMOUNTS[table.name], table.name


@pytest.mark.parametrize(
    ("columns", "tables", "amounts"),
    [
        (["account", "total"], {"bill"}, {"total": None}),
        (["account", "sum(b.total)"], {"bill"}, {"sum(b.total)": None}),
        (["total", "currency"], {"bill"}, {"total": "currency"}),
        (["day", "total"], {"usage_per_day"}, {}),
        (["usage", "total"], {"bill_per_account"}, {"usage": None, "total": None}),
        (["usage", "currency"], set(), {}),
        (["amount", "currency", "bill_currency"], {"bill_line"}, {"amount": "bill_currency"}),
        (["subtotal", "currency", "bill_currency"], {"bill_line"}, {"subtotal": "currency"}),
        (["amount", "code_of_currency"], set(), {"amount": "code_of_currency"}),
        (
            ["memo_amount", "memo_currency", "currency"],
            {"late_usage_line"},
            {"memo_amount": "memo_currency"},
        ),
        (["paid", "currency_paid", "amount"], {"balance_transaction_schedule"}, {"paid": "currency_paid", "amount": None}),
        (["cost", "yearly_revenue", "list price"], set(), dict.fromkeys(["cost", "yearly_revenue", "list price"])),
        (["total_units", "cost_center", "lines"], {"bill"}, {}),
        (["standing_charge"], {"plan_at"}, {"standing_charge": None}),
        (["open_amount"], {"balance_history"}, {"open_amount": None}),
        (["amount"], {"a_meter"}, {}),
    ],
)  # fmt: skip
def test_amounts_are_known_by_their_names(columns, tables, amounts):
    assert amount_columns(columns, tables) == amounts
