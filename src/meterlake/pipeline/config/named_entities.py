"""Entities as people name them: by code, by name, by id or its first digits, or by what they are about."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import literal

from meterlake.model.calculation.mistakes import nearest
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources import Resource, code_of
from meterlake.model.values.entity import E, Entity, Record
from meterlake.model.values.ids import is_id
from meterlake.stages.config.prune import name_of
from meterlake.stores.state import Reader
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
from meterlake.stores.state.core.tables import ENTITY

# So many digits of an id stand for it, at least.
DIGITS: Final = 8
_SOME_DIGITS: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]+)*-?", re.IGNORECASE)
_LISTED_MAX: Final = 5
# Of more entities than these, nobody looks through all names for one that is like another.
_COMPARED_MAX: Final = 10_000


def find_named(reader: Reader, kind: type[E], name: str) -> Record[E]:
    """The entity of a kind that has a code, an id or the first digits of it, or a name.

    Raises:
        NotFound: There is none; the message says which one is near.
        Invalid: Several have the name.
    """
    if is_id(name):
        return reader.get(kind, name.lower())
    if "code" in kind.model_fields:
        coded = reader.find(kind, name)
        if coded is not None:
            return coded
    found: list[Record[E]] = []
    if _SOME_DIGITS.fullmatch(name):
        found = reader.matching(kind, ENTITY.c.id.startswith(name.lower()), most=_LISTED_MAX + 1)
    if not found and "name" in kind.model_fields:
        named = member_text(ENTITY.c.body, literal("name")) == name
        found = reader.matching(kind, named, most=_LISTED_MAX + 1)
    if not found and is_always_coded(kind):
        raise NotFound(words_of(kind), name, _hint(name, sorted(reader.codes(kind))))
    if not found:
        return pick(reader, kind, name, reader.all(kind))
    return _one(reader, kind, name, found)


def find_among(reader: Reader, resource: Resource, words: Sequence[str]) -> Record[Any]:
    """The entity that one or several words name; what accounts have is named after its account, too.

    Args:
        reader: The organization.
        resource: The resource of the entity.
        words: Its name; or the code of an account, and the name among what this account has, or
            nothing if it has one alone.

    Raises:
        NotFound: There is none.
        Invalid: Several have the name.
    """
    kind, name = resource.entity, " ".join(words)
    of_account = resource.account if resource.account in kind.model_fields else None
    if of_account is None or (is_id(name) and len(words) == 1):
        return find_named(reader, kind, name)
    account = reader.find(Account, words[0])
    if account is None:
        return find_named(reader, kind, name)
    owned = reader.referring(kind, Account, account.id)
    owned = [each for each in owned if getattr(each.entity, of_account) == account.id]
    if len(words) == 1:
        coded = reader.find(kind, name) if "code" in kind.model_fields else None
        return coded or _one(reader, kind, name, owned)
    return pick(reader, kind, " ".join(words[1:]), owned, name)


def pick(
    reader: Reader, kind: type[E], name: str, among: Iterable[Record[E]], told: str | None = None
) -> Record[E]:
    """The one of some entities whose code, name, id, or what it is known by is a text.

    Args:
        reader: The organization.
        kind: Their kind.
        name: The text.
        among: The entities.
        told: What the text is called in messages; itself if None.

    Raises:
        NotFound: There is none.
        Invalid: There are several.
    """
    configuration, records = StoredConfiguration(reader), list(among)
    wanted = name.casefold()
    names = {each.id: _names(each, configuration) for each in records[:_COMPARED_MAX]}
    found = [each for each in records if wanted in names.get(each.id, ())]
    if not found:
        # Of what is known by what it is about, a part says enough.
        found = [
            each
            for each in records
            if code_of(each.entity) is None
            and set(wanted.split()) <= set(" ".join(names.get(each.id, ())).split())
        ]
    if not found:
        shown = sorted(name_of(each, configuration) for each in records[:_COMPARED_MAX])
        raise NotFound(words_of(kind), told or name, _hint(name, shown))
    return _one(reader, kind, told or name, found)


def is_always_coded(kind: type[Entity]) -> bool:
    """Whether every entity of a kind has a code."""
    field = kind.model_fields.get("code")
    return field is not None and field.is_required()


def words_of(kind: type[Entity]) -> str:
    """What people call an entity of a kind: `plan template`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()


def _names(record: Record[Any], configuration: StoredConfiguration) -> tuple[str, ...]:
    texts = (
        code_of(record.entity),
        getattr(record.entity, "name", None),
        name_of(record, configuration),
        record.id,
        record.id[:DIGITS],
    )
    return tuple(each.casefold() for each in texts if each)


def _hint(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    if near is not None:
        return f"; did you mean {near!r}?"
    if not known:
        return "; create one first"
    more = ", …" if len(known) > _LISTED_MAX else ""
    return f"; name one of {', '.join(known[:_LISTED_MAX])}{more}"


def _one(reader: Reader, kind: type[E], name: str, found: Sequence[Record[E]]) -> Record[E]:
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(words_of(kind), name, "; the account has none: create one first")
    configuration = StoredConfiguration(reader)
    several = (f"{each.id[:DIGITS]} ({name_of(each, configuration)})" for each in found)
    listed = ", ".join(list(several)[:_LISTED_MAX])
    more = " and more" if len(found) > _LISTED_MAX else ""
    rule = f"several have this name; give the first digits of one: {listed}{more}"
    raise Invalid(words_of(kind), name, rule)
