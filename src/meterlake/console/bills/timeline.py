"""What people did to a bill, in words."""

from collections.abc import Mapping
from typing import Any, Final

from meterlake.console.shell.api import rows_of
from meterlake.console.shell.page import Visit, words

# What the log of who did what calls an act, where its own word is none for people.
_DONE: Final = {
    "unapproved": "Approval taken back",
    "recalculated": "Calculated again",
    "credited": "Credit put on the bill",
    "charged": "Charge put on the bill",
    "lineChanged": "Credit or charge changed",
    "lineRemoved": "Credit or charge taken away",
    "reopened": "Opened again",
    "ranAgain": "Run again",
    "edited": "Mended and requeued",
}


def act_in_words(action: str) -> str:
    """What somebody did, as people read it."""
    return _DONE.get(action) or words(action)


async def acts_of_bill(visit: Visit, id_: str) -> list[dict[str, Any]]:
    """What was done to a bill, the newest first, with `done` in words.

    Who may not read the log of who did what is told what the bill's events say.
    """
    log = await visit.api.find("/auditlog", entityId=id_, pageSize=50)
    if log is None:
        events = await visit.api.find("/events", resourceId=id_, includeActioned=True, pageSize=50)
        rows = [found for each in rows_of(events) if (found := _act_of(each)) is not None]
    else:
        rows = log["data"]
    return [{**each, "done": act_in_words(each["action"])} for each in rows]


def _act_of(event: Mapping[str, Any]) -> dict[str, Any] | None:
    data = event["m3terEvent"]["eventData"]
    new, old = data.get("newDto") or {}, data.get("oldDto") or {}
    if not new or not old:
        return None
    if new["status"] != old["status"]:
        action = "approved" if new["status"] == "APPROVED" else "unapproved"
    else:
        action = "locked" if new["locked"] and not old["locked"] else "changed"
    if new["billTotal"] != old["billTotal"]:
        action = "changed"
    return {"at": event["eventTime"], "by": new["lastModifiedBy"], "action": action}
