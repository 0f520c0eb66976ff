"""Questions about small random worlds, against the same done slowly in plain Python."""

import json
import random
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from types import SimpleNamespace

import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.values.money import divide, exact
from meterlake.model.values.problems import read
from meterlake.pipeline.explorer.explore import explore
from tests.homes import ACCOUNTS, CALLS, configure, new_home, open_home

START = datetime(2026, 6, 25, tzinfo=UTC)
SPAN = timedelta(days=20)
TRAFFIC = {
    "code": "traffic",
    "name": "Traffic",
    "dataFields": [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "MEASURE", "code": "parts", "name": "Parts"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
    "derivedFields": [
        {
            "category": "MEASURE",
            "code": "each",
            "name": "Each",
            "calculation": "gb / parts",
        }
    ],
}
CHILD = {
    "code": "acme-child",
    "name": "Child",
    "emailAddress": "bills@child.example",
    "parentAccountId": "acme",
}
NUMBERS = (
    "0",
    "0.1",
    "-0.1",
    "0.000000000001",
    "9007199254740993",
    "99999999999999999999999999.999999999999",
    "-99999999999999999999999999.999999999999",
    "12.5",
)
UNITS = ("HOUR", "DAY", "WEEK", "MONTH", "QUARTER")
_WIDE = Context(prec=100)
CODES = ("acme", "acme-child", "bolt")


@pytest.fixture(scope="module", params=range(2))
def world(request, tmp_path_factory):
    """A home with random measurements, and the same measurements as plain values."""
    rng = random.Random(request.param)
    folder = tmp_path_factory.mktemp("explore") / "home"
    org_id = new_home(folder)
    with open_home(folder, org_id) as home:
        organization = home.stores.organization(org_id)
        configure(organization, meters=[TRAFFIC, CALLS], accounts=[*ACCOUNTS, CHILD])
        rows = []
        for _ in range(3):
            new = [_measurement(rng, len(rows) + n) for n in range(60)]
            home.clock.advance(hours=1)
            text = "\n".join(json.dumps(row["wire"]) for row in new)
            assert home.ingest("rows.ndjson", _with_digits(text)).rejected == 0
            rows += [{**row, "receivedAt": home.clock()} for row in new]
        with organization.reading() as reader:
            meters = {code: reader.find(Meter, code).id for code in ("traffic", "calls")}
            accounts = {code: reader.find(Account, code).id for code in CODES}
        yield SimpleNamespace(
            home=home, org_id=org_id, rng=rng, rows=rows, meters=meters, accounts=accounts
        )


def _with_digits(text):
    # The numbers travel as text in quotes with a mark, so that no float comes near them.
    return text.replace('"#', "").replace('#"', "")


def _measurement(rng, number):
    at = START + timedelta(seconds=rng.randrange(int(SPAN.total_seconds()) // 1800) * 1800)
    meter = rng.choice(["traffic", "traffic", "calls"])
    account = rng.choice(CODES)
    drawn = [rng.choice(NUMBERS) for _ in range(2)]
    wire = {"meter": meter, "account": account, "uid": f"u{number:03}", "ts": at.isoformat()}
    if meter == "traffic":
        region = rng.choice(["eu", "us", "eu-%s", 'a"b'])
        parts = rng.choice(["0", "2", "8"])
        wire["measure"] = {"gb": f"#{drawn[0]}#", "parts": f"#{parts}#"}
        wire["where"] = {"region": region}
        gb = Decimal(drawn[0])
        with exact():
            each = None if parts == "0" else gb / Decimal(parts)
        each = None if each is None else each.quantize(Decimal("1e-12"), ROUND_HALF_EVEN, _WIDE)
        fields = {"measure.gb": gb, "measure.parts": Decimal(parts), "where.region": region}
        fields["derived.each"] = each
    else:
        wire["measure"], wire["cost"] = {"n": f"#{drawn[0]}#"}, {"own": f"#{drawn[1]}#"}
        wire["metadata"] = {"key": f"k{number % 5}"}
        fields = {"measure.n": Decimal(drawn[0]), "cost.own": Decimal(drawn[1])}
        fields["metadata.key"] = wire["metadata"]["key"]
    return {
        "wire": wire,
        "meter": meter,
        "account": account,
        "uid": wire["uid"],
        "ts": at,
        "fields": fields,
    }


# Fields by meter: code, key, whether it holds numbers.
FIELDS = {
    "traffic": [
        ("gb", "measure.gb", True),
        ("parts", "measure.parts", True),
        ("region", "where.region", False),
        ("each", "derived.each", True),
    ],
    "calls": [
        ("n", "measure.n", True),
        ("own", "cost.own", True),
        ("key", "metadata.key", False),
    ],
}


def question(world, *, folds):
    """A random question, and what it means."""
    rng = world.rng
    start = START + timedelta(hours=rng.randrange(48))
    end = start + timedelta(hours=rng.choice([1, 24, 24 * 7, 24 * 30]))
    codes = rng.choice([["traffic"], ["calls"], ["traffic", "calls"]])
    accounts = rng.choice([[], [], ["acme"], ["acme-child", "bolt"]])
    regions = rng.choice([[], [], ["eu", 'a"b']]) if "traffic" in codes else []
    meant = SimpleNamespace(start=start, end=end, codes=codes, accounts=accounts, regions=regions)
    body = {
        "startDate": start,
        "endDate": end,
        "meterIds": rng.choice([[world.meters[code] for code in codes]]),
        "accountIds": [world.accounts[code] for code in accounts],
    }
    if regions:
        body["dimensionFilters"] = [
            {"meterId": world.meters["traffic"], "fieldCode": "region", "values": regions}
        ]
    meant.folds, meant.groups = [], []
    if folds:
        _fold(world, body, meant)
    meant.limit = body["limit"] = rng.choice([1, 7, 20_000])
    return read(UsageQueryRequest, body), meant


def _fold(world, body, meant):
    rng = world.rng
    for code in meant.codes:
        for field, key, number in rng.sample(FIELDS[code], 2):
            functions = (
                ("SUM", "MIN", "MAX", "COUNT", "LATEST", "MEAN")
                if number
                else (
                    "COUNT",
                    "UNIQUE",
                )
            )
            meant.folds += [(code, field, key, number, function) for function in functions]
    body["aggregations"] = [
        {
            "meterId": world.meters[code],
            "fieldCode": field,
            "fieldType": "MEASURE" if number else "DIMENSION",
            "function": function,
        }
        for code, field, _, number, function in meant.folds
    ]
    possible = [{"groupType": "ACCOUNT"}, {"groupType": "TIME", "frequency": rng.choice(UNITS)}]
    possible += [
        {"groupType": "DIMENSION", "meterId": world.meters[code], "fieldCode": field}
        for code in meant.codes
        for field, _, number in FIELDS[code]
        if not number
    ]
    meant.groups = body["groups"] = rng.sample(possible, rng.randrange(len(possible) + 1))


# --- The oracle ----------------------------------------------------------------------------------


def chosen(world, meant):
    return [
        row
        for row in world.rows
        if meant.start <= row["ts"] < meant.end
        and row["meter"] in meant.codes
        and (not meant.accounts or row["account"] in meant.accounts)
        and (
            not meant.regions
            or row["meter"] != "traffic"
            or row["fields"]["where.region"] in meant.regions
        )
    ]


def begun(at, unit):
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "HOUR":
            return at.replace(minute=0, second=0, microsecond=0)
        case "DAY":
            return midnight
        case "WEEK":
            return midnight - timedelta(days=midnight.weekday())
        case "MONTH":
            return midnight.replace(day=1)
        case _:
            return midnight.replace(month=midnight.month - (midnight.month - 1) % 3, day=1)


def written(instant):
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def raw_answer(world, meant):
    rows = sorted(chosen(world, meant), key=lambda row: row["uid"])
    rows.sort(key=lambda row: (row["receivedAt"], row["ts"]), reverse=True)
    # Two stable sorts: uids ascend where the instants are the same.
    return [
        {
            "meterId": world.meters[row["meter"]],
            "meter": row["meter"],
            "uid": row["uid"],
            "accountId": world.accounts[row["account"]],
            "account": row["account"],
            "ts": written(row["ts"]),
            "ets": None,
            "receivedAt": written(row["receivedAt"]),
            **row["fields"],
        }
        for row in rows
    ]


def group_of(world, meant, row):
    found = {}
    for group in meant.groups:
        match group["groupType"]:
            case "ACCOUNT":
                found["accountId"] = world.accounts[row["account"]]
                found["account"] = row["account"]
            case "TIME":
                unit = group["frequency"]
                found[unit.lower()] = written(begun(row["ts"], unit))
            case _ if group["meterId"] == world.meters[row["meter"]]:
                [key] = [k for c, k, _ in FIELDS[row["meter"]] if c == group["fieldCode"]]
                found[key] = row["fields"][key]
    return found


def reduced(rows, key, function):
    rows = [row for row in rows if row["fields"][key] is not None]
    found = [row["fields"][key] for row in rows]
    if function in {"COUNT", "UNIQUE"}:
        return len(set(found) if function == "UNIQUE" else found)
    if not found:
        return None
    with exact():
        match function:
            case "SUM":
                return sum(found)
            case "MEAN":
                return divide(sum(found), Decimal(len(found)))
            case "LATEST":
                return max(rows, key=lambda row: (row["ts"], row["uid"]))["fields"][key]
            case _:
                return min(found) if function == "MIN" else max(found)


def folded_answer(world, meant):
    groups = {}
    for row in chosen(world, meant):
        group = group_of(world, meant, row)
        groups.setdefault((row["meter"], json.dumps(group)), (group, []))[1].append(row)
    answer = []
    for (code, _), (group, rows) in groups.items():
        values = {
            f"{key}.{function}": reduced(rows, key, function)
            for meter, _, key, _, function in meant.folds
            if meter == code
        }
        answer.append({"meterId": world.meters[code], "meter": code, **group, **values})
    return answer


# --- The comparisons ------------------------------------------------------------------------------


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert list(one) == list(other)
        assert one == other


def test_raw_rows_are_those_that_were_sent(world):
    for _ in range(12):
        query, meant = question(world, folds=False)
        found = explore(world.home.stores.organization(world.org_id), query)
        expected = raw_answer(world, meant)
        same(found.documents(), expected[: meant.limit])
        assert found.more is (len(expected) > meant.limit)


def _sorted(rows):
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def test_folded_fields_are_those_of_the_rows(world):
    organization = world.home.stores.organization(world.org_id)
    for _ in range(12):
        query, meant = question(world, folds=True)
        expected = folded_answer(world, meant)
        found = explore(organization, query)
        documents = found.documents()
        assert found.more is (len(expected) > meant.limit)
        if found.more:
            # Which come first is told by the whole answer.
            whole = explore(organization, query.model_copy(update={"limit": None}))
            assert documents == whole.documents()[: meant.limit]
            documents = whole.documents()
        same(_sorted(documents), _sorted(expected))


def test_the_text_of_an_answer_says_the_same(world):
    for folds in (False, True):
        query, _ = question(world, folds=folds)
        found = explore(world.home.stores.organization(world.org_id), query)
        told = json.loads(found.to_json(), parse_float=Decimal)
        assert told == {"data": found.documents(), "hasMoreData": found.more}


def test_groups_are_in_their_order_and_the_newest_time_first(world):
    body = {
        "startDate": START,
        "endDate": START + SPAN,
        "aggregations": [
            {
                "meterId": world.meters["traffic"],
                "fieldCode": "gb",
                "fieldType": "MEASURE",
                "function": "SUM",
            }
        ],
        "groups": [{"groupType": "ACCOUNT"}, {"groupType": "TIME", "frequency": "DAY"}],
    }
    rows = explore(
        world.home.stores.organization(world.org_id), read(UsageQueryRequest, body)
    ).documents()
    ids = list(dict.fromkeys(row["accountId"] for row in rows))
    assert ids == sorted(ids)
    for id_ in ids:
        days = [row["day"] for row in rows if row["accountId"] == id_]
        assert days == sorted(set(days), reverse=True)
