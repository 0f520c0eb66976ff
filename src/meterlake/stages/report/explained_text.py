"""Explained numbers in words: a number with its unit, and how it follows from others."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any, Final

from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber
from meterlake.model.values.money import plain
from meterlake.model.values.plurals import counted

# A number whose decimals do not end is cut for the eye.
_SHOWN_PLACES: Final = Decimal("0.000001")
_WIDE: Final = Context(prec=100)
# More operands are not written out.
_WRITTEN_MAX: Final = 4
_MODES: Final = {
    "UP": "away from 0",
    "DOWN": "towards 0",
    "CEILING": "upwards",
    "FLOOR": "downwards",
    "HALF_UP": "halves up",
    "HALF_DOWN": "halves down",
    "HALF_EVEN": "halves to even",
    "HALF_CEILING": "to the nearest",
    "UNNECESSARY": "nothing to round",
}


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of calculations and of trees, for who can show them and for who cannot."""

    times: str = "×"
    minus: str = "−"  # noqa: RUF001 - the sign of a subtraction
    cut: str = "…"
    branch: str = "├─ "
    last: str = "└─ "
    trunk: str = "│  "
    to: str = "–"  # noqa: RUF001 - between two numbers


UNICODE: Final = Signs()
ASCII: Final = Signs("x", "-", "...", "|- ", "`- ", "|  ", "-")


@dataclass(frozen=True, slots=True)
class NumberText:
    """Writes the numbers of one bill.

    Attributes:
        currency: The billing currency, whose amounts have all their decimals.
        places: How many these are.
    """

    currency: str
    places: int = 2
    signs: Signs = UNICODE

    def value(self, number: ExplainedNumber) -> str:
        """The number, with digits in groups."""
        value = number.value
        if value is None:
            return "null"
        if number.fraction is not None:
            cut = value.quantize(_SHOWN_PLACES, ROUND_DOWN, _WIDE)
            return f"{cut:,f}{self.signs.cut}"
        text = f"{Decimal(plain(value)):,f}"
        is_amount = number.unit == self.currency
        missing = self.places - len(text.partition(".")[2]) if is_amount else 0
        if missing <= 0:
            return text
        return f"{text}{'' if '.' in text else '.'}{'0' * missing}"

    def derivation(self, number: ExplainedNumber) -> str:
        """How it follows from its operands; empty of what begins."""
        rule, options = number.rule, number.options
        if rule is DerivationRule.MEASURED or number.source is not None:
            count = number.facts.get("measurementCount")
            return "" if count is None else counted(count, "measurement")
        if rule is DerivationRule.ROUND:
            places = f"{options['places']} decimals" if options["places"] else "a whole number"
            return f"rounded to {places}, {_MODES[options['mode']]}"
        if rule in _IN_WORDS:
            return _IN_WORDS[rule].format(**{"formula": "", **options})
        if rule is DerivationRule.SLICE:
            lower, upper = plain(options["lower"]), options.get("upper")
            return f"above {lower}" if upper is None else f"{lower} {self.signs.to} {plain(upper)}"
        return self._write(number)

    def shown_operands(self, number: ExplainedNumber) -> list[ExplainedNumber]:
        """The operands of which there is more to say than the derivation does."""
        found: list[ExplainedNumber] = []
        for each in number.operands:
            if _is_through(number, each):
                found += self.shown_operands(each)
            elif not (_is_plain(each) and _is_written(number)):
                found.append(each)
        return [_skip_single(each) for each in found]

    def _write(self, number: ExplainedNumber) -> str:
        if not _is_written(number):
            count = f"sum of {len(number.operands)}" if number.operands else "nothing"
            return "sum of the bands" if number.rule is DerivationRule.BANDS else count
        texts = [
            self._write(each) if _is_through(number, each) else self.value(each)
            for each in number.operands
        ]
        if number.rule in _NAMES:
            return f"{_NAMES[number.rule]} of {', '.join(texts)}"
        if number.rule is DerivationRule.NEGATIVE:
            return f"{self.signs.minus}({texts[0]})"
        signs = {
            DerivationRule.DIFFERENCE: self.signs.minus,
            DerivationRule.PRODUCT: self.signs.times,
            DerivationRule.QUOTIENT: "/",
        }
        if number.rule is DerivationRule.SUM:
            # A sum: what is below 0 is subtracted.
            found = texts[0]
            for each in texts[1:]:
                negative = each.startswith("-")
                found += f" {self.signs.minus} {each[1:]}" if negative else f" + {each}"
            return found
        days = " days" if number.operands[-1].unit == "days" else ""
        return f" {signs[number.rule]} ".join(texts) + days


