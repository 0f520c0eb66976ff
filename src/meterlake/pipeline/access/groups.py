"""Resource groups: what is in them, and who they give policies to."""

from meterlake.model.configuration.access import PermissionPolicy, ResourceGroup, ServiceUser
from meterlake.model.configuration.permissions import GROUP, ITEM
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources import RESOURCES
from meterlake.model.values.entity import Entity, Record
from meterlake.pipeline.access.access import keeping_administrator
from meterlake.stores.state import Reader, State
from meterlake.stores.state.access import access, groups, people
from meterlake.stores.state.access.access import USER_GROUP
from meterlake.stores.state.access.groups import Member
from meterlake.stores.state.core.pages import Page

# What a caller names: the type of a group and its id.
Address = tuple[str, str]


def put_in(
    state: State, org_id: str, author: str, address: Address, target: tuple[str, str]
) -> Record[ResourceGroup]:
    """Put an item or a group into a group of its type.

    Raises:
        NotFound: There is no such group.
        Invalid: The target does not exist, is of another type, or holds the group.
    """
    target_id, target_type = target
    with state.transaction(org_id, author) as transaction:
        record: Record[ResourceGroup] = groups.group(transaction, *address)
        _require(transaction, address[0], target_id, target_type)
        groups.add_member(transaction, address[1], target_id, target_type)
        return record


def take_out(
    state: State, org_id: str, author: str, address: Address, target_id: str
) -> Record[ResourceGroup]:
    """Take something out of a group.

    Raises:
        NotFound: There is no such group, or the target is not in it.
        Conflict: Nobody would administer the organization any more.
    """
    with state.transaction(org_id, author) as transaction, keeping_administrator(transaction):
        record: Record[ResourceGroup] = groups.group(transaction, *address)
        groups.remove_member(transaction, address[1], target_id)
        return record


def contents(
    state: State, org_id: str, address: Address, page: Page
) -> tuple[list[Member], str | None]:
    """One page of what is in a group."""
    with state.reading(org_id) as reader:
        groups.group(reader, *address)
        return groups.members(reader, address[1], page)


def group_permissions(
    state: State, org_id: str, address: Address
) -> list[Record[PermissionPolicy]]:
    """The policies that were granted to a group, the newest first."""
    with state.reading(org_id) as reader:
        groups.group(reader, *address)
        found = [
            reader.get(PermissionPolicy, each)
            for each in access.granted_policy_ids(reader, address[1])
        ]
    return sorted(found, key=lambda record: (record.created, record.id), reverse=True)


def delete_group(state: State, org_id: str, author: str, address: Address) -> Record[ResourceGroup]:
    """Delete a group; what was in it stays, what it gave is gone.

    Raises:
        NotFound: There is no such group.
        Conflict: Nobody would administer the organization any more.
    """
    with state.transaction(org_id, author) as transaction, keeping_administrator(transaction):
        groups.group(transaction, *address)
        gone = transaction.delete(ResourceGroup, address[1])
        groups.forget(transaction, address[1])
        access.revoke_all(transaction, address[1])
        return gone


def _require(reader: Reader, type: str, target_id: str, target_type: str) -> None:
    check = _check_group if target_type == GROUP else _check_item
    try:
        check(reader, type, target_id)
    except NotFound:
        rule = f"it must be the id of an existing {type if target_type == ITEM else f'group of type {type}'}"
        raise Invalid("targetId", target_id, rule) from None


def _check_group(reader: Reader, type: str, id: str) -> None:
    groups.group(reader, type, id)


def _check_item(reader: Reader, type_: str, id: str) -> None:
    if type_ == USER_GROUP:
        try:
            people.user(reader, id)
        except NotFound:
            # Programs may share the policies of a team.
            reader.get(ServiceUser, id)
        return
    kinds: list[type[Entity]] = [each.entity for each in RESOURCES if each.permission == type_]
    if not kinds:
        raise Invalid("type", type_, "it must be a type of resource")
    for kind in kinds:
        reader.get(kind, id)
