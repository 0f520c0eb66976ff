"""FOCUS rows of whole bills: they add up to the bills, and prices times quantities to costs."""

from collections import defaultdict
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.stages.export.focus import Names, focus_document
from tests.properties.test_bill import Case


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_rows_add_up_to_the_bills(data):
    world = Case(data).world()
    made = world.bills("2026-10")
    billed, names = defaultdict(Fraction), Names("Cloud", "Account", world.configuration)
    for bill in made:
        header = {**bill.header(), "id": bill.account_id}
        for number, line in enumerate(bill.lines):
            row = focus_document(header, {**line.to_wire(), "id": str(number)}, names)
            billed[row["InvoiceId"]] += Fraction(row["BilledCost"])
            for kind in ("List", "Contracted"):
                price, cost = Fraction(row[f"{kind}UnitPrice"]), Fraction(row[f"{kind}Cost"])
                assert price * Fraction(row["PricingQuantity"]) == cost
            # One is exact; the other one is rounded, before or after its conversion.
            assert abs(Fraction(row["ContractedCost"]) - Fraction(row["BilledCost"])) <= Fraction(
                "0.01"
            )

    assert billed == {bill.account_id: bill.total for bill in made if bill.lines}
