"""Pages of the catalogue: what is measured, what it costs, and the lists that people pick from."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.catalogue import lookup_revisions, prices, proposals
from meterlake.console.catalogue.lookup_revisions import revisions_of
from meterlake.console.catalogue.plans import priced_values
from meterlake.console.shell.addresses import ADDRESSES, address_of
from meterlake.console.shell.api import rows_of
from meterlake.console.shell.entity_forms import (
    EntityPages,
    FormTrial,
    label_of,
    referring_entities,
)
from meterlake.console.shell.form_fields import FieldKind, FormField
from meterlake.console.shell.lists import Column, ListFilter, Listing, called_by, show_list
from meterlake.console.shell.page import Visit, page
from meterlake.model.resources import BY_NAME, Resource
from meterlake.model.values.period import Month

CATALOGUE: Final = "/console/catalogue"
_CHANGES: Final = 50
# What filters of the API name, by the filter.
_OWNERS: Final = {
    "productId": "products",
    "planTemplateId": "planTemplates",
    "planId": "plans",
    "plan": "plans",
    "planGroup": "planGroups",
    "aggregationId": "aggregations",
}
# The kinds whose pages show prices.
_PRICED: Final = frozenset({"plans", "planTemplates"})

_CODE: Final = Column("Code", "code", "code", sort="code")
_CHANGED: Final = Column("Changed", "dtLastModified", "instant", sort="dtLastModified")
_BY: Final = Column("By", "lastModifiedBy", "author", sort="lastModifiedBy")
_UNIT: Final = Column("Unit", "unit", sort="unit")


async def _try_aggregation(visit: Visit, document: Mapping[str, Any]) -> Any:
    """What the aggregation of a form would give in a month."""
    codes = [each.strip() for each in visit.field("form.customers").split(",") if each.strip()]
    body = {"aggregation": document, "month": visit.field("form.month"), "accounts": codes}
    return await visit.api.send("POST", "/aggregations/try", body)


_AGGREGATION_TRIAL: Final = FormTrial(
    "TryAggregation", "catalogue/try_aggregation.html", _try_aggregation
)


async def _try_price(visit: Visit, document: Mapping[str, Any]) -> Any:
    """What the bands of a form would do to the bills of last month and this one."""
    this = Month(visit.today.year, visit.today.month)
    body = {
        "pricingBands": document.get("pricingBands", []),
        "firstMonth": str(this.moved(-1)),
        "lastMonth": str(this),
    }
    return await visit.api.send(
        "POST", f"/pricings/{visit.request.path_params['id']}/preview", body
    )


_TRIALS: Final = {
    "aggregations": _AGGREGATION_TRIAL,
    "pricings": FormTrial("PreviewPriceChange", "catalogue/try_price.html", _try_price),
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of the catalogue's entities.

    Attributes:
        resource: Its name in `RESOURCES`.
        title: What people call several.
        noun: What people call one.
        about: What it is, in a sentence.
        columns: What its list shows between the name and the last change.
        names: Members of rows with ids, whose names the list shows.
        filters: What its list is narrowed by.
        named: Whether it has a name; if not, its code or what it refers to stands for it.
    """

    resource: str
    title: str
    noun: str
    about: str
    columns: tuple[Column, ...] = ()
    names: tuple[str, ...] = ()
    filters: tuple[ListFilter, ...] = ()
    named: bool = True

    @property
    def row(self) -> Resource:
        """The resource."""
        return BY_NAME[self.resource]

    @property
    def address(self) -> str:
        """Its list."""
        return ADDRESSES[self.resource]

    @property
    def pages(self) -> EntityPages:
        """Where people create, change and delete one."""
        trial = _TRIALS.get(self.resource)
        return EntityPages(self.resource, self.address, self.noun, intro=self.about, trial=trial)

    @property
    def lists(self) -> str:
        """The operation that lists it."""
        return self.row.operation_name("list")

    @property
    def listing(self) -> Listing:
        """Its list."""
        one = f"{self.address}/{{id}}"
        head = (
            Column("Name", "name", link=one, sort="name")
            if self.named
            else Column(self.noun.capitalize(), "label", link=one)
        )
        return Listing(
            self.title,
            f"/{self.row.path}",
            (head, *self.columns, _CHANGED, _BY),
            empty=(f"No {self.title.lower()} yet", f"{self.about} Make the first one here."),
            intro=self.about,
            filters=(*self._called, *self.filters),
            create=(f"New {self.noun}", f"{self.address}/new", self.pages.creates),
            complete=self._complete,
            links=(("Catalogue", CATALOGUE),),
        )

    @property
    def _called(self) -> tuple[ListFilter, ...]:
        """By what it is called, if it has a name or a code."""
        names = [each for each in ("name", "code") if each in self.row.listed_fields]
        return (called_by(*names),) if names else ()

    async def references(self, visit: Visit) -> tuple[ListFilter, ...]:
        """Filters by what it belongs to, as far as the API has them: the first hundred by name."""
        names = [each.name for each in self.row.filters if each.name in _OWNERS]
        answers = await asyncio.gather(
            *(
                visit.api.find(f"/{BY_NAME[_OWNERS[each]].path}", sortBy="name", sortOrder="ASC")
                for each in names
            )
        )
        return tuple(
            ListFilter(
                name,
                _NOUNS[_OWNERS[name]].capitalize(),
                tuple((each["id"], label_of(each)) for each in answer["data"]),
                is_open=True,
            )
            for name, answer in zip(names, answers, strict=True)
            if answer is not None
        )

    async def _complete(self, visit: Visit, rows: list[dict[str, Any]]) -> None:
        """Put the names of what rows refer to beside the ids, and a label on what has no name."""
        for member in self.names:
            target = self.row.refs[_attribute(member)]
            resource = next(each for each in BY_NAME.values() if each.entity is target)
            ids = (each.get(member) for each in rows)
            found = await visit.api.by_id(f"/{resource.path}", ids)
            names = {id_: label_of(each) for id_, each in found.items()}
            for each in rows:
                each.setdefault("names", {})[member] = names.get(each.get(member, ""), "")
        for each in rows:
            each["label"] = next(
                (found for name in self.names if (found := each["names"][name])), label_of(each)
            )
            # A name that may be left out leads to the page all the same.
            each.setdefault("name", each["label"])
        await visit.people()


