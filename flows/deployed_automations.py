"""Automations: runs whose process is gone are crashed, and what went wrong is told."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events import (
    AutomationCore,
    CallWebhook,
    ChangeFlowRunState,
    DoNothing,
    EventTrigger,
    Posture,
)
from prefect.exceptions import ObjectNotFound

from flows.deployed_flows import GRACE_S, HEARTBEAT_S
from flows.late_files import LATE
from flows.outcome import Row
from flows.server_objects import TAG, ServerObject

NOTIFIER: Final = "meterlake-alerts"
_NO_BLOCK: Final = UUID(int=0)
# Three heartbeats are missing.
_SILENT: Final = timedelta(seconds=3 * HEARTBEAT_S)
_RUN: Final = "prefect.flow-run"
_ENDS: Final = frozenset(
    f"{_RUN}.{name}" for name in ("Completed", "Failed", "Crashed", "Cancelled", "Cancelling")
)
_WAITS: Final = frozenset(
    f"{_RUN}.{name}" for name in ("Paused", "Suspended", "AwaitingRetry", "Scheduled")
)
_OURS: Final = {
    "prefect.resource.role": "tag",
    "prefect.resource.id": f"prefect.tag.{TAG}",
}
BILL_FLOWS: Final = ("bill", "bill-due", "bill-job", "close-month")


class Notifiers:
    """The webhook that automations call, if there is one.

    Args:
        client: Who asks the server.
        url: Where it posts to; there is none if None.
    """

    kind = "webhook"

    def __init__(self, client: SyncPrefectClient, url: str | None) -> None:
        self._client = client
        self._url = url

    def specify(self) -> Mapping[str, Row]:
        """What is to be there, by name."""
        return {} if self._url is None else {NOTIFIER: {"url": self._url}}

    def read(self) -> Mapping[str, ServerObject]:
        """What is there, by name."""
        try:
            found = self._client.read_block_document_by_name(NOTIFIER, "webhook")
        except ObjectNotFound:
            return {}
        return {NOTIFIER: ServerObject(str(found.id), {"url": found.data.get("url")}, True)}

    def create(self, name: str, content: Row) -> str:
        """Make it, or have it post somewhere else.

        Returns:
            Its id.
        """
        made: Any = Webhook(url=content["url"]).save(name, overwrite=True)
        return str(made)

    def update(self, name: str, found: ServerObject, content: Row) -> None:
        """Have it post somewhere else."""
        del found
        self.create(name, content)

    def remove(self, name: str, found: ServerObject) -> None:
        """Remove it."""
        del name
        self._client.delete_block_document(UUID(found.id))


class Automations:
    """All automations.

    Args:
        client: Who asks the server.
        notifiers: Where they tell what they see.
    """

    kind = "automation"

    def __init__(self, client: SyncPrefectClient, notifiers: Notifiers) -> None:
        self._client = client
        self._notifiers = notifiers

    def specify(self) -> Mapping[str, Row]:
        """What is to be there, by name."""
        block = None
        if self._notifiers.specify():
            found = self._notifiers.read().get(NOTIFIER)
            block = UUID(found.id) if found else _NO_BLOCK
        return {each.name: _content(each) for each in _automations(block)}

    def read(self) -> Mapping[str, ServerObject]:
        """What is there, by name."""
        return {
            each.name: ServerObject(str(each.id), _content(each), TAG in each.tags)
            for each in self._client.read_automations()
        }

    def create(self, name: str, content: Row) -> str:
        """Make an automation.

        Returns:
            Its id.
        """
        del name
        return str(self._client.create_automation(AutomationCore.model_validate(content)))

    def update(self, name: str, found: ServerObject, content: Row) -> None:
        """Change an automation, which keeps its id, and stays off if somebody switched it off."""
        del name
        now = self._client.read_automation(found.id)
        wanted = {**content, "enabled": now is None or now.enabled}
        self._client.update_automation(UUID(found.id), AutomationCore.model_validate(wanted))

    def remove(self, name: str, found: ServerObject) -> None:
        """Remove an automation."""
        del name
        self._client.delete_automation(UUID(found.id))


def _content(automation: AutomationCore) -> Row:
    given = AutomationCore.model_validate(automation.model_dump())
    # Whether somebody switched it off is theirs to say.
    row = given.model_dump(mode="json", exclude={"enabled", "owner_resource"})
    for name in ("expect", "after", "for_each"):
        row["trigger"][name] = sorted(row["trigger"].get(name, ()))
    return row


def _automations(block: UUID | None) -> Iterator[AutomationCore]:
    yield _automation(
        "meterlake: runs without a heartbeat are crashed",
        "The process of a run is gone. What it worked on is done by the next run.",
        _absence(after={f"{_RUN}.heartbeat"}, expect={f"{_RUN}.heartbeat", *_ENDS, *_WAITS}),
        [
            ChangeFlowRunState(state=StateType.CRASHED, message="no heartbeat"),
            *_calls(block, "The process of a run is gone"),
        ],
    )
    yield _automation(
        "meterlake: runs that never begin are crashed",
        "A worker died between taking a run and starting it; the run would keep its place.",
        _absence(
            after={f"{_RUN}.Pending"},
            expect={f"{_RUN}.Running", *_ENDS, *_WAITS},
            within=timedelta(seconds=GRACE_S),
        ),
        [
            ChangeFlowRunState(state=StateType.CRASHED, message="it never began"),
            *_calls(block, "A run never began"),
        ],
    )
    yield _automation(
        "meterlake: a bill run failed",
        "Some bills are not made; the run says which.",
        EventTrigger(
            expect={f"{_RUN}.Failed", f"{_RUN}.Crashed"},
            match={"prefect.resource.id": f"{_RUN}.*"},
            match_related={
                "prefect.resource.role": "flow",
                "prefect.resource.name": list(BILL_FLOWS),
            },
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
        ),
        _calls(block, "A bill run failed") or [DoNothing()],
    )
    yield _automation(
        "meterlake: an expected file is late",
        "A month is not closed, because files that were expected did not come in time.",
        EventTrigger(
            expect={LATE}, for_each={"prefect.resource.id"}, posture=Posture.Reactive, threshold=1
        ),
        _calls(block, "An expected file is late") or [DoNothing()],
    )


def _automation(
    name: str, description: str, trigger: EventTrigger, actions: Sequence[Any]
) -> AutomationCore:
    return AutomationCore(
        name=name, description=description, tags=[TAG], trigger=trigger, actions=list(actions)
    )


def _absence(*, after: set[str], expect: set[str], within: timedelta = _SILENT) -> EventTrigger:
    """Something of ours happened to a run, and nothing else follows in time."""
    return EventTrigger(
        after=after,
        expect=expect,
        match={"prefect.resource.id": f"{_RUN}.*"},
        match_related=_OURS,
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=within,
    )


def _calls(block: UUID | None, text: str) -> list[Any]:
    if block is None:
        return []
    payload = json.dumps(
        {"text": text, "automation": "{{ automation.name }}", "event": "{{ event.id }}"}
        | {"resource": "{{ event.resource.id }}", "occurred": "{{ event.occurred }}"}
    )
    return [CallWebhook(block_document_id=block, payload=payload)]
