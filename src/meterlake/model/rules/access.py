"""What must hold for permission policies, and what is computed of them."""

from typing import Any

from meterlake.model.configuration.access import SYSTEM, PermissionPolicy, statement_documents
from meterlake.model.errors import Forbidden
from meterlake.model.rules.proposed import Proposed
from meterlake.model.values.entity import Configuration, Record


def policy_shown(record: Record[PermissionPolicy], configuration: Configuration) -> dict[str, Any]:
    """The statements as responses have them, and whether meterlake itself made the policy."""
    del configuration
    return {
        "permissionPolicy": statement_documents(record.entity.permission_policy),
        "managedPolicy": record.created_by == SYSTEM,
    }


def policy_document(record: Record[PermissionPolicy]) -> dict[str, Any]:
    """A policy as responses have it."""
    return record.to_wire() | policy_shown(record, Configuration(()))


def managed_policies_stay(new: Proposed[PermissionPolicy]) -> None:
    """What meterlake itself made is changed by nobody."""
    made_by = new.configuration.get(PermissionPolicy, new.id).created_by
    if new.before is not None and made_by == SYSTEM:
        raise Forbidden(
            "a managed policy can be neither changed nor deleted; make a policy of your own"
        )
