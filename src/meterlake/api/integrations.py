"""Webhooks, integrations and their runs beyond the standard verbs."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from meterlake.api.billing.bills import RESOURCE as BILL_RESOURCE
from meterlake.api.entities import page, resource_ref
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.readable_fields import RETRIEVE, permit, permit_each, visible_rows
from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import (
    IntegrationConfig,
    RunStatus,
    WebhookDestination,
)
from meterlake.model.errors import Invalid, Required
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.entity import Entity
from meterlake.pipeline.config import integrations
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.integrations import discovery, life_cycle, runs
from meterlake.pipeline.integrations.bills_elsewhere import usage_reports
from meterlake.pipeline.integrations.life_cycle import MappingChoice
from meterlake.stores import Organization
from meterlake.stores.state.integrations.runs import RunFilters

_WEBHOOKS: Final = f"{ORGANIZATION}/integrationdestinations/webhooks"
_CONFIGS: Final = f"{ORGANIZATION}/integrationconfigs"
_RUNS: Final = f"{ORGANIZATION}/integrationruns"
_PAGE_MAX: Final = 200
_REPORT_PAGE_MAX: Final = 50
_RUN_KIND: Final = "IntegrationRun"
_EVENT: Final = "event"
# What another system said of a bill: its invoice, or what was wrong with it.
_OF_BILL: Final = frozenset({"url", "externalId", "error"})
_STATUSES: Final[dict[str, RunStatus | None]] = {each.value: each for each in RunStatus}
_MAPPING_CHOICES: Final = {each.value: each for each in MappingChoice}
_ORDERS: Final = {"ASC": True, "DESC": False}


async def create_webhook(call: Call) -> Any:
    """Create a webhook."""
    return await _write(call, WebhookDestination, integrations.create_webhook)


async def update_webhook(call: Call) -> Any:
    """Replace the fields of a webhook."""
    return await _write(call, WebhookDestination, integrations.update_webhook)


async def create_config(call: Call) -> Any:
    """Create an integration."""
    return await _write(call, IntegrationConfig, integrations.create_integration)


async def update_config(call: Call) -> Any:
    """Replace the fields of an integration."""
    return await _write(call, IntegrationConfig, integrations.update_integration)


async def _write(call: Call, kind: type[Entity], write: Callable[..., Any]) -> Any:
    document, here = await call.document(), resource_ref(call, BY_ENTITY[kind])
    return await call.run(write, call.organization, call.author, here, document)


async def activate_webhook(call: Call) -> Any:
    """Switch a webhook on or off by `active`."""
    if "active" not in call.query:
        raise Required("active")
    active, id_ = call.query.flag("active"), member(call, WebhookDestination.__name__)
    return await call.run(
        integrations.set_webhook_active, call.organization, call.author, id_, active=active
    )


async def ping_webhook(call: Call) -> Any:
    """Send a test to a webhook."""
    id_ = member(call, WebhookDestination.__name__)
    return await call.run(runs.ping_webhook, call.organization, call.author, id_)


async def replay_webhook(call: Call) -> Any:
    """Send all runs to a webhook once more that were made since an instant."""
    since = call.query.instant("since")
    if since is None:
        raise Required("since")
    status = call.query.one_of("status", _STATUSES, None)
    id_ = member(call, WebhookDestination.__name__)
    return await call.run(
        runs.replay_webhook,
        *(call.organization, call.author, id_, since),
        () if status is None else (status,),
    )


async def replay_run(call: Call) -> Any:
    """Send a run once more."""
    id_ = member(call, _RUN_KIND)
    found = await call.run(runs.replay_run, call.organization, call.author, id_)
    return await _shown(call, found)


async def enable_config(call: Call) -> Any:
    """Let an integration run again."""
    return await _switch(call, life_cycle.enable_integration)


async def disable_config(call: Call) -> Any:
    """Have an integration send nothing more."""
    return await _switch(call, life_cycle.disable_integration)


async def delete_config(call: Call) -> Any:
    """Delete an integration; `mappings` says what becomes of its external mappings."""
    ref = resource_ref(call, BY_ENTITY[IntegrationConfig])
    choice = call.query.one_of("mappings", _MAPPING_CHOICES, MappingChoice.KEEP)
    if choice is MappingChoice.DELETE:
        permit(call, "config:delete", "externalmapping")
    assert ref.id is not None
    return await call.run(
        life_cycle.delete_integration, call.organization, call.author, ref.id, choice
    )


async def _switch(call: Call, switch: Callable[[Organization, str, str], Any]) -> Any:
    id_ = member(call, IntegrationConfig.__name__)
    return await call.run(switch, call.organization, call.author, id_)


async def configs_of_type(call: Call) -> Any:
    """The integrations of an entity type."""
    criteria = {"entityType": call.path["entityType"]}
    for name in ("entityId", "destination", "destinationId"):
        value = call.query.text(name)
        if value is not None:
            criteria[name] = value
    this = page(call, _PAGE_MAX)
    return await call.run(integrations.integrations_of_type, call.organization, criteria, this)


async def available(call: Call) -> Any:
    """What can be configured."""
    chosen = (call.query.text("systemName"), call.query.text("entityType"))
    return await call.run(discovery.available_config, call.organization, *chosen)


async def available_systems(call: Call) -> Any:
    """The systems that are installed."""
    return discovery.available_systems(call.query.text("entityType"))


async def entities_of_system(call: Call) -> Any:
    """What a system takes."""
    return discovery.entities_of_system(call.path["systemName"])


async def sign_in_options(call: Call) -> Any:
    """How one signs in to a system."""
    return discovery.sign_in_options(call.path["systemName"], call.path["entityType"])


async def option_values(call: Call) -> Any:
    """What an option can be."""
    return discovery.option_values(call.path["systemName"], call.path["configOption"])


async def runs_of_entity(call: Call) -> Any:
    """The runs of an entity."""
    filters = _run_filters(call)
    of_entity = replace(
        filters,
        entity_type=call.path["entityType"],
        entity_ids=(call.path["entityId"],),
        notifications=call.query.flag("notifications"),
    )
    return await _runs(call, of_entity)


async def runs_of_config(call: Call) -> Any:
    """The runs of an integration."""
    id_ = member(call, IntegrationConfig.__name__)
    return await _runs(call, replace(_run_filters(call), config_id=id_))


async def runs_of_destination(call: Call) -> Any:
    """The runs to a destination."""
    destination = call.query.text("destination")
    to_destination = replace(
        _run_filters(call),
        destination_id=call.path["destinationId"],
        destination=destination and destination.upper(),
    )
    return await _runs(call, to_destination)


async def _runs(call: Call, filters: RunFilters) -> Any:
    oldest_first = call.query.one_of("order", _ORDERS, default=False)
    this = replace(page(call, _PAGE_MAX), oldest_first=oldest_first)
    found = await call.run(runs.list_runs, call.organization, filters, this)
    return {**found, "data": [await _shown(call, each) for each in found["data"]]}


async def _shown(call: Call, run: Document) -> Document:
    """A run without what tells of a bill, for who may not read that bill."""
    if run["entityType"] != BILL or call.permissions.unrestricted(RETRIEVE, BILL_RESOURCE):
        return run
    if await visible_rows(call, BILL_RESOURCE, [run], "entityId"):
        return run
    return {name: value for name, value in run.items() if name not in _OF_BILL}


def _run_filters(call: Call) -> RunFilters:
    status = call.query.one_of("status", _STATUSES, None)
    return RunFilters(
        statuses=() if status is None else (status,),
        after=call.query.instant("startDate"),
        until=_last_moment(call, "endDate"),
    )


def _last_moment(call: Call, name: str) -> datetime | None:
    """An instant; of a date, its last moment in UTC."""
    found, text = call.query.instant(name), call.query.text(name)
    if found is None or text is None or len(text) > len("2026-10-01"):
        return found
    return found + timedelta(days=1) - timedelta(microseconds=1)


async def get_run(call: Call) -> Any:
    """One run."""
    run = await call.run(runs.get_run, call.organization, member(call, _RUN_KIND))
    return await _shown(call, run)


async def run_log(call: Call) -> Any:
    """What a run sent and got, for who may read what it is about."""
    id_ = member(call, _RUN_KIND)
    run = await call.run(runs.get_run, call.organization, id_)
    if run["entityType"] == BILL:
        await permit_each(call, BILL_RESOURCE, [run["entityId"]])
    elif "eventId" in run:
        await permit_each(call, _EVENT, [run["eventId"]])
    return await call.run(runs.run_log, call.organization, id_)


async def latest_run(call: Call) -> Any:
    """The newest run of an entity."""
    of_entity = (call.path["entityType"], call.path["id"])
    return await _shown(call, await call.run(runs.latest_run, call.organization, *of_entity))


async def latest_runs(call: Call) -> Any:
    """The newest run of each of some entities of a type."""
    this, ids = page(call, _PAGE_MAX), tuple(call.query.texts("ids"))
    if len(ids) > _PAGE_MAX:
        raise Invalid("ids", f"{len(ids)} of them", f"it must be at most {_PAGE_MAX}")
    entity_type = call.path["entityType"]
    found = await call.run(runs.latest_runs, call.organization, entity_type, ids, this)
    shown = [await _shown(call, each) for each in found["data"]]
    # The members of the first run stand beside the list, too.
    return {**await _shown(call, found), "data": shown}


async def usage_report(call: Call) -> Any:
    """What was reported to marketplaces."""
    this = page(call, _REPORT_PAGE_MAX)
    names = {"accountId": "account_id", "billId": "bill_id", "externalSystem": "system"}
    chosen = {column: call.query.text(name) for name, column in names.items()}
    filters = {name: value for name, value in chosen.items() if value is not None}
    since = call.query.day("billStartDate")
    found = await call.run(usage_reports, call.organization, filters, since, this)
    return {**found, "data": await visible_rows(call, BILL_RESOURCE, found["data"], "billId")}


def _get(name: str, path: str, resource: str, handler: Handler, detail: str = "") -> Operation:
    return Operation(name, "GET", path, "config:retrieve", resource, handler, detail=detail)


def _webhook(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(name, method, path, f"config:{action}", "webhookdestination", handler)


_CONFIG: Final = "integrationconfig"
_RUN: Final = "integrationrun"
# Words that stand where an id may stand come before it.
OPERATIONS: Final = (
    _webhook("CreateWebhookDestination", "POST", _WEBHOOKS, "create", create_webhook),
    _webhook("UpdateWebhookDestination", "PUT", f"{_WEBHOOKS}/{{id}}", "update", update_webhook),
    _webhook(
        "ActivateWebhookDestination",
        "PUT",
        f"{_WEBHOOKS}/{{id}}/active",
        "update",
        activate_webhook,
    ),
    _webhook("PingWebhook", "POST", f"{_WEBHOOKS}/{{id}}/ping", "update", ping_webhook),
    _webhook("ReplayWebhook", "POST", f"{_WEBHOOKS}/{{id}}/replay", "update", replay_webhook),
    _get(
        "GetUsageReport",
        f"{ORGANIZATION}/integrationdestinations/marketplace/usageReport",
        "marketplaceusage",
        usage_report,
    ),
    Operation("PostIntegrationConfig", "POST", _CONFIGS, "config:create", _CONFIG, create_config),
    Operation(
        "UpdateIntegrationConfig",
        "PUT",
        f"{_CONFIGS}/{{id}}",
        "config:update",
        _CONFIG,
        update_config,
    ),
    Operation(
        "DeleteIntegrationConfig",
        "DELETE",
        f"{_CONFIGS}/{{id}}",
        "config:delete",
        _CONFIG,
        delete_config,
    ),
    _get("GetAvailableConfig", f"{_CONFIGS}/available", _CONFIG, available),
    _get("GetAvailableSystems", f"{_CONFIGS}/available/systems", _CONFIG, available_systems),
    _get(
        "GetAvailableAuthForSystemAndEntityType",
        f"{_CONFIGS}/available/{{systemName}}/auth/{{entityType}}",
        _CONFIG,
        sign_in_options,
    ),
    _get(
        "GetAvailableSystemEntities",
        f"{_CONFIGS}/available/{{systemName}}/entities",
        _CONFIG,
        entities_of_system,
    ),
    _get(
        "GetIntegrationConfigForType", f"{_CONFIGS}/entity/{{entityType}}", _CONFIG, configs_of_type
    ),
    _get(
        "GetConfigOptionValues",
        f"{_CONFIGS}/values/{{systemName}}/{{configOption}}",
        _CONFIG,
        option_values,
    ),
    Operation(
        "EnableIntegrationConfig",
        "POST",
        f"{_CONFIGS}/{{id}}/enable",
        "config:update",
        _CONFIG,
        enable_config,
    ),
    Operation(
        "DisableIntegrationConfig",
        "POST",
        f"{_CONFIGS}/{{id}}/disable",
        "config:update",
        _CONFIG,
        disable_config,
    ),
    _get("ListIntegrationConfigRuns", f"{_CONFIGS}/{{id}}/runs", _RUN, runs_of_config),
    _get(
        "ListIntegrationRunsByDestinationId",
        f"{_RUNS}/destinations/{{destinationId}}",
        _RUN,
        runs_of_destination,
    ),
    _get("GetIntegrationRunLogs", f"{_RUNS}/logs/{{id}}", _RUN, run_log),
    _get("GetIntegrationRunLatestForIds", f"{_RUNS}/{{entityType}}/latest", _RUN, latest_runs),
    _get("GetIntegrationRunLatest", f"{_RUNS}/{{entityType}}/latest/{{id}}", _RUN, latest_run),
    _get("ListIntegrationRuns", f"{_RUNS}/{{entityType}}/{{entityId}}", _RUN, runs_of_entity),
    _get("GetIntegrationRun", f"{_RUNS}/{{id}}", _RUN, get_run),
    Operation(
        "ReplayIntegrationRun",
        "POST",
        f"{_RUNS}/{{id}}/replay",
        "config:update",
        _RUN,
        replay_run,
    ),
)
