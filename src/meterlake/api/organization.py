"""Operations of what an organization has once, where the standard update is not enough."""

from typing import Any, Final

from meterlake.api.call import Call
from meterlake.api.operations import ORGANIZATION, Operation
from meterlake.pipeline.config import bill_config, organization


async def _update_bill_config(call: Call) -> Any:
    document = await call.document()
    return await call.run(bill_config.update, call.stores, call.org_id, call.author, document)


async def _update_organization_config(call: Call) -> Any:
    document = await call.document()
    return await call.run(organization.update, call.stores, call.org_id, call.author, document)


OPERATIONS: Final = (
    Operation(
        "UpdateBillConfig",
        "PUT",
        f"{ORGANIZATION}/billconfig",
        "config:update",
        "billconfig",
        _update_bill_config,
    ),
    Operation(
        "UpdateOrganizationConfig",
        "PUT",
        f"{ORGANIZATION}/organizationconfig",
        "config:update",
        "organizationconfig",
        _update_organization_config,
    ),
)
