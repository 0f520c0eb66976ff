"""What integrations hand over because of an event, and to whom."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.values.entity import Record

BILL: Final = "Bill"
NOTIFICATION: Final = "Notification"
BILL_DELETED: Final = "billing.bill.deleted"
BILL_EVENTS: Final = frozenset({"billing.bill.created", "billing.bill.updated", BILL_DELETED})
# Members of the configuration of an integration of bills.
ON_APPROVAL: Final = "sendBillsOnApproval"
ALLOWED: Final = "accountIds"
DENIED: Final = "restrictedAccountIds"

Integration = Record[IntegrationConfig]
# What each system takes, by its name in upper case.
Systems = Mapping[str, Collection[str]]
NO_SYSTEMS: Final[Systems] = {}


class Integrations:
    """The integrations of an organization whose systems are installed, by what they take."""

    def __init__(self, integrations: Iterable[Integration], systems: Systems) -> None:
        """Take the configurations, and what the installed systems take."""
        self._by_type: dict[str, list[Integration]] = {BILL: [], NOTIFICATION: []}
        for each in integrations:
            kind = each.entity.entity_type.capitalize()
            if kind in self._by_type and kind in systems.get(each.entity.destination.upper(), ()):
                self._by_type[kind].append(each)

    @property
    def takes_bills(self) -> bool:
        """Whether any of them takes bills."""
        return bool(self._by_type[BILL])

    def of_notification(self, id: str, written: datetime) -> Iterator[Integration]:
        """Those that hand over a notification that went out, at an event that was written then."""
        return (each for each in self._by_type[NOTIFICATION] if _is_about(each, id, written))

    def of_bill(
        self, id: str, account_id: str | None, data: Mapping[str, Any], written: datetime
    ) -> Iterator[Integration]:
        """Those that hand over the bill of an event."""
        for each in self._by_type[BILL]:
            config = each.entity.config_data
            if not _is_about(each, id, written) or not _takes_account(config, account_id):
                continue
            if config.get(ON_APPROVAL) is not True or _is_approval(data):
                yield each

    def of_deleted_bill(
        self, config_ids: Collection[str], mapped: Collection[str]
    ) -> Iterator[Integration]:
        """Those that take back a bill which is deleted: it does not matter what they take by now.

        Args:
            config_ids: The integrations that sent it.
            mapped: The systems in which it has a name for all integrations: one that sent it is gone.
        """
        for each in self._by_type[BILL]:
            if each.id in config_ids or each.entity.destination.upper() in mapped:
                yield each


def _is_about(integration: Integration, id: str, written: datetime) -> bool:
    return integration.created <= written and integration.entity.entity_id in {None, "", id}


def _takes_account(config: Mapping[str, Any], account_id: str | None) -> bool:
    allowed, denied = (config.get(name) or () for name in (ALLOWED, DENIED))
    return account_id not in denied and (not allowed or account_id in allowed)


def _is_approval(data: Mapping[str, Any]) -> bool:
    new, old = (data.get(side) or {} for side in ("newDto", "oldDto"))
    approved = BillStatus.APPROVED.value
    return bool(new.get("status") == approved != old.get("status"))
