"""Resources and their entities as people name and read them: kinds by any of their names, references by code."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, Final

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.catalog.catalog import Aggregation, Product
from meterlake.model.catalog.plans import Plan
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.errors import Invalid, NotFound, UnknownField
from meterlake.model.resources import RESOURCES, Filter, Resource, wire_name
from meterlake.model.resources.listing import FilterValues, Search, Term, is_instant
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.period import (
    DAY_PATTERN,
    format_instant,
    local_date,
    midnight,
    parse_instant,
    zone,
)
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import Document, ResourceRef, list_page
from meterlake.pipeline.config.lists import list_account_plans, list_by_product
from meterlake.pipeline.config.named_entities import find_among, find_named
from meterlake.stages.config.describe import describe
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# What people call an entity.
_CALLED: Final = ("name", "code", "emailAddress", "purchaseOrderNumber")
_FLAGS: Final = {"true": True, "yes": True, "false": False, "no": False}
_Lister = Callable[[Organization, list[FilterValues], Page], Document]


def named_kinds() -> list[Resource]:
    """Every resource that people may read by name."""
    return [each for each in RESOURCES if "retrieve" in each.verbs]


def words_of_resource(resource: Resource) -> str:
    """What a resource is called on the command line: `plan-templates`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", resource.name).lower()


def words_of_one(resource: Resource) -> str:
    """What one entity of a resource is called: `plan-template`."""
    return re.sub(r"ie$", "y", words_of_resource(resource).removesuffix("s"))


def resource_called(name: str) -> Resource:
    """The resource that people call so: in the plural or the singular, however it is written.

    Raises:
        NotFound: There is none; the message names the nearest.
    """
    known = {key: each for each in named_kinds() for key in _keys(each)}
    found = known.get(plain_name(name))
    if found is not None:
        return found
    near = nearest(plain_name(name), known)
    if near is not None:
        raise NotFound("resource", name, f"; did you mean {words_of_resource(known[near])!r}?")
    listed = ", ".join(words_of_resource(each) for each in named_kinds())
    raise NotFound("resource", name, f"; name one of {listed}")


def _keys(resource: Resource) -> set[str]:
    """What a resource is called, in small letters without signs."""
    plural, singular = resource.name.lower(), plain_name(words_of_one(resource))
    return {plural, singular, resource.kind.lower(), f"{resource.kind.lower()}s"}


