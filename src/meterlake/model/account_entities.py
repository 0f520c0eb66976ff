"""What an account has of its own: entities that belong to one account each."""

from typing import Final

from meterlake.model.accounts import AccountPlan
from meterlake.model.balances import Balance
from meterlake.model.charges import Charge
from meterlake.model.commitments import Commitment
from meterlake.model.contracts import Contract
from meterlake.model.counters import CounterAdjustment
from meterlake.model.entity import Entity

# Each names its account by `account_id`; nothing else but these refers to any of them.
ACCOUNT_ENTITIES: Final[tuple[type[Entity], ...]] = (
    *(AccountPlan, Balance, Charge, Commitment, Contract, CounterAdjustment),
)
