"""Pages of data out: destinations, schedules and jobs of exports; webhooks and notifications."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.entity_forms import (
    EntityPages,
    fields_of_body,
    is_for_rows,
    read_document,
    shown_fields,
)
from meterlake.console.shell.form_fields import FieldKind, FormField, fields_of_resource
from meterlake.console.shell.lists import (
    NAMED,
    Column,
    ListFilter,
    Listing,
    show_list,
    start_of_day,
)
from meterlake.console.shell.page import Visit, page, page_routes, words
from meterlake.model.configuration.exports import DataExportDestinationType, of_other_types
from meterlake.model.rules.exports import needed_of
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted
from meterlake.settings import Settings

DATA_OUT: Final = "/console/data-out"
DESTINATIONS: Final = f"{DATA_OUT}/destinations"
SCHEDULES: Final = f"{DATA_OUT}/schedules"
JOBS: Final = f"{DATA_OUT}/jobs"
WEBHOOKS: Final = f"{DATA_OUT}/webhooks"
NOTIFICATIONS: Final = f"{DATA_OUT}/notifications"
_PLACES: Final = (
    ("ListDestinations", "Destinations", DESTINATIONS),
    ("listSchedules", "Schedules", SCHEDULES),
    ("listJobStatuses", "Jobs", JOBS),
    ("ListWebhookIntegrations", "Webhooks", WEBHOOKS),
    ("ListNotifications", "Notifications", NOTIFICATIONS),
)
_DELIVERIES: Final = 20
_ONCE: Final = "AdHocExport"
# What a run of an integration can end as, for the choice of what is sent once more.
_FAILED: Final = ("ERROR", "TIMEOUT_LIMIT_EXCEEDED", "DISABLED")
_ENDED: Final = (
    ("FAILED", "All that failed"),
    ("ERROR", "Error"),
    ("TIMEOUT_LIMIT_EXCEEDED", "Gave up"),
    ("DISABLED", "Disabled"),
    ("COMPLETE", "Complete"),
)

# What people call the kinds of destinations, and the bucket of each.
_PROVIDERS: Final = {
    DataExportDestinationType.S3: ("Amazon S3, or a store that speaks as it does", "Bucket"),
    DataExportDestinationType.GCS: ("Google Cloud Storage", "Bucket"),
    DataExportDestinationType.LOCAL: ("A folder in the server's folder of exports", "Folder"),
}


async def _destination_fields(visit: Visit, entity: Mapping[str, Any]) -> tuple[FormField, ...]:
    """The fields of a destination: those of its provider."""
    told = entity.get("destinationType") or visit.field("destinationType")
    provider = DataExportDestinationType(str(told or visit.query("destinationType")))
    foreign, needed = of_other_types(provider), needed_of(provider)
    changes: dict[str, dict[str, Any]] = {
        "destinationType": {"kind": FieldKind.HIDDEN, "default": provider.value},
        "bucketName": {"label": _PROVIDERS[provider][1]},
        **{name: {"required": True} for name in needed},
    }
    if provider is DataExportDestinationType.LOCAL:
        changes["bucketName"]["hint"] = "A folder in the server's folder of exports."
        changes["prefix"] = {**changes.get("prefix", {}), "hint": "A folder in that one."}
        changes["partitionOrder"] = {"hint": "The order of the folders below it."}
    fields = fields_of_resource("exportDestinations", foreign)
    return tuple(replace(each, **changes.get(each.name, {})) for each in fields)


DESTINATION_PAGES: Final = EntityPages(
    "exportDestinations", DESTINATIONS, "destination", fields_for=_destination_fields
)
SCHEDULE_PAGES: Final = EntityPages(
    "exportSchedules", SCHEDULES, "schedule", intro="What is exported where, again and again."
)
WEBHOOK_PAGES: Final = EntityPages(
    "webhooks", WEBHOOKS, "webhook", intro="An address that gets signed notifications."
)
NOTIFICATION_PAGES: Final = EntityPages(
    "notificationConfigurations",
    NOTIFICATIONS,
    "notification",
    intro="Which events lead to a notification; an integration sends it to a webhook.",
)


async def _list(visit: Visit, listing: Listing) -> Response:
    await visit.people()
    links = visit.open_places(_PLACES)
    if not visit.may("ListDestinations") and visit.may("UpdateFeatures"):
        links = (("Exports are in preview: switch them on", "/console/settings#features"), *links)
    return await show_list(visit, replace(listing, links=links))


# --- Exports -------------------------------------------------------------------------------------

_CHANGED: Final = (
    Column("By", "lastModifiedBy", "author", sort="lastModifiedBy"),
    Column("Changed", "dtLastModified", "instant", sort="dtLastModified"),
)
_DESTINATIONS: Final = Listing(
    "Destinations",
    "/dataexports/destinations",
    (
        Column("Name", "name", link=f"{DESTINATIONS}/{{id}}", sort="name"),
        Column("Code", "code", "code", sort="code"),
        Column("Kind", "destinationType", sort="destinationType"),
        Column("Bucket or folder", "bucketName", "code", sort="bucketName"),
        *_CHANGED,
    ),
    empty=("No destinations yet", "Exports go to buckets or folders. Make the first one here."),
    filters=(NAMED,),
    intro="Where exports are written to.",
    create=("New destination", f"{DESTINATIONS}/new", DESTINATION_PAGES.creates),
)
_SCHEDULES: Final = Listing(
    "Schedules",
    "/dataexports/schedules",
    (
        Column("Name", "name", link=f"{SCHEDULES}/{{id}}", sort="name"),
        Column("Code", "code", "code", sort="code"),
        Column("What", "sourceType", "words", sort="sourceType"),
        Column("When", "when"),
        Column("Enabled", "enabled", sort="enabled"),
        *_CHANGED,
    ),
    empty=("No schedules yet", "A schedule exports again and again. Make the first one here."),
    filters=(NAMED,),
    intro="What is exported again and again, by the clock in UTC.",
    create=("New schedule", f"{SCHEDULES}/new", SCHEDULE_PAGES.creates),
)


def when_of(schedule: dict[str, Any]) -> str:
    """When a schedule exports, in words."""
    if schedule.get("cronExpression"):
        return f"cron {schedule['cronExpression']}"
    unit, count = schedule.get("scheduleType"), schedule.get("period")
    if not unit:
        return ""
    noun = {"HOURLY": "hour", "DAILY": "day"}.get(unit, str(unit).lower())
    return f"every {noun}" if count in {None, 1} else f"every {count} {noun}s"


async def _with_times(_: Visit, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["when"] = when_of(row)


async def list_destinations(visit: Visit) -> Response:
    """Destinations of exports."""
    return await _list(visit, _DESTINATIONS)


async def ask_provider(visit: Visit) -> Response:
    """Choose the provider of a new destination; then its form."""
    chosen = visit.query("destinationType")
    if chosen in _PROVIDERS and (chosen != "LOCAL" or _has_folder(visit)):
        return await DESTINATION_PAGES.show_new(visit)
    return visit.page(
        "data_out/providers.html",
        providers={each: name for each, (name, _) in _PROVIDERS.items()},
        closed=() if _has_folder(visit) else (DataExportDestinationType.LOCAL,),
    )


def _has_folder(visit: Visit) -> bool:
    """Whether the server lets exports go to folders; the API refuses such destinations else."""
    settings: Settings = visit.request.app.state.services.stores.settings
    return settings.export_folder is not None


async def show_destination(visit: Visit, check: dict[str, Any] | None = None) -> Response:
    """One destination, and what a check of it found."""
    found = await visit.api.get(f"/dataexports/destinations/{visit.request.path_params['id']}")
    return visit.page(
        "data_out/thing.html",
        thing=found,
        address=DESTINATIONS,
        pages=DESTINATION_PAGES,
        facts=_facts(found),
        check=check,
        links=visit.open_places(_PLACES),
    )


async def change_destination(visit: Visit) -> Response:
    """Try to write to a destination: a small object, which is removed again."""
    if visit.field("action") != "check":
        raise visit.unknown_action("a destination")
    path = f"/dataexports/destinations/{visit.request.path_params['id']}/check"
    return await show_destination(visit, await visit.api.send("POST", path))


def _facts(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """The plain fields of an entity, as words and values."""
    left_out = {"id", "version", "name", "credentials", "createdBy", "lastModifiedBy"}
    return [
        (words(name), value)
        for name, value in found.items()
        if name not in left_out and not name.startswith("dt") and value not in (None, "", [], {})
    ]


async def list_schedules(visit: Visit) -> Response:
    """Schedules of exports."""
    return await _list(visit, replace(_SCHEDULES, complete=_with_times))


async def show_schedule(visit: Visit) -> Response:
    """One schedule with its newest jobs."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/dataexports/schedules/{id_}")
    jobs = await visit.api.find("/dataexports/jobs", scheduleId=id_, pageSize=10)
    return visit.page(
        "data_out/thing.html",
        thing=found,
        address=SCHEDULES,
        pages=SCHEDULE_PAGES,
        facts=[("When", when_of(found)), *_facts(found)],
        jobs=rows_of(jobs),
        links=visit.open_places(_PLACES),
    )


