"""The bills of a month from configuration and quantities, without a store.

`draft` says what holds for whom and which quantities are needed, `make_bills` makes the bills of
them, `unpriced` reports what is on none. Between the first and the others somebody folds the
measurements.
"""

from meterlake.stages.bill.bills import Provenance, make_bills
from meterlake.stages.bill.terms import Draft, draft
from meterlake.stages.bill.unpriced import unpriced

__all__ = ["Draft", "Provenance", "draft", "make_bills", "unpriced"]
