"""Bills that are verified: none of an untouched home differs, and every change of what is stored is found.

Homes are random worlds that were billed, changed and billed again. Then one thing that is stored is
changed behind the back of meterlake.
"""

import random
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from itertools import cycle

import boto3
import pytest
from sqlalchemy import text

from meterlake.model.bills.verification import DifferenceSubject
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.verification.verify import (
    VerifyChoice,
    verify_bills,
    verify_regularly,
)
from meterlake.pipeline.home.status import status
from meterlake.stores.lake.maintenance import compact
from meterlake.stores.lake.measurements.rows import measurement_files
from tests.billing_oracle.worlds import FEATURES, random_world
from tests.integration.pipeline.billing.test_kept_bills import CHANGES, SOURCES, bill_world
from tests.stored_worlds import store_world

ALL = VerifyChoice()


def verify(world, choice=ALL):
    return verify_bills(world.organization, choice)


def run_sql(world, statement, **values):
    with world.stores.state.writing_home() as connection:
        found = connection.execute(text(statement), values)
        return found.mappings().all() if found.returns_rows else found.rowcount


def changed_world(folder, seed, features, changes):
    """A world that was billed, and changed and billed again."""
    rng, described = random.Random(seed), random_world(seed, features)
    opened = store_world(described, folder)
    world = opened.__enter__()
    world.clock.time = datetime(2022, 12, 2, tzinfo=UTC)
    write_files(world)
    bill_world(world)
    for change in changes:
        change(world, described, rng)
        world.clock.time = max(world.clock.time, datetime(2022, 12, 3, tzinfo=UTC))
        bill_world(world)
    return opened, world, rng


def write_files(world):
    """Measurements that stand in the catalog alone go to files, as upkeep has it."""
    lake = world.organization.lake
    with lake.lock():
        compact(lake)


@pytest.mark.slow
def test_the_bills_of_an_untouched_home_are_what_they_were(tmp_path):
    opened, world, _ = changed_world(tmp_path, 4, SOURCES, CHANGES)
    try:
        found = verify(world)
        assert found.differences == ()
        assert (found.unpinned, found.other_code) == ([], 0)
        assert found.verified == len(run_sql(world, "SELECT id FROM bill")) > 3
        former = verify_bills(world.organization, VerifyChoice(former=True))
        assert former.differences == ()
        assert former.former == len(run_sql(world, "SELECT bill_id FROM bill_version")) > 3
    finally:
        opened.__exit__(None, None, None)


def change_json(document, rng, names=None):
    """A document with one of its numbers raised by 1, and the path of it; None if it has none."""
    found = [
        name
        for name, value in document.items()
        if isinstance(value, (int, Decimal))
        and not isinstance(value, bool)
        and (names is None or name in names)
    ]
    if not found:
        return None
    name = rng.choice(sorted(found))
    return {**document, name: document[name] + 1}, name


def change_a_line(world, rng):
    """A number of a line is another one."""
    row = rng.choice(run_sql(world, "SELECT * FROM bill_line ORDER BY bill_id, sequence"))
    body, name = change_json(wire.loads(row["body"]), rng)
    write_line(world, row, body)
    return lambda each: is_line(each, row) and each.field == name


def change_a_band(world, rng):
    """A number of a band of a line is another one."""
    rows = run_sql(
        world,
        "SELECT * FROM bill_line WHERE body LIKE '%usagePerPricingBand%' ORDER BY bill_id, sequence",
    )
    rows = [row for row in rows if wire.loads(row["body"])["usagePerPricingBand"]]
    row = rng.choice(rows)
    body = wire.loads(row["body"])
    bands = body["usagePerPricingBand"]
    number = rng.randrange(len(bands))
    bands[number], name = change_json(bands[number], rng)
    write_line(world, row, body)
    return lambda each: is_line(each, row) and each.field == f"usagePerPricingBand[{number}].{name}"


