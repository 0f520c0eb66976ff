"""Forms for the entities of the API: made from its own document, without script, for every room.

A room that lets people create, change and delete a declared resource declares that, and has the
pages for it::

    CHARGES = EntityPages("charges", "/console/charges", "charge", after="/console/customers/{accountId}")
    ROUTES = (*CHARGES.routes(), ...)

These are `/console/charges/new`, `/console/charges/{id}/edit` and `/console/charges/{id}/delete`.
A link to the first one may fill in fields: `/console/charges/new?accountId=…&currency=EUR`; with
`copy=<id>` it begins with the fields of another entity. Offer the links as the API allows them:
`visit.may(CHARGES.creates)`, `.updates`, `.deletes`.

`FormTrial` adds a button to the form that tries what stands in it, before it is saved.

A room with a form of its own around the fields, or for the body of another operation, uses the
parts: `fields_of_resource` or `fields_of_body`, `shown_fields` for the template's macro
`fields` in `shell/entity_form.jinja`, and `read_document` for what was sent::

    FIELDS = fields_of_body("BillJobRequest")

    async def ask(visit):
        return visit.page("mine.html", fields=await shown_fields(visit, FIELDS))

    async def act(visit):
        if is_for_rows(visit):          # "Add a row" was pressed, not the button of the form.
            return await ask(visit)
        await visit.api.send("POST", "/billjobs", await read_document(visit, FIELDS))

How people fill in what is no plain text: what a field refers to is a list to choose from, or the
code where there are too many; instants are in the organization's time zone; several texts stand one
a line; nested entities are rows. Fields that a form leaves out stay as they are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import product
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.addresses import address_of
from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.form_fields import (
    FieldKind,
    FormField,
    fields_of_body,
    fields_of_resource,
)
from meterlake.console.shell.form_texts import Texts, document_of, row_numbers, texts_of
from meterlake.console.shell.page import Visit, page, words
from meterlake.model.resources import BY_NAME, Resource
from meterlake.model.values.ids import is_id

__all__ = [
    "EntityPages",
    "FormTrial",
    "fields_of_body",
    "fields_of_resource",
    "is_for_rows",
    "read_document",
    "referring_entities",
    "shown_fields",
]

# More than these are not listed to choose from: people type a code.
_CHOICES_MAX: Final = 200
_MORE: Final = "form.more"
_FEWER: Final = "form.fewer"
_TRY: Final = "form.try"
_ONE_DAY: Final = timedelta(days=1)
_NOT_FOUND: Final = 404
# What a link does not fill in: fields of several values.
_NOT_IN_ADDRESS: Final = frozenset(
    {
        *(FieldKind.ROWS, FieldKind.GROUP, FieldKind.MAP, FieldKind.JSON, FieldKind.LINES),
        *(FieldKind.SEGMENTS, FieldKind.CHOICES, FieldKind.REFERENCES),
    }
)


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field as a page shows it.

    Attributes:
        field: The field.
        path: Its name in the form.
        texts: What it shows.
        options: What can be chosen, as values with what people read; None if people type.
        rows: The fields of each row, or of the group as one row.
        is_wrong: Whether the API's refusal names it.
    """

    field: FormField
    path: str
    texts: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] | None = None
    rows: tuple[tuple["ShownField", ...], ...] = ()
    is_wrong: bool = False

    @property
    def text(self) -> str:
        """What it shows, if that is one text."""
        return self.texts[0] if self.texts else ""


_Options = Mapping[str, tuple[tuple[str, str], ...] | None]


async def shown_fields(
    visit: Visit, fields: Iterable[FormField], document: Mapping[str, Any] | None = None
) -> list[ShownField]:
    """The fields of a form for the template: with what was sent, or with what a document has.

    Args:
        visit: The request; what it sent stands in the fields.
        fields: The fields.
        document: What the fields begin with, as the API has it.
    """
    fields = tuple(fields)
    texts = visit.form or texts_of(fields, document or {}, visit.session.zone, visit.decimal)
    changed = _with_rows(visit, texts) if visit.form else texts
    targets = {each.name: each for each in _targets(fields)}
    found = await asyncio.gather(*(_options(visit, each) for each in targets.values()))
    options = dict(zip(targets, found, strict=True))
    wrong = visit.refusal.reason.split(" ", 1)[0] if visit.refusal else ""
    return [_shown(each, each.name, changed, options, wrong) for each in fields]


def is_for_rows(visit: Visit) -> bool:
    """Whether a form was sent for more or fewer rows, or to be tried: it is shown again, no more."""
    return any(map(visit.field, (_MORE, _FEWER, _TRY)))


