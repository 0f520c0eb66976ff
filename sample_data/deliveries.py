"""Who delivered what, in which order and how well: the files of the month and what becomes of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from sample_data import encode, gateway
from sample_data.usage import BERLIN, SIZES, Measurement, conversation, endpoint_hour, uid


@dataclass(frozen=True, slots=True)
class Delivery:
    """One dropped file, and what ingest must make of its rows."""

    name: str
    data: bytes
    stored: Sequence[Measurement] = ()
    repeats: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> dict[str, Any]:
        """Received = accepted + repeats + rejected."""
        rejected = self.rejected.total()
        return {
            "name": self.name,
            "received": len(self.stored) + self.repeats + rejected,
            "accepted": len(self.stored),
            "repeats": self.repeats,
            "rejected": rejected,
            "reasons": dict(sorted(self.rejected.items())),
        }


LATE_DAY: Final = 2
LATE_ACCOUNT: Final = "meridian-health"
# An account that nobody configured: its usage is stored and reported, but not billed.
STRANGER: Final = "quietfox-labs"


def deliver(random: Random, month: Sequence[Measurement]) -> list[Delivery]:
    """The files of the month in the order in which they were dropped."""
    late = [
        one for one in month if _of(one, "llm_tokens", LATE_DAY) and one.account == LATE_ACCOUNT
    ]
    in_time = [one for one in month if one not in late]
    llm, api = Pick(in_time, "llm_tokens"), Pick(in_time, "api_calls")
    storage, seats = Pick(in_time, "storage"), Pick(in_time, "seats")
    again = _plain("06-storage-days-11-20.json.gz", storage.days(11, 20))
    return [
        _plain("01-llm-week-1.csv", [replace(one, ets=None) for one in llm.days(1, 7)]),
        _plain("02-api-days-01-03.ndjson", api.days(1, 3)),
        _plain("03-storage-days-01-10.json", storage.days(1, 10)),
        _plain("04-llm-week-2.csv.gz", llm.days(8, 14)),
        _plain("05-api-days-04-15.ndjson.gz", api.days(4, 15)),
        again,
        _plain("07-seats-days-01-20.csv.zst", seats.days(1, 20)),
        _plain("08-llm-week-3.ndjson.zst", llm.days(15, 21, leave=20)),
        Delivery("09-storage-days-11-20-again.json.gz", again.data, repeats=len(again.stored)),
        _plain("10-api-days-16-31.parquet", api.days(16, 31, leave=15)),
        bad_csv(random, llm.days(15, 21, take=20), llm.days(1, 7)),
        bad_ndjson(random, api.days(16, 31, take=15), api.days(1, 3)),
        _plain("13-storage-days-21-31.json.zst", storage.days(21, 31)),
        _plain("14-seats-days-21-31.ndjson", seats.days(21, 31)),
        _plain("15-llm-week-4.parquet", llm.days(22, 28)),
        last_days(random, llm.days(29, 31)),
        foreign(random),
        _plain("18-llm-late-from-october-2.csv.gz", late),
    ]


@dataclass(frozen=True, slots=True)
class Pick:
    """The measurements of one meter, to be taken by days."""

    month: Sequence[Measurement]
    meter: str

    def days(
        self, first: int, last: int, *, take: int | None = None, leave: int = 0
    ) -> list[Measurement]:
        """Those of some days; the first `take` of them, or all but the first `leave`."""
        found = [one for one in self.month if _of(one, self.meter, first, last)]
        return found[leave:take]


def _of(one: Measurement, meter: str, first: int, last: int | None = None) -> bool:
    return one.meter == meter and first <= one.day <= (last or first)


def _plain(name: str, rows: Sequence[Measurement]) -> Delivery:
    """A file without anything wrong in it."""
    if ".csv" in name:
        data = encode.csv_text([encode.to_record(one) for one in rows])
    elif ".ndjson" in name:
        data = encode.ndjson(rows)
    elif ".parquet" in name:
        return Delivery(name, encode.parquet(rows), rows)
    else:
        data = encode.json_array(rows)
    return Delivery(name, encode.compress(name, data), rows)


def last_days(random: Random, rows: Sequence[Measurement]) -> Delivery:
    """The end of the month in local time: the last and the first microsecond of two months."""
    name = "16-llm-last-days.csv.zst"
    midnight = datetime(2026, 11, 1, tzinfo=BERLIN).astimezone(UTC)
    edges = [
        replace(conversation(random, "fjord-seafood", 31, 5), ts=at, ets=at + timedelta(seconds=9))
        for at in (midnight - timedelta(milliseconds=1), midnight, midnight + timedelta(hours=3))
    ]
    stored = [*rows, *edges]
    records = [encode.to_record(one, BERLIN) for one in stored]
    return Delivery(name, encode.compress(name, encode.csv_text(records)), stored)


def foreign(random: Random) -> Delivery:
    """The export of the edge gateway, which needs a mapping."""
    export = gateway.rows(random)
    data = encode.csv_text(export, delimiter=";")
    return Delivery("17-edge-gateway-2026-10.csv", data, list(gateway.measurements(export)))


def bad_csv(random: Random, good: Sequence[Measurement], known: Sequence[Measurement]) -> Delivery:
    """A file that somebody edited in a spreadsheet."""
    strangers = [conversation(random, STRANGER, 19, 3) for _ in range(4)]
    stored = [replace(one, ets=None) for one in [*good, *strangers]]
    bad: list[tuple[str, dict[str, str]]] = [
        ("UndefinedMeter", {"meter": "llm_token"}),
        ("UndefinedMeter", {"meter": "LLM tokens (total)"}),
        ("InvalidAccountCode", {"account": "Quartz-Watches"}),
        ("MissingField", {"measure.output_tokens": ""}),
        ("MissingField", {"what.model": ""}),
        ("InvalidNumber", {"measure.input_tokens": "52.310,00"}),
        ("InvalidNumber", {"measure.output_tokens": "n/a"}),
        ("InvalidNumber", {"cost.inference": "NaN"}),
        ("InvalidTimestamp", {"ts": "17.10.2026 09:15"}),
        ("InvalidTimestamp", {"ts": "2026-10-32T08:00:00Z"}),
        ("FutureTimestamp", {"ts": "2099-10-17T09:15:00Z"}),
    ]
    records = [encode.to_record(one) for one in stored]
    for place, (_, change) in enumerate(bad):
        fresh = conversation(random, good[0].account, 17, 5)
        records.insert(2 * place + 1, encode.to_record(replace(fresh, ets=None)) | change)
    # Twice a row that is stored already: once as it was, once with another number in it.
    changed = known[1].but(measure__input_tokens=1)
    records += [encode.to_record(replace(one, ets=None)) for one in (known[0], changed)]
    reasons = Counter([reason for reason, _ in bad] + ["DuplicateUid"])
    return Delivery("11-llm-bad-rows.csv", encode.csv_text(records), stored, 1, reasons)


def bad_ndjson(
    random: Random, good: Sequence[Measurement], known: Sequence[Measurement]
) -> Delivery:
    """A file of a sender whose new release went wrong."""

    def broken(**change: Any) -> dict[str, Any]:
        wire = encode.to_wire(endpoint_hour(random, good[0].account, 20, SIZES["pro"]))
        return wire | change

    measure = {"calls": 120, "concurrency": 4}
    bad: list[tuple[str, bytes]] = [
        ("UndefinedMeter", encode.json_line(broken(meter="api-calls"))),
        ("UnknownField", encode.json_line(broken(measure=measure | {"retries": 3}))),
        ("DuplicateField", encode.json_line(broken(other={"endpoint": "/v1/search"}))),
        ("MissingField", encode.json_line(broken(measure={"calls": 120}))),
        ("MissingField", encode.json_line(broken(metadata={}))),
        ("InvalidNumber", encode.json_line(broken(measure=measure | {"calls": "many"}))),
        ("InvalidTimestamp", encode.json_line(broken(ts="yesterday"))),
        ("FutureTimestamp", encode.json_line(broken(ts="2099-12-31T23:59:59Z"))),
        ("InvalidUid", encode.json_line(broken(uid=uid(random) + "-" + uid(random)))),
        ("MalformedRow", encode.json_line(broken())[:97]),
        ("DuplicateUid", encode.json_line(encode.to_wire(known[0].but(measure__calls=1)))),
    ]
    lines: list[bytes] = []
    for place, one in enumerate(good):
        lines.append(encode.json_line(encode.to_wire(one)))
        lines.extend(line for _, line in bad[place : place + 1])
    lines.append(encode.json_line(encode.to_wire(known[1])))
    data = b"".join(line + b"\n" for line in lines)
    return Delivery("12-api-bad-rows.ndjson", data, good, 1, Counter(reason for reason, _ in bad))


def totals(deliveries: Iterable[Delivery]) -> dict[str, Any]:
    """The sums over all files."""
    counts = [delivery.counts for delivery in deliveries]
    names = ("received", "accepted", "repeats", "rejected")
    return {name: sum(count[name] for count in counts) for name in names}
