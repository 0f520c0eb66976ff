"""Whether statements allow an action on a resource. Pure: who has which statements is not known here.

A resource is named `service:resource-type/item/id`; the service is the first word of the action
(`config:update` of a meter is about `config:meter/...`), unless the resource's name brings one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from meterlake.model.configuration.access import (
    PermissionAction,
    PermissionEffect,
    PermissionPolicy,
    PermissionStatement,
)

ANY: Final = "*"
# The action of an operation that is open to all who may call the API.
ANYTHING: Final = ""
ITEM: Final = "item"
GROUP: Final = "group"

_EVERYTHING: Final = ("*:*/*",)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A resource name of a statement, taken apart; `*` matches whatever stands there."""

    service: str
    type: str
    member: str
    id: str

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read `service:type/item/id`; what is left out at the end is any.

        >>> Pattern.parse("config:meter/*")
        Pattern(service='config', type='meter', member='*', id='*')
        """
        service, _, rest = name.lower().partition(":")
        parts = [*rest.split("/"), ANY, ANY]
        return cls(service, parts[0] or ANY, parts[1], parts[2])

    def covers(self, service: str, type: str) -> bool:
        """Whether it is about this type of resource at all."""
        return self.service in {ANY, service} and self.type in {ANY, type}

    def matches(self, id: str | None, groups: Collection[str]) -> bool:
        """Whether it is about one resource of its type; without an id, about all of them."""
        if self.member == ANY:
            return True
        if self.member == ITEM:
            return self.id in {ANY, id}
        return bool(groups) if self.id == ANY else self.id in groups


class Extent(Enum):
    """How much of a type of resource something holds for."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class _Statement:
    actions: frozenset[str]
    patterns: tuple[Pattern, ...]

    def speaks_of(self, action: str) -> bool:
        return action in self.actions or PermissionAction.ALL in self.actions


class Permissions:
    """What somebody may do: what a statement allows and none denies."""

    def __init__(self, statements: Iterable[PermissionStatement]) -> None:
        self._allow: list[_Statement] = []
        self._deny: list[_Statement] = []
        for statement in statements:
            patterns = tuple(map(Pattern.parse, statement.resource))
            compiled = _Statement(frozenset(statement.action), patterns)
            allows = statement.effect is PermissionEffect.ALLOW
            (self._allow if allows else self._deny).append(compiled)

    @property
    def empty(self) -> bool:
        """Whether nothing is allowed at all: who has such permissions cannot call the API."""
        return not any(statement.actions for statement in self._allow)

    def allows(
        self, action: str, resource: str, id: str | None = None, groups: Collection[str] = ()
    ) -> bool:
        """Whether an action on a resource is allowed; a denial wins over whatever allows it.

        Args:
            action: `config:update` and the like; `ANYTHING` for who may do anything at all.
            resource: The type of the resource: `meter`, or with its service, `config:meter`.
            id: Which one; None for all of the type, which a statement on single ones does not allow.
            groups: The ids of the groups that hold the resource, directly or through others.
        """
        if action == ANYTHING:
            return not self.empty
        service, type_ = _address(action, resource)
        target = None if id is None else id.lower()

        def matched(statements: list[_Statement]) -> bool:
            return any(
                pattern.covers(service, type_) and pattern.matches(target, groups)
                for statement in statements
                if statement.speaks_of(action)
                for pattern in statement.patterns
            )

        return matched(self._allow) and not matched(self._deny)

    def singles_out(self, action: str, resource: str) -> bool:
        """Whether some resources of the type are treated unlike others."""
        service, type_ = _address(action, resource)
        return any(
            pattern.member != ANY and pattern.covers(service, type_)
            for statement in (*self._allow, *self._deny)
            if statement.speaks_of(action)
            for pattern in statement.patterns
        )

    def extent(self, action: str, resource: str) -> Extent:
        """For how much of a type of resource an action is allowed, as far as the statements say."""
        service, type_ = _address(action, resource)

        def about(statements: list[_Statement]) -> list[Pattern]:
            return [
                pattern
                for statement in statements
                if statement.speaks_of(action)
                for pattern in statement.patterns
                if pattern.covers(service, type_)
            ]

        allowing, denying = about(self._allow), about(self._deny)
        if not allowing or any(each.matches(None, ()) for each in denying):
            return Extent.NONE
        is_whole = any(each.matches(None, ()) for each in allowing) and not denying
        return Extent.ALL if is_whole else Extent.SOME

    def unrestricted(self, action: str, resource: str) -> bool:
        """Whether all resources of the type are allowed, without a look at any of them."""
        return self.allows(action, resource) and not self.singles_out(action, resource)

    def withholds(self, action: str, resource: str) -> bool:
        """Whether a statement keeps some resources of the type, or all of them, from somebody.

        Nobody is kept from what no statement speaks of: another action may let it out.
        """
        service, type_ = _address(action, resource)
        return self.singles_out(action, resource) or any(
            pattern.covers(service, type_)
            for statement in self._deny
            if statement.speaks_of(action)
            for pattern in statement.patterns
        )

    def asks_for_groups(self, action: str, resource: str) -> bool:
        """Whether `allows` depends on the groups of a resource; if not, nobody need look them up."""
        service, type_ = _address(action, resource)
        return any(
            pattern.member == GROUP and pattern.covers(service, type_)
            for statement in (*self._allow, *self._deny)
            if statement.speaks_of(action)
            for pattern in statement.patterns
        )


NOTHING: Final = Permissions(())


def _address(action: str, resource: str) -> tuple[str, str]:
    service, found, type_ = resource.lower().rpartition(":")
    return (service if found else action.partition(":")[0]), type_


def _managed_policy(name: str, *actions: PermissionAction) -> PermissionPolicy:
    statement = PermissionStatement(
        effect=PermissionEffect.ALLOW, action=actions, resource=_EVERYTHING
    )
    return PermissionPolicy(name=name, permission_policy=(statement,))


ADMINISTRATOR: Final = _managed_policy("Administrator", PermissionAction.ALL)
READ_ONLY: Final = _managed_policy(
    "ReadOnly",
    PermissionAction.CONFIG_RETRIEVE,
    PermissionAction.MEASUREMENTS_RETRIEVE,
    PermissionAction.ANALYTICS_QUERY,
    PermissionAction.AUDIT_RETRIEVE,
)
# What every new organization starts with; nobody changes or deletes them.
MANAGED: Final = (ADMINISTRATOR, READ_ONLY)
