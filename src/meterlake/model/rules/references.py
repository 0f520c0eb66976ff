"""Fields that refer to others: what they name exists and is the account's, and exactly one of some is given."""

from typing import Any

from pydantic.alias_generators import to_snake

from meterlake.model.customers.contracts import Contract
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.rules.proposed import Proposed
from meterlake.model.values.entity import Configuration, E, Record


def existing(kind: type[E], location: str, id: str, configuration: Configuration) -> Record[E]:
    """What a place of a document refers to.

    Raises:
        Invalid: There is none; the sentence names the place.
    """
    try:
        return configuration.get(kind, id)
    except NotFound:
        raise Invalid(location, id, f"it must be the id of an existing {kind.__name__}") from None


def contract_is_of_the_account(new: Proposed[Any]) -> None:
    """A contract that is named is one of the entity's account."""
    contract_id = new.entity.contract_id
    if contract_id is None:
        return
    if new.configuration.get(Contract, contract_id).entity.account_id != new.entity.account_id:
        raise Invalid("contractId", contract_id, "it must be a contract of the same account")


def exactly_one(entity: Any, first: str, second: str) -> None:
    """Refuse both, and neither, of two fields that exclude each other.

    Raises:
        Invalid: Both or none of them has a value.
    """
    values = [getattr(entity, to_snake(name)) for name in (first, second)]
    if (values[0] is None) is (values[1] is None):
        raise Invalid(first, values[0], f"give exactly one of {first} and {second}")
