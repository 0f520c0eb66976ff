"""The configuration reference as a page: every kind of entity with its keys, rules and an example."""

import inspect
from collections.abc import Iterator
from typing import Any, Final

from meterlake.model.configuration.examples import EXAMPLES
from meterlake.model.configuration.subjects import SUBJECTS, Subject, subject_of
from meterlake.model.resources import CONFIG, RESOURCES, Resource, wire_name
from meterlake.model.rules import Rule
from meterlake.model.values import wire
from meterlake.model.values.documents import to_yaml
from meterlake.model.values.ids import CODE_PATTERN
from meterlake.model.values.plurals import counted
from meterlake.stages.config.reference.schema import Schema, configuration_schema, first_sentence

_FORMATS: Final = {"date-time": "instant", "date": "date", "email": "e-mail address"}
# A bound of a schema, in words.
_BOUNDS: Final = {
    "minimum": "{} or more",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "maxProperties": "at most {} entries",
}


def configuration_document() -> str:
    """All kinds in Markdown, by subject."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    kinds = [each for each in RESOURCES if each.area == CONFIG]
    by_subject: dict[Subject, list[Resource]] = {}
    for each in kinds:
        subject = subject_of(each.path)
        assert subject is not None, each.path
        by_subject.setdefault(subject, []).append(each)
    listed = [(each, by_subject[each]) for each in SUBJECTS if each in by_subject]
    yield from ("| subject | kinds |", "|---|---|")
    for subject, resources in listed:
        links = ", ".join(f"[{each.name}](#{each.name.lower()})" for each in resources)
        yield f"| {subject.name} | {links} |"
    for subject, resources in listed:
        resources.sort(key=lambda each: subject.segments.index(each.path.partition("/")[0]))
        yield from ("", f"## {subject.name}", "", subject.about)
        for each in resources:
            yield from _kind(each)


def _kind(resource: Resource) -> Iterator[str]:
    yield from ("", f"### {resource.name}", "", first_sentence(resource.entity), "")
    yield f"{_identity(resource)}{_stage(resource)}"
    yield from ("", "| key | type | rule | default | meaning |", "|---|---|---|---|---|")
    schema = configuration_schema()["definitions"][resource.kind]
    yield from _rows(schema, "")
    rules = [text for text in map(rule_text, resource.rules) if text]
    if rules:
        yield from ("", "Rules:", "", *(f"- {text}" for text in rules))
    example = EXAMPLES[resource.name]
    content = {resource.name: example if resource.singleton else [example]}
    yield from ("", "```yaml", to_yaml(wire.to_plain(content)).rstrip(), "```")


def _identity(resource: Resource) -> str:
    if resource.singleton:
        return (
            "An organization has exactly one: you write a map, not a list.\n"
            "A file changes the keys that it has. With `null` you give a key its default."
        )
    fields = resource.entity.model_fields
    key = " and ".join(f"`{wire_name(name)}`" for name in resource.key or resource.label_key)
    several = len(resource.key or resource.label_key) > 1
    identifies = f"{key} {'together identify' if several else 'identifies'} it"
    if "code" in fields and fields["code"].is_required():
        return "You name an entity by its `code`."
    if "code" in fields and resource.key:
        return f"You name an entity by its `code`. If it has none,\n{identifies}."
    if "code" in fields:
        return f"You name an entity by its `code`. If it has none, give it an `id`; {identifies}."
    return f"An entity has no code: {identifies}."


def _stage(resource: Resource) -> str:
    if resource.feature is None:
        return ""
    return f" Over the API it is in {resource.feature}: you enable it with [features](#features)."


def _rows(schema: Schema, prefix: str) -> Iterator[str]:
    """One row for each key, followed by those of what it holds."""
    for name, field in schema["properties"].items():
        if name == "id" and not prefix:
            continue
        kind, inner = _type(field)
        required = name in schema.get("required", ())
        rules = "; ".join((["**required**"] if required else []) + list(_rule(field)))
        default = _default(field.get("default"))
        about = field.get("description", "")
        yield f"| `{prefix}{name}` | {kind} | {rules} | {default} | {_cell(about)} |"
        if inner is not None and "properties" in inner:
            several = "[]" if kind.startswith("list") else ""
            yield from _rows(inner, f"{prefix}{name}{several}.")


def _type(field: Schema) -> tuple[str, Schema | None]:
    """The type of a field in words, and the definition of what it holds."""
    for choice in (*field.get("anyOf", ()), *field.get("allOf", ())):
        if "$ref" in choice:
            return _type(choice)
    if "$ref" in field:
        target = configuration_schema()["definitions"][field["$ref"].rpartition("/")[2]]
        return ("text" if "enum" in target else "map"), target
    if "anyOf" in field:
        return " or ".join(
            _type(each)[0] for each in field["anyOf"] if each != {"type": "null"}
        ), None
    kinds = field.get("type", ["anything"])
    kind = next(each for each in ([kinds] if isinstance(kinds, str) else kinds) if each != "null")
    if kind == "array":
        word, inner = _type(field["items"])
        return f"list of {'maps' if word == 'map' else word + 's'}", inner
    names = {
        "object": "map",
        "boolean": "true or false",
        "integer": "whole number",
        "string": "text",
    }
    return _FORMATS.get(field.get("format", ""), names.get(kind, kind)), None


def _rule(field: Schema) -> Iterator[str]:
    _, inner = _type(field)
    choices = (inner or {}).get("enum") or field.get("enum")
    if choices:
        yield "one of " + ", ".join(f"`{each}`" for each in choices if each is not None)
    pattern = field.get("pattern", "")
    if pattern == CODE_PATTERN:
        yield "a code: 1 to 80 characters, no space at either end"
        return
    if field.get("maxLength") and pattern and "format" not in field:
        yield (
            "letters, digits, `_` and `$`, no digit first"
            if "$0-9" in pattern
            else f"`{_cell(pattern)}`"
        )
    low, high = field.get("minLength"), field.get("maxLength")
    if low and high:
        yield f"{low} to {high} characters"
    elif low and "The code" not in field.get("description", ""):
        yield f"at least {counted(low, 'character')}"
    for name, words in _BOUNDS.items():
        if name in field and not (name == "maxLength" and low):
            yield words.format(field[name])


def _default(value: Any) -> str:
    return "" if value is None else f"`{wire.dumps(value).decode()}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def rule_text(rule: Rule) -> str:
    """What a rule demands: the first sentence of its docstring."""
    text = (inspect.getdoc(rule) or "").partition("\n\n")[0].replace("\n", " ")
    return text.removeprefix("Refuse ").strip()
