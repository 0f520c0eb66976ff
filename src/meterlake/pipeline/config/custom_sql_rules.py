"""Rules of custom SQL: they need DuckDB, so they stand beside those of the model.

What they cost, they cost within a transaction of State: nothing is run, queries are only bound, in a
process that is killed where that takes long.
"""

from functools import partial

from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.custom_sql import MEASUREMENTS, InvalidSql, columns_of
from meterlake.model.errors import Invalid
from meterlake.model.rules import Proposed
from meterlake.model.rules.proposed import changes, check_dependents
from meterlake.stages.config.check import Further
from meterlake.stores.custom_sql import Checker, SqlLimits


def custom_sql_rules(limits: SqlLimits) -> Further:
    """The rules, with what a query may take when it runs.

    They are of changed entities only: no other change than a meter's makes SQL unfit that was saved.
    """
    return {
        Aggregation: (partial(_can_run, limits),),
        Meter: (partial(_keeps_running, limits),),
    }


def _can_run(limits: SqlLimits, new: Proposed[Aggregation]) -> None:
    """SQL of its own is one SELECT that is allowed, fits the meter, and gives one exact number."""
    if new.entity.aggregation is Reduce.CUSTOM_SQL:
        with Checker(limits) as checker:
            _fits(checker, new)


def _keeps_running(limits: SqlLimits, new: Proposed[Meter]) -> None:
    """A field that the SQL of an aggregation reads is not removed and keeps its category."""
    if not changes(new, "data_fields", "derived_fields"):
        return
    reading = [
        record
        for record in new.configuration.where(Aggregation, "meter_id", new.id)
        if record.entity.aggregation is Reduce.CUSTOM_SQL
    ]
    if not reading:
        return
    codes = ", ".join(field.code for field in new.entity.all_fields)
    with Checker(limits) as checker:
        check_dependents(reading, partial(_fits, checker), new.configuration, "dataFields", codes)


def _fits(checker: Checker, new: Proposed[Aggregation]) -> None:
    sql = new.entity.custom_sql or ""
    columns = columns_of(new.configuration.get(Meter, new.entity.meter_id).entity)
    try:
        checker.check(sql, columns)
        checker.bind(sql, columns)
    except InvalidSql as error:
        rule = f"it must be one SELECT over {MEASUREMENTS} that gives one number: {error}"
        raise Invalid("customSql", new.entity.custom_sql, rule) from None
