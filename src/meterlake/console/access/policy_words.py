"""What a permission policy allows, in plain words: what its holder may do, and what not.

Every permission that an operation of the API asks for belongs to one of the deeds, so what is said
here is all that the API allows, and no more.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from meterlake.model.configuration.access import PermissionPolicy, PermissionStatement
from meterlake.model.configuration.permissions import (
    ANY,
    GROUP,
    ITEM,
    Extent,
    Pattern,
    Permissions,
)
from meterlake.model.resources import RESOURCES

_READ: Final = "config:retrieve"
_CREATE: Final = "config:create"
_UPDATE: Final = "config:update"
_DELETE: Final = "config:delete"
_CUSTOMERS: Final = (
    *("account", "accountplan", "balance", "balancechargeschedule", "balancetransactionschedule"),
    *("charge", "commitment", "contract", "counteradjustment", "customerlink"),
)
_CATALOGUE: Final = (
    *(
        "product",
        "meter",
        "metergroup",
        "aggregation",
        "compoundaggregation",
        "counter",
        "currency",
    ),
    *("plan", "plantemplate", "plangroup", "plangrouplink", "pricing", "counterpricing"),
    *("lookuptable", "lookuptablerevision", "transactiontype", "creditreason", "debitreason"),
    *("billgroupingkey", "statementdefinition"),
)
_EXPORTS: Final = ("exportdestination", "exportschedule")
_INTEGRATIONS: Final = (
    *("integrationconfig", "externalmapping", "webhookdestination", "notificationconfiguration"),
    "scheduledeventconfiguration",
)
_SETTINGS: Final = ("organizationconfig", "billconfig", "customfield", "features", "support")


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that people do, and the permissions that it takes.

    Attributes:
        words: What it is, after "may".
        needs: Actions with the types of resources.
    """

    words: str
    needs: tuple[tuple[str, str], ...]


def _deed(words: str, **resources: tuple[str, ...]) -> Deed:
    """A deed by actions of configuration."""
    actions = {"read": _READ, "create": _CREATE, "update": _UPDATE, "delete": _DELETE}
    needs = ((actions[name], each) for name, found in resources.items() for each in found)
    return Deed(words, tuple(needs))


DEEDS: Final = (
    _deed(
        "read and download bills with the usage behind their lines, revenue, and the open points of months",
        read=("bill", "billjob", "statementjob"),
    ),
    _deed(
        "calculate bills and make batches of statements",
        create=("billjob", "statementjob"),
        update=("billjob", "statementjob"),
    ),
    _deed("approve, lock and send bills, change their credits, and close months", update=("bill",)),
    _deed("put credits on bills, and make statements of bills it may read", create=("bill",)),
    _deed("delete bills and their credits", delete=("bill",)),
    _deed("read customers with their plans and balances", read=(*_CUSTOMERS, "balancetransaction")),
    _deed("change customers and their plans", update=_CUSTOMERS),
    _deed("make customers, and give them plans and balances", create=_CUSTOMERS),
    _deed("book on balances", create=("balancetransaction",)),
    _deed("delete customers and what they have", delete=_CUSTOMERS),
    _deed("read plans, prices and the catalogue", read=_CATALOGUE),
    _deed("change plans, prices and the catalogue", create=_CATALOGUE, update=_CATALOGUE),
    _deed("read proposed changes", read=("changeproposal",)),
    _deed("propose changes and withdraw them", create=("changeproposal",)),
    _deed("approve, reject and apply proposed changes", update=("changeproposal",)),
    _deed("delete plans, prices and what else the catalogue has", delete=_CATALOGUE),
    Deed(
        "read what came in and what was rejected, row by row",
        (("measurements:retrieve", "measurements"),),
    ),
    Deed(
        "send measurements, and requeue, dismiss and take up rejected rows",
        (("measurements:upload", "measurements"),),
    ),
    Deed(
        "send files of measurements, and follow them",
        (("measurements:fileupload", "measurements"),),
    ),
    _deed("read mappings of files", read=("mapping",)),
    _deed(
        "change inboxes and mappings of files",
        create=("inbox",),
        update=("mapping",),
        delete=("inbox", "mapping"),
    ),
    _deed("read backfills", read=("backfill",)),
    _deed("stage backfills", create=("backfill",)),
    _deed("apply, drop and take back backfills", update=("backfill",)),
    Deed(
        "ask questions of their own about usage and bills, and download the answers",
        tuple(("analytics:query", each) for each in ("usage", "bill", "commitment")),
    ),
    _deed("read saved questions", read=("savedquery",)),
    _deed(
        "save, change and delete questions",
        create=("savedquery",),
        update=("savedquery",),
        delete=("savedquery",),
    ),
    _deed("read exports, their schedules and destinations", read=("dataexport", *_EXPORTS)),
    Deed("export measurements to destinations", (("measurements:export", "dataexport"),)),
    Deed("export configuration and bills to destinations", (("config:export", "dataexport"),)),
    Deed("download files of exports", (("exports:download", "dataexport"),)),
    _deed(
        "change exports, their schedules and destinations",
        create=_EXPORTS,
        update=("dataexport", *_EXPORTS),
        delete=_EXPORTS,
    ),
    _deed(
        "read integrations, webhooks, notifications and events",
        read=(*_INTEGRATIONS, "integrationrun", "event", "marketplaceusage"),
    ),
    _deed(
        "change integrations, webhooks and notifications",
        create=_INTEGRATIONS,
        update=(*_INTEGRATIONS, "integrationrun", "event"),
        delete=_INTEGRATIONS,
    ),
    _deed("read runs", read=("run",)),
    _deed("cancel and repeat runs", update=("run",)),
    _deed("read settings", read=_SETTINGS),
    _deed("change settings", update=_SETTINGS),
    _deed(
        "read people, programs and policies",
        read=(
            *("user", "invitation", "serviceuser", "accesskey", "permissionpolicy"),
            "resourcegroup",
        ),
    ),
    _deed("invite people", create=("invitation",)),
    _deed("end access and sign-ins of people, and renew their passwords", update=("user",)),
    _deed(
        "change programs and their keys",
        create=("serviceuser", "accesskey"),
        update=("serviceuser", "accesskey"),
        delete=("serviceuser", "accesskey"),
    ),
    _deed(
        "change who may do what",
        create=("permissionpolicy", "resourcegroup"),
        update=("permissionpolicy", "resourcegroup"),
        delete=("permissionpolicy", "resourcegroup"),
    ),
    Deed("see who did what", (("audit:retrieve", "auditlog"),)),
)
_ACTIONS: Final = {
    "all": "do anything with",
    "config:create": "create",
    "config:retrieve": "read",
    "config:update": "change",
    "config:delete": "delete",
    "config:export": "export",
    "analytics:query": "query",
    "measurements:upload": "send, requeue and dismiss",
    "measurements:fileupload": "send files of",
    "measurements:retrieve": "read",
    "measurements:export": "export",
    "exports:download": "download",
    "audit:retrieve": "read",
    "marketplace:usage:create": "report",
    "marketplace:usage:retrieve": "read reports of",
    "forecast:retrieve": "read forecasts of",
    "healthscores:retrieve": "read health scores of",
    "anomalies:retrieve": "read anomalies of",
}


