"""What is computed of permission policies."""

from typing import Any

from meterlake.model.access import SYSTEM, PermissionPolicy
from meterlake.model.entity import Configuration, Record


def policy_managed(record: Record[PermissionPolicy], around: Configuration) -> dict[str, Any]:
    """Whether meterlake itself made the policy."""
    del around
    return {"managedPolicy": record.created_by == SYSTEM}
