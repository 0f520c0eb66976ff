"""What a row of RESOURCES says: how one kind of entity appears."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from meterlake.model.rules import Rule
from meterlake.model.values.entity import Configuration, Entity, Record

CONFIG: Final = "config"
ACCESS: Final = "access"

Verb = Literal["create", "retrieve", "list", "update", "delete", "search"]
VERBS: Final[frozenset[Verb]] = frozenset({"create", "retrieve", "list", "update", "delete"})
SINGLETON: Final[frozenset[Verb]] = frozenset({"retrieve", "update"})

_PREFIXES: Final[Mapping[Verb, str]] = {
    "create": "Post",
    "retrieve": "Get",
    "list": "List",
    "update": "Put",
    "delete": "Delete",
    "search": "Search",
}
_SUFFIXES: Final[Mapping[Verb, str]] = {"list": "s", "search": "s"}

Computed = Callable[[Record[Any], Configuration], dict[str, Any]]
KeepUnset = Callable[[Any, Any], frozenset[str]]
Names = Callable[[Any], frozenset[str]]
_SEARCHABLE: Final = frozenset({"id", "ids", "createdBy", "dtCreated", "lastModifiedBy"})
_NAME = re.compile(r"[a-z][A-Za-z]*")
_PATH = re.compile(r"[a-z]+(?:/(?:[a-z]+|\{[a-z][A-Za-z]*\}))*")
_MEMBER = re.compile(r"\{([a-zA-Z]+)\}")


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter of a list.

    Attributes:
        name: The query parameter.
        field: The wire name of the field that it looks at; the parameter's name if empty. The
            parameters `ids` and `codes` look at id and code.
        several: Takes several values, any of which may match.
        op: How the field compares to the value.
        kind: What the value is: `date` and `instant` are read by their grammars, a `flag` is true
            or false (an absent field is false). A `date` that is compared with instants stands
            for its first moment in UTC.
        active: Start and end of the entity's time, which holds the value; instead of `field`.
        needs: Another parameter without which this one makes no sense.
    """

    name: str
    field: str = ""
    several: bool = False
    op: Literal["=", "<", "<=", ">", ">="] = "="
    kind: Literal["text", "date", "instant", "flag"] = "text"
    active: tuple[str, str] | None = None
    needs: str | None = None

    @property
    def column(self) -> str:
        """The wire name of the field that it looks at."""
        return self.field or self.name


IDS: Final = Filter("ids", field="id", several=True)
CODES: Final = Filter("codes", field="code", several=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """How a kind of entity appears.

    Attributes:
        name: Its key in configuration files: `planTemplates`.
        path: Its path in the API, below the organization; members such as `{balanceId}` are fields.
        entity: Its class; the class name is the kind that the store knows.
        refs: Fields that hold an id, or several, and the kind that it belongs to. A dotted path
            leads into nested values.
        codes: The same for fields that name another entity by its code.
        names: Of an entity, the ids of what it names in fields of which others say the kind: nothing
            of them is deleted.
        released: References that an entity forgets when what they lead to is deleted.
        indexed: Fields with texts by which State finds entities without reading all of them.
        key: Fields that identify an entity without a code in configuration files.
        label_key: The same where such an entity needs a label there, too, as a code is usual.
        singleton: Every organization has exactly one.
        area: `config` is what configuration files hold; the rest has commands of its own.
        rules: What must hold between the entity and all others.
        computed: Members of a response that no caller writes.
        verbs: The standard verbs that the API has for it.
        filters: The filters of its list.
        page_max: The longest page of its list.
        schema: The stem of its names in the API's document: `Account` for `AccountRequest`.
        event: The stem of its events: `configuration.account`; None if it has none.
        feature: `beta` or `preview` if the organization has to enable it first.
        permission: Its type in permission policies: `account` for `config:account/item/<id>`.
        frozen: Fields that keep their first value.
        keep_unset: Of an update and what is stored: the fields that stay as stored where the update does
            not set them, since clients of the API do not know of them.
        searchable: Wire names of its own fields that a search may name.
        account: The field with the account that it belongs to; `id` of an account itself.
        operations: The names of those standard operations that are not called as usual.
    """

    name: str
    path: str
    entity: type[Entity]
    refs: Mapping[str, type[Entity]] = field(default_factory=lambda: MappingProxyType({}))
    codes: Mapping[str, type[Entity]] = field(default_factory=lambda: MappingProxyType({}))
    names: Names | None = None
    released: tuple[str, ...] = ()
    indexed: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    label_key: tuple[str, ...] = ()
    singleton: bool = False
    area: str = CONFIG
    rules: tuple[Rule, ...] = ()
    computed: Computed | None = None
    verbs: frozenset[Verb] = VERBS
    filters: tuple[Filter, ...] = (IDS,)
    page_max: int = 100
    schema: str = ""
    event: str | None = None
    feature: Literal["beta", "preview"] | None = None
    permission: str = ""
    frozen: tuple[str, ...] = ()
    keep_unset: KeepUnset | None = None
    searchable: frozenset[str] = frozenset()
    account: str = "account_id"
    operations: Mapping[Verb, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        # What a calculation refers to is a property, not a field.
        calculated = {
            name for name, value in vars(self.entity).items() if isinstance(value, property)
        }
        fields = {*self.entity.model_fields, *calculated}
        named = {path.partition(".")[0] for path in (*self.refs, *self.codes)}
        named |= {*self.key, *self.label_key, *self.frozen, *self.indexed}
        members = {name for name in self.path_members if name not in self._wire_names}
        faults = {
            "name": not _NAME.fullmatch(self.name),
            "path": not _PATH.fullmatch(self.path),
            "docstring": not self.entity.__dict__.get("__doc__"),
            f"fields {named - fields}": not named <= fields,
            f"path members {members}": bool(members),
            "released reference": not set(self.released) <= set(self.refs),
            "key of a singleton": self.singleton and bool(self.key),
            "code to refer to": not all(
                "code" in kind.model_fields for kind in self.codes.values()
            ),
        }
        for fault, found in faults.items():
            if found:
                raise ValueError(f"resource {self.name!r}: bad {fault}")

    @property
    def kind(self) -> str:
        """The name under which the store and messages know the entity."""
        return self.entity.__name__

    def operation_name(self, verb: Verb) -> str:
        """The name of a standard operation in the API's document: `PostAccount`."""
        usual = f"{_PREFIXES[verb]}{self.schema}{_SUFFIXES.get(verb, '')}"
        return self.operations.get(verb, usual)

    @property
    def path_members(self) -> tuple[str, ...]:
        """The wire names of the fields that stand in the path."""
        return tuple(_MEMBER.findall(self.path))

    @property
    def search_fields(self) -> frozenset[str]:
        """What a search may name: its own fields, and those of every entity."""
        return self.searchable | _SEARCHABLE

    @property
    def listed_fields(self) -> frozenset[str]:
        """What narrows its list may name: what a search may, and the name and the code."""
        named = {"name", "code"} & self.entity.model_fields.keys()
        return self.search_fields | named | ({"codes"} if "code" in named else set())

    @property
    def _wire_names(self) -> set[str]:
        return {each.alias or name for name, each in self.entity.model_fields.items()}