def write_line(world, row, body):
    statement = (
        "UPDATE bill_line SET body = :body WHERE bill_id = :bill_id AND sequence = :sequence"
    )
    values = {"bill_id": row["bill_id"], "sequence": row["sequence"]}
    assert run_sql(world, statement, body=wire.dumps_sorted(body), **values) == 1


def is_line(found, row):
    return (found.subject, found.bill_id, found.name) == (
        DifferenceSubject.LINE,
        row["bill_id"],
        row["key"],
    )


def lose_a_line(world, rng):
    """A line is gone."""
    row = rng.choice(run_sql(world, "SELECT * FROM bill_line ORDER BY bill_id, sequence"))
    values = {"bill_id": row["bill_id"], "sequence": row["sequence"]}
    run_sql(
        world,
        "DELETE FROM bill_line WHERE bill_id = :bill_id AND sequence = :sequence",
        **values,
    )
    return lambda each: is_line(each, row) and each.stored is None


def change_a_total(world, rng):
    """A bill comes to something else."""
    row = rng.choice(run_sql(world, "SELECT id, total FROM bill ORDER BY id"))
    more = str(Decimal(row["total"]) + 1)
    run_sql(world, "UPDATE bill SET total = :more WHERE id = :id", more=more, id=row["id"])
    return lambda each: (
        (each.subject, each.name, each.field) == (DifferenceSubject.BILL, row["id"], "total")
    )


def change_a_version(world, rng):
    """What an entity was, that bills were made with, is something else."""
    return alter(world, rng, versions_of(world))


def change_a_rate(world, rng):
    """The organization converts at another rate than it did."""
    rows = versions_of(world, "OrganizationConfig")
    return alter(world, rng, [row for row in rows if currency_conversions(row)])


def currency_conversions(row):
    return wire.loads(row["body"]).get("currencyConversions")


def versions_of(world, kind=None):
    """The versions that bills pin."""
    pinned = {
        (id_, version)
        for row in run_sql(world, "SELECT pins FROM bill")
        for id_, version in wire.loads(row["pins"])["versions"].items()
    }
    rows = run_sql(world, "SELECT * FROM entity_history ORDER BY kind, id, version")
    return [
        row for row in rows if (row["id"], row["version"]) in pinned and kind in {None, row["kind"]}
    ]


def alter(world, rng, rows):
    row = rng.choice(rows)
    body = wire.loads(row["body"])
    changed = change_json(body, rng)
    if row["kind"] == "OrganizationConfig" and body.get("currencyConversions"):
        rate = rng.choice(body["currencyConversions"])
        rate["multiplier"] += 1
    elif changed:
        body, _ = changed
    else:
        body["name"] = "another"
    statement = "UPDATE entity_history SET body = :body WHERE kind = :kind AND id = :id"
    values = {"kind": row["kind"], "id": row["id"], "version": row["version"]}
    statement += " AND version = :version"
    assert run_sql(world, statement, body=wire.dumps_sorted(body), **values) == 1
    name = f"{row['kind']} {row['id']} version {row['version']}"
    return lambda each: (
        (each.subject, each.name) == (DifferenceSubject.ENTITY, name) and each.bill_id
    )


def change_a_posting(world, rng):
    """A posting of a source that bills draw from is about another amount."""
    drawn = "SELECT source_id FROM posting WHERE bill_id IS NOT NULL"
    rows = run_sql(world, f"SELECT * FROM posting WHERE source_id IN ({drawn}) ORDER BY sequence")
    row = rng.choice(rows)
    more = str(Decimal(row["amount"]) + 1)
    run_sql(world, "UPDATE posting SET amount = :more WHERE id = :id", more=more, id=row["id"])
    return lambda each: (each.subject, each.name) == (DifferenceSubject.POSTING, row["id"])


def change_a_file(world, rng):
    """A byte of a file of measurements is another one."""
    objects = world.organization.lake.files.objects
    name = rng.choice(measured_files(world))
    content = objects.get(name)
    objects.delete(name)
    write_object(world, name, damage(content, rng))
    return lambda each: (each.subject, each.name) == (DifferenceSubject.FILE, name)


