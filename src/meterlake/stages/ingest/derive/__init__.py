"""Measurements with their derived fields: columns where that is exact, else row by row.

The evaluator of `model.calculation` is the definition. A block whose types and ranges prove that
columns give the same goes as columns; of a block with a few large numbers only these do not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

import polars as pl

from meterlake.model.calculation import CalculationError, Lookup, Node, Value, evaluate, names
from meterlake.model.calculation.evaluate import no_tables
from meterlake.model.measurements.measurement import Field
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.values.money import to_lake
from meterlake.stages.ingest.derive.columns import Columns, Result, result
from meterlake.stages.ingest.derive.inputs import AccountValues, Inputs
from meterlake.stages.ingest.derive.kinds import TextColumn
from meterlake.stages.ingest.derive.numbers import NUMBER, UNITS, NotProven, OutOfRange, as_decimals

__all__ = ["AccountValues", "Calculation", "Derivation", "Derived", "Inputs", "calculate", "derive"]

ACCOUNT_CODE: Final = "account.code"
# Numbers below a million: products of three of them fit.
_SMALL_UNITS: Final = 10**18
# What a block's rows share is computed once; beyond this many, hardly anything is shared.
_MEMO_MAX: Final = 50_000


class Calculation(NamedTuple):
    """A derived field and how it is calculated; the tree is checked.

    Without a tree it cannot be calculated, and `wrong` says why.
    """

    field: Field
    tree: Node | None
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How the derived fields of one meter are calculated, at one state of the configuration.

    Attributes:
        meter: The meter's code.
        calculations: Its derived fields.
        columns: The columns of names that measurements have values of their own for.
        accounts: Custom fields of accounts by name.
        constants: All other names that have a value.
        lookup: Finds the values of lookup tables.
    """

    meter: str
    calculations: tuple[Calculation, ...]
    columns: Mapping[str, str]
    accounts: Mapping[str, AccountValues] = field(default_factory=dict)
    constants: Mapping[str, Value] = field(default_factory=dict)
    lookup: Lookup = no_tables

    @property
    def reads_account_code(self) -> bool:
        """Whether measurements need a column `account.code`."""
        return ACCOUNT_CODE in self.columns


class Derived(NamedTuple):
    """Measurements with their derived columns, and what could not be calculated.

    `accounts` are the ids of accounts whose own custom fields were read.
    """

    frame: pl.DataFrame
    errors: list[Rejection]
    accounts: set[str]


class DerivedValues(NamedTuple):
    """The values of one derived field, and the errors by the places of their rows."""

    values: pl.Series
    errors: dict[int, str]


def derive(derivation: Derivation, frame: pl.DataFrame) -> Derived:
    """Calculate the derived fields of one block.

    Args:
        derivation: How.
        frame: Valid measurements in the columns of the meter's table; with `account.code` where
            the derivation reads it.
    """
    inputs = Inputs(
        frame,
        derivation.columns,
        derivation.accounts,
        derivation.constants,
        derivation.lookup,
    )
    columns = Columns(inputs)
    found: dict[str, pl.Series] = {}
    errors: list[Rejection] = []
    for calculation in derivation.calculations:
        outcome = calculate(calculation, inputs, columns)
        found[calculation.field.column] = outcome.values
        errors += _errors(outcome, calculation, frame, derivation.meter)
    fields = derivation.accounts.values()
    own = {account_id for each in fields for account_id in each.own}
    accounts = own & set(frame["account_id"].unique()) if own else set()
    return Derived(frame.with_columns(**found), errors, accounts)


def calculate(
    calculation: Calculation, inputs: Inputs, columns: Columns | None = None
) -> DerivedValues:
    """Calculate one derived field: as columns if that is proven to be right, else row by row."""
    if calculation.tree is None:
        rows = len(inputs.frame)
        kind = NUMBER if calculation.field.category.numeric else pl.String
        values = pl.repeat(None, rows, dtype=kind, eager=True)
        return DerivedValues(values, dict.fromkeys(range(rows), calculation.wrong))
    try:
        return _as_columns(calculation, inputs, columns or Columns(inputs))
    except OutOfRange:
        return _split(calculation, inputs)
    except NotProven:
        return row_by_row(calculation, inputs)


