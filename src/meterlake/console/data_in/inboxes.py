"""Pages of inboxes: what came through them, and the forms to check, add, change and remove one."""

from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.page import Visit, page

INBOXES: Final = "/console/data-in/inboxes"
_API: Final = "/measurements/inboxes"
AFTERWARDS: Final = (
    ("move", "Move it to done/ or failed/ beside the inbox"),
    ("tag", "Tag it (buckets only)"),
    ("leave", "Leave it where it is"),
)


async def list_inboxes(visit: Visit) -> Response:
    """The inboxes, and what became of the newest objects of each."""
    return await _show(visit, None)


async def _show(visit: Visit, checked: dict[str, Any] | None) -> Response:
    inboxes = await visit.api.every(_API)
    await visit.people()
    return visit.page(
        "data_in/inboxes.html", inboxes=inboxes, checked=checked, afterwards=AFTERWARDS
    )


async def change_inboxes(visit: Visit) -> Response:
    """Check, add, change or remove an inbox."""
    url, id_ = visit.field("url"), visit.field("id")
    match visit.field("action"):
        case "check":
            return await _show(visit, await visit.api.send("POST", f"{_API}/check", {"url": url}))
        case "add" | "change" as action:
            body = {"url": url, "afterwards": visit.field("afterwards")}
            made = await visit.api.send("POST", _API, body)
            did = "added" if action == "add" else "changed"
            said = f"You {did} the inbox {made['url']}. The worker takes what comes there."
        case "remove":
            gone = await visit.api.send("DELETE", f"{_API}/{id_}")
            said = (
                f"You removed the inbox {gone['url']}. Its objects stay; to undo it, add it again."
            )
        case _:
            raise visit.unknown_action("an inbox")
    return visit.go(INBOXES, said)


ROUTES: Final = (
    Route(INBOXES, page(list_inboxes), methods=["GET"], name="ConsoleInboxes"),
    Route(INBOXES, page(change_inboxes, list_inboxes), methods=["POST"], name="ConsoleInboxChange"),
)
