"""A mapping as the fields of a form, and back: what a person types while trying it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from meterlake.console.shell.form_texts import lines_of
from meterlake.model.measurements.mapped_columns import EPOCH_UNITS

_PREFIX: Final = re.compile(r"rule(\d{1,2})\.(.+)")
RULES_MAX: Final = 20
FORMATS: Final = (("csv", "CSV"), ("ndjson", "NDJSON"), ("json", "JSON"), ("parquet", "Parquet"))
WRITTEN: Final = (
    ("format", "In the form below"),
    *((unit, f"As a number of {unit} since 1970") for unit in EPOCH_UNITS if unit != "µs"),
)
ACCOUNT_FROM: Final = (
    ("column", "A column"),
    ("value", "The same account for all rows"),
    ("filename", "A part of the file's name"),
)
# What files call a column.
_GUESSES: Final = {
    "account": ("account", "customer", "client", "tenant", "org", "user", "key"),
    "ts": ("ts", "time", "timestamp", "date", "when", "at", "start"),
    "uid": ("uid", "id", "uuid"),
}


@dataclass(frozen=True, slots=True)
class MappingForm:
    """The fields of a mapping's form.

    Attributes:
        values: The texts of its fields, by name; ticked ones are `yes`.
        rules: The same of each rule, without the rule's number in the names.
    """

    values: dict[str, str] = field(default_factory=dict)
    rules: list[dict[str, str]] = field(default_factory=lambda: [{}])

    @classmethod
    def read(cls, form: Mapping[str, Sequence[str]]) -> "MappingForm":
        """What was sent; rules that were ticked to be left out are gone."""
        values: dict[str, str] = {}
        rules: dict[int, dict[str, str]] = {}
        for name, texts in form.items():
            if match := _PREFIX.fullmatch(name):
                rules.setdefault(int(match[1]), {})[match[2]] = texts[0]
            else:
                values[name] = texts[0]
        kept = [rules[number] for number in sorted(rules) if not rules[number].get("gone")]
        return cls(values, kept[:RULES_MAX] or [{}])

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "MappingForm":
        """The form of a mapping."""
        account = document["account"]
        kind = next(each for each in ("column", "value", "filename") if account.get(each))
        nulls = document.get("nulls", ("",))
        values = {
            "name": document.get("name", ""),
            "files": "\n".join(document.get("files", ())),
            "format": document.get("format") or "",
            "delimiter": document.get("delimiter") or "",
            "nulls": "\n".join(each for each in nulls if each),
            "blank": "yes" if "" in nulls else "",
            "account": account[kind],
            "account.from": kind,
            "uid": "\n".join(document.get("uid", ())),
            **_column_values("account", account),
            **_instant_values("ts", document["ts"]),
            **(_instant_values("ets", document["ets"]) if document.get("ets") else {}),
        }
        return cls(values, [_rule_values(each) for each in document["measurements"]])

    def document(self) -> dict[str, Any]:
        """The mapping that the fields say, as it stands in a file; the API says what is wrong."""
        values = self.values
        nulls = [*([""] if values.get("blank") else []), *lines_of(values.get("nulls", ""))]
        account: dict[str, Any] = {
            values.get("account.from") or "column": _typed(values, "account")
        }
        if values.get("account.from", "column") == "column":
            account |= _written(values, "account")
        found = {
            "name": _typed(values, "name"),
            "files": lines_of(values.get("files", "")),
            "format": _typed(values, "format"),
            "delimiter": "\t" if values.get("delimiter") == "tab" else values.get("delimiter"),
            "account": account,
            "ts": _instant(values, "ts") or "",
            "ets": _instant(values, "ets"),
            "uid": lines_of(values.get("uid", "")),
        }
        kept = {name: value for name, value in found.items() if value not in (None, "", [])}
        rules = [_rule(each) for each in self.rules]
        told = {} if nulls == [""] else {"nulls": nulls}
        return {**kept, **told, "ts": found["ts"], "measurements": rules}


def guess_form(
    name: str, columns: Sequence[str], meters: Iterable[Mapping[str, Any]]
) -> MappingForm:
    """What a file perhaps means, by what its columns are called.

    Args:
        name: The file's name.
        columns: Its columns.
        meters: The organization's meters, of which the one with most fields of these names is taken.
    """
    stem, _, rest = name.partition(".")
    pattern = re.sub(r"\d[\d_-]*", "*", stem) or "*"
    guessed = {what: _guess(what, columns) for what in _GUESSES}
    values = {
        "name": re.sub(r"[^A-Za-z0-9_]+", "-", re.sub(r"[\d_-]+$", "", stem)).strip("-"),
        "files": f"{pattern}.{rest}" if rest else pattern,
        "blank": "yes",
        "account.from": "column",
        **guessed,
    }
    fields_of = {str(each["code"]): fields_of_meter(each) for each in meters}
    best = max(fields_of, key=lambda code: _known(fields_of[code], columns), default="")
    if not best or not _known(fields_of[best], columns):
        return MappingForm(values)
    rule = {"meter": best}
    rule |= {f"field.{each}": _like(each, columns) for each in fields_of[best]}
    return MappingForm(values, [rule])


def fields_of_meter(meter: Mapping[str, Any]) -> list[str]:
    """The columns of a meter's data fields: `measure.gb`."""
    return [f"{each['category'].lower()}.{each['code']}" for each in meter.get("dataFields", ())]


