"""The settings of an organization: its time and money, its bills, approval, review and features."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from meterlake.console.shell.entity_forms import (
    ShownField,
    fields_of_body,
    is_for_rows,
    read_document,
    shown_fields,
)
from meterlake.console.shell.form_fields import FieldKind, FormField, fields_of_resource
from meterlake.console.shell.page import Visit, page_routes, words
from meterlake.model.configuration.email_template import EXAMPLES, PLACEHOLDERS
from meterlake.model.resources import RESOURCES

SETTINGS: Final = "/console/settings"
_LETTERS: Final = "E-mails of bills"
# Where each setting stands; one that is named nowhere stands in the last group.
_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Time and money": (
        *("timezone", "currency", "daysBeforeBillDue", "currencyConversions"),
        *("yearEpoch", "monthEpoch", "weekEpoch", "dayEpoch"),
    ),
    "Numbers of bills": ("billPrefix", "sequenceStartNumber"),
    "When bills are made": ("scheduledBillInterval", "scheduledBillOffset", "lateUsage"),
    "Approval": (
        *("twoPersonApproval", "autoApproveBillsGracePeriod"),
        "autoApproveBillsGracePeriodUnit",
    ),
    "Review": (
        *("reviewUnpricedUsage", "reviewMissingBills", "reviewRejectedRows"),
        *("reviewTotalPercent", "reviewTotalPeriods", "reviewFiles"),
        "expectedFiles",
    ),
    "What a bill holds": (
        *("standingChargeBillInAdvance", "commitmentFeeBillInAdvance"),
        *("minimumSpendBillInAdvance", "consolidateBills", "suppressedEmptyBills"),
        *("creditApplicationOrder", "allowNegativeBalances", "allowOverlappingPlans"),
    ),
    _LETTERS: ("billLetterSubject", "billLetterText"),
    "Statements and invoices elsewhere": (),
}
# From when on a changed setting of each group holds.
_FROM_NEXT_CALCULATION: Final = "for bills from their next calculation on"
_HOLDS: Final[Mapping[str, str]] = {
    "Time and money": _FROM_NEXT_CALCULATION,
    "Numbers of bills": "for bills that are made from now on; those that there are keep theirs",
    "When bills are made": "from the next run on",
    "Approval": "at once, for bills that are not approved yet",
    "Review": "at once",
    "What a bill holds": _FROM_NEXT_CALCULATION,
    _LETTERS: "at once, for every e-mail that is written from now on, also of bills that"
    " are approved already",
    "Statements and invoices elsewhere": "for statements that are made from now on, and for bills"
    " from their next calculation on",
}
# What people read in place of the API's names.
_LABELS: Final[Mapping[str, str]] = {
    "timezone": "Time zone",
    "daysBeforeBillDue": "Days until a bill is due",
    "billPrefix": "Prefix of bill numbers",
    "sequenceStartNumber": "Number before that of the first bill",
    "scheduledBillInterval": "Hours between two runs of billing",
    "scheduledBillOffset": "Hour of the day of the run",
    "twoPersonApproval": "Two persons for each approval",
    "autoApproveBillsGracePeriod": "Time after which bills approve themselves",
    "autoApproveBillsGracePeriodUnit": "Unit of that time",
    "reviewUnpricedUsage": "Review usage without a price",
    "reviewMissingBills": "Review accounts without a bill",
    "reviewRejectedRows": "Review more rejected rows than",
    "reviewTotalPercent": "Review totals that differ by percent",
    "reviewTotalPeriods": "Earlier bills that a total is compared with",
    "reviewFiles": "Files of a month",
    "standingChargeBillInAdvance": "Standing charges in advance",
    "commitmentFeeBillInAdvance": "Commitment fees in advance",
    "minimumSpendBillInAdvance": "Minimum spend in advance",
    "consolidateBills": "One bill for everything",
    "suppressedEmptyBills": "No bills of zero",
    "creditApplicationOrder": "Order in which prepaid money pays",
    "billLetterSubject": "Subject",
    "billLetterText": "Text",
    "externalInvoiceDate": "Date of invoices in other systems",
    "autoGenerateStatementMode": "Statements at approval",
    "defaultStatementDefinitionId": "Definition of statements",
}
# Where the API's sentence leaves open what to write.
_HINTS: Final[Mapping[str, str]] = {
    "expectedFiles": (
        "Files that come for each day or month; Data in and the page of the month show what is"
        " overdue. The pattern is what the name looks like: {date} stands for a day such as"
        " 2026-10-31, {month} for a month such as 2026-10, and * for anything. Hours is how long"
        " after the end of its day or month a file may still come: 24 without a number. Since is the"
        " first day for which you expect one."
    ),
}
# Choices that an organization may be without.
_MAY_LACK: Final = frozenset({"autoApproveBillsGracePeriodUnit"})
_STAGES: Final = ("beta", "preview")


_TITLES: Final = {name: title for title, names in _GROUPS.items() for name in names}


def _group_of(name: str) -> str:
    return _TITLES.get(name, list(_GROUPS)[-1])


def _grouped(fields: Iterable[ShownField]) -> list[tuple[str, str, list[ShownField]]]:
    """The title of each group, from when on it holds, and its fields."""
    groups: dict[str, list[ShownField]] = {title: [] for title in _GROUPS}
    by_name = {each.field.name: each for each in fields}
    for name in [*_TITLES, *(name for name in by_name if name not in _TITLES)]:
        if name in by_name:
            groups[_group_of(name)].append(by_name[name])
    return [(title, _HOLDS[title], some) for title, some in groups.items()]


async def show_settings(visit: Visit) -> Response:
    """All settings that the person may see, as one form."""
    settings, lock, features = await asyncio.gather(
        visit.api.get("/organizationconfig"),
        visit.api.find("/billconfig"),
        visit.api.find("/features"),
    )
    return visit.page(
        "settings.html",
        settings=settings,
        groups=_grouped(await shown_fields(visit, _fields(), settings)),
        stored_version=visit.field("version") or settings["version"],
        lock=lock,
        # What was typed stays, too, when a row is added.
        lock_date=visit.field("billLockDate") if visit.form else (lock or {}).get("billLockDate"),
        features=features,
        ticked={
            stage: stage in visit.form if visit.form else (features or {}).get(stage)
            for stage in _STAGES
        },
        stages=[(stage, _resources_in(stage)) for stage in _STAGES],
        letters=_LETTERS,
        placeholders=PLACEHOLDERS,
        examples=EXAMPLES,
    )


def _fields() -> tuple[FormField, ...]:
    return tuple(map(_worded, fields_of_resource("organizationConfig")))


def _worded(field: FormField) -> FormField:
    """A field with the words of people."""
    hint = _HINTS.get(field.name, field.hint)
    hint = hint.replace("`bill review`", "the review").replace("`", "")
    worded = replace(
        field, label=_LABELS.get(field.name, field.label), hint=hint[:1].upper() + hint[1:]
    )
    match field.kind:
        case FieldKind.CHOICES:  # Ticks would not say which comes first.
            order = f"In the order in which they pay: {', '.join(field.choices)}."
            return replace(worded, kind=FieldKind.LINES, hint=order)
        case FieldKind.CHOICE if field.name not in _MAY_LACK:
            return replace(worded, required=True)
        case _:
            return worded


def _resources_in(stage: str) -> str:
    return ", ".join(
        sorted(words(each.name).lower() for each in RESOURCES if each.feature == stage)
    )


async def change_settings(visit: Visit) -> Response:
    """Save all that the form has, as far as it has changed."""
    if is_for_rows(visit):
        return await show_settings(visit)
    if visit.field("action") != "settings":
        raise visit.unknown_action("settings")
    saves = {
        "UpdateOrganizationConfig": _save,
        "UpdateBillConfig": _save_lock,
        "UpdateFeatures": _save_features,
    }
    # One after the other: what is refused stops those behind it.
    said = [await save(visit) for operation, save in saves.items() if visit.may(operation)]
    shown = " ".join(filter(None, said))
    return visit.go(SETTINGS, shown or "You saved the settings. None has changed.")


async def _save(visit: Visit) -> str:
    stored: dict[str, Any] = await visit.api.get("/organizationconfig")
    body = await read_document(visit, _fields(), stored)
    body["version"] = visit.version
    made = await visit.api.send("PUT", "/organizationconfig", body)
    # The person's own pages show the new zone at once; others have it from their next sign-in on.
    visit.session = replace(visit.session, zone=made["timezone"])
    changed = [each for each in _fields() if made.get(each.name) != stored.get(each.name)]
    if not changed:
        return ""
    labels: dict[str, list[str]] = {}
    for each in changed:
        labels.setdefault(_HOLDS[_group_of(each.name)], []).append(each.label)
    told = (f"You changed {', '.join(names)}. It holds {when}." for when, names in labels.items())
    return " ".join(told)


async def _save_lock(visit: Visit) -> str:
    stored = await visit.api.get("/billconfig")
    body = await read_document(visit, fields_of_body("BillConfigRequest"), stored)
    if (body.get("billLockDate") or "") == (stored.get("billLockDate") or ""):
        return ""
    await visit.api.send("PUT", "/billconfig", body)
    if not body.get("billLockDate"):
        return "No day locks bills."
    return "Bills whose last day is on or before the day do not change any more."


async def _save_features(visit: Visit) -> str:
    stored = await visit.api.get("/features")
    chosen = {stage: bool(visit.field(stage)) for stage in _STAGES}
    if all(stored.get(stage) == ticked for stage, ticked in chosen.items()):
        return ""
    await visit.api.send("PUT", "/features", {**stored, **chosen})
    return "You chose the features that this organization uses."


ROUTES: Final = (*page_routes(SETTINGS, show_settings, change_settings, "ConsoleSettings"),)