def _attribute(member: str) -> str:
    """The attribute of a wire name: `planId` is `plan_id`."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in member)


def _named(title: str, member: str, resource: str) -> Column:
    """A column with the name of what a member refers to."""
    link = f"{ADDRESSES[resource]}/{{{member}}}" if resource in ADDRESSES else ""
    return Column(title, f"names.{member}", link=link)


_PRODUCT: Final = _named("Product", "productId", "products")
_PRICE_COLUMNS: Final = (
    _named("Plan", "planId", "plans"),
    _named("Template", "planTemplateId", "planTemplates"),
    Column("From", "startDate", "starts", sort="startDate"),
    Column("To", "endDate", "ends", sort="endDate"),
    Column("Cumulative", "cumulative", sort="cumulative"),
)
_ARCHIVED: Final = ListFilter("archived", "Archived", (("false", "No"), ("true", "Yes")))
_ON: Final = ListFilter("date", "In force on", type="date")


def _picklist(resource: str, title: str, noun: str, about: str, *columns: Column) -> _Kind:
    shown = (_CODE, *columns, Column("Archived", "archived", sort="archived"))
    return _Kind(resource, title, noun, about, shown, filters=(_ARCHIVED,))


KINDS: Final = (
    _Kind(
        "products",
        "Products",
        "product",
        "A product holds meters, aggregations and plans.",
        (_CODE,),
    ),
    _Kind(
        "meters",
        "Meters",
        "meter",
        "A meter is a kind of measurement, with the fields that each of them carries.",
        (_CODE, _PRODUCT),
        ("productId",),
    ),
    _Kind(
        "meterGroups",
        "Meter groups",
        "meter group",
        "A group holds meters that belong together when you look at usage; it changes no number.",
    ),
    _Kind(
        "aggregations",
        "Aggregations",
        "aggregation",
        "An aggregation makes one quantity of the values of a meter's field.",
        (
            _CODE,
            _named("Meter", "meterId", "meters"),
            Column("Field", "targetField", "code", sort="targetField"),
            Column("Kind", "aggregation", "words", sort="aggregation"),
            _UNIT,
        ),
        ("meterId",),
    ),
    _Kind(
        "compoundAggregations",
        "Compound aggregations",
        "compound aggregation",
        "A compound aggregation calculates with the quantities of others.",
        (_CODE, _PRODUCT, Column("Calculation", "calculation", "code", sort="calculation"), _UNIT),
        ("productId",),
    ),
    _Kind(
        "counters",
        "Counters",
        "counter",
        "A counter is what a customer has a number of, such as seats.",
        (_CODE, _PRODUCT, _UNIT),
        ("productId",),
    ),
    _Kind(
        "lookupTables",
        "Lookup tables",
        "lookup table",
        "A lookup table holds values by key that calculations of meters read.",
        (_CODE,),
    ),
    _Kind(
        "planTemplates",
        "Plan templates",
        "plan template",
        "A template holds what plans of a product have in common: currency, frequency, charges.",
        (
            _CODE,
            _PRODUCT,
            Column("Billed", "billFrequency", "words", sort="billFrequency"),
            Column("Standing charge", "standingCharge", "money", sort="standingCharge"),
            Column("Minimum spend", "minimumSpend", "money", sort="minimumSpend"),
        ),
        ("productId",),
    ),
    _Kind(
        "plans",
        "Plans",
        "plan",
        "A plan is what a customer subscribes to. What it leaves open, its template says.",
        (
            _CODE,
            _named("Template", "planTemplateId", "planTemplates"),
            _named("Only for", "accountId", "accounts"),
        ),
        ("planTemplateId", "accountId"),
    ),
    _Kind(
        "planGroups",
        "Plan groups",
        "plan group",
        "A group bundles plans of several products, with charges of its own.",
        (
            _CODE,
            Column("Standing charge", "standingCharge", "money", sort="standingCharge"),
            Column("Minimum spend", "minimumSpend", "money", sort="minimumSpend"),
            _named("Only for", "accountId", "accounts"),
        ),
        ("accountId",),
    ),
    _Kind(
        "planGroupLinks",
        "Plans in groups",
        "link",
        "A link puts a plan into a plan group.",
        (_named("Plan", "planId", "plans"),),
        ("planGroupId", "planId"),
        named=False,
    ),
    _Kind(
        "pricings",
        "Prices",
        "price",
        "A price says what the units of an aggregation cost, on a plan or on all plans of a template.",
        _PRICE_COLUMNS,
        ("aggregationId", "compoundAggregationId", "planId", "planTemplateId"),
        filters=(_ON,),
        named=False,
    ),
    _Kind(
        "counterPricings",
        "Prices of counters",
        "price of a counter",
        "It says what a number of a counter costs, on a plan or on all plans of a template.",
        _PRICE_COLUMNS,
        ("counterId", "planId", "planTemplateId"),
        filters=(_ON,),
        named=False,
    ),
    _picklist(
        "currencies",
        "Currencies",
        "currency",
        "A currency, real or of your own, with the rounding of amounts in it.",
        Column("Decimals", "maxDecimalPlaces", "number", sort="maxDecimalPlaces"),
        Column("Rounding", "roundingMode", "words", sort="roundingMode"),
    ),
    _picklist(
        "transactionTypes",
        "Transaction types",
        "transaction type",
        "What people choose when they add to a balance, or take from it.",
    ),
    _picklist(
        "creditReasons", "Credit reasons", "credit reason", "What people choose when they credit."
    ),
    _picklist(
        "debitReasons", "Debit reasons", "debit reason", "What people choose when they debit."
    ),
    _picklist(
        "billGroupingKeys",
        "Bill grouping keys",
        "bill grouping key",
        "Contracts of the same key share a bill of their own.",
        Column("Exclusive", "exclusive", sort="exclusive"),
    ),
    _Kind(
        "statementDefinitions",
        "Statement definitions",
        "statement definition",
        "A definition says which usage stands behind the lines of a statement, and how it is grouped.",
        (Column("Grouped by", "aggregationFrequency", "words", sort="aggregationFrequency"),),
    ),
)
_NOUNS: Final = {each.resource: each.noun for each in KINDS}
_PARTS: Final = (
    ("What is measured", KINDS[:7]),
    ("What it costs", KINDS[7:13]),
    ("What people pick from", KINDS[13:]),
)


async def show_catalogue(visit: Visit) -> Response:
    """All kinds of the catalogue that the person may see."""
    parts = [
        (title, found)
        for title, kinds in _PARTS
        if (found := [each for each in kinds if visit.may(each.lists)])
    ]
    return visit.page("catalogue/catalogue.html", groups=parts)


@dataclass(frozen=True, slots=True)
class _Fact:
    """What a page shows of a field.

    Attributes:
        field: The field.
        value: What the API says.
        links: What it refers to: labels and addresses.
    """

    field: FormField
    value: Any
    links: tuple[tuple[str, str], ...] = ()


def entity_page(kind: _Kind) -> Any:
    """The page of one entity of a kind."""

    async def show(visit: Visit) -> Response:
        return visit.page("catalogue/entity.html", **await entity_values(visit, kind))

    async def show_priced(visit: Visit) -> Response:
        values = await entity_values(visit, kind, "pricings,counterPricings")
        values |= await priced_values(visit, values["entity"])
        return visit.page("catalogue/plan.html", **values)

    async def show_table(visit: Visit) -> Response:
        values = await entity_values(visit, kind)
        revisions = await revisions_of(visit, values["entity"]["id"])
        return visit.page("catalogue/lookup_table.html", **values, revisions=revisions)

    if kind.resource == "lookupTables":
        return show_table
    return show_priced if kind.resource in _PRICED else show


async def entity_values(visit: Visit, kind: _Kind, including: str = "") -> dict[str, Any]:
    """What the page of an entity shows: its fields, what is around it, its changes.

    Args:
        visit: The request.
        kind: The entity's kind.
        including: Kinds that refer to it, whose changes are shown, too.
    """
    id_ = visit.request.path_params["id"]
    around = f"/configuration/{kind.resource}/{id_}"
    entity, named, changes, proposals, _ = await asyncio.gather(
        visit.api.get(f"/{kind.row.path}/{id_}"),
        visit.api.get(f"{around}/references"),
        visit.api.get(f"{around}/changes", including=including or None, limit=_CHANGES),
        visit.api.find("/changeproposals", entityId=id_, status="APPLIED", pageSize=_CHANGES),
        visit.people(),
    )
    return {
        "kind": kind,
        "entity": entity,
        "title": named["label"],
        "facts": _facts(kind, entity, named["refersTo"]),
        "referring": referring_entities(named),
        "changes": changes["data"],
        # Who applied one is the author of its changes; why stands there alone.
        "proposals": [{**each, "applied": each["acts"][-1]} for each in rows_of(proposals)],
        "nouns": _NOUNS,
    }


def _facts(kind: _Kind, entity: Mapping[str, Any], targets: list[Any]) -> list[_Fact]:
    """The fields of an entity that say something, those of several values last."""
    by_field: dict[str, list[tuple[str, str]]] = {}
    for each in targets:
        name = each["field"].partition("[")[0].partition(".")[0]
        by_field.setdefault(name, []).append((label_of(each), address_of(each["kind"], each["id"])))
    found = [
        _Fact(field, entity[field.name], tuple(by_field.get(field.name, ())))
        for field in kind.pages.fields
        if entity.get(field.name) not in (None, "", [], {}) and field.kind is not FieldKind.HIDDEN
    ]
    return sorted(found, key=lambda each: each.field.is_rows)


def _list_page(kind: _Kind) -> Any:
    async def show(visit: Visit) -> Response:
        listing = kind.listing
        narrowed = (*listing.filters, *await kind.references(visit))
        return await show_list(visit, replace(listing, filters=narrowed))

    return show


def _routes(kind: _Kind) -> tuple[Route, ...]:
    name = kind.row.schema
    return (
        Route(kind.address, page(_list_page(kind)), methods=["GET"], name=f"ConsoleList{name}"),
        *kind.pages.routes(),
        Route(
            f"{kind.address}/{{id}}",
            page(entity_page(kind)),
            methods=["GET"],
            name=f"ConsoleShow{name}",
        ),
    )


ROUTES: Final = (
    Route(CATALOGUE, page(show_catalogue), methods=["GET"], name="ConsoleCatalogue"),
    *prices.ROUTES,
    *proposals.ROUTES,
    *lookup_revisions.ROUTES,
    *(route for kind in KINDS for route in _routes(kind)),
)
