"""What other systems have of bills: what was reported to marketplaces, and bills that are deleted here.

A deleted bill that still has a name there is perhaps an open invoice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import (
    ExternalMapping,
    IntegrationConfig,
    RunAction,
    RunStatus,
)
from meterlake.model.customers.accounts import Account
from meterlake.model.values.entity import Record
from meterlake.model.values.period import format_instant
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.versions import keys_of, which_are_there
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.tables import ENTITY
from meterlake.stores.state.integrations.marketplace import list_reports
from meterlake.stores.state.integrations.runs import (
    REPLAY_MARK,
    NewRuns,
    RunContent,
    RunFilters,
    deletion_key,
    page_of_runs,
)
from meterlake.stores.state.jobs import JobStatus


@dataclass(frozen=True, slots=True)
class BillLeftBehind:
    """A deleted bill, and what it is called in another system.

    Attributes:
        key: What it was; None if nothing is kept of it, so that nobody can take it back from here.
        config_id: The integration that can take it back; None if there is none any more.
        tried: How the last run that was to take it back stands; None if there was none.
        is_waiting: Whether such a run has not ended.
    """

    bill_id: str
    account: str | None
    key: BillKey | None
    destination: str
    external_id: str
    config_id: str | None
    tried: RunStatus | None = None
    error: str | None = None
    is_waiting: bool = False


def bills_left_behind(organization: Organization) -> list[BillLeftBehind]:
    """The deleted bills that have a mapping: deleted before that was handed over, or refused there.

    Whether the other system still counts what it has, only that system knows.
    """
    with organization.reading() as reader:
        return list(_read(reader))


def take_back(organization: Organization, author: str) -> list[str]:
    """Have all of them taken back, but those that are being taken back, or that nobody can.

    Returns:
        The ids of the new runs.
    """
    with organization.transaction(author) as transaction:
        configs = {each.id: each for each in transaction.all(IntegrationConfig)}
        contents = [
            _deletion(each, each.key, configs[each.config_id])
            for each in _read(transaction)
            if each.key is not None and each.config_id is not None and not each.is_waiting
        ]
        asked = (transaction.now, transaction.new_id, author)
        return NewRuns(transaction.connection, organization.id, *asked).add(contents)


def _read(reader: Reader) -> Iterator[BillLeftBehind]:
    mappings = [each.entity for each in reader.all(ExternalMapping)]
    of_bills = [each for each in mappings if each.scope()[0] == BILL]
    there = which_are_there(reader, [each.m3ter_id for each in of_bills])
    left = [each for each in of_bills if each.m3ter_id not in there]
    keys = keys_of(reader, [each.m3ter_id for each in left])
    configs = [
        each
        for each in reader.all(IntegrationConfig)
        if each.entity.entity_type.capitalize() == BILL
    ]
    for each in left:
        yield _describe(reader, each, keys.get(each.m3ter_id), configs)


def _describe(
    reader: Reader,
    mapping: ExternalMapping,
    key: BillKey | None,
    configs: list[Record[IntegrationConfig]],
) -> BillLeftBehind:
    system, own = mapping.external_system.upper(), mapping.integration_config_id
    able = [each.id for each in configs if each.entity.destination.upper() == system]
    filters = RunFilters(entity_type=BILL, entity_ids=(mapping.m3ter_id,), destination=system)
    runs, _ = page_of_runs(reader.connection, reader.org_id, filters, Page(200, None))
    tries = [each for each in runs if each.content.is_deletion]
    accounts = [] if key is None else reader.matching(Account, ENTITY.c.id == key.account_id)
    return BillLeftBehind(
        bill_id=mapping.m3ter_id,
        account=next((each.entity.code or each.id for each in accounts), None),
        key=key,
        destination=system,
        external_id=mapping.external_id,
        config_id=own if own in able else next(iter(able), None),
        tried=tries[0].status if tries else None,
        error=tries[0].job.error if tries else None,
        is_waiting=any(each.job.status in {JobStatus.PENDING, JobStatus.RUNNING} for each in tries),
    )


def _deletion(left: BillLeftBehind, key: BillKey, config: Record[IntegrationConfig]) -> RunContent:
    run_key = deletion_key(config.id, left.bill_id)
    return RunContent(
        entity_type=BILL,
        entity_id=left.bill_id,
        destination=left.destination,
        destination_id=config.entity.destination_id,
        config_id=config.id,
        config_version=config.version,
        account_id=key.account_id,
        run_key=run_key if left.tried is None else f"{run_key}{REPLAY_MARK}{uuid4()}",
        action=RunAction.DELETE.value,
        subject=key.identity,
    )


def usage_reports(
    organization: Organization, filters: dict[str, str], since: date | None, page: Page
) -> Document:
    """One page of bills with what the marketplace took of each, by dimension and hour.

    Raises:
        Invalid: The token is none that a list gave.
    """
    with organization.reading() as reader:
        found, token = list_reports(reader, filters, since, page.size, page.token)
    reports: list[Document] = []
    for bill_id, records in found:
        usage: dict[str, dict[str, int]] = {}
        for each in records:
            usage.setdefault(each.dimension, {})[format_instant(each.hour)] = each.quantity
        first = records[0]
        reports.append(
            {
                "accountId": first.account_id,
                "billId": bill_id,
                "externalSystem": first.system,
                "reportedUsage": usage,
            }
        )
    return envelope(reports, token)
