"""What came in, over HTTP: an organization's measurements at a glance, and its sources one by one.

The sample comes in here, too: an invented month for an organization that has nothing yet.
"""

from typing import Any, Final

from starlette.responses import Response

from meterlake.api.entities import ORDERS, page
from meterlake.api.responses.data_in import InboxCheckRequest, InboxRequest
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.api.server.downloads import content_response
from meterlake.model.errors import Forbidden, Invalid, Required
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.home.file_template import file_template
from meterlake.pipeline.home.sample import load_sample
from meterlake.pipeline.home.status import ingest_alerts, look_at_measurements
from meterlake.pipeline.ingest import listed_inboxes, named_inboxes
from meterlake.pipeline.ingest.expected_files import overdue_files
from meterlake.pipeline.rejected import receipts
from meterlake.stores import Organization
from meterlake.stores.lake.receipts import SORTS, ReceiptFilters
from meterlake.stores.state.ingest.inboxes import Inbox

_MEASUREMENTS: Final = f"{ORGANIZATION}/measurements"
_INBOXES: Final = f"{_MEASUREMENTS}/inboxes"
_PAGE_MAX: Final = 100
_OBJECTS: Final = 20
_STATUSES: Final[dict[str, str | None]] = {"done": "done", "failed": "failed"}
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


async def get_status(call: Call) -> Any:
    """The numbers of the lake, what is rejected now, how fresh each meter is, open alerts."""
    return await call.run(_status, call.organization)


def _status(organization: Organization) -> Document:
    seen = look_at_measurements(organization).to_wire()
    meters = [_without_empty(each) for each in seen["meters"]]
    overdue = [each.to_wire() for each in overdue_files(organization)]
    return {
        **seen,
        "meters": meters,
        "alerts": ingest_alerts(organization),
        "overdueFiles": overdue,
    }


async def get_template(call: Call) -> Response:
    """A file of measurements to begin with: the columns of a meter, and an example of a row."""
    meter = call.query.text("meter")
    if meter is None:
        raise Required("meter")
    text = await call.run(file_template, call.organization, meter)
    return content_response("measurements.csv", "text/csv", text.encode())


async def list_sources(call: Call) -> Any:
    """One page of receipts, the newest first."""
    query, this = call.query, page(call, _PAGE_MAX)
    filters = ReceiptFilters(
        name=query.text("name"),
        name_part=query.text("nameContains"),
        status=query.one_of("status", _STATUSES, default=None),
        since=query.instant("since"),
        until=query.instant("until"),
        source=query.text("source"),
        after=_place(this.token),
        by=query.one_of("sortBy", {each: each for each in SORTS}, default="finishedAt"),
        ascending=query.one_of("sortOrder", ORDERS, default=False),
    )
    found = await call.run(receipts.list_receipts, call.organization, filters, this.size)
    last = found[-1] if len(found) == this.size else None
    token = None if last is None else f"{last['identity']}:{last['attempt']}"
    return envelope([_without_empty(each) for each in found], token)


async def list_inboxes(call: Call) -> Any:
    """One page of inboxes, each with the newest objects that were taken from it."""
    this = page(call, _PAGE_MAX)
    found = await call.run(listed_inboxes.list_inboxes, call.organization, _OBJECTS)
    urls = [each.inbox.url for each in found]
    if this.token is not None and this.token not in urls:
        raise _wrong_token(this.token)
    first = 0 if this.token is None else urls.index(this.token) + 1
    shown = [each.to_wire() for each in found[first : first + this.size]]
    for each in shown:
        each["objects"] = [_without_empty(taken) for taken in each["objects"]]
    token = shown[-1]["url"] if first + this.size < len(found) else None
    return envelope([_without_empty(each) for each in shown], token)


async def add_inbox(call: Call) -> Any:
    """Ingest what comes to a place from now on, or change what becomes of its objects."""
    asked = read(InboxRequest, await call.document())
    args = (call.organization, asked.url, asked.afterwards, call.author)
    return _changed(await call.run(named_inboxes.add_named_inbox, *args))


async def remove_inbox(call: Call) -> Any:
    """Look into an inbox no more."""
    removed = named_inboxes.remove_named_inbox
    return _changed(await call.run(removed, call.organization, call.path["id"]))


async def check_inbox(call: Call) -> Any:
    """Whether a place answers, and what waits there."""
    asked = read(InboxCheckRequest, await call.document())
    return await call.run(named_inboxes.check_named_inbox, call.organization, asked.url)


def _changed(inbox: Inbox) -> Document:
    return {"id": inbox.id, "url": inbox.url, "afterwards": inbox.afterwards.value}


def _place(token: str | None) -> tuple[str, int] | None:
    if token is None:
        return None
    identity, _, attempt = token.partition(":")
    if not (attempt.isascii() and attempt.isdigit()):
        raise _wrong_token(token)
    return identity, int(attempt)


def _wrong_token(token: str) -> Invalid:
    return Invalid("nextToken", token, "it must be the nextToken of the page before")


def _without_empty(found: dict[str, Any]) -> Document:
    return {name: value for name, value in found.items() if value is not None}


def _operation(id_: str, path: str, handler: Handler) -> Operation:
    path = f"{_MEASUREMENTS}/{path}"
    return Operation(id_, "GET", path, "measurements:retrieve", "measurements", handler)


async def load(call: Call) -> Any:
    """The worker ingests the files afterwards."""
    for action, resource in _RIGHTS:
        if not call.permissions.unrestricted(action, resource):
            raise Forbidden(
                f"no permission for {action} on {resource}; ask an administrator for it"
            )
    return await call.run(load_sample, call.organization, call.author)


OPERATIONS: Final = (
    _operation("GetMeasurementsStatus", "status", get_status),
    _operation("GetMeasurementsTemplate", "template", get_template),
    _operation("ListSources", "sources", list_sources),
    _operation("ListInboxes", "inboxes", list_inboxes),
    Operation("AddInbox", "POST", _INBOXES, "config:create", "inbox", add_inbox),
    Operation(
        "RemoveInbox", "DELETE", f"{_INBOXES}/{{id}}", "config:delete", "inbox", remove_inbox
    ),
    Operation("CheckInbox", "POST", f"{_INBOXES}/check", "config:create", "inbox", check_inbox),
    Operation("LoadSample", "POST", f"{ORGANIZATION}/sample", "config:create", "product", load),
)
