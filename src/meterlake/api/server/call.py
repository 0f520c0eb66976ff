"""What an operation of the API is, and one authenticated request as its handler sees it.

`routes.OPERATIONS` is the table of all operations.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, Final, Literal, ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from meterlake.api.server import body
from meterlake.api.server.fair_threads import FairThreads
from meterlake.api.server.page_tokens import NEXT_TOKEN, SEARCH, unmark_token
from meterlake.model.configuration.access import Principal
from meterlake.model.configuration.permissions import Permissions
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.ids import is_id
from meterlake.model.values.period import parse_instant
from meterlake.stores import Organization, Stores

P = ParamSpec("P")
T = TypeVar("T")

PAGE_DEFAULT: Final = 100
# What fits 64 bits.
_DIGITS_MAX: Final = 18
_FLAGS: Final = {"true": True, "false": False}
Limit = Literal["config", "ingest", "explorer", "query"]

ORGANIZATION: Final = "/organizations/{orgId}"


class QueryParameters:
    """The query parameters of a request; empty values count as absent.

    Every reader raises `Invalid` with the parameter, the value and the rule.

    Attributes:
        names: All that were given, also without a value.
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.names = tuple(dict.fromkeys(name for name, _ in pairs))
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if value:
                self._values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str | None:
        """One text."""
        values = self._values.get(name)
        if not values:
            return default
        if len(values) > 1:
            raise Invalid(name, values, "give it once")
        if "\x00" in values[0]:
            raise Invalid(name, values[0], "it must be text without NUL characters")
        return values[0]

    def texts(self, name: str) -> list[str]:
        """Several texts, joined by commas or the parameter repeated."""
        found = [item for value in self._values.get(name, ()) for item in value.split(",") if item]
        for item in found:
            if "\x00" in item:
                raise Invalid(name, item, "it must be text without NUL characters")
        return found

    def flag(self, name: str, *, default: bool = False) -> bool:
        """`true` or `false`."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in _FLAGS:
            raise Invalid(name, value, "it must be true or false")
        return _FLAGS[value.lower()]

    def integer(
        self,
        name: str,
        default: int | None = None,
        *,
        least: int | None = None,
        most: int | None = None,
    ) -> int | None:
        """A whole number within bounds."""
        value = self.text(name)
        if value is None:
            return default
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
            raise Invalid(name, value, "it must be a whole number")
        number = int(value)
        if least is not None and number < least:
            raise Invalid(name, number, f"it must be {least} or more")
        if most is not None and number > most:
            raise Invalid(name, number, f"it must be at most {most}")
        return number

    def one_of(self, name: str, among: Mapping[str, T], default: T) -> T:
        """One of a few words."""
        value = self.text(name)
        if value is None:
            return default
        if value not in among:
            raise Invalid(name, value, f"it must be one of {', '.join(among)}")
        return among[value]

    def day(self, name: str) -> date | None:
        """A date; of an instant, its day in UTC."""
        value = self.text(name)
        if value is None:
            return None
        try:
            if len(value) == len("2026-10-01"):
                return date.fromisoformat(value)
        except ValueError:
            pass
        instant = parse_instant(value)
        if instant is None:
            raise Invalid(
                name,
                value,
                "it must be a day or an instant, such as 2026-10-01 or 2026-10-01T00:00:00Z",
            )
        return instant.date()

    def instant(self, name: str) -> datetime | None:
        """An instant; of a date, its first moment in UTC."""
        value = self.text(name)
        if value is None:
            return None
        # A + of an offset that was not escaped arrives as a space.
        instant = parse_instant(value) or parse_instant(value.replace(" ", "+"))
        if instant is None:
            day = self.day(name)
            assert day is not None
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        return instant


@dataclass
class Call:
    """One request of a principal to one organization.

    Attributes:
        path: The members of the path by name.
        permissions: What the principal may do.
        list_mark: What a token of a page has to end with; nothing if empty.
        written: The members of the body, once it was read.
        costly: The threads of an operation that takes long; None if it shares those of all.
    """

    request: Request
    stores: Stores
    principal: Principal
    permissions: Permissions
    path: dict[str, str]
    list_mark: str = ""
    written: dict[str, Any] = field(default_factory=dict)
    costly: FairThreads | None = None

    @property
    def next_token(self) -> str | None:
        """The token of the page before, which has to be of the same list.

        Raises:
            Invalid: It is of another list.
        """
        return unmark_token(self.query.text(NEXT_TOKEN), self.list_mark)

    @property
    def search_words(self) -> tuple[str | None, ...]:
        """What a search asks for, without where it begins."""
        return tuple(self.query.text(name) for name in SEARCH)

    @cached_property
    def query(self) -> QueryParameters:
        """The parameters of the query."""
        return QueryParameters(self.request.query_params.multi_items())

    @property
    def org_id(self) -> str:
        """The organization of the path, which is the principal's."""
        return self.principal.org_id

    @cached_property
    def organization(self) -> Organization:
        """The same organization, with its stores."""
        return self.stores.organization(self.org_id)

    @property
    def author(self) -> str:
        """Who is written down for a change: `SERVICE_USER_<id>` or `USER_<id>`."""
        return self.principal.author

    async def document(self, *, may_be_empty: bool = False) -> dict[str, Any]:
        """The JSON object of the body; without members if there is no body and need not be one.

        Raises:
            Invalid: The body is something else.
        """
        self.written = await body.document(self.request, may_be_empty=may_be_empty)
        return self.written

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that waits for a store, without holding up other requests.

        Raises:
            TooMany: It is costly, and too much of the organization waits already.
        """
        if self.costly is not None:
            return await self.costly.run(self.org_id, function, *args, **kwargs)
        return await run_in_threadpool(function, *args, **kwargs)


Handler = Callable[[Call], Awaitable[Any]]


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
        besides: Another action on another type of resource that is needed, for the same reason.
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
    besides: tuple[str, str] | None = None


def member(call: Call, kind: str, name: str = "id") -> str:
    """An id in the path.

    Raises:
        NotFound: It is no id, so that nothing can have it.
    """
    found = call.path[name]
    if not is_id(found):
        raise NotFound(kind, found)
    return found.lower()
