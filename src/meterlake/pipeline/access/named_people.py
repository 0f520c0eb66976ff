"""Which person of an organization gives a command, and what people call the authors of changes."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from meterlake.model.access import Principal, PrincipalType
from meterlake.model.errors import Forbidden, Invalid, NotFound
from meterlake.model.period import format_instant
from meterlake.stores import Stores
from meterlake.stores.state.access import people
from meterlake.stores.state.access.people import User
from meterlake.stores.state.core.pages import Page

_LISTED_MAX: Final = 10
# So many ids are looked up at once.
_PAGE: Final = 200


def author_named(stores: Stores, org_id: str, name: str) -> str:
    """The author of what a person does: as the API writes it.

    Args:
        stores: The home.
        org_id: The organization.
        name: The e-mail address, the id, or the first and the last name of one of its users.

    Raises:
        NotFound: It has no such user; the message lists some.
        Invalid: Several users have that name.
        Forbidden: The access of the user has ended.
    """
    with stores.state.reading(org_id) as reader:
        found = people.users_named(reader, name)
        known, more = people.users(reader, Page(_LISTED_MAX)) if not found else ([], None)
    if not found:
        listed = ", ".join(each.person.email for each in known) or "none"
        hint = f"; this organization has: {listed}{', …' if more else ''}"
        raise NotFound("user", name, hint)
    if len(found) > 1:
        listed = ", ".join(each.person.email for each in found[:_LISTED_MAX])
        raise Invalid("--as", name, f"several users have this name: {listed}; give the address")
    [user] = found
    if user.end_access is not None and not user.has_access(stores.now()):
        ended = format_instant(user.end_access)
        raise Forbidden(f"--as: the access of {user.person.email} ended at {ended}")
    return Principal(PrincipalType.USER, user.person.id, org_id, "").author


def names_of_authors(stores: Stores, org_id: str, authors: Iterable[str]) -> Mapping[str, str]:
    """The e-mail addresses of those authors that are people of the organization."""
    ids = {each: person for each in authors if (person := _person_id(each)) is not None}
    found: dict[str, User] = {}
    wanted = sorted(set(ids.values()))
    with stores.state.reading(org_id) as reader:
        for start in range(0, len(wanted), _PAGE):
            some, _ = people.users(reader, Page(_PAGE), wanted[start : start + _PAGE])
            found.update((each.person.id, each) for each in some)
    return {author: found[id_].person.email for author, id_ in ids.items() if id_ in found}


def with_names(
    stores: Stores, org_id: str, rows: Iterable[Mapping[str, Any]], member: str
) -> list[dict[str, Any]]:
    """Rows for people: an author who is a person of the organization is an e-mail address."""
    listed = [dict(each) for each in rows]
    names = names_of_authors(stores, org_id, {str(each.get(member)) for each in listed})
    return [each | {member: names.get(str(each.get(member)), each.get(member))} for each in listed]


def _person_id(author: str) -> str | None:
    try:
        principal = Principal.of_author(author, "", "")
    except ValueError:
        return None
    return principal.id if principal.type is PrincipalType.USER else None
