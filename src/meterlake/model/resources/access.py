"""Who may do what."""

from typing import Final

from meterlake.model.access import PermissionPolicy, ServiceUser
from meterlake.model.resources.resource import ACCESS, Resource
from meterlake.model.rules.access import policy_managed

ROWS: Final = (
    Resource(
        name="permissionPolicies",
        path="permissionpolicies",
        entity=PermissionPolicy,
        area=ACCESS,
        computed=policy_managed,
        schema="PermissionPolicy",
        permission="permissionpolicy",
    ),
    Resource(
        name="serviceUsers",
        path="serviceusers",
        entity=ServiceUser,
        area=ACCESS,
        schema="ServiceUser",
        permission="serviceuser",
    ),
)