async def read_document(
    visit: Visit, fields: Iterable[FormField], before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a form says, as the API takes it.

    Args:
        visit: The request with the form.
        fields: Its fields.
        before: What the entity is before the change: what the form leaves out stays so.

    Raises:
        ApiRefusalError: A field names something that does not exist.
    """
    fields = tuple(fields)
    found = document_of(fields, visit.form, visit.session.zone, before or {}, visit.decimal)
    for each in fields:
        await _resolve(visit, each, found)
    return found


# --- What fields refer to ------------------------------------------------------------------------


def _targets(fields: Iterable[FormField]) -> Iterable[Resource]:
    for each in fields:
        if each.target is not None:
            yield each.target
        yield from _targets(each.members)


async def _options(visit: Visit, target: Resource) -> tuple[tuple[str, str], ...] | None:
    """What can be chosen of a kind by id; None if that is too much, or not for this person."""
    if target.path_members:
        return None
    answer = await visit.api.find(f"/{target.path}", pageSize=target.page_max)
    rows = rows_of(answer)
    if answer is not None and answer.get("nextToken") and target.page_max < _CHOICES_MAX:
        more = await visit.api.get(
            f"/{target.path}", pageSize=target.page_max, nextToken=answer["nextToken"]
        )
        rows, answer = [*rows, *more["data"]], more
    if answer is None or answer.get("nextToken"):
        return None
    found = [(each["id"], label_of(each), str(each.get("code") or "")) for each in rows]
    return tuple((f"{id_} {code}", label) for id_, label, code in sorted(found, key=_by_label))


def _by_label(option: tuple[str, str, str]) -> str:
    return option[1].lower()


def label_of(entity: Mapping[str, Any]) -> str:
    """What people call an entity: its name, and its code where that says more."""
    name, code = entity.get("name"), entity.get("code")
    if name and code and name != code:
        return f"{name} ({code})"
    return str(name or code or entity.get("label") or entity.get("description") or entity["id"])


def referring_entities(references: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What refers to an entity by kind, with labels and the addresses of pages.

    Args:
        references: The answer of `ListEntityReferences`.
    """
    return [
        {
            "title": words(each["kind"]),
            "entities": [
                (label_of(other), address_of(other["kind"], other["id"]))
                for other in each["entities"]
            ],
            "more": each["more"],
        }
        for each in references["referredBy"]
    ]


async def _resolve(visit: Visit, field: FormField, document: dict[str, Any]) -> None:
    """Put ids into the place of codes that people typed."""
    value = document.get(field.name)
    if value is None:
        return
    if field.kind in {FieldKind.ROWS, FieldKind.GROUP}:
        rows = value if field.kind is FieldKind.ROWS else [value]
        for row, each in product(rows, field.members):
            await _resolve(visit, each, row)
    elif field.target is None or field.by_code:
        return
    elif field.kind is FieldKind.REFERENCES:
        document[field.name] = [await _id_of(visit, field, each) for each in value]
    else:
        document[field.name] = await _id_of(visit, field, value)


async def _id_of(visit: Visit, field: FormField, text: str) -> str:
    target = field.target
    if is_id(text) or target is None or target.path_members:
        return text
    by_code = any(each.name == "codes" for each in target.filters)
    rows = await visit.api.every(f"/{target.path}", **({"codes": text} if by_code else {}))
    ids = [each["id"] for each in rows if text in {each.get("code"), each.get("name")}]
    if len(ids) == 1:
        return str(ids[0])
    rule = "nothing has this code or name" if not ids else "several have it; give the code or id"
    raise ApiRefusalError(400, f"{field.name} {text!r}: {rule}.")


# --- The fields with their texts -----------------------------------------------------------------


def _with_rows(visit: Visit, texts: Texts) -> Texts:
    """The texts of a form with one row more or fewer, if that was asked for."""
    changed = {name: list(values) for name, values in texts.items()}
    if gone := visit.field(_FEWER):
        changed = {
            name: values for name, values in changed.items() if not name.startswith(f"{gone}.")
        }
    if grown := visit.field(_MORE):
        number = max(row_numbers(grown, changed), default=-1) + 1
        changed[f"{grown}.{number}.new"] = [""]
    return changed


def _shown(field: FormField, path: str, texts: Texts, options: _Options, wrong: str) -> ShownField:
    shown = ShownField(field, path, tuple(texts.get(path, ())), is_wrong=_names(wrong, path))
    if field.kind is FieldKind.GROUP:
        members = tuple(
            _shown(each, f"{path}.{each.name}", texts, options, wrong) for each in field.members
        )
        return replace(shown, rows=(members,))
    if field.is_rows:
        numbers = row_numbers(path, texts) or [0]
        rows = tuple(
            tuple(
                _shown(each, f"{path}.{number}.{each.name}", texts, options, wrong)
                for each in field.members
            )
            for number in numbers
        )
        return replace(shown, rows=rows)
    if field.target is not None:
        return replace(shown, options=_choices(field, shown, options[field.target.name]))
    return shown


def _choices(
    field: FormField, shown: ShownField, options: tuple[tuple[str, str], ...] | None
) -> tuple[tuple[str, str], ...] | None:
    """What can be chosen, by code or id; also what is chosen and not among it."""
    if options is None:
        return None
    column = 1 if field.by_code else 0
    found = {value.split(" ", 1)[column]: label for value, label in options}
    found.pop("", None)
    return (*found.items(), *((text, text) for text in shown.texts if text and text not in found))


def _names(wrong: str, path: str) -> bool:
    """Whether a refusal begins with the name of a field: `pricingBands[0].unitPrice`."""
    place = wrong.rstrip(":").replace("[", ".").replace("]", "")
    return place == path


# --- Whole pages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormTrial:
    """What people may try with what stands in a form, before they save it.

    Attributes:
        operation: The operation that it takes.
        template: What the form shows of it: fields whose names begin with `form.`, a button
            `form.try`, and `trial`, its answer, or None.
        ask: Tries a document.
        told: What else the template shows, by its names.
    """

    operation: str
    template: str
    ask: Callable[[Visit, Mapping[str, Any]], Awaitable[Any]]
    told: Mapping[str, Any] = field(default_factory=dict)


# The fields of a form for an entity, or for a new one, which has nothing yet.
FieldsOf = Callable[[Visit, Mapping[str, Any]], Awaitable[tuple[FormField, ...]]]
# What stands against a deletion, as `referring_entities` gives it.
Obstacles = Callable[[Visit, str], Awaitable[list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class EntityPages:
    """The pages on which people create, change and delete the entities of a resource.

    Attributes:
        resource: Its name in `RESOURCES`: `planTemplates`.
        address: Where its pages are: `/console/catalogue/plantemplates`; members of the API's path
            in braces.
        noun: What people call one: `plan template`.
        after: Where to go after a change, with members of the entity in braces; its own page if
            empty.
        gone: Where to go after a deletion; the list if empty.
        leave_out: Wire names of fields that the form does not show.
        intro: A sentence above a new one's form.
        trial: What people may try with the form before they save it.
        fields_for: Finds the fields of one form, if they depend on what the entity is.
        obstacles: Finds what else stands against the deletion of the entity with an id.
    """

    resource: str
    address: str
    noun: str
    after: str = ""
    gone: str = ""
    leave_out: tuple[str, ...] = ()
    intro: str = ""
    trial: "FormTrial | None" = None
    fields_for: FieldsOf | None = None
    obstacles: Obstacles | None = None

    @property
    def row(self) -> Resource:
        """The resource."""
        return BY_NAME[self.resource]

    @property
    def creates(self) -> str:
        """The operation that creates one."""
        return self.row.operation_name("create")

    @property
    def updates(self) -> str:
        """The operation that changes one."""
        return self.row.operation_name("update")

    @property
    def deletes(self) -> str:
        """The operation that deletes one."""
        return self.row.operation_name("delete")

    @property
    def fields(self) -> tuple[FormField, ...]:
        """The fields that the resource declares."""
        return fields_of_resource(self.resource, (*self.leave_out, *self.row.path_members))

    async def _form_fields(self, visit: Visit, entity: Mapping[str, Any]) -> tuple[FormField, ...]:
        return self.fields if self.fields_for is None else await self.fields_for(visit, entity)

    def routes(self) -> tuple[Route, ...]:
        """The routes of the pages."""
        name = self.row.schema
        new, edit, gone = (f"{self.address}/{each}" for each in ("new", "{id}/edit", "{id}/delete"))
        return (
            Route(
                new,
                page(self.show_new, needs=self.creates),
                methods=["GET"],
                name=f"ConsoleNew{name}",
            ),
            Route(
                new,
                page(self._create, self.show_new),
                methods=["POST"],
                name=f"ConsoleCreate{name}",
            ),
            Route(
                edit,
                page(self._edit, needs=self.updates),
                methods=["GET"],
                name=f"ConsoleEdit{name}",
            ),
            Route(
                edit, page(self._update, self._edit), methods=["POST"], name=f"ConsoleUpdate{name}"
            ),
            Route(
                gone,
                page(self._ask, needs=self.deletes),
                methods=["GET"],
                name=f"ConsoleAskDelete{name}",
            ),
            Route(
                gone, page(self._delete, self._ask), methods=["POST"], name=f"ConsoleDelete{name}"
            ),
        )

    async def show_new(self, visit: Visit) -> Response:
        """The form of a new entity; what the address names stands in it."""
        start: dict[str, Any] = {}
        fields = await self._form_fields(visit, {})
        if (copied := visit.query("copy")) is not None:
            start |= await visit.api.get(f"{self._path(visit)}/{copied}")
        start |= {
            each.name: found
            for each in fields
            if each.kind not in _NOT_IN_ADDRESS and (found := visit.query(each.name)) is not None
        }
        return visit.page(
            "shell/entity_form.html",
            title=f"New {self.noun}",
            intro=self.intro,
            button=f"Create the {self.noun}",
            fields=await shown_fields(visit, fields, start),
            entity=None,
            back=self._address(visit),
            **await self._tried(visit, {}),
        )

    async def _create(self, visit: Visit) -> Response:
        if is_for_rows(visit):
            return await self.show_new(visit)
        body = await read_document(visit, await self._form_fields(visit, {}))
        made = await visit.api.send("POST", self._path(visit), body)
        said = f"You created the {self.noun} {label_of(made)}."
        return visit.go(self._after(visit, made), said)

    async def _edit(self, visit: Visit) -> Response:
        entity = await self._entity(visit)
        return visit.page(
            "shell/entity_form.html",
            title=f"Change {label_of(entity)}",
            intro="",
            button="Save the change",
            fields=await shown_fields(visit, await self._form_fields(visit, entity), entity),
            entity=entity,
            stored_version=visit.field("version") or entity["version"],
            back=self._after(visit, entity),
            **await self._tried(visit, entity),
        )

    async def _tried(self, visit: Visit, before: Mapping[str, Any]) -> dict[str, Any]:
        """What the form shows of its trial, and what that gave if it was asked for."""
        trial = self.trial
        if trial is None or not visit.may(trial.operation):
            return {}
        found = None
        if visit.field(_TRY) and visit.refusal is None:
            fields = await self._form_fields(visit, before)
            found = await trial.ask(visit, await read_document(visit, fields, before))
        month = (visit.today.replace(day=1) - _ONE_DAY).strftime("%Y-%m")
        shown = {"trial_template": trial.template, "trial": found, "trial_month": month}
        return {**trial.told, **shown}

    async def _update(self, visit: Visit) -> Response:
        if is_for_rows(visit):
            return await self._edit(visit)
        before = await self._entity(visit)
        body = await read_document(visit, await self._form_fields(visit, before), before)
        body["version"] = visit.version
        made = await visit.api.send("PUT", f"{self._path(visit)}/{before['id']}", body)
        return visit.go(self._after(visit, made), f"You changed {label_of(made)}.")

    async def _ask(self, visit: Visit) -> Response:
        entity = await self._entity(visit)
        found = await visit.api.get(f"/configuration/{self.resource}/{entity['id']}/references")
        others = [] if self.obstacles is None else await self.obstacles(visit, entity["id"])
        return visit.page(
            "shell/entity_delete.html",
            title=f"Delete {found['label']}?",
            noun=self.noun,
            referring=[*referring_entities(found), *others],
            back=self._after(visit, entity),
        )

    async def _delete(self, visit: Visit) -> Response:
        entity = await self._entity(visit)
        await visit.api.send("DELETE", f"{self._path(visit)}/{entity['id']}")
        target = self.gone.format_map({**visit.request.path_params, **entity})
        said = f"You deleted the {self.noun} {label_of(entity)}."
        return visit.go(target or self._address(visit), said)

    async def _entity(self, visit: Visit) -> dict[str, Any]:
        id_ = visit.request.path_params["id"]
        if not is_id(id_):
            raise ApiRefusalError(_NOT_FOUND, f"There is no {self.noun} with the id {id_!r}.")
        found: dict[str, Any] = await visit.api.get(f"{self._path(visit)}/{id_}")
        return found

    def _path(self, visit: Visit) -> str:
        return f"/{self.row.path}".format_map(visit.request.path_params)

    def _address(self, visit: Visit) -> str:
        return self.address.format_map(visit.request.path_params)

    def _after(self, visit: Visit, entity: Mapping[str, Any]) -> str:
        members = {**visit.request.path_params, **entity}
        return (self.after or f"{self.address}/{{id}}").format_map(members)
