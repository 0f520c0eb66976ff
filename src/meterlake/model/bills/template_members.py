"""What templates of JSON bodies may name: members that their values have, found by reading the text.

A template is walked with the shapes of its values, as if it were rendered: a loop's name has the
shape of what the list holds. What has no shape (a map of custom fields, a date) is not looked into.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel

from meterlake.model.bills.response import BillResponse
from meterlake.model.calculation.mistakes import nearest
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid
from meterlake.model.values.entity import Envelope
from meterlake.model.values.json_templates import environment

if TYPE_CHECKING:
    from jinja2 import nodes


@dataclass(frozen=True, slots=True)
class _Members:
    """An object whose members are known."""

    shapes: Mapping[str, "_Shape"]


@dataclass(frozen=True, slots=True)
class _List:
    """A list of things of one shape."""

    item: "_Shape"


# None: something that is not looked into.
_Shape: TypeAlias = _Members | _List | None
_Scope: TypeAlias = Mapping[str, _Shape]

_LOOP: Final = _Members(
    dict.fromkeys(
        (
            *("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth"),
            *("depth0", "previtem", "nextitem"),
        )
    )
)
# Filters that give what they take, or one or some of it.
_SAME: Final = frozenset(
    {"default", "list", "reject", "rejectattr", "select", "selectattr", "sort"}
)
_ONE: Final = frozenset({"first", "last"})
# Filters that name a member of what a list holds: by their first argument, or by `attribute`.
_BY_FIRST: Final = frozenset({"selectattr", "rejectattr"})
_BY_NAME: Final = frozenset({"map", "sort", "sum"})


def check_members(field: str, text: str) -> None:
    """Refuse a template of bills that names something which no bill and no account has.

    Args:
        field: Where the template stands.
        text: A template that was checked to be one.

    Raises:
        Invalid: It does; the sentence says which name, in which line, and what may be meant.
    """
    _Walk(field).walk(environment().parse(text), _values())


@cache
def _values() -> _Scope:
    account = {**_shapes_of(Account), **_shapes_of(Envelope)}
    return {"bill": _Members(_shapes_of(BillResponse)), "account": _Members(account)}


def _shapes_of(kind: type[BaseModel]) -> dict[str, _Shape]:
    fields = kind.model_fields.items()
    return {each.alias or name: _shape_of(each.annotation) for name, each in fields}


def _shape_of(annotation: Any) -> _Shape:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _Members(_shapes_of(annotation))
    inner = [each for each in get_args(annotation) if each not in {type(None), Ellipsis}]
    if get_origin(annotation) is tuple:
        return _List(_shape_of(inner[0]))
    shapes = [found for each in inner if (found := _shape_of(each)) is not None]
    return shapes[0] if len(shapes) == 1 and get_origin(annotation) is not dict else None


@dataclass(frozen=True, slots=True)
class _Walk:
    """Reads a template from top to bottom."""

    field: str

    def walk(self, node: "nodes.Node", scope: _Scope) -> None:
        """Look at everything below a node."""
        from jinja2 import nodes  # noqa: PLC0415 - few processes need it

        if isinstance(node, nodes.For):
            self._loop(node, scope)
        elif isinstance(node, nodes.Expr):
            self.shape(node, scope)
        else:
            for each in node.iter_child_nodes():
                self.walk(each, scope)

    def _loop(self, node: "nodes.For", scope: _Scope) -> None:
        from jinja2 import nodes  # noqa: PLC0415 - few processes need it

        found = self.shape(node.iter, scope)
        item = found.item if isinstance(found, _List) else None
        # Of several names that a loop has, each is a part of something.
        names: dict[str, _Shape] = {each.name: None for each in node.target.find_all(nodes.Name)}
        if isinstance(node.target, nodes.Name):
            names = {node.target.name: item}
        inner = {**scope, **names, "loop": _LOOP}
        for each in (*node.body, *((node.test,) if node.test is not None else ())):
            self.walk(each, inner)
        for each in node.else_:
            self.walk(each, scope)

    def shape(self, node: "nodes.Node", scope: _Scope) -> _Shape:
        """What an expression gives; everything in it is looked at."""
        from jinja2 import nodes  # noqa: PLC0415 - few processes need it

        match node:
            case nodes.Name():
                if node.name not in scope:
                    raise self._unknown(node, node.name, (each for each in scope if each != "loop"))
                return scope[node.name]
            case nodes.Getattr():
                return self._member(node, self.shape(node.node, scope), node.attr)
            case nodes.Getitem():
                return self._item(node, scope)
            case nodes.Filter():
                return self._filter(node, scope)
        for each in node.iter_child_nodes():
            self.walk(each, scope)
        return None

    def _item(self, node: "nodes.Getitem", scope: _Scope) -> _Shape:
        from jinja2 import nodes  # noqa: PLC0415 - few processes need it

        found = self.shape(node.node, scope)
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            return self._member(node, found, node.arg.value)
        self.walk(node.arg, scope)
        if not isinstance(found, _List):
            return None
        return found if isinstance(node.arg, nodes.Slice) else found.item

    def _filter(self, node: "nodes.Filter", scope: _Scope) -> _Shape:
        found = None if node.node is None else self.shape(node.node, scope)
        for each in (*node.args, *(pair.value for pair in node.kwargs)):
            self.walk(each, scope)
        item = found.item if isinstance(found, _List) else None
        path = self._path(node)
        if path is not None:
            for step in path.split("."):
                item = None if step.isdigit() else self._member(node, item, step)
        if node.name in _SAME:
            return found
        if node.name in _ONE:
            return item
        return _List(item) if node.name == "map" and path is not None else None

    @staticmethod
    def _path(node: "nodes.Filter") -> str | None:
        """The member that a filter names."""
        from jinja2 import nodes  # noqa: PLC0415 - few processes need it

        given = [each.value for each in node.kwargs if each.key == "attribute"]
        if node.name in _BY_FIRST:
            given += node.args[:1]
        if node.name not in _BY_FIRST | _BY_NAME or not given:
            return None
        value = given[0].value if isinstance(given[0], nodes.Const) else None
        return value if isinstance(value, str) else None

    def _member(self, node: "nodes.Node", found: _Shape, name: str) -> _Shape:
        if isinstance(found, _Members):
            if name not in found.shapes:
                raise self._unknown(node, name, found.shapes)
            return found.shapes[name]
        if isinstance(found, _List):
            rule = f"without `{name}` of a list in line {node.lineno}"
            raise Invalid(
                self.field, "…", f"it must be a template {rule}: write a loop over the list"
            )
        return None

    def _unknown(self, node: "nodes.Node", name: str, known: Iterable[str]) -> Invalid:
        names = sorted(known)
        near = nearest(name, names)
        meant = f"did you mean `{near}`?" if near else f"there are {', '.join(names)}"
        rule = f"there is no member `{name}`, in line {node.lineno}: {meant}"
        return Invalid(self.field, "…", rule)