_JOBS: Final = Listing(
    "Export jobs",
    "/dataexports/jobs",
    (
        Column("Made", "dateCreated", "instant", link=f"{JOBS}/{{id}}", sort="dateCreated"),
        Column("What", "what"),
        Column("From", "startDate", "starts"),
        Column("To", "endDate", "ends"),
        Column("By", "createdBy", "author"),
        Column("Status", "outcome", "status"),
        Column("Rows", "result.rows", "number"),
        Column("Files", "result.files", "number"),
        Column("Ended", "finishedAt", "instant"),
        Column("Error", "error"),
    ),
    empty=("No exports yet", "Export once, or make a schedule."),
    filters=(
        ListFilter(
            "status",
            "Status",
            (
                *((each, words(each)) for each in ("PENDING", "RUNNING", "SUCCEEDED")),
                ("FAILED", "Failed or cancelled"),
                ("CANCELLED", "Cancelled"),
            ),
        ),
        ListFilter("dateCreatedStart", "From", type="date"),
        ListFilter("dateCreatedEnd", "Before", type="date"),
    ),
    create=("Export once", f"{JOBS}/new", "TriggerDataExport"),
)


async def _with_what(visit: Visit, rows: list[dict[str, Any]]) -> None:
    """Each job with what it was asked for in words, and how it ended."""
    meters, _ = await _names_in(visit, rows)
    for row in rows:
        row.setdefault("outcome", row["status"])
        chosen = [meters.get(id_, id_) for id_ in row.get("meterIds", ())]
        chosen += map(words, row.get("dataTypes", ()))
        row["what"] = f"{words(row['sourceType'])}{': ' if chosen else ''}{', '.join(chosen)}"


