"""What the document says of parameters, standard operations, and operations in general."""

import inspect
import re
from typing import Any, Final

from meterlake.api.openapi.texts import TEXTS
from meterlake.api.server.call import ORGANIZATION, Operation
from meterlake.model.configuration.subjects import SUBJECTS, subject_of
from meterlake.model.resources import RESOURCES, Resource
from meterlake.model.resources.resource import Verb
from meterlake.stages.config.reference.document import rule_text
from meterlake.stages.config.reference.schema import first_sentence

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# What people call kinds whose class names do not say it.
_NOUNS: Final = {
    "OrganizationConfig": "organization configuration",
    "BillConfig": "bill configuration",
    "SupportAccess": "access of the support",
    "WebhookDestination": "webhook",
    "IntegrationConfig": "integration",
    "NotificationConfiguration": "notification",
    "ScheduledEventConfiguration": "scheduled event",
    "UsageSavedQuery": "saved query",
}
_SINGLE: Final = frozenset(
    {"OrganizationConfig", "BillConfig", "CustomFields", "Features", "SupportAccess"}
)
_STAGES: Final = "In {0}: the organization enables it with its features, else the answer is 403."
_SUMMARIES: Final[dict[Verb, str]] = {
    "create": "Create {a}",
    "retrieve": "Retrieve {a}",
    "list": "List {several}",
    "update": "Update {a}",
    "delete": "Delete {a}",
    "search": "Search {several}",
}
_TEXTS: Final[dict[Verb, str]] = {
    "create": "{about}\n\nThe answer is what retrieving it would give.",
    "retrieve": "{about}",
    "list": "{about}\n\nOne page, newest first or by `sortBy`; `nextToken` leads to the next one."
    " `searchQuery` has terms as a search has them.",
    "update": "{about}\n\nReplaces all fields: what the body leaves out takes its default. `version` names"
    " the version that it replaces; an old one is 409 and changes nothing.",
    "delete": "{about}\n\nThe answer is what it was. 409 while something refers to it.",
    "search": "{about}\n\n`searchQuery` has terms such as `name~Acme$currency:EUR`: `:` equals, `~` begins"
    " with, `*` has within, `>` `>=` `<` `<=` compare; `operator` joins them.",
}
_RULED: Final = frozenset({"create", "update"})

# Of parameters, by name.
PARAMETERS: Final = {
    "orgId": "The id of the organization.",
    "id": "The id of the entity.",
    "token": "What the signed URL carries.",
    "Idempotency-Key": "A text of your own for one request: sent again within a day, it acts once.",
    "month": "A month such as 2026-10, `last` or `current`, by the calendar of the organization.",
    "type": "The type of resources in the group, such as `account`.",
    "account": "The code of an account.",
    "aggregation": "The code of an aggregation, simple or compound.",
    "period": "The name of a period: 2026, 2026-10, 2026-10-05 or 2026-10-05/2026-10-12.",
    "frequency": "The frequency of the period, where a day and a week have the same name.",
    "kind": "The kind of the entity, as in configuration files: `planTemplates`.",
    "including": "Kinds of entities that refer to it, such as `pricings`: their changes, too.",
    "pageSize": "How many a page has at most.",
    "nextToken": "Leads to the next page: `nextToken` of the page before.",
    "ids": "Only these ids.",
    "codes": "Only these codes.",
    "asOf": "The entity as it was at this instant.",
    "archived": "Only archived ones, or only others.",
    "additional": "Which calculated members the answer has besides.",
    "includeall": "With those that have ended.",
    "inherited": "With groups that have the user through another group.",
    "active": "Only active ones, or only others; where one is switched, what it becomes.",
    "notifications": "With the notifications about events of the entity.",
    "limit": "The most entries of the answer.",
    "order": "The order by time.",
    "sortOrder": "Ascending or descending.",
    "sortBy": "The field that the answer is ordered by.",
    "operator": "Whether all terms of the search must hold, or one of them.",
    "searchQuery": "The terms of the search, joined by `$`.",
    "fromDocument": "How many found entities are skipped.",
    "groups": "What is told apart, besides the currency.",
    "startMonth": "The first month.",
    "endMonth": "The last month; the current one if absent.",
    "reportingCurrency": "The currency into which amounts are converted.",
    "currency": "Only what is in this currency.",
    "kinds": "Only those of these kinds.",
    "entityId": "Only what is about the entity of this id.",
    "peopleOnly": "Without what meterlake did by itself.",
    "createdBy": "Only those that this user asked for: `USER_` or `SERVICE_USER_`, and the id.",
    "status": "Only those with this status.",
    "reason": "Only those with this reason, such as `UndefinedMeter`.",
    "source": "Only those of this source, by its name or identity.",
    "delivery": "Only those of this delivery: a job or a segment.",
    "meter": "Only those of this meter, by its code.",
    "uid": "The uid of a measurement.",
    "file": "The name of the file, as the event has it.",
    "fileKey": "Ignored.",
    "place": "The code of a destination, as the job's `places` name it; the first one if absent.",
    "date": "Only those that hold on this date.",
    "since": "Only those from this instant on.",
    "until": "Only those before this instant.",
    "startDate": "From when, inclusive.",
    "endDate": "Until when, exclusive.",
    "dateStart": "From this date on.",
    "dateEnd": "Before this date.",
    "dateCreatedStart": "Created from this instant on.",
    "dateCreatedEnd": "Created before this instant.",
    "endDateStart": "Ending from this date on.",
    "endDateEnd": "Ending before this date.",
    "billDate": "Only those with this bill date.",
    "billStartDate": "Only those of bills that start on this date.",
    "lastDateInBillingPeriod": "The last day of the billing period.",
    "billingFrequency": "How often the period is billed.",
    "eventName": "The type of events, such as `configuration.account.created`.",
    "eventType": "The type of events.",
    "includeReversed": "With transactions that were taken back, and those that take them back.",
    "includeActioned": "With events that somebody has seen to.",
    "notificationCode": "Only events that this notification tells of.",
    "entity": "The kind of entity, such as `Account`.",
    "entityType": "The kind of entity, such as `Account`.",
    "system": "The name of the other system.",
    "systemName": "The name of the other system.",
    "externalSystem": "The name of the other system.",
    "externalTable": "The table of the other system.",
    "externalId": "The id in the other system.",
    "externalSystemId": "The id in the other system.",
    "destination": "The kind of destination.",
    "configOption": "The name of an option.",
    "line": "Only this line of the bill: its id, its number or its description.",
    "clocks": "Whether the days or hours of groups with a `timezone` stand by its clocks, too, in a"
    " column such as `day (Europe/Berlin)`.",
    "rows": "How many measurements are shown of each quantity.",
    "version": "The version of the bill; the newest one if absent.",
    "lookupKey": "The key of the item; several columns are joined as the answer shows them.",
}