def _known(fields: Iterable[str], columns: Sequence[str]) -> int:
    return sum(bool(_like(each, columns)) for each in fields)


def _like(name: str, columns: Sequence[str]) -> str:
    """The column that is called as a field is."""
    code = _plain(name.partition(".")[2])
    fits = (each for each in columns if code in {_plain(each), _plain(each.rpartition(".")[2])})
    return next(fits, "")


def _plain(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


def _guess(what: str, columns: Sequence[str]) -> str:
    words = {name: set(re.split("[^a-z]+", name.lower())) for name in columns}
    return next(
        (name for word in _GUESSES[what] for name, known in words.items() if word in known), ""
    )


def _typed(values: Mapping[str, str], name: str) -> str:
    return values.get(name, "").strip()


def _written(values: Mapping[str, str], name: str) -> dict[str, Any]:
    """How the texts of a column are written, without what says nothing."""
    trim = {"trim": True} if values.get(f"{name}.trim") else {}
    return trim | ({"case": values[f"{name}.case"]} if values.get(f"{name}.case") else {})


def _column_values(name: str, mapped: Any) -> dict[str, str]:
    if isinstance(mapped, str):
        return {name: mapped}
    ticked = {f"{name}.trim": "yes"} if mapped.get("trim") else {}
    column = {name: mapped["column"]} if mapped.get("column") else {}
    return column | ticked | {f"{name}.case": mapped.get("case") or ""}


def _instant(values: Mapping[str, str], name: str) -> Any:
    column, how = _typed(values, name), values.get(f"{name}.written", "")
    if not column:
        return None
    if how in EPOCH_UNITS:
        return {"column": column, "epoch": how}
    named = {each: _typed(values, f"{name}.{each}") for each in ("format", "zone")}
    told = {each: text for each, text in named.items() if text}
    return {"column": column, **told} if told else column


def _instant_values(name: str, mapped: Any) -> dict[str, str]:
    if isinstance(mapped, str):
        return {name: mapped}
    texts = {f"{name}.{each}": mapped.get(each) or "" for each in ("format", "zone")}
    how = mapped.get("epoch") or ("format" if mapped.get("format") else "")
    return {name: mapped["column"], f"{name}.written": how.replace("µs", "us"), **texts}


def _rule(values: Mapping[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    found: dict[str, Any] = {"meter": _typed(values, "meter"), "fields": fields}
    for name in values:
        # `field.measure.gb` is a column; `field.measure.gb:trim` says more of it.
        key = name.removeprefix("field.")
        if key == name or ":" in key:
            continue
        column, constant = _typed(values, name), _typed(values, f"{name}:constant")
        if column:
            how = {
                each: values[f"{name}:{each}"]
                for each in ("trim", "case")
                if values.get(f"{name}:{each}")
            }
            told = how | ({"trim": True} if "trim" in how else {})
            fields[key] = {"column": column, **told} if told else column
            if default := _typed(values, f"{name}:default"):
                found.setdefault("defaults", {})[key] = default
        elif constant:
            found.setdefault("constants", {})[key] = constant
    when = {each: lines_of(values.get(f"when.{each}", "")) for each in ("present", "absent")}
    pairs = (each.partition("=") for each in lines_of(values.get("when.equals", "")))
    equals = {column.strip(): text.strip() for column, _, text in pairs}
    conditions = {name: each for name, each in {**when, "equals": equals}.items() if each}
    return found | ({"when": conditions} if conditions else {})


def _rule_values(rule: Mapping[str, Any]) -> dict[str, str]:
    values = {"meter": rule["meter"]}
    for name, mapped in rule.get("fields", {}).items():
        texts = _column_values(f"field.{name}", mapped)
        ends = (f"field.{name}.trim", f"field.{name}.case")
        values |= {
            f"field.{name}:{each.rpartition('.')[2]}" if each in ends else each: text
            for each, text in texts.items()
        }
    for what in ("constants", "defaults"):
        for name, value in rule.get(what, {}).items():
            values[f"field.{name}:{what.removesuffix('s')}"] = f"{value}"
            values.setdefault(f"field.{name}", "")
    when = rule.get("when", {})
    values |= {f"when.{each}": "\n".join(when.get(each, ())) for each in ("present", "absent")}
    equals = when.get("equals", {})
    return {**values, "when.equals": "\n".join(f"{name}={text}" for name, text in equals.items())}
