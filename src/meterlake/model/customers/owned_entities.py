"""What an account has of its own: entities that belong to one account each."""

from typing import Final

from meterlake.model.catalog.counters import CounterAdjustment
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.values.entity import Entity

# Each names its account by `account_id`; nothing else but these refers to any of them.
ACCOUNT_ENTITIES: Final[tuple[type[Entity], ...]] = (
    *(AccountPlan, Balance, Charge, Commitment, Contract, CounterAdjustment),
)