def describe_operation(operation: Operation) -> dict[str, Any]:
    """The summary, the description and the tag of an operation."""
    summary, text = _texts(operation)
    return {
        "tags": [tag(operation.path)],
        "summary": summary,
        "description": "\n\n".join(part for part in (text, *_notes(operation)) if part),
    }


def tag(path: str) -> str:
    """The subject of a path; of an unknown one, its first segment."""
    rest = path.removeprefix(ORGANIZATION)
    subject = subject_of(rest)
    return subject.name if subject else rest.strip("/").partition("/")[0]


def tags() -> list[dict[str, str]]:
    """All subjects, in their order."""
    return [{"name": each.name, "description": each.about} for each in SUBJECTS]


def parameter_text(name: str) -> str:
    """What a parameter is."""
    if name in PARAMETERS:
        return PARAMETERS[name]
    noun = _split(name.removesuffix("Ids").removesuffix("Id")).lower()
    return (
        f"The ids of {_plural(noun)}."
        if name.endswith("Ids")
        else f"The id of {_with_article(noun)}."
    )


def _texts(operation: Operation) -> tuple[str, str]:
    if operation.id in TEXTS:
        return TEXTS[operation.id]
    standard = _STANDARD.get((operation.method, operation.path))
    if standard is not None:
        return _standard(*standard)
    text = inspect.getdoc(operation.handler) if operation.handler else ""
    return _split(operation.id).capitalize(), (text or "").partition("\n")[0]


def _notes(operation: Operation) -> list[str]:
    notes = []
    if operation.handler is None and operation.detail:
        notes.append(f"Not available yet, the answer is 501: {operation.detail}.")
    if operation.feature is not None:
        notes.append(_STAGES.format(operation.feature))
    if operation.action:
        needed = f"`{operation.action}`"
        if operation.or_action:
            needed += f" or `{operation.or_action}`"
        if operation.reads and operation.reads != operation.action:
            needed += f" and `{operation.reads}`"
        besides = operation.besides
        more = "" if besides is None else f", and `{besides[0]}` on `{besides[1]}`"
        notes.append(f"Permission: {needed} on `{operation.resource}`{more}.")
    return notes


def _standard(resource: Resource, verb: Verb) -> tuple[str, str]:
    noun = _NOUNS.get(resource.kind, _split(resource.kind).lower())
    single = resource.kind in _SINGLE
    words = {"a": f"the {noun}" if single else _with_article(noun), "several": _plural(noun)}
    text = _TEXTS[verb].format(about=first_sentence(resource.entity))
    rules = [each for each in map(rule_text, resource.rules) if each]
    if verb in _RULED and rules:
        text += "\n\nRules:\n\n" + "\n".join(f"- {each}" for each in rules)
    return _SUMMARIES[verb].format(**words), text


def _places(resource: Resource) -> dict[tuple[str, str], tuple[Resource, Verb]]:
    every = f"{ORGANIZATION}/{resource.path}"
    one = every if resource.singleton or resource.kind in _SINGLE else f"{every}/{{id}}"
    places: dict[tuple[str, str], Verb] = {
        ("GET", every): "list",
        ("POST", every): "create",
        ("GET", f"{every}/search"): "search",
        ("GET", one): "retrieve",
        ("PUT", one): "update",
        ("DELETE", one): "delete",
    }
    return {place: (resource, verb) for place, verb in places.items()}


_STANDARD: Final = {place: found for each in RESOURCES for place, found in _places(each).items()}


def _split(name: str) -> str:
    words = _WORD.sub(" ", name).split()
    return " ".join(each if each.isupper() else each.lower() for each in words)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"
