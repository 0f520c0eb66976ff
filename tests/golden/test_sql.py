"""The SQL of aggregations as it is sent to DuckDB; `ACCEPT_GOLDEN=1 pytest` writes it anew."""

import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from meterlake.model.values.period import Period
from meterlake.stages.usage import aggregate
from tests.billing_world import COLUMNS, World

FOLDER = Path(__file__).parent / "sql"

OCTOBER = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
HALVES = [
    Period(OCTOBER.start, datetime(2026, 10, 16, tzinfo=UTC)),
    Period(datetime(2026, 10, 16, tzinfo=UTC), OCTOBER.end),
]

SCOPES = {
    "month": aggregate.whole(OCTOBER),
    "some_accounts": aggregate.whole(OCTOBER, ["b", "a"]),
    "windows": aggregate.windows([("a", HALVES[0]), ("b", HALVES[1])]),
    "parts": aggregate.each(HALVES),
}


def compiled(
    scope, *, wide=False, codes=("SUM", "MIN", "MAX", "COUNT", "LATEST", "MEAN", "UNIQUE"), **more
):
    world = World()
    for code in codes:
        share = {"percentile": Decimal("99.5")} if code == "PERCENTILE" else {}
        world.aggregation(code, code, "s" if code == "UNIQUE" else "n", **share, **more)
    [(meter, aggregations)] = aggregate.by_meter(world.configuration)
    in_order = sorted(aggregations, key=lambda each: codes.index(each.entity.code))
    folds = aggregate.rollups(meter.entity, in_order, COLUMNS)
    source = aggregate.table("5f0c2f0e-0000-4000-8000-000000000001", 42)
    return aggregate.query(source, folds, scope, wide=wide)


def several_kinds():
    """Aggregations with and without segments, over windows."""
    world = World()
    cut = {"segmented_fields": ("s",), "segments": ({"s": "x"}, {"s": "*"})}
    for code in ("SUM", "LATEST", "TIME_WEIGHTED_AVERAGE"):
        world.aggregation(code, code)
        world.aggregation(f"{code}_cut", code, **cut)
    [(meter, aggregations)] = aggregate.by_meter(world.configuration)
    in_order = sorted(aggregations, key=lambda each: each.entity.code)
    folds = aggregate.rollups(meter.entity, in_order, COLUMNS)
    source = aggregate.table("5f0c2f0e-0000-4000-8000-000000000001", 42)
    return aggregate.query(source, folds, SCOPES["windows"])


def shown(statement):
    values = "".join(
        f"-- {name}: {value}\n" for name, value in sorted(statement.parameters.items())
    )
    return f"{statement.sql}\n{values}"


CASES = {
    **{name: compiled(scope) for name, scope in SCOPES.items()},
    "wide": compiled(SCOPES["month"], wide=True),
    "percentile": compiled(SCOPES["month"], codes=("PERCENTILE",)),
    "segments": compiled(
        SCOPES["month"],
        codes=("SUM", "COUNT"),
        segmented_fields=("s", "r"),
        segments=({"s": "x", "r": "eu"}, {"s": "x"}, {"r": "*", "s": "*"}),
    ),
    "time_weighted": compiled(SCOPES["windows"], codes=("SUM", "TIME_WEIGHTED_AVERAGE")),
    "several_kinds": several_kinds(),
    "measurements_only": compiled(SCOPES["month"], codes=()),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_sql_is_as_it_was(name):
    path = FOLDER / f"{name}.sql"
    if os.environ.get("ACCEPT_GOLDEN"):
        path.write_text(shown(CASES[name]))

    assert path.read_text() == shown(CASES[name])


def test_no_value_stands_in_the_text():
    for statement in CASES.values():
        assert "2026" not in statement.sql
        assert set(statement.parameters) == {
            name for name in statement.parameters if f"${name}" in statement.sql
        }


def test_every_file_belongs_to_a_case():
    assert {path.stem for path in FOLDER.glob("*.sql")} == set(CASES)