@dataclass(frozen=True, slots=True)
class PolicyReading:
    """What statements come to.

    Attributes:
        may: What is allowed.
        partly: What is allowed in part: for some things, or some of what the words say.
        may_not: What is not.
        sentences: The statements one by one.
        missing: What of each thing that is allowed in part is not, or not for all, by its words.
    """

    may: tuple[str, ...]
    partly: tuple[str, ...]
    may_not: tuple[str, ...]
    sentences: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)


def read_policy(statements: Iterable[Mapping[str, Any]]) -> PolicyReading:
    """What the holder of some statements, as the API writes them, may do."""
    documents = list(statements)
    if not documents:
        return PolicyReading((), (), tuple(each.words for each in DEEDS), ())
    policy = PermissionPolicy.from_wire({"name": "-", "permissionPolicy": documents})
    permissions = Permissions(policy.permission_policy)
    said: dict[Extent, list[str]] = {each: [] for each in Extent}
    missing: dict[str, str] = {}
    for deed in DEEDS:
        extents = {each: permissions.extent(*each) for each in deed.needs}
        found = set(extents.values())
        extent = found.pop() if len(found) == 1 else Extent.SOME
        said[extent].append(deed.words)
        if extent is Extent.SOME:
            missing[deed.words] = _missing(extents)
    sentences = tuple(map(_sentence, policy.permission_policy))
    return PolicyReading(
        *(tuple(said[Extent.ALL]), tuple(said[Extent.SOME]), tuple(said[Extent.NONE])),
        *(sentences, missing),
    )


def _missing(extents: Mapping[tuple[str, str], Extent]) -> str:
    """What of a deed is not allowed, or for some things alone, in words with the term beside."""
    none, some = (
        [
            f"{_ACTIONS[action]} {type_in_words(type_)}"
            for (action, type_), extent in extents.items()
            if extent is wanted
        ]
        for wanted in (Extent.NONE, Extent.SOME)
    )
    told = [f"not: {', '.join(none)}"] if none else []
    return "; ".join([*told, f"for some alone: {', '.join(some)}"] if some else told)


_JOBS: Final = {
    "billjob": "jobs of bills",
    "statementjob": "jobs of statements",
    "dataexport": "exports",
    "run": "runs",
    "usage": "usage",
    "measurements": "measurements",
    "auditlog": "the log of who did what",
}
_TYPES: Final = {
    each.permission: re.sub(r"(?<!^)(?=[A-Z])", " ", each.name).lower() for each in RESOURCES
}


def type_in_words(name: str) -> str:
    """What people call things of a type that policies name."""
    return _JOBS.get(name) or _TYPES.get(name) or name


# What a policy can name, with its words: actions, and types of resources.
ACTION_WORDS: Final[Mapping[str, str]] = _ACTIONS
RESOURCE_WORDS: Final[Mapping[str, str]] = {
    f"{action.partition(':')[0]}:{type_}/*": type_in_words(type_)
    for action, type_ in sorted(need for deed in DEEDS for need in deed.needs)
}


def _sentence(statement: PermissionStatement) -> str:
    effect = "May" if statement.effect.value == "allow" else "May never"
    actions = _joined(dict.fromkeys(_ACTIONS[each.value] for each in statement.action))
    targets = _joined(map(_target, statement.resource))
    return f"{effect} {actions} {targets}." if actions else f"{effect} do nothing."


def _target(name: str) -> str:
    pattern = Pattern.parse(name)
    kind = "everything" if pattern.type == ANY else f"every {pattern.type}"
    if pattern.member == ITEM and pattern.id != ANY:
        return f"the {pattern.type} {pattern.id}"
    if pattern.member == GROUP:
        group = "any group" if pattern.id == ANY else f"the group {pattern.id}"
        return f"{kind} in {group}"
    return kind


def _joined(texts: Iterable[str]) -> str:
    *first, last = list(texts) or [""]
    return f"{', '.join(first)} and {last}" if first else last