def row_by_row(calculation: Calculation, inputs: Inputs) -> DerivedValues:
    """Calculate one derived field with the evaluator, once for each different set of values."""
    assert calculation.tree is not None
    varying = sorted(inputs.varying & set(names(calculation.tree)))
    memo: dict[tuple[Value, ...], Any] = {}
    values: list[Any] = []
    errors: dict[int, str] = {}
    for place, row in enumerate(inputs.rows(varying)):
        found = memo.get(row, memo)
        if found is memo:
            found = _evaluate(calculation, dict(zip(varying, row, strict=True)), inputs)
            if len(memo) < _MEMO_MAX:
                memo[row] = found
        if isinstance(found, CalculationError):
            errors[place] = found.detail
            found = None
        values.append(found)
    kind = NUMBER if calculation.field.category.numeric else pl.String
    return DerivedValues(pl.Series(values, dtype=kind), errors)


def _evaluate(
    calculation: Calculation, row: Mapping[str, Value], inputs: Inputs
) -> Decimal | str | CalculationError | None:
    assert calculation.tree is not None
    try:
        value = evaluate(calculation.tree, {**inputs.constants, **row}, inputs.lookup)
        return storable_value(value, calculation.field)
    except CalculationError as error:
        return error


def storable_value(value: Value, field: Field) -> Decimal | str | None:
    """A result as the lake keeps it.

    Raises:
        CalculationError: The field cannot hold it.
    """
    if value is None:
        return None
    if field.category.numeric:
        number = to_lake(value) if isinstance(value, Decimal) else None
        if number is None:
            raise CalculationError("the result is no number of at most 26 integer digits")
        return number
    if not isinstance(value, str) or len(value) > field.text_max:
        raise CalculationError(f"the result is no text of at most {field.text_max:,} characters")
    return value


def _as_columns(calculation: Calculation, inputs: Inputs, columns: Columns) -> DerivedValues:
    assert calculation.tree is not None
    if calculation.field.category.numeric:
        return _numbers(calculation, inputs, columns, result(columns, calculation.tree))
    found = columns.compile(calculation.tree)
    if not isinstance(found, TextColumn) or found.longest > calculation.field.text_max:
        raise NotProven
    return DerivedValues(columns.values(found.expr), {})


def _numbers(
    calculation: Calculation, inputs: Inputs, columns: Columns, found: Result
) -> DerivedValues:
    unsure = columns.values(found.unsure)
    values = columns.values(found.units)
    if not unsure.any():
        return DerivedValues(as_decimals(values), {})
    sure = DerivedValues(as_decimals(values.filter(~unsure)), {})
    rest = row_by_row(calculation, replace(inputs, frame=inputs.frame.filter(unsure)))
    return _join(~unsure, sure, rest)


def _split(calculation: Calculation, inputs: Inputs) -> DerivedValues:
    """Calculate rows of small numbers as columns, and the few others one by one."""
    small = _small(calculation, inputs)
    if small is None or small.all() or not small.any():
        return row_by_row(calculation, inputs)
    halves = [replace(inputs, frame=inputs.frame.filter(each)) for each in (small, ~small)]
    try:
        most = _as_columns(calculation, halves[0], Columns(halves[0]))
    except NotProven:
        return row_by_row(calculation, inputs)
    rest = row_by_row(calculation, halves[1])
    return _join(small, most, rest)


def _join(first: pl.Series, yes: DerivedValues, no: DerivedValues) -> DerivedValues:
    """The outcomes of the rows that are marked, and of those that are not, as one."""
    here, there = first.arg_true(), (~first).arg_true()
    back = pl.concat([here, there]).arg_sort()
    errors = {int(here[place]): detail for place, detail in yes.errors.items()}
    errors |= {int(there[place]): detail for place, detail in no.errors.items()}
    return DerivedValues(pl.concat([yes.values, no.values]).gather(back), errors)


def _small(calculation: Calculation, inputs: Inputs) -> pl.Series | None:
    """Which rows hold only small numbers in what a calculation reads; None if it reads none."""
    assert calculation.tree is not None
    read = set(names(calculation.tree))
    columns = [column for name, column in inputs.columns.items() if name in read]
    limit = pl.lit(_SMALL_UNITS, UNITS)
    tests = [
        pl.col(column).to_physical().is_between(pl.lit(-_SMALL_UNITS, UNITS), limit)
        for column in columns
        if isinstance(inputs.frame[column].dtype, pl.Decimal)
    ]
    if not tests:
        return None
    return inputs.frame.select(pl.all_horizontal(tests).fill_null(value=True)).to_series()


def _errors(
    outcome: DerivedValues, calculation: Calculation, frame: pl.DataFrame, meter: str
) -> Iterator[Rejection]:
    for place, detail in outcome.errors.items():
        row, part, uid = (frame[name][place] for name in ("row", "part", "uid"))
        yield Rejection(
            row,
            Reason.CALCULATION_ERROR,
            detail,
            part=part,
            field=calculation.field.code,
            meter=meter,
            uid=uid,
        )
