"""What is in the lake, how fresh it is, and what happened last: the verb `status`."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.resources.unused import without_effect
from meterlake.model.values.period import aware
from meterlake.model.values.sql import identifier
from meterlake.pipeline.events.events import event_document
from meterlake.pipeline.ingest.drop_folder import drop_folder, left_alone
from meterlake.pipeline.usage.late import Late, late
from meterlake.stores import Organization
from meterlake.stores.lake.rejected import ANY, ITEMS
from meterlake.stores.lake.tables import table_names
from meterlake.stores.state.events import events
from meterlake.stores.state.events.incidents import open_incidents

_REJECTED: Final = f"""{ITEMS}
    SELECT reason, count(*) FROM item WHERE status = 'open' GROUP BY reason ORDER BY reason"""
_SOURCES: Final = """
    SELECT name, status, received, accepted, repeats, rejected, reason, finished_at, attempt
    FROM lake.source ORDER BY finished_at DESC, name LIMIT {limit:d}"""
_TOTALS: Final = """
    SELECT count(*), coalesce(sum(received), 0)::BIGINT, coalesce(sum(accepted), 0)::BIGINT,
        coalesce(sum(repeats), 0)::BIGINT, coalesce(sum(rejected), 0)::BIGINT,
        coalesce(sum(incomplete), 0)::BIGINT,
        (SELECT count(*) FROM lake.retraction)
    FROM lake.source"""
_METER: Final = "SELECT count(*), min(ts), max(ts), max(received_at) FROM lake.{table}"


@dataclass(frozen=True, slots=True)
class MeterStatus:
    """What the lake holds of one meter; instants are aware UTC."""

    code: str
    measurements: int = 0
    first: datetime | None = None
    last: datetime | None = None
    received: datetime | None = None

    def to_wire(self) -> dict[str, Any]:
        """The members of `--json`."""
        return {
            "meter": self.code,
            "measurements": self.measurements,
            "firstTs": self.first,
            "lastTs": self.last,
            "lastReceived": self.received,
        }


@dataclass(frozen=True, slots=True)
class MeasurementsStatus:
    """What came into the lake of one organization.

    Attributes:
        totals: Sources, received, accepted, repeats and rejected over all attempts, and how many of
            the accepted lack a derived value, and how many backfills withdrew.
        rejected: How many rows are rejected now, by reason.
        left_alone: What lies in the inbox of the drop folder and is no file to be taken.
    """

    totals: dict[str, int]
    rejected: dict[str, int]
    meters: list[MeterStatus]
    left_alone: list[str]

    def to_wire(self) -> dict[str, Any]:
        """As the API shows it."""
        return {
            "totals": self.totals,
            "rejected": self.rejected,
            "meters": [each.to_wire() for each in self.meters],
            "leftAlone": self.left_alone,
        }


@dataclass(frozen=True, slots=True)
class StatusReport:
    """One organization at a glance.

    Attributes:
        totals: Sources, received, accepted, repeats and rejected over all attempts, and how many of
            the accepted lack a derived value, and how many backfills withdrew.
        rejected: How many rows are rejected now, by reason.
        sources: The last ingested files, the newest first.
        jobs: The last jobs, the newest first.
        left_alone: What lies in the inbox of the drop folder and is no file to be taken.
        late: The closed periods that late measurements touch.
        without_effect: Settings of the organization that this version does not heed, in sentences.
        alerts: What is not as it should be, and since when; `check alerts` says more.
    """

    organization: Organization
    snapshot: int
    meters: list[MeterStatus]
    totals: dict[str, int]
    rejected: dict[str, int]
    sources: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    left_alone: list[str]
    late: list[Late]
    without_effect: list[str]
    alerts: list[dict[str, Any]] = field(default_factory=list)

    def to_wire(self) -> dict[str, Any]:
        """The object of `--json`."""
        return {
            "organization": self.organization.code,
            "organizationId": self.organization.id,
            "snapshot": self.snapshot,
            "meters": [meter.to_wire() for meter in self.meters],
            "totals": self.totals,
            "rejected": self.rejected,
            "sources": self.sources,
            "jobs": self.jobs,
            "leftAlone": self.left_alone,
            "late": [each.to_wire() for each in self.late],
            "withoutEffect": self.without_effect,
            "alerts": self.alerts,
        }


def status(organization: Organization, limit: int = 10) -> StatusReport:
    """Look at an organization.

    Args:
        organization: The organization.
        limit: How many of the last sources and jobs.

    Raises:
        NotFound: It has no lake.
        Unavailable: The disk or the lake failed.
    """
    seen = look_at_measurements(organization)
    with organization.reading() as reader:
        settings = [record.entity for record in reader.all(OrganizationConfig)]
        alerts = [
            {"alert": each.name, "subject": each.subject, "since": each.since}
            for each in open_incidents(reader)
        ]
    late_usage = late(organization)
    with organization.lake.reader() as connection:
        rows = connection.execute(_SOURCES.format(limit=limit)).fetchall()
    names = (
        *("name", "status", "received", "accepted", "repeats", "rejected"),
        *("reason", "finished", "attempt"),
    )
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return StatusReport(
        organization,
        organization.lake.snapshot(),
        seen.meters,
        seen.totals,
        seen.rejected,
        [row | {"finished": row["finished"] and aware(row["finished"])} for row in found],
        _jobs(organization, limit),
        seen.left_alone,
        late_usage,
        [sentence for each in settings for sentence in without_effect(each)],
        alerts,
    )


def look_at_measurements(organization: Organization) -> MeasurementsStatus:
    """Look at what came into the lake of an organization.

    Raises:
        NotFound: It has no lake.
        Unavailable: The disk or the lake failed.
    """
    with organization.reading() as reader:
        codes = {meter_table(meter.id): meter.entity.code for meter in reader.all(Meter)}
    with organization.lake.reader() as connection:
        present = table_names(connection)
        meters = []
        for table, code in sorted(codes.items(), key=lambda item: item[1]):
            if table not in present:
                meters.append(MeterStatus(code))
                continue
            row = connection.execute(_METER.format(table=identifier(table))).fetchone()
            assert row is not None
            meters.append(MeterStatus(code, row[0], *(each and aware(each) for each in row[1:])))
        has_rejected = connection.execute(ANY).fetchone() is not None
        rejected = dict(connection.execute(_REJECTED).fetchall()) if has_rejected else {}
        inbox = drop_folder(organization.stores, organization.code).inbox
        row = connection.execute(_TOTALS).fetchone()
        assert row is not None
        names = (
            *("sources", "received", "accepted", "repeats", "rejected"),
            *("incomplete", "withdrawn"),
        )
        totals = dict(zip(names, row, strict=True))
        return MeasurementsStatus(totals, rejected, meters, left_alone(inbox))


def ingest_alerts(organization: Organization) -> list[dict[str, Any]]:
    """What is open about measurements: since when, and the message of the event that told of it."""
    with organization.reading() as reader:
        opened = [each for each in open_incidents(reader) if each.name.startswith("ingest.")]
        told = [event_document(events.get(reader, each.event_id)) for each in opened]
    return [
        {
            "alert": each.name,
            "message": event["m3terEvent"]["eventData"]["newDto"]["message"],
            "since": each.since,
            "eventId": each.event_id,
        }
        for each, event in zip(opened, told, strict=True)
    ]


def _jobs(organization: Organization, limit: int) -> list[dict[str, Any]]:
    return [
        {
            "id": job.id,
            "kind": job.kind,
            "status": str(job.status),
            "parameters": job.parameters,
            "created": job.created,
            "finished": job.finished,
            "error": job.error,
        }
        for job in organization.state.jobs.recent(organization.id, limit=limit)
    ]