async def _names_in(visit: Visit, jobs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The codes of the meters and of the customers that jobs were asked for, by id."""
    wanted = (
        ("/meters", {id_ for job in jobs for id_ in job.get("meterIds", ())}),
        ("/accounts", {id_ for job in jobs for id_ in job.get("accountIds", ())}),
    )
    answers = await asyncio.gather(*(visit.api.by_id(path, ids) for path, ids in wanted))
    return [{id_: each["code"] for id_, each in answer.items()} for answer in answers]


async def list_jobs(visit: Visit) -> Response:
    """Jobs of exports."""
    return await _list(visit, replace(_JOBS, complete=_with_what))


# What people read in place of the API's names and sentences.
_WORDS_OF_EXPORT: Final = {
    "sourceType": (
        "What",
        "Usage are measurements or sums of them, operational data configuration and bills.",
    ),
    "destinationIds": ("Destinations", "Without one the server keeps the files for a day."),
    "exportFileFormat": ("Format of the files", "Without a choice: CSV, packed (csv.gz)."),
    "operationalDataTypes": ("Kinds of operational data", "Without a choice: all of them."),
    "focus": (
        "FOCUS file of costs",
        "The lines of bills, too, in the FOCUS format that cloud providers use for costs and usage.",
    ),
    "startDate": ("From", "Needed for usage: the first instant."),
    "endDate": ("To", "Needed for usage: the instant after the last one."),
    "meterIds": ("Meters", "Without a choice: all of them."),
    "accountIds": ("Customers", "Without a choice: all of them."),
}


def _fields_of_export() -> tuple[FormField, ...]:
    """Destinations, meters and accounts are chosen by name, as for a schedule."""
    fields = fields_of_body(_ONCE, refers_as="exportSchedules")
    return tuple(
        replace(each, label=label, hint=hint)
        for each in fields
        for label, hint in [_WORDS_OF_EXPORT.get(each.name, (each.label, each.hint))]
    )


async def ask_for_export(visit: Visit) -> Response:
    """The form of an export that is made once; the address may ask for the usage of a month."""
    before = Month(visit.today.year, visit.today.month).moved(-1)
    begun = {}
    if visit.query("month") == "previous":
        bounds = (start_of_day(visit, day.isoformat()) for day in (before.first, before.after))
        begun = {"sourceType": "USAGE", **dict(zip(("startDate", "endDate"), bounds, strict=True))}
    return visit.page(
        "shell/entity_form.html",
        title="Export once",
        intro="Operational data are configuration and bills; usage are measurements or sums of them."
        " Without a destination the server keeps the files for a day.",
        button="Export",
        fields=await shown_fields(visit, _fields_of_export(), begun),
        presets=[("Usage of the previous month", f"{JOBS}/new?month=previous")],
        entity=None,
        back=JOBS,
    )


async def export_once(visit: Visit) -> Response:
    """Make the job of an export."""
    if is_for_rows(visit):
        return await ask_for_export(visit)
    body = await read_document(visit, _fields_of_export())
    made = await visit.api.send("POST", "/dataexports/adhoc", body)
    return visit.go(f"{JOBS}/{made['jobId']}", "You asked for an export. The worker makes it.")


async def show_job(visit: Visit, checked: dict[str, Any] | None = None) -> Response:
    """One job: how far it is, the files that it delivered to each place, what a check found."""
    job = await visit.api.get(f"/dataexports/jobs/{visit.request.path_params['id']}")
    result = job.get("result") or {}
    places = result.get("places") or []
    meters, accounts = await _names_in(visit, [job])
    await visit.people()
    names = [each["name"] for each in places] or ([""] if result.get("download") else [])
    manifests = []
    if job["status"] == "SUCCEEDED" and visit.may("GetDataExportManifest"):
        manifests = await asyncio.gather(*(_manifest(visit, job["id"], each) for each in names))
    return visit.page(
        "data_out/job.html",
        job=job,
        meters=meters,
        accounts=accounts,
        is_open=job["status"] in {"PENDING", "RUNNING"},
        places=places,
        manifests=manifests,
        checked=checked,
        has_download=bool(result.get("download")),
        links=visit.open_places(_PLACES),
    )


async def _manifest(visit: Visit, id_: str, place: str) -> dict[str, Any]:
    """The manifest of a job in a place, or why it cannot be read there."""
    try:
        found: dict[str, Any] = await visit.api.get(
            f"/dataexports/jobs/{id_}/manifest", place=place or None
        )
    except ApiRefusalError as refusal:
        return {"place": place, "refused": refusal.reason}
    return found


async def change_job(visit: Visit) -> Response:
    """Cancel a job, run it again, or verify its files."""
    id_ = visit.request.path_params["id"]
    match visit.field("action"):
        case "cancel":
            await visit.api.send("POST", f"/dataexports/jobs/{id_}/cancel")
            said = "You cancelled the export. It leaves nothing behind; you can run it again."
        case "retry":
            await visit.api.send("POST", f"/dataexports/jobs/{id_}/retry")
            said = "The worker exports once more."
        case "verify":
            path, place = f"/dataexports/jobs/{id_}/verify", visit.field("place") or None
            return await show_job(visit, await visit.api.send("POST", path, None, place=place))
        case _:
            raise visit.unknown_action("an export")
    return visit.go(f"{JOBS}/{id_}", said)


async def download(visit: Visit) -> Response:
    """Lead on to all that the server keeps of a job, or one file, by a link that works for a while."""
    id_, name = visit.request.path_params["id"], visit.query("name")
    path = f"/dataexports/jobs/{id_}" + (f"/files/{quote(name)}" if name else "")
    found = await visit.api.get(f"{path}/getdownloadurl", place=visit.query("place"))
    return RedirectResponse(found["url"], 303, {"Cache-Control": "no-store"})


# --- Webhooks and notifications ------------------------------------------------------------------

_WEBHOOKS: Final = Listing(
    "Webhooks",
    "/integrationdestinations/webhooks",
    (
        Column("Name", "name", link=f"{WEBHOOKS}/{{id}}", sort="name"),
        Column("Code", "code", "code", sort="code"),
        Column("Address", "url", "code", sort="url"),
        Column("Active", "active", sort="active"),
        *_CHANGED,
    ),
    empty=("No webhooks yet", "A webhook is an address that gets signed notifications."),
    filters=(NAMED,),
    create=("New webhook", f"{WEBHOOKS}/new", WEBHOOK_PAGES.creates),
)
_NOTIFICATIONS: Final = Listing(
    "Notifications",
    "/notifications/configurations",
    (
        Column("Name", "name", link=f"{NOTIFICATIONS}/{{id}}", sort="name"),
        Column("Code", "code", "code", sort="code"),
        Column("Event", "eventName", "code", sort="eventName"),
        Column("Active", "active", sort="active"),
        *_CHANGED,
    ),
    empty=("No notifications yet", "A notification says which events you want to be told of."),
    filters=(NAMED,),
    create=("New notification", f"{NOTIFICATIONS}/new", NOTIFICATION_PAGES.creates),
)


async def list_webhooks(visit: Visit) -> Response:
    """Webhooks."""
    return await _list(visit, _WEBHOOKS)


async def list_notifications(visit: Visit) -> Response:
    """Notifications."""
    return await _list(visit, _NOTIFICATIONS)


async def show_notification(visit: Visit) -> Response:
    """One notification: what it is about, and the integrations that send it."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/notifications/configurations/{id_}")
    integrations = await visit.api.every("/integrationconfigs")
    return visit.page(
        "data_out/notification.html",
        thing=found,
        address=NOTIFICATIONS,
        pages=NOTIFICATION_PAGES,
        facts=_facts(found),
        never=not found.get("alwaysFireEvent") and not (found.get("calculation") or "").strip(),
        senders=[each for each in integrations if each.get("entityId") == id_],
        links=visit.open_places(_PLACES),
    )


