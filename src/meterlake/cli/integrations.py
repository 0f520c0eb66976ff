"""`meterlake integrations`: what was handed over to other systems, and what became of it."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from cyclopts import App

from meterlake.cli.options import NO_OPTIONS, Limit, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meterlake.stores.state.integrations.runs import RunFilters

_PAGE: Final = 200
_COLUMNS: Final = (
    *("!id", "status", "destination", "error", "?externalId=became", "?dtCreated=time"),
    *("?entityType=of", "?entityId=entity"),
)
_LISTED: Final = ("!id", "destination", "enabled", "error", "?entityType=of", "?name")


def register(app: App) -> None:
    """Add the commands."""
    integrations = App(name="integrations", help="What was handed over to other systems.")
    integrations.command(list_integrations, name="list")
    integrations.command(delete)
    integrations.command(list_runs, name="runs")
    integrations.command(show_run, name="show")
    integrations.command(deliver)
    app.command(integrations)


def list_integrations(*, options: Options = NO_OPTIONS) -> None:
    """List the integrations: what each hands over, where to, and why it sends nothing.

    Example: `meterlake integrations list`
    """
    from meterlake.model.integrations import IntegrationConfig
    from meterlake.pipeline.config.entities import entity_document

    with options.open() as (stores, organization), stores.state.reading(organization.id) as reader:
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

    What was sent stays where it is, and its runs stay listed.

    Example: `meterlake integrations delete ID`

    Args:
        id: The integration's id, as in `meterlake integrations list`.
        mappings: Whether it stays written down what bills became there, for every integration of the
            system. Without that, another integration sends these bills a second time.
    """
    from meterlake.pipeline.integrations.life_cycle import MappingChoice, delete_integration

    with options.open() as (stores, organization):
        choice = MappingChoice(mappings)
        gone = delete_integration(
            stores, organization.id, options.author(stores, organization.id), id, choice
        )
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
        limit: The most that are listed.
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
        options.output.rows(map(_brief, found), _COLUMNS, empty="No runs.")


def show_run(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Show one run with all its tries: what was sent, and what was answered.

    Example: `meterlake integrations show ID`

    Args:
        id: The run's id, as in the list.
    """
    from meterlake.pipeline.integrations.runs import run_history

    with options.open() as (stores, organization):
        found = run_history(stores, organization.id, id)
    if options.json:
        options.output.record(found)
        return
    tries = found.pop("tries")
    options.output.record(found)
    options.output.rows(tries, ("number", "dtStarted=time", "statusCode=answer", "error"))


def deliver(*, options: Options = NO_OPTIONS) -> None:
    """Hand over what is due now, as the worker does all the time.

    What happened in the organization makes its runs; then those of all organizations are sent. One
    that fails is due again later.

    Example: `meterlake integrations deliver`
    """
    from meterlake.pipeline.integrations.delivery import deliver_due, prepare_runs

    with options.open() as (stores, organization):
        events = prepare_runs(stores, organization.id)
        deliver_due(stores)
    options.output.record({"events": events})


def status_of(name: str) -> Any:
    """The status of a name, in small letters or large ones."""
    from meterlake.model.errors import Invalid
    from meterlake.model.integrations import RunStatus

    try:
        return RunStatus(name.upper())
    except ValueError:
        raise Invalid("status", name, f"one of {', '.join(RunStatus)}") from None


def _find_runs(
    options: Options, filters: "RunFilters", entity: str | None, limit: int
) -> "Iterator[dict[str, Any]]":
    from meterlake.model.errors import NotFound
    from meterlake.pipeline.billing.named_bills import find_bills
    from meterlake.pipeline.integrations import runs
    from meterlake.stores.state.core.pages import Page

    token, left = None, limit
    with options.open() as (stores, organization):
        if entity is not None:
            filters = replace(filters, entity_ids=(entity,))
            # It may be no bill, or one that was deleted.
            with suppress(NotFound):
                ids = tuple(find_bills(stores, organization.id, [entity]))
                filters = replace(filters, entity_ids=ids)
        while left > 0:
            page = runs.list_runs(stores, organization.id, filters, Page(min(left, _PAGE), token))
            yield from page["data"]
            left -= len(page["data"])
            token = page.get("nextToken")
            if token is None:
                return


def _brief(run: dict[str, Any]) -> dict[str, Any]:
    return {**run, "dtCreated": run["dtCreated"].replace(microsecond=0)}
