"""What an entity of an account uses is of the same account."""

from typing import Any

from meterlake.model.customers.contracts import Contract
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed


def contract_is_of_the_account(new: Proposed[Any]) -> None:
    """A contract that is named is one of the entity's account."""
    contract_id = new.entity.contract_id
    if contract_id is None:
        return
    if new.configuration.get(Contract, contract_id).entity.account_id != new.entity.account_id:
        raise Invalid("contractId", contract_id, "it must be a contract of the same account")
