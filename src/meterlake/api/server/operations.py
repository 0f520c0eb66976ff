"""What an operation of the API is; `routes.OPERATIONS` is the table of all of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from meterlake.api.server.call import Call

Handler = Callable[[Call], Awaitable[Any]]
Limit = Literal["config", "ingest", "explorer", "query"]

ORGANIZATION: Final = "/organizations/{orgId}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        id: Its name in the API's document.
        method: The HTTP method.
        path: Its whole path; `{orgId}` is the organization.
        action: The action that a permission policy names: `config:update`.
        resource: The type of resource that it acts on: `account`.
        handler: Answers it; None if a later version will.
        item: The path's member that names the item, for permissions on single items.
        feature: `beta` or `preview` if the organization has to enable it first.
        limit: Which limit of requests counts it.
        detail: What it does not do yet: why there is no handler, or why the handler has always the
            same answer.
        or_action: Another action that opens it, too; the handler looks which of both is needed.
        reads: An action that is needed besides, because the answer shows what that one lets read.
    """

    id: str
    method: str
    path: str
    action: str
    resource: str
    handler: Handler | None = None
    item: str = "id"
    feature: Literal["beta", "preview"] | None = None
    limit: Limit = "config"
    detail: str = ""
    or_action: str | None = None
    reads: str | None = None
