"""Who of an organization gives a command, and what people call the authors of changes."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from meterlake.model.configuration.access import Principal, PrincipalType, ServiceUser
from meterlake.model.errors import Forbidden, Invalid, NotFound
from meterlake.model.values.period import format_instant
from meterlake.pipeline.access.access import permissions_of_author
from meterlake.stores import Organization
from meterlake.stores.state.access import groups, people
from meterlake.stores.state.access.people import User
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.reader import Reader

_LISTED_MAX: Final = 10
# So many ids are looked up at once.
_PAGE: Final = 200


def author_named(organization: Organization, name: str) -> str:
    """The author of what a person or a service user does: as the API writes it.

    Args:
        organization: The organization.
        name: The e-mail address, the id, or the first and the last name of one of its users; or the
            id or the name of a service user.

    Raises:
        NotFound: It has no such user; the message lists some.
        Invalid: Several users have that name.
        Forbidden: The access of the user has ended.
    """
    with organization.reading() as reader:
        found = people.users_named(reader, name)
        # The service users of an id or of a name; the id decides if both are there.
        known = list(reader.all(ServiceUser))
        named = [each for each in known if each.entity.name.casefold() == name.strip().casefold()]
        services = [each for each in known if each.id == name] or named
        if not found and not services:
            raise NotFound(
                "user", name, f"; name one that this organization has: {_list_users(reader)}"
            )
    if len(found) + len(services) > 1:
        # Service users may share a name, and their ids tell them apart.
        given = [each.person.email for each in found] + [each.id for each in services]
        listed = ", ".join(given[:_LISTED_MAX])
        raise Invalid("--as", name, f"several users have this name; give one of {listed}")
    if services:
        return Principal(PrincipalType.SERVICEUSER, services[0].id, organization.id, "").author
    [user] = found
    if user.end_access is not None and not user.has_access(organization.now()):
        ended = format_instant(user.end_access)
        raise Forbidden(
            f"--as: the access of {user.person.email} ended at {ended}; name another user"
        )
    return Principal(PrincipalType.USER, user.person.id, organization.id, "").author


def user_named(organization: Organization, name: str) -> str:
    """The id of a user, also of one whose access has ended.

    Args:
        organization: The organization.
        name: The e-mail address, the id, or the first and the last name.

    Raises:
        NotFound: It has no such user; the message lists some.
        Invalid: Several users have that name.
    """
    with organization.reading() as reader:
        found = people.users_named(reader, name)
        if not found:
            listed = _list_users(reader)
            raise NotFound("user", name, f"; name one that this organization has: {listed}")
    if len(found) > 1:
        given = ", ".join(each.person.email for each in found[:_LISTED_MAX])
        raise Invalid("EMAIL", name, f"several users have this name; give one of {given}")
    return found[0].person.id


def permit_author(
    organization: Organization, author: str, to: tuple[str, str], ids: Iterable[str] = ()
) -> None:
    """Let an author do something, as the API does; who is no user of the organization may do all.

    Args:
        organization: The organization.
        author: As `author_named` gives it.
        to: The action, such as `config:update`, and the type of the resource.
        ids: Which of them; without any, all of the type.

    Raises:
        Forbidden: No policy of the user allows it, or one denies it.
    """
    with organization.reading() as reader:
        permissions = permissions_of_author(reader, author)
        if permissions is None:
            return
        asks = permissions.asks_for_groups(*to)
        wanted: list[str | None] = [*ids]
        for id_ in wanted or [None]:
            found = groups.groups_of(reader, id_) if asks and id_ is not None else ()
            if not permissions.allows(*to, id_, found):
                what = to[1] if id_ is None else f"{to[1]} {id_!r}"
                raise Forbidden(
                    f"--as: no permission for {to[0]} on {what}; ask an administrator for it"
                )


def names_of_authors(organization: Organization, authors: Iterable[str]) -> Mapping[str, str]:
    """What people call authors: a person's e-mail address, the name of a service user."""
    principals = {each: found for each in authors if (found := _principal(each)) is not None}
    ids = {each: found.id for each, found in principals.items() if found.type is PrincipalType.USER}
    users: dict[str, User] = {}
    wanted = sorted(set(ids.values()))
    with organization.reading() as reader:
        services = _names_of_services(reader, principals)
        for start in range(0, len(wanted), _PAGE):
            some, _ = people.users(reader, Page(_PAGE), wanted[start : start + _PAGE])
            users.update((each.person.id, each) for each in some)
    return services | {each: users[id_].person.email for each, id_ in ids.items() if id_ in users}


def with_names(
    organization: Organization, rows: Iterable[Mapping[str, Any]], member: str
) -> list[dict[str, Any]]:
    """Rows for people: an author who is a user of the organization has an address or a name."""
    listed = [dict(each) for each in rows]
    names = names_of_authors(organization, {str(each.get(member)) for each in listed})
    return [each | {member: names.get(str(each.get(member)), each.get(member))} for each in listed]


def _list_users(reader: Reader) -> str:
    """Some of the names that can be given."""
    some, more = people.users(reader, Page(_LISTED_MAX))
    services = sorted(each.entity.name for each in reader.all(ServiceUser))
    left = _LISTED_MAX - len(some)
    names = [*(each.person.email for each in some), *services[:left]]
    return (", ".join(names) or "none") + (", …" if more or services[left:] else "")


def _names_of_services(reader: Reader, principals: Mapping[str, Principal]) -> dict[str, str]:
    """The names of those authors that are service users of the organization."""
    ids = {
        each: found.id
        for each, found in principals.items()
        if found.type is PrincipalType.SERVICEUSER
    }
    if not ids:
        return {}
    names = {each.id: each.entity.name for each in reader.all(ServiceUser)}
    return {author: names[id_] for author, id_ in ids.items() if id_ in names}


def _principal(author: str) -> Principal | None:
    try:
        return Principal.of_author(author, "", "")
    except ValueError:
        return None
