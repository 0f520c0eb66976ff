"""FOCUS rows of whole bills: they add up to the bills, and prices times quantities to costs."""

from collections import defaultdict
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.stages.export.focus import Names, focus_document
from tests.properties.test_bill import Case


def exact_amount(line):
    """What the bands of a usage line come to before anything is rounded, in the bill's currency."""
    body = line.to_wire()
    bands = body["usagePerPricingBand"]
    charged = sum((Fraction(each["bandSubtotal"]) for each in bands), Fraction(0))
    return charged * Fraction(body["conversionRate"])


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
                product = price * Fraction(row["PricingQuantity"])
                # The price is an average of 20 digits where it does not end.
                assert abs(product - cost) <= abs(cost) / 10**17 + Fraction(1, 10**12)
                assert not line.bands or cost == exact_amount(line)
            # One is exact; the other one is rounded, before or after its conversion.
            assert abs(Fraction(row["ContractedCost"]) - Fraction(row["BilledCost"])) <= Fraction(
                "0.01"
            )

    assert billed == {bill.account_id: bill.total for bill in made if bill.lines}
