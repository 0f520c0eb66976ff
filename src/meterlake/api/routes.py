"""OPERATIONS: every operation of the API, what it needs permission for, and who answers it.

One table for the router, the permissions, the limits and the served document. The standard verbs
of declared resources come from `RESOURCES`; named operations stand beside the functions that they
call; what a later version does is declared, too, and answers 501.
"""

from typing import Any, Final

from meterlake.api import (
    accounts,
    backfills,
    customer_links,
    data_in,
    entities,
    events,
    explorer,
    exports,
    external_mappings,
    integrations,
    lookups,
    mappings,
    rejected,
    runs,
    submit,
    trials,
    uploads,
)
from meterlake.api.access import access
from meterlake.api.billing import (
    balances,
    bill_lines,
    bills,
    change_proposals,
    closings,
    prices,
    revenue,
    statements,
)
from meterlake.api.entities import standard_operations
from meterlake.api.server import downloads
from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.model.catalog.catalog import Features
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.configuration.permissions import ANYTHING
from meterlake.pipeline.config.entities import single

_NAMED: Final = (
    access.OPERATIONS,
    accounts.OPERATIONS,
    backfills.OPERATIONS,
    balances.OPERATIONS,
    bill_lines.OPERATIONS,
    bills.OPERATIONS,
    change_proposals.OPERATIONS,
    customer_links.OPERATIONS,
    closings.OPERATIONS,
    data_in.OPERATIONS,
    downloads.OPERATIONS,
    entities.OPERATIONS,
    events.OPERATIONS,
    explorer.OPERATIONS,
    exports.OPERATIONS,
    external_mappings.OPERATIONS,
    integrations.OPERATIONS,
    lookups.OPERATIONS,
    mappings.OPERATIONS,
    prices.OPERATIONS,
    rejected.OPERATIONS,
    revenue.OPERATIONS,
    runs.OPERATIONS,
    submit.OPERATIONS,
    trials.OPERATIONS,
    uploads.OPERATIONS,
    statements.OPERATIONS,
)


async def _list_allowed(call: Call) -> dict[str, Any]:
    """What whoever asks may call, for those who offer it; single items and groups may be refused."""
    features = await call.run(single, call.organization, Features)
    config = await call.run(single, call.organization, OrganizationConfig)
    allows = call.permissions.allows
    return {
        "data": sorted(
            each.id
            for each in OPERATIONS
            if any(
                allows(action, each.resource)
                for action in (each.action, each.or_action)
                if action is not None
            )
            and (each.reads is None or allows(each.reads, each.resource))
            and (each.besides is None or allows(*each.besides))
            and (each.feature is None or getattr(features, each.feature))
        ),
        "author": call.author,
        "timezone": config.timezone,
    }


_ALLOWED: Final = Operation(
    "ListAllowedOperations",
    "GET",
    f"{ORGANIZATION}/users/me/operations",
    ANYTHING,
    "user",
    _list_allowed,
)


def _without_twins() -> tuple[Operation, ...]:
    """Named operations stand in for the standard ones of the same path and method."""
    named = [_ALLOWED, *(operation for table in _NAMED for operation in table)]
    taken = {(operation.method, operation.path) for operation in named}
    standard = [each for each in standard_operations() if (each.method, each.path) not in taken]
    return (*standard, *named)


OPERATIONS: Final = _without_twins()
BY_ID: Final = {operation.id: operation for operation in OPERATIONS}
assert len(BY_ID) == len(OPERATIONS)
