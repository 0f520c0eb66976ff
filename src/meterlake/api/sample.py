"""The sample over HTTP: an invented month for an organization that has nothing yet."""

from typing import Any, Final

from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.model.errors import Forbidden
from meterlake.pipeline.home.sample import load_sample

# What it creates; nobody gets by it what they may not create one by one.
_CREATES: Final = (
    *("product", "meter", "aggregation", "compoundaggregation", "plantemplate", "plan"),
    *("pricing", "account", "accountplan", "currency"),
)
_RIGHTS: Final = (
    *(("config:create", each) for each in _CREATES),
    ("config:update", "organizationconfig"),
    ("measurements:upload", "measurements"),
)


async def load(call: Call) -> Any:
    """The worker ingests the files afterwards."""
    for action, resource in _RIGHTS:
        if not call.permissions.unrestricted(action, resource):
            raise Forbidden(
                f"no permission for {action} on {resource}; ask an administrator for it"
            )
    return await call.run(load_sample, call.organization, call.author)


OPERATIONS: Final = (
    Operation("LoadSample", "POST", f"{ORGANIZATION}/sample", "config:create", "product", load),
)