def measured_files(world):
    """The files of measurements that all bills read; what came later, no bill may have read."""
    pins = [wire.loads(row["pins"]) for row in run_sql(world, "SELECT pins FROM bill")]
    first, lake = min(each["snapshot"] for each in pins), world.organization.lake
    with lake.reader() as connection:
        found = list(measurement_files(connection, first, lake.catalog.schema, lake.files.root))
    return sorted(found)


def damage(content, rng):
    """One byte of a file is another one."""
    changed = bytearray(content)
    place = rng.randrange(len(changed))
    changed[place] ^= 1 + rng.randrange(255)
    return bytes(changed)


def write_object(world, name, content):
    """Write as somebody who is not meterlake: S3 is told no digest."""
    objects = world.organization.lake.files.objects
    scheme, _, rest = objects.url(name).partition("://")
    if scheme != "s3":
        objects.put_bytes(name, content)
        return
    bucket, _, key = rest.partition("/")
    client = boto3.client("s3", endpoint_url=world.stores.settings.s3_endpoint)
    client.put_object(Bucket=bucket, Key=key, Body=content)


MUTATIONS = (
    *(change_a_line, change_a_band, change_a_file, change_a_rate),
    *(change_a_version, change_a_posting, lose_a_line, change_a_total),
)


# What mutations change, and by what its rows are found.
TABLES = {
    "bill_line": ("bill_id", "sequence"),
    "bill": ("id",),
    "entity_history": ("kind", "id", "version"),
    "posting": ("sequence",),
}


def rows_by_key(world):
    return {
        (name, *(row[each] for each in keys)): dict(row)
        for name, keys in TABLES.items()
        for row in run_sql(world, f"SELECT * FROM {name}")
    }


def put_back(world, before):
    """Undo what a mutation did."""
    now = rows_by_key(world)
    for address, row in before.items():
        if now.get(address) == row:
            continue
        names = TABLES[address[0]]
        if address in now:
            same = " AND ".join(f"{each} = :{each}" for each in names)
            sets = ", ".join(f'"{each}" = :{each}' for each in row if each not in names)
            run_sql(world, f"UPDATE {address[0]} SET {sets} WHERE {same}", **row)
        else:
            listed = ", ".join(f'"{each}"' for each in row)
            marks = ", ".join(f":{each}" for each in row)
            run_sql(world, f"INSERT INTO {address[0]} ({listed}) VALUES ({marks})", **row)


def files_by_name(world):
    objects = world.organization.lake.files.objects
    return {name: objects.get(name) for name in measured_files(world)}


def put_files_back(world, before):
    for name, content in before.items():
        if files_by_name(world)[name] != content:
            write_object(world, name, content)


def check_mutations(folder, seed, features, count):
    """Change one thing after the other, and put it back: each is found by its name.

    Returns:
        How many changes of which kind were made; kinds that the world has nothing of are left out.
    """
    opened, world, rng = changed_world(
        folder, seed, features, random.Random(-seed).choices(CHANGES, k=2)
    )
    made, kinds = Counter(), cycle(MUTATIONS)
    try:
        assert verify(world).differences == (), seed
        before, files = rows_by_key(world), files_by_name(world)
        while made.total() < count:
            mutate = next(kinds)
            try:
                is_named = mutate(world, rng)
            except IndexError:
                continue  # The world has no such thing.
            found = verify(world).differences
            assert any(map(is_named, found)), (seed, mutate.__name__, found)
            made[mutate] += 1
            put_back(world, before)
            put_files_back(world, files)
        assert verify(world).differences == (), seed
    finally:
        opened.__exit__(None, None, None)
    return made


@pytest.mark.long
def test_a_change_of_what_is_stored_is_found_by_its_name(tmp_path):
    made = check_mutations(tmp_path, 4, SOURCES, len(MUTATIONS))
    assert made == Counter(MUTATIONS)


