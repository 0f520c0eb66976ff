"""Templates of JSON bodies: Jinja2 in a sandbox that can look at data, and at nothing else.

A template can read values, choose and repeat. It cannot call, keep or join anything, so that what
it makes of data grows only with its output, whose size is limited where it is rendered. Filters can
be chained, and some make more of a text each time: what they make together is limited, too.
"""

from collections.abc import Callable
from contextvars import ContextVar
from decimal import Decimal
from functools import cache, wraps
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticCustomError

from meterlake.model.values import wire

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE_MAX: Final = 64 << 10
# Each `list | string` makes a text five times as long.
FILTERS_MAX: Final = 6
# `round` raises ten to the power of its digits.
_DIGITS_MAX: Final = 40
# So many characters filters make in one rendering, and in one check of a template.
TEXT_MAX: Final = 64 << 20
# What would take a text for the list of its characters.
_OF_LISTS: Final = frozenset(
    ("list", "map", "reject", "rejectattr", "select", "selectattr", "sort", "sum")
)
_left: ContextVar[int] = ContextVar("_left", default=TEXT_MAX)
_FILTERS: Final = (
    *("abs", "default", "first", "int", "last", "length", "list", "lower", "map"),
    *("reject", "rejectattr", "round", "select", "selectattr", "sort", "string", "sum"),
    *("tojson", "trim", "upper"),
)
# What keeps, joins or calls could double its data again and again.
_REFUSED: Final = frozenset(
    {
        *("Assign", "AssignBlock", "Macro", "CallBlock", "FilterBlock", "Block", "Extends", "Call"),
        *("Include", "Import", "FromImport", "With", "Concat", "Mul", "Pow", "Add", "List"),
        *("Tuple", "Dict", "Mod", "Scope", "ScopedEvalContextModifier", "EvalContextModifier"),
    }
)


def check_template(text: str) -> str:
    """The template itself, if it is one.

    Raises:
        PydanticCustomError: It cannot be read, or does what templates must not do.
    """
    from jinja2 import TemplateError  # noqa: PLC0415 - few processes need it

    limit_text()
    try:
        tree = environment().parse(text)
        # Compiling calculates constants: what may be calculated is checked before.
        from jinja2 import nodes  # noqa: PLC0415 - few processes need it

        for node in tree.find_all(nodes.Node):
            name = type(node).__name__
            # The names of a loop are stored: `for a, b in …`.
            if name in _REFUSED and getattr(node, "ctx", None) != "store":
                raise _refusal(
                    f"it must be a template that only reads, chooses and repeats, without {name}"
                )
            if isinstance(node, nodes.Const) and not _is_finite(node.value):
                raise _refusal("it must be a template whose numbers are finite")
        if _nested_filters(tree) > FILTERS_MAX:
            raise _refusal(f"it must be a template with at most {FILTERS_MAX} filters in a row")
        environment().compile(tree)
    except PydanticCustomError:
        raise
    except (TemplateError, RecursionError, SyntaxError, ValueError) as error:
        raise _refusal(f"it must be a template of Jinja2: {error}") from None
    return text


@cache
def environment() -> "ImmutableSandboxedEnvironment":
    """Where templates are compiled and rendered."""
    from jinja2 import StrictUndefined  # noqa: PLC0415 - few processes need it
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    made.filters["round"] = _round
    made.filters = {name: _limited(name, made.filters[name]) for name in _FILTERS}
    made.globals = {}
    made.policies["json.dumps_function"] = _dumps
    made.policies["json.dumps_kwargs"] = {}
    return made


def _nested_filters(node: "nodes.Node") -> int:
    nested = max(map(_nested_filters, node.iter_child_nodes()), default=0)
    return nested + (type(node).__name__ == "Filter")


def limit_text() -> None:
    """Begin to count what filters make."""
    _left.set(TEXT_MAX)


def _limited(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that makes no more than it may; it may run when its template is compiled."""
    # Jinja hands some filters its environment first.
    first = 1 if hasattr(make, "jinja_pass_arg") else 0

    @wraps(make)
    def limited(*args: Any, **kwargs: Any) -> Any:
        if name in _OF_LISTS and isinstance(args[first], str):
            raise TypeError(f"{name} takes lists and objects, and no text")
        found = make(*args, **kwargs)
        if not _is_finite(found):
            raise ValueError(f"{name} makes a number that is not finite")
        if isinstance(found, str):
            _left.set(_left.get() - len(found))
            if _left.get() < 0:
                raise ValueError(f"filters make at most {TEXT_MAX:,} characters")
        return found

    return limited


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    from jinja2.filters import do_round  # noqa: PLC0415 - few processes need it

    if not -_DIGITS_MAX <= precision <= _DIGITS_MAX:
        raise ValueError(f"round: at most {_DIGITS_MAX} digits")
    # Some methods know Decimal too, which the types of Jinja2 do not say.
    return do_round(value, precision, method)  # type: ignore[arg-type]


def _is_finite(value: object) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    return not isinstance(value, float) or isfinite(value)


def _dumps(value: Any) -> str:
    if not _is_finite(value):
        raise ValueError("JSON has finite numbers alone")
    return wire.dumps(value).decode()


def _refusal(rule: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{rule}", {"rule": rule})