async def show_webhook(visit: Visit) -> Response:
    """One webhook with its newest deliveries."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/integrationdestinations/webhooks/{id_}")
    path = f"/integrationruns/destinations/{id_}"
    runs, waiting = await asyncio.gather(
        visit.api.find(path, pageSize=_DELIVERIES, status=visit.query("status")),
        visit.api.find(path, pageSize=1, status="WAITING"),
    )
    return visit.page(
        "data_out/webhook.html",
        thing=found,
        pages=WEBHOOK_PAGES,
        facts=_facts(found),
        runs=None if runs is None else runs["data"],
        ended=_ENDED,
        has_waiting=bool(rows_of(waiting)),
        links=visit.open_places(_PLACES),
    )


async def change_webhook(visit: Visit) -> Response:
    """Send a test, switch a webhook on or off, or send runs once more."""
    id_ = visit.request.path_params["id"]
    path = f"/integrationdestinations/webhooks/{id_}"
    match visit.field("action"):
        case "ping":
            run = await visit.api.send("POST", f"{path}/ping")
            said = "The worker sends a test. Load this page again to see the answer."
            return visit.go(f"/console/integrations/runs/{run['id']}", said)
        case "on" | "off":
            active = visit.field("action") == "on"
            await visit.api.send("PUT", f"{path}/active", None, active=active)
            said = "The webhook gets notifications." if active else "The webhook gets nothing more."
        case "replay":
            if not visit.field("since"):
                raise ApiRefusalError(400, "No day was chosen. Say since when.")
            since, status = visit.field("since"), visit.field("status") or "FAILED"
            count = 0
            for each in _FAILED if status == "FAILED" else (status,):
                again = f"{path}/replay"
                found = await visit.api.send("POST", again, None, since=since, status=each)
                count += int(found["runs"])
            said = f"The worker sends {counted(count, 'run')} once more, each with a new id."
        case _:
            raise visit.unknown_action("a webhook")
    return visit.go(f"{WEBHOOKS}/{id_}", said)


async def begin(visit: Visit) -> Response:
    """Lead on to the first page that the person may see."""
    links = visit.open_places(_PLACES)
    return visit.go(links[0][1] if links else DESTINATIONS, visit.session.said)


ROUTES: Final = (
    Route(
        f"{DESTINATIONS}/new",
        page(ask_provider, needs=DESTINATION_PAGES.creates),
        methods=["GET"],
        name="ConsoleDestinationProvider",
    ),
    *DESTINATION_PAGES.routes(),
    *SCHEDULE_PAGES.routes(),
    *WEBHOOK_PAGES.routes(),
    *NOTIFICATION_PAGES.routes(),
    Route(DATA_OUT, page(begin), methods=["GET"], name="ConsoleDataOut"),
    Route(DESTINATIONS, page(list_destinations), methods=["GET"], name="ConsoleDestinations"),
    Route(
        f"{DESTINATIONS}/{{id}}", page(show_destination), methods=["GET"], name="ConsoleDestination"
    ),
    Route(
        f"{DESTINATIONS}/{{id}}",
        page(change_destination, show_destination),
        methods=["POST"],
        name="ConsoleDestinationCheck",
    ),
    Route(SCHEDULES, page(list_schedules), methods=["GET"], name="ConsoleSchedules"),
    Route(f"{SCHEDULES}/{{id}}", page(show_schedule), methods=["GET"], name="ConsoleSchedule"),
    Route(JOBS, page(list_jobs), methods=["GET"], name="ConsoleExportJobs"),
    Route(
        f"{JOBS}/new",
        page(ask_for_export, needs="TriggerDataExport"),
        methods=["GET"],
        name="ConsoleNewExport",
    ),
    Route(
        f"{JOBS}/new",
        page(export_once, ask_for_export),
        methods=["POST"],
        name="ConsoleExport",
    ),
    *page_routes(f"{JOBS}/{{id}}", show_job, change_job, "ConsoleExportJob"),
    Route(f"{JOBS}/{{id}}/file", page(download), methods=["GET"], name="ConsoleExportFile"),
    Route(WEBHOOKS, page(list_webhooks), methods=["GET"], name="ConsoleWebhooks"),
    *page_routes(f"{WEBHOOKS}/{{id}}", show_webhook, change_webhook, "ConsoleWebhook"),
    Route(NOTIFICATIONS, page(list_notifications), methods=["GET"], name="ConsoleNotifications"),
    Route(
        f"{NOTIFICATIONS}/{{id}}",
        page(show_notification),
        methods=["GET"],
        name="ConsoleNotification",
    ),
)
