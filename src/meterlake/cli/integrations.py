"""`meterlake integrations`: what was handed over to other systems, and what became of it."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meterlake.pipeline.integrations.bills_elsewhere import BillLeftBehind
    from meterlake.stores.state.integrations.runs import RunFilters

_PAGE: Final = 200
_COLUMNS: Final = (
    *("!id", "action", "status", "destination", "error", "?externalId=became", "?dtCreated=time"),
    *("?entityType=of", "?entityId=entity"),
)
_LEFT: Final = (
    "!bill",
    "account",
    "date",
    "destination",
    "externalId=is there",
    "?status",
    "error",
)
_LISTED: Final = ("!id", "destination", "enabled", "error", "?entityType=of", "?name")


def register(app: App) -> None:
    """Add the commands."""
    integrations = App(
        name="integrations", help="Integrations: the data that meterlake sends to other systems."
    )
    integrations.command(list_integrations, name="list")
    integrations.command(delete)
    integrations.command(list_runs, name="runs")
    integrations.command(show_run, name="show")
    integrations.command(deleted_bills)
    integrations.command(deliver)
    app.command(integrations)


def list_integrations(*, options: Options = NO_OPTIONS) -> None:
    """List the integrations: what each sends, its destination, and the reason if it sends nothing.

    Example: `meterlake integrations list`
    """
    from meterlake.model.configuration.integrations import IntegrationConfig
    from meterlake.pipeline.config.entities import entity_document

    with options.open() as organization, organization.reading() as reader:
        found = [entity_document(each, reader) for each in reader.all(IntegrationConfig)]
    if options.json:
        for each in found:
            options.output.line(each)
    else:
        options.output.rows(found, _LISTED, empty="No integrations.")


def delete(
    id: str,
    /,
    *,
    mappings: Literal["keep", "delete"] = "keep",
    options: Options = NO_OPTIONS,
) -> None:
    """Delete an integration, also one that has sent bills.

    The other system keeps the bills, and the runs stay in the list.

    Example: `meterlake integrations delete ID`

    Args:
        id: The integration's id, as in `meterlake integrations list`.
        mappings: Keep or delete the names of the bills in the other system, for every integration
            of that system. If you delete them, another integration sends these bills a second time.
    """
    from meterlake.pipeline.integrations.life_cycle import MappingChoice, delete_integration

    with options.open() as organization:
        choice = MappingChoice(mappings)
        author = options.permitted(organization, ("config:delete", "integrationconfig"), [id])
        gone = delete_integration(organization, author, id, choice)
    options.output.record({"deleted": gone["id"], "mappings": mappings})


def list_runs(
    *,
    status: str | None = None,
    entity_type: str | None = None,
    entity: str | None = None,
    integration: str | None = None,
    limit: Limit = 20,
    options: Options = NO_OPTIONS,
) -> None:
    """List the runs of integrations, the newest first.

    Example: `meterlake integrations runs --status ERROR`

    Args:
        status: Only runs in this status: WAITING, AWAITING_RETRY, COMPLETE, ERROR, DISABLED.
        entity_type: Only runs of this type: Bill, Notification.
        entity: Only runs of this entity: the id of a notification; or a bill's id, the first eight
            digits of it, or its invoice number.
        integration: Only runs of the configuration with this id.
        limit: The largest number that you want to see.
    """
    from meterlake.stores.state.integrations.runs import RunFilters

    filters = RunFilters(
        entity_type=entity_type,
        config_id=integration,
        statuses=() if status is None else (status_of(status),),
    )
    found = list(_find_runs(options, filters, entity, limit))
    if options.json:
        for run in found:
            options.output.line(run)
    else:
        options.output.rows(
            ({**run, "dtCreated": run["dtCreated"].replace(microsecond=0)} for run in found),
            _COLUMNS,
            empty="No runs.",
        )


def show_run(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Show one run with all its tries: each request and its answer.

    Example: `meterlake integrations show ID`

    Args:
        id: The run's id, as in the list.
    """
    from meterlake.pipeline.integrations.runs import run_history

    with options.open() as organization:
        found = run_history(organization, id)
    if options.json:
        options.output.record(found)
        return
    tries = found.pop("tries")
    options.output.record(found)
    options.output.rows(tries, ("number", "dtStarted=time", "statusCode=answer", "error"))


def deleted_bills(
    *,
    take_back: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """List the deleted bills that other systems still have by a name, perhaps as open invoices.

    You deleted such bills before meterlake sent deletions, or the other system refused to take them
    back. Only that system knows whether it still counts them.

    Example: `meterlake integrations deleted-bills`

    Args:
        take_back: Ask the other system to take each of them back now, as if you deleted it now.
            `status` then shows the state of the run.
    """
    from meterlake.pipeline.integrations import bills_elsewhere

    with options.open() as organization:
        if take_back:
            author = options.permitted(organization, ("config:update", "integrationrun"))
            runs = bills_elsewhere.take_back(organization, author)
            options.output.note(
                f"{counted(len(runs), 'run waits', 'runs wait')}; `meterlake integrations runs` shows all."
            )
        found = bills_elsewhere.bills_left_behind(organization)
    rows = [
        {
            "bill": each.bill_id,
            "account": each.account,
            "date": each.key and each.key.bill_date,
            "destination": each.destination,
            "externalId": each.external_id,
            "integrationConfigId": each.config_id,
            "status": each.tried,
            "error": each.error or _why_not(each),
        }
        for each in found
    ]
    if options.json:
        for row in rows:
            options.output.line(row)
    else:
        options.output.rows(rows, _LEFT, empty="No other system has a bill that is deleted.")


def _why_not(bill: "BillLeftBehind") -> str | None:
    """Why nobody can take a bill back from here."""
    if bill.key is None:
        return "nothing is kept of it: void it there by hand"
    return None if bill.config_id else f"no integration with {bill.destination} is left"


def deliver(*, options: Options = NO_OPTIONS) -> None:
    """Send the runs that are due now, as the worker does all the time.

    Events of the organization make its runs; then the command sends those of all organizations. If
    one fails, it is due again later.

    Example: `meterlake integrations deliver`
    """
    from meterlake.pipeline.integrations.sender import prepare_runs, send_due_runs

    with options.open() as organization:
        events = prepare_runs(organization)
        send_due_runs(organization.stores)
    options.output.record({"events": events})


def status_of(name: str) -> Any:
    """The status of a name, in small letters or large ones."""
    from meterlake.model.configuration.integrations import RunStatus
    from meterlake.model.errors import Invalid

    try:
        return RunStatus(name.upper())
    except ValueError:
        raise Invalid("status", name, f"it must be one of {', '.join(RunStatus)}") from None


def _find_runs(
    options: Options, filters: "RunFilters", entity: str | None, limit: int
) -> "Iterator[dict[str, Any]]":
    from meterlake.model.errors import NotFound
    from meterlake.pipeline.billing.named_bills import find_bills
    from meterlake.pipeline.integrations import runs
    from meterlake.stores.state.core.pages import Page

    token, left = None, limit
    with options.open() as organization:
        if entity is not None:
            filters = replace(filters, entity_ids=(entity,))
            # It may be no bill, or one that was deleted.
            with suppress(NotFound):
                ids = tuple(find_bills(organization, [entity]))
                filters = replace(filters, entity_ids=ids)
        while left > 0:
            page = runs.list_runs(organization, filters, Page(min(left, _PAGE), token))
            yield from page["data"]
            left -= len(page["data"])
            token = page.get("nextToken")
            if token is None:
                return
