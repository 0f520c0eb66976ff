"""What happens reaches a receiver: through the SDK, by a real worker, signed and verified."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks.webhooks

from meterlake.model.configuration.integrations import RunStatus
from meterlake.stores import Organization
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events.log import entries_after, read_position
from meterlake.stores.state.integrations.runs import RunFilters, page_of_runs
from tests.credit_world import CreditWorld, credit_world
from tests.deliveries import SECRET
from tests.doubles.clouds import ROLE
from tests.doubles.receivers import Received, Receiver, running_receiver, verify_signature
from tests.doubles.s3 import moto_server
from tests.e2e.worker_processes import AheadClock, worker_process, worker_rounds
from tests.homes import wire_row

pytestmark = pytest.mark.slow

WAIT_S = 120
HOOK = "/hook"
COMMITMENT = "configuration.commitment.updated"
DOCUMENTED = (
    "(new.amountSpent >= ((new.amount*90)/100)) AND"
    " ((old.amountSpent <= ((old.amount*90)/100)) OR (old.amountSpent == null))"
)
STRICT = DOCUMENTED.replace("<=", "<")
REMINDER = "scheduled.bill.reminder"


def wait_until(found: Callable[[], Any], what: str) -> Any:
    """What a question gives as soon as it gives anything."""
    give_up = time.monotonic() + WAIT_S
    while not (answer := found()):
        assert time.monotonic() < give_up, what
        time.sleep(0.1)
    return answer


class Story:
    """An organization, and a channel that takes nothing but what is signed."""

    def __init__(self, world: CreditWorld, receiver: Receiver) -> None:
        self.world = world
        self.sdk = world.sdk
        self.stores, self.org_id = world.server.stores, world.server.org_id
        self._receiver = receiver
        self._usage = 0
        receiver.answers[HOOK] = verify_signature(SECRET)
        self._webhook = self.sdk.webhooks.create(
            name="Channel",
            description="Channel",
            code="channel",
            url=receiver.url(HOOK),
            active=True,
            credentials={"type": "M3TER_SIGNED_REQUEST", "api_key": "k", "secret": SECRET},
        )

    @property
    def organization(self) -> Organization:
        """The organization, with its stores."""
        return self.stores.organization(self.org_id)

    def notify(self, code: str, event_name: str, calculation: str | None = None) -> None:
        """Tell the channel of a type of events."""
        more: Any = {"always_fire_event": True}
        if calculation is not None:
            more = {"calculation": calculation}
        rule = self.sdk.notification_configurations.create(
            name=code, description=code, code=code, event_name=event_name, active=True, **more
        )
        self.sdk.integration_configurations.create(
            entity_type="Notification",
            entity_id=rule.id,
            destination="Webhook",
            destination_id=self._webhook.id,
            config_data={},
        )

    def use(self, day: str, **used: float) -> None:
        """Submit gigabytes of accounts, and wait until they are stored."""
        rows = []
        for account, gb in used.items():
            self._usage += 1
            rows.append(wire_row(f"u{self._usage}", gb, account, ts=f"{day}T10:00:00Z"))
        assert self.sdk.usage.submit(measurements=rows).result == "accepted"
        path, uid = "/measurements/receipt", {"uid": rows[-1]["uid"]}
        with self.world.server.http() as http:

            def is_stored() -> bool:
                return bool(http.get(path, params=uid).json().get("status") == "accepted")

            wait_until(is_stored, "the usage is stored")

    def bill(self, day: str, **options: Any) -> None:
        """Have the worker bill a day."""
        job = self.sdk.bill_jobs.create(bill_date=day, **options)
        jobs = self.sdk.bill_jobs
        wait_until(lambda: jobs.retrieve(job.id).status == "COMPLETE", "the bills are made")

    def settle(self) -> None:
        """Wait until every event is evaluated, and every delivery has ended."""
        wait_until(self._is_settled, "all is delivered")

    def deliveries(self, code: str) -> list[Received]:
        """What the channel got of a notification: each delivery was verified, and came once."""
        self.settle()
        found = [
            each for each in self._receiver.of(HOOK) if changed(each)["notificationCode"] == code
        ]
        assert len({each.id for each in found}) == len(found)
        return found

    def _is_settled(self) -> bool:
        waiting = RunFilters(statuses=(RunStatus.WAITING, RunStatus.STARTED))
        with self.organization.reading() as reader:
            if entries_after(reader, read_position(reader), 1):
                return False
            runs, _ = page_of_runs(reader.connection, self.org_id, waiting, Page(1))
        return not runs


@contextmanager
def a_story(folder: Path, **changes: Any) -> Iterator[Story]:
    changes |= {"webhook_allow": ("127.0.0.1",), "prefect_url": ""}
    with credit_world(folder, **changes) as world, running_receiver() as receiver:
        yield Story(world, receiver)


def changed(delivery: Received) -> Any:
    """What a delivery says of a change, and of the notification."""
    return delivery.data["data"]["m3terEvent"]["eventData"]


def spent(delivery: Received) -> tuple[Any, Any]:
    """What was spent before and after."""
    data = changed(delivery)
    return data["oldDto"]["amountSpent"], data["newDto"]["amountSpent"]


def test_90_percent_of_a_commitment_tell_a_channel_once_at_the_crossing(tmp_path):
    with a_story(tmp_path) as story, worker_process(story.world.server.settings):
        for code, calculation in (("documented", DOCUMENTED), ("strict", STRICT)):
            story.notify(code, COMMITMENT, calculation)
        over, exactly = (story.world.account() for _ in range(2))
        commitments = {story.world.commit(each, 100).id: each.code for each in (over, exactly)}

        def counts(code: str) -> Counter[str]:
            found = [changed(each)["newDto"]["id"] for each in story.deliveries(code)]
            return Counter(commitments[each] for each in found)

        seen = []
        # Of the second account exactly 90 are spent for a month.
        for month, used in enumerate([(50, 50), (39, 39), (2, 1), (1, 2), (50, 50)], 1):
            story.use(f"2026-{month:02}-10", **dict(zip(commitments.values(), used, strict=True)))
            story.bill(f"2026-{month + 1:02}-01")
            seen.append([counts(code) for code in ("documented", "strict")])

        never, both = Counter(), Counter([over.code, exactly.code])
        assert seen[:2] == [[never, never]] * 2
        assert seen[2] == [both, both]
        # A calculation with `<=` is true again after exactly 90 %; with `<` it is not.
        assert seen[3:] == [[both + Counter([exactly.code]), both]] * 2
        assert sorted(map(spent, story.deliveries("strict"))) == [(89, 90), (89, 91)]
        story.bill("2026-04-01")
        story.bill("2026-06-01")
        assert [counts(code) for code in ("documented", "strict")] == seen[-1]


def test_a_bill_that_is_due_for_ten_days_reminds_once(tmp_path, monkeypatch):
    clock = AheadClock()

    class ReceiversTime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return clock().astimezone(tz)

    monkeypatch.setattr(standardwebhooks.webhooks, "datetime", ReceiversTime)
    today = datetime.now(UTC).date()
    with a_story(tmp_path) as story, worker_rounds(story.world.server.settings, clock):
        story.sdk.scheduled_event_configurations.create(
            name=REMINDER, entity="Bill", field="dueDate", offset=10
        )
        story.notify("reminder", REMINDER)
        account = story.world.account()
        story.use("2026-01-10", **{account.code: 5})
        # It would have to remind in five days.
        story.bill("2026-02-01", due_date=str(today - timedelta(days=5)))
        assert story.deliveries("reminder") == []
        moved = today + timedelta(days=2)
        story.bill("2026-02-01", due_date=str(moved))
        [bill] = story.sdk.bills.list(account_id=account.id)
        assert bill.due_date == moved

        def events() -> list[Any]:
            return list(story.sdk.events.list(event_name=REMINDER))

        clock.ahead = timedelta(days=6)
        time.sleep(12)  # Two looks of the worker, and nothing has fallen due.
        assert events() == []
        clock.ahead = timedelta(days=13)
        wait_until(events, "the event happens")
        [delivery] = story.deliveries("reminder")
        assert changed(delivery)["newDto"]["id"] == bill.id
        assert delivery.data["timestamp"] == f"{moved + timedelta(days=10)}T00:00:00Z"
        clock.ahead = timedelta(days=20)
        time.sleep(12)
        assert len(story.deliveries("reminder")) == 1


def test_an_export_whose_bucket_is_missing_tells_a_channel(tmp_path):
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    region = {"AWS_DEFAULT_REGION": "eu-west-1"}
    with (
        moto_server() as endpoint,
        a_story(tmp_path, s3_endpoint=endpoint, export_attempts=1) as story,
        worker_process(story.world.server.settings, **keys, **region),
    ):
        story.notify("exports", "dataexport.job.failure")
        missing = story.sdk.data_exports.destinations.create(
            bucket_name="never-made",
            iam_role_arn=ROLE,
            prefix="",
            partition_order="TIME_FIRST",
            extra_body={"name": "Theirs", "code": "theirs"},
        )
        job_id = story.sdk.data_exports.create_adhoc(
            source_type="OPERATIONAL",
            operational_data_types=["ACCOUNTS"],
            extra_body={"destinationIds": [missing.id]},
        ).job_id
        jobs = story.sdk.data_exports.jobs
        wait_until(lambda: jobs.retrieve(job_id).status == "FAILED", "the export fails")

        [delivery] = story.deliveries("exports")
        failure = changed(delivery)["newDto"]
        assert failure["jobId"] == job_id
        assert "never-made" in failure["message"]
