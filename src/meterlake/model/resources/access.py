"""Who may do what."""

from typing import Final

from meterlake.model.configuration.access import (
    Invitation,
    PermissionPolicy,
    ResourceGroup,
    ServiceUser,
    SupportAccess,
)
from meterlake.model.customers.accounts import Account, CustomerLink
from meterlake.model.resources.resource import ACCESS, VERBS, Resource
from meterlake.model.rules.access import managed_policies_stay, policy_shown

# What is deleted with something else (keys, grants, members of groups) has a function of its own.
_KEPT: Final = VERBS - {"delete"}

ROWS: Final = (
    Resource(
        name="permissionPolicies",
        path="permissionpolicies",
        entity=PermissionPolicy,
        area=ACCESS,
        rules=(managed_policies_stay,),
        computed=policy_shown,
        verbs=_KEPT,
        filters=(),
        schema="PermissionPolicy",
        permission="permissionpolicy",
        operations={"list": "ListPermissionPolicies"},
    ),
    Resource(
        name="serviceUsers",
        path="serviceusers",
        entity=ServiceUser,
        area=ACCESS,
        verbs=_KEPT,
        schema="ServiceUser",
        permission="serviceuser",
    ),
    Resource(
        name="resourceGroups",
        path="resourcegroups/{type}",
        entity=ResourceGroup,
        area=ACCESS,
        verbs=_KEPT,
        filters=(),
        frozen=("type",),
        schema="ResourceGroup",
        permission="resourcegroup",
    ),
    Resource(
        name="invitations",
        path="invitations",
        entity=Invitation,
        area=ACCESS,
        refs={"permission_policy_ids": PermissionPolicy},
        verbs=frozenset(),
        filters=(),
        page_max=200,
        schema="OrgUserInvitation",
        permission="invitation",
    ),
    Resource(
        name="customerLinks",
        path="accounts/{accountId}/customerlinks",
        entity=CustomerLink,
        area=ACCESS,
        refs={"account_id": Account},
        verbs=frozenset({"retrieve", "list", "delete"}),
        filters=(),
        frozen=("account_id",),
        schema="CustomerLink",
        permission="customerlink",
    ),
    Resource(
        name="supportAccess",
        path="support",
        entity=SupportAccess,
        area=ACCESS,
        verbs=frozenset(),
        filters=(),
        schema="Support",
        permission="support",
    ),
)