_NAMES: Final = {DerivationRule.MINIMUM: "least", DerivationRule.MAXIMUM: "greatest"}
_IN_WORDS: Final = {
    DerivationRule.GIVEN: "",
    DerivationRule.SAME: "as above",
    DerivationRule.CALCULATION: "{formula}",
    DerivationRule.INVERSE: "the units that cost this",
}
_WRITTEN: Final = frozenset(
    {
        DerivationRule.SUM,
        DerivationRule.DIFFERENCE,
        DerivationRule.PRODUCT,
        DerivationRule.QUOTIENT,
        DerivationRule.NEGATIVE,
        DerivationRule.MINIMUM,
        DerivationRule.MAXIMUM,
    }
)


def _is_written(number: ExplainedNumber) -> bool:
    """Whether its derivation is written with the numbers of its operands."""
    few = 0 < len(number.operands) <= _WRITTEN_MAX
    return few and number.rule in _WRITTEN


def _is_through(number: ExplainedNumber, operand: ExplainedNumber) -> bool:
    """Whether a product is written as a part of its quotient: `31 × 9 / 31`."""
    is_quotient = number.rule is DerivationRule.QUOTIENT and number.operands[0] is operand
    is_product = operand.rule is DerivationRule.PRODUCT and not operand.facts
    return is_quotient and is_product and operand.key is None


def _skip_single(number: ExplainedNumber) -> ExplainedNumber:
    """What a sum of one number is the sum of, if there is no more to say."""
    is_single = number.rule is DerivationRule.SUM and len(number.operands) == 1
    if is_single and not (number.facts or number.beside or number.key):
        return _skip_single(number.operands[0])
    return number


def _is_plain(number: ExplainedNumber) -> bool:
    """Whether there is no more to say of it than its number."""
    return number.rule is DerivationRule.GIVEN and not number.facts and not number.beside


def facts_of(number: ExplainedNumber) -> list[tuple[str, str]]:
    """What is known of a number, as pairs of texts for people; SQL and measurements apart."""
    found = []
    for name, value in number.facts.items():
        if name not in _APART and not isinstance(value, list | tuple | dict) and value != "":
            found.append((_words(name), str(value)))
        elif isinstance(value, Mapping) and "version" in value:
            shown = value.get("code", value.get("id"))
            found.append((_words(name), f"{shown}, version {value['version']}"))
        elif isinstance(value, Mapping) and "start" in value:
            found.append((_words(name), f"{value['start']} to {value['end']}"))
        elif name == "accounts":
            found.append((name, ", ".join(value)))
        elif name in {"segment", "charge"}:
            found.append((name, ", ".join(f"{n} {v}" for n, v in value.items())))
        elif name == "filters":
            found += [(name, _filter(each)) for each in value]
    return found


# What is shown in another way.
_APART: Final = frozenset(
    {"statement", "decides", "lineKey", "number", "type", "description", "planId", "quantity"}
    | {"units", "unit", "measurementCount", "unexplained"}
)


def _filter(found: Mapping[str, Any]) -> str:
    parts = [f"{name} {', '.join(found[name])}" for name in ("include", "exclude") if found[name]]
    return f"{found['field']}: {'; '.join(parts)}"


def _words(name: str) -> str:
    """A name of the wire as words: `pricingFrom` is `pricing from`."""
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name)
