"""The event of files that were expected and did not come: an automation hears of it."""

from collections.abc import Sequence
from typing import Final

from prefect.events import emit_event

LATE: Final = "meterlake.file.late"


def emit_late(org: str, month: str, missing: Sequence[str]) -> None:
    """Say that files of a month are missing.

    Args:
        org: The organization's code.
        month: The month that is to be closed.
        missing: The patterns that no file has.
    """
    resource = {
        "prefect.resource.id": f"meterlake.organization.{org}.{month}",
        "prefect.resource.name": f"{org} {month}",
    }
    emit_event(LATE, resource=resource, payload={"organization": org, "missing": list(missing)})
