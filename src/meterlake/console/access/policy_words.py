"""What a permission policy allows, in plain words: what its holder may do, and what not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.configuration.access import PermissionPolicy, PermissionStatement
from meterlake.model.configuration.permissions import ANY, GROUP, ITEM, Pattern, Permissions

# What people ask about first, as an action on a type of resource.
_DEEDS: Final = (
    ("read bills", "config:retrieve", "bill"),
    ("approve, lock and delete bills", "config:update", "bill"),
    ("make bills", "config:create", "billjob"),
    ("read customers", "config:retrieve", "account"),
    ("change customers", "config:update", "account"),
    ("read plans and prices", "config:retrieve", "pricing"),
    ("change plans and prices", "config:update", "pricing"),
    ("read measurements", "measurements:retrieve", "measurements"),
    ("send measurements", "measurements:upload", "measurements"),
    ("ask questions about usage", "analytics:query", "usage"),
    ("start backfills", "config:create", "backfill"),
    ("export measurements", "measurements:export", "dataexport"),
    ("export configuration and bills", "config:export", "dataexport"),
    ("change integrations", "config:update", "integrationconfig"),
    ("invite people", "config:create", "invitation"),
    ("change who may do what", "config:update", "permissionpolicy"),
    ("see who did what", "audit:retrieve", "auditlog"),
)
_ACTIONS: Final = {
    "all": "do anything with",
    "config:create": "create",
    "config:retrieve": "read",
    "config:update": "change",
    "config:delete": "delete",
    "config:export": "export",
    "analytics:query": "query",
    "measurements:upload": "send",
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
        partly: What is allowed for some only.
        may_not: What is not.
        sentences: The statements one by one.
    """

    may: tuple[str, ...]
    partly: tuple[str, ...]
    may_not: tuple[str, ...]
    sentences: tuple[str, ...]


def read_policy(statements: Iterable[Mapping[str, Any]]) -> PolicyReading:
    """What the holder of some statements, as the API writes them, may do."""
    documents = list(statements)
    if not documents:
        return PolicyReading((), (), tuple(words for words, *_ in _DEEDS), ())
    policy = PermissionPolicy.from_wire({"name": "-", "permissionPolicy": documents})
    permissions = Permissions(policy.permission_policy)
    may, partly, may_not = [], [], []
    for words, action, resource in _DEEDS:
        if permissions.unrestricted(action, resource):
            may.append(words)
        elif permissions.singles_out(action, resource):
            partly.append(words)
        else:
            may_not.append(words)
    sentences = tuple(map(_sentence, policy.permission_policy))
    return PolicyReading(tuple(may), tuple(partly), tuple(may_not), sentences)


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
