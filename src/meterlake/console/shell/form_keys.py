"""A form counts once: its key is made with the page, and a second POST with it does nothing more.

The second one leads to where the first one led, whether it came by a button that was pressed twice,
by a page that was loaded again, or while the first one was still at work.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from meterlake.api.server.idempotency_keys import act_once
from meterlake.console.shell.api import ApiRefusalError
from meterlake.model.errors import Conflict, KeyReused, MeterlakeError, NotAnswered
from meterlake.pipeline.access.idempotency import IdempotencyKey

if TYPE_CHECKING:
    from meterlake.console.shell.page import Visit

# The field of a form with its key.
FIELD: Final = "once"
_TWICE: Final = "The form came twice and counted once."
_OTHER: Final = (
    "This form was sent before with other content, and that counted. Look at what it did, and send"
    " the form again if you mean this besides."
)
_UNKNOWN: Final = (
    "This form was sent before, and how that ended is not known. Look whether it did what you mean,"
    " and send the form again if it did not."
)
# Of an answer that is shown again; cookies and lengths are made anew.
_HEADERS: Final = ("cache-control", "content-security-policy", "content-type")


async def carry_out(visit: "Visit", function: Callable[["Visit"], Awaitable[Response]]) -> Response:
    """Do what a form asks for, unless the same form was sent within a day.

    Raises:
        ApiRefusalError: The API refused it, or the key came with other content.
    """
    if not visit.field(FIELD):
        return await function(visit)

    async def act() -> Response | Exception:
        # What is refused has done nothing: the key is free again.
        try:
            return await function(visit)
        except (MeterlakeError, ApiRefusalError, OverflowError) as error:
            return error

    stores = visit.request.app.state.services.stores
    key = IdempotencyKey(visit.session.org_id, visit.session.csrf, visit.field(FIELD), _sent(visit))
    try:
        answer = await act_once(stores, key, act, lambda found: _kept(visit, found))
    except KeyReused:
        raise ApiRefusalError(Conflict.status, _OTHER) from None
    except NotAnswered:
        raise ApiRefusalError(Conflict.status, _UNKNOWN) from None
    if isinstance(answer, Exception):
        raise answer
    return _again(visit, json.loads(answer)) if isinstance(answer, str) else answer


def _sent(visit: "Visit") -> bytes:
    """What a form asks for: its address, its fields and the files in it."""
    fields = {name: found for name, found in visit.form.items() if name not in {"csrf", FIELD}}
    files = {
        name: [(each.name, hashlib.sha256(each.content).hexdigest()) for each in found]
        for name, found in visit.files.items()
    }
    return json.dumps([visit.link(), fields, files], sort_keys=True).encode()


def _kept(visit: "Visit", answer: Response | Exception) -> str | None:
    if isinstance(answer, Exception) or not visit.has_acted:
        return None
    if visit.led is not None:
        return json.dumps({"led": visit.led})
    headers = {name: answer.headers[name] for name in _HEADERS if name in answer.headers}
    page = {"headers": headers, "content": bytes(answer.body).decode()}
    return json.dumps({"page": page})


def _again(visit: "Visit", kept: dict[str, Any]) -> Response:
    """Where the form led the first time; a page that shows something once is that page again."""
    if "page" in kept:
        return Response(kept["page"]["content"], headers=kept["page"]["headers"])
    target, said = kept["led"]
    return visit.go(target, f"{_TWICE} {said}".rstrip())