def plain_name(name: str) -> str:
    """A name without what its words are joined by: `planTemplateId` and `plan-template-id` are one."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def field_called(resource: Resource, name: str) -> str:
    """The wire name of the field that people call so; a reference without its Id, too.

    Raises:
        UnknownField: There is none.
    """
    fields = [each.alias or key for key, each in resource.entity.model_fields.items()]
    known = {plain_name(re.sub(r"Ids?$", "", each)): each for each in fields if each != "id"}
    known |= {plain_name(each): each for each in fields}
    found = known.get(plain_name(name))
    if found is None:
        near = nearest(plain_name(name), known)
        meant = f"did you mean {known[near]!r}?" if near else None
        rule = meant or f"it must be one of {', '.join(fields)}"
        raise UnknownField(name, None, rule)
    return found


def find_ref(organization: Organization, resource: Resource, words: Sequence[str]) -> ResourceRef:
    """Where the entity stands that words name; the one of its kind needs none.

    Raises:
        NotFound: There is none.
        Invalid: Several have the name.
    """
    if resource.singleton:
        if words:
            rule = "leave it out: the organization has one of them"
            raise Invalid("NAME", " ".join(words), rule)
        return ResourceRef(resource, {})
    with organization.reading() as reader:
        return ResourceRef(resource, {}, find_among(reader, resource, words).id)


def list_named(
    organization: Organization,
    resource: Resource,
    wanted: Mapping[str, str],
    limit: int,
    within: str | None = None,
) -> list[Document]:
    """The newest entities of a kind, as the API shows them.

    Args:
        organization: The organization.
        resource: The kind.
        wanted: Filters of its list by their names, and values of its fields; references by code.
        limit: How many at most.
        within: A text that the name, the code, the e-mail address or the purchase order has in it.

    Raises:
        UnknownField: It has no such filter or field.
        NotFound: What a filter refers to does not exist.
        Invalid: A value breaks a rule.
    """
    with organization.reading() as reader:
        local = zone_of(reader)
        criteria = [
            _criterion(reader, resource, name, value, local) for name, value in wanted.items()
        ]
    lister = _LISTS.get(resource.entity)
    search = None if within is None else _search_within(resource, within, limit)
    found: list[Document] = []
    token: str | None = None
    while len(found) < limit:
        page = Page(min(resource.page_max, limit - len(found)), token, search=search)
        listed = (
            list_page(organization, resource, criteria, page)
            if lister is None
            else lister(organization, criteria, page)
        )
        found += listed["data"]
        token = listed.get("nextToken")
        if token is None:
            break
    return found


def _search_within(resource: Resource, text: str, size: int) -> Search:
    """The search for what has a text in what people call it."""
    known = {each.alias or name for name, each in resource.entity.model_fields.items()}
    fields = [each for each in _CALLED if each in known]
    if not fields:
        raise Invalid(
            "--search", text, f"{resource.name} have neither a name nor a code; leave it out"
        )
    terms = tuple(Term(each, "*", text) for each in fields)
    return Search(terms, every=False, sort_by=None, ascending=False, start=0, size=size)


def _by_product(resource: Resource) -> _Lister:
    return lambda organization, criteria, page: list_by_product(
        organization, resource, criteria, page
    )


# Lists whose filters look further than at the fields of what they list.
_LISTS: Final[Mapping[type[Entity], _Lister]] = {
    AccountPlan: list_account_plans,
    **{each.entity: _by_product(each) for each in RESOURCES if each.entity in {Plan, Aggregation}},
}


def _criterion(
    reader: Reader, resource: Resource, name: str, value: str, local: tzinfo
) -> FilterValues:
    own = {
        plain_name(key): each
        for each in resource.filters
        for key in {each.name, re.sub(r"Ids?$", "", each.name)} - {""}
    }
    found = own.get(plain_name(name))
    if found is None:
        field = field_called(resource, name)
        has_time = is_instant(resource.entity, field)
        found = Filter(field, several=True, kind="instant" if has_time else "text")
    if found.kind == "flag":
        if value.casefold() not in _FLAGS:
            raise Invalid(f"--{name}", value, "it must be true or false")
        return FilterValues(found, (_FLAGS[value.casefold()],))
    texts = value.split(",") if found.several else [value]
    target = _target_of(resource, found)
    if target is not None:
        return FilterValues(found, tuple(find_named(reader, target, each).id for each in texts))
    if found.kind in {"date", "instant"}:
        texts = [_instant(f"--{name}", each, local) for each in texts]
    return FilterValues(found, tuple(texts))


def _target_of(resource: Resource, what: Filter) -> type[Entity] | None:
    """The kind that a filter names an entity of."""
    for path, kind in resource.refs.items():
        if wire_name(path) in {what.column, f"{what.column}s"}:
            return kind
    return Product if what.column == "productId" else None


def _instant(option: str, text: str, local: tzinfo) -> str:
    if DAY_PATTERN.fullmatch(text):
        try:
            return format_instant(midnight(date.fromisoformat(text), local))
        except ValueError:
            pass
    found = parse_instant(text)
    if found is None:
        raise Invalid(option, text, "it must be a day such as 2026-10-01, or an instant")
    return format_instant(found)


def zone_of(reader: Reader) -> tzinfo:
    """The organization's time zone."""
    return zone(StoredConfiguration(reader).single(OrganizationConfig).entity.timezone)


def describe_documents(
    organization: Organization, resource: Resource, documents: Sequence[Document]
) -> list[Document]:
    """Documents of the API as people write them: references by code, days where days begin.

    What is at its default is left out. Each has its `id` first, whatever its kind is known by.
    """
    with organization.reading() as reader:
        configuration, local = StoredConfiguration(reader), zone_of(reader)
        return [
            {"id": each["id"], **_described(resource, each, configuration, local)}
            for each in documents
        ]


def _described(
    resource: Resource, document: Document, configuration: StoredConfiguration, local: tzinfo
) -> Document:
    entity = read(resource.entity, wire.loads(wire.dumps(document)))
    # Nothing that is shown comes from when it was written.
    unknown = datetime.fromtimestamp(0, local)
    record = Record(document["id"], document["version"], entity, unknown, "", unknown, "")
    found = describe(record, configuration)
    return {name: _in_days(value, local) for name, value in found.items() if name != "id"}


def _in_days(value: Any, local: tzinfo) -> Any:
    """A value with days instead of the instants at which days begin."""
    if isinstance(value, dict):
        return {name: _in_days(each, local) for name, each in value.items()}
    if isinstance(value, list):
        return [_in_days(each, local) for each in value]
    found = parse_instant(value) if isinstance(value, str) and value.endswith("Z") else None
    if found is None:
        return value
    day = local_date(found, local)
    return day.isoformat() if midnight(day, local) == found else value
