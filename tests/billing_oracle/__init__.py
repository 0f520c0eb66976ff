"""A second calculation of whole bills, in plain Python, from the written rules alone.

It shares no code with the engine, uses the standard library only, and prefers the obvious way to the fast one:
every quantity is read from all measurements, every bill from the beginning of time.
`choices.md` lists what the rules leave open and how it is decided here.
"""

from tests.billing_oracle.bills import Bill, Billing, Line, bills
from tests.billing_oracle.ledger import SourceState
from tests.billing_oracle.world import CannotBill, World

__all__ = ["Bill", "Billing", "CannotBill", "Line", "SourceState", "World", "bills"]