@pytest.mark.slow
def test_two_hundred_changes_of_what_is_stored_are_found(tmp_path):
    """Eleven in each of twenty worlds; some worlds have no posting that a bill draws from."""
    made = Counter()
    for seed in range(20):
        others = random.Random(seed).sample(sorted(FEATURES.difference(SOURCES)), 4)
        folder = tmp_path / str(seed)
        folder.mkdir()
        made += check_mutations(folder, seed, [*SOURCES, *others], 11)
    assert made.total() - made[change_a_total] >= 200, made
    assert set(made) == set(MUTATIONS)
    assert min(made.values()) >= 10, made


@pytest.mark.slow
def test_a_bill_alone_is_verified_as_with_all_others(tmp_path):
    opened, world, rng = changed_world(tmp_path, 4, SOURCES, [])
    try:
        is_named = change_a_line(world, rng)
        [found] = verify(world).differences
        assert is_named(found)
        ids = [row["id"] for row in run_sql(world, "SELECT id FROM bill")]
        alone = [verify(world, VerifyChoice(bill_ids=(each,))) for each in ids]
        assert {each.verified for each in alone} == {1}
        assert [each for one in alone for each in one.differences] == [found]
        month = run_sql(world, "SELECT period FROM bill WHERE id = :id", id=found.bill_id)
        [period] = {row["period"] for row in month}
        assert verify(world, VerifyChoice(month=Month.parse(period))).differences == (found,)
        with pytest.raises(NotFound):
            verify(world, VerifyChoice(bill_ids=("another",)))
    finally:
        opened.__exit__(None, None, None)


def check_files(folder, seed, count):
    rng, described = random.Random(seed), random_world(seed, SOURCES)
    with store_world(described, folder) as world:
        world.clock.time = datetime(2022, 12, 2, tzinfo=UTC)
        write_files(world)
        bill_world(world)
        assert verify(world).differences == ()
        names = measured_files(world)
        assert names
        objects = world.organization.lake.files.objects
        for number in range(count):
            name = rng.choice(names)
            content = objects.get(name)
            objects.delete(name)
            if not number % 2:
                write_object(world, name, damage(content, rng))
            found = verify(world).differences
            named = [each for each in found if each.subject is DifferenceSubject.FILE]
            assert [each.name for each in named] == [name], (seed, found)
            assert (named[0].stored is None) == bool(number % 2)
            write_object(world, name, content)
        assert verify(world).differences == ()


@pytest.mark.long
def test_files_of_measurements_that_were_altered_or_lost_are_named(tmp_path):
    check_files(tmp_path, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_very_many_files_that_were_altered_or_lost_are_named(tmp_path, seed):
    check_files(tmp_path, seed, 8)


@pytest.mark.long
@pytest.mark.happens("bills.verification.alert")
def test_bills_that_differ_are_an_incident_until_they_do_not(tmp_path):
    opened, world, _ = changed_world(tmp_path, 4, SOURCES, [])
    try:
        assert verify_regularly(world.organization).is_same
        assert alerts_of(world) == []
        [first, *_] = run_sql(world, "SELECT id FROM bill ORDER BY id")
        [before] = run_sql(world, "SELECT total FROM bill WHERE id = :id", id=first["id"])
        change = "UPDATE bill SET total = :total WHERE id = :id"
        run_sql(world, change, id=first["id"], total=plain(Decimal(before["total"]) + 1))
        for _ in range(2):
            found = verify_regularly(world.organization)
            assert [each.name for each in found.differences] == [first["id"]]
            [alert] = alerts_of(world)
            assert alert["alert"] == "bills.verification.alert"
        run_sql(
            world, "UPDATE bill SET status = 'APPROVED', approved = '2022-12-02T00:00:00.000000Z'"
        )
        lately = verify_regularly(world.organization, sample=0)
        assert lately.verified == len(run_sql(world, "SELECT id FROM bill"))
        run_sql(world, change, id=first["id"], total=before["total"])
        assert verify_regularly(world.organization).is_same
        assert alerts_of(world) == []
    finally:
        opened.__exit__(None, None, None)


def alerts_of(world):
    organization = world.stores.find_organization(world.org_id)
    return status(organization).to_wire()["alerts"]
