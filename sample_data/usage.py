"""What happened in October: the measurements of every account, drawn from one seeded generator.

Nothing here imports meterlake: the books that tests compare with must not share its mistakes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

BERLIN: Final = ZoneInfo("Europe/Berlin")
DAYS: Final = 31

Value: TypeAlias = str | int | Decimal


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement as its sender knows it; `fields` by file column, such as `measure.calls`."""

    meter: str
    account: str
    uid: str
    ts: datetime
    fields: dict[str, Value]
    ets: datetime | None = None

    @property
    def day(self) -> int:
        """The day of October in Berlin; 0 and 32 lie outside."""
        local = self.ts.astimezone(BERLIN)
        return local.day if local.month == 10 else 0 if local.month < 10 else 32  # noqa: PLR2004

    def but(self, **fields: Value) -> "Measurement":
        """The same measurement with other values in some fields, `__` standing for the dot."""
        changed = {name.replace("__", "."): value for name, value in fields.items()}
        return replace(self, fields=self.fields | changed)


@dataclass(frozen=True, slots=True)
class Size:
    """How much an account uses: conversations and endpoint hours a day, seats, gigabytes."""

    conversations: float
    hours: float
    seats: int
    gigabytes: int


SIZES: Final = {
    "free": Size(1.1, 1.2, 3, 40),
    "pro": Size(6, 4, 14, 900),
    "enterprise": Size(24, 12, 70, 9000),
}
# Our own cost per token, in euros.
COST_IN, COST_OUT = Decimal("0.00000062"), Decimal("0.0000021")
MODELS: Final = {"larch-small": 1.0, "larch-medium": 2.4, "larch-large": 5.5}
REGIONS: Final = ("eu-central", "eu-north", "us-east")
ENDPOINTS: Final = ("/v1/search", "/v1/documents", "/v1/batches", "/v1/files", "/v1/webhooks")
# People work from eight to six; machines work at night.
HOURS: Final = (2, 1, 1, 1, 1, 2, 4, 9, 18, 24, 25, 23, 17, 22, 24, 23, 20, 15, 10, 7, 5, 4, 3, 2)


def uid(random: Random) -> str:
    """A random UUID's text, from the seeded generator."""
    digits = f"{random.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def instant(random: Random, day: int) -> datetime:
    """Some millisecond of a day of October in Berlin, mostly in working hours."""
    [hour] = random.choices(range(24), HOURS)
    local = datetime(2026, 10, day, hour, tzinfo=BERLIN)
    return local.astimezone(UTC) + timedelta(milliseconds=random.randrange(3_600_000))


def count(random: Random, mean: float, day: int) -> int:
    """How often something happens on a day; weekends are quiet."""
    weekend = datetime(2026, 10, day, tzinfo=UTC).weekday() >= 5  # noqa: PLR2004
    expected = mean * (0.3 if weekend else 1.25) * random.uniform(0.6, 1.4)
    return int(expected + random.random())


def spread(random: Random, median: float, width: float) -> int:
    """A positive whole number around a median, skewed as usage is."""
    return max(1, round(median * math.exp(random.gauss(0, width))))


def conversation(random: Random, account: str, day: int, users: int) -> Measurement:
    """One conversation with a model."""
    [model] = random.choices(list(MODELS), (6, 3, 1))
    tokens_in, tokens_out = spread(random, 52_000, 0.9), spread(random, 9_000, 0.7)
    latency = spread(random, 240 * MODELS[model], 0.35)
    start = instant(random, day)
    return Measurement(
        "llm_tokens",
        account,
        uid(random),
        start,
        {
            "who.user": f"u{min(random.randrange(users), random.randrange(users)) + 1:03}",
            "what.model": model,
            "where.region": region(account, random),
            "measure.input_tokens": tokens_in,
            "measure.output_tokens": tokens_out,
            "measure.latency_ms": latency,
            "cost.inference": tokens_in * COST_IN + tokens_out * COST_OUT,
        },
        start + timedelta(milliseconds=latency + tokens_out * 2),
    )


def region(account: str, random: Random | None = None) -> str:
    """The home region of an account, and now and then another one."""
    if random and random.random() < 0.08:  # noqa: PLR2004
        return random.choice(REGIONS)
    return REGIONS[sum(account.encode()) % len(REGIONS)]


def endpoint_hour(random: Random, account: str, day: int, size: Size) -> Measurement:
    """The calls that an account made to one endpoint in one hour."""
    at = instant(random, day).replace(minute=0, second=0, microsecond=0)
    calls = spread(random, 130 * size.hours, 1.0)
    return Measurement(
        "api_calls",
        account,
        uid(random),
        at,
        {
            "what.endpoint": random.choice(ENDPOINTS),
            "where.region": region(account, random),
            "metadata.api_key": f"hk_{sum(account.encode()) % 9973:04}{random.choice('ab')}",
            "measure.calls": calls,
            "measure.concurrency": 1 + spread(random, size.hours**1.35, 0.5),
        },
    )


def seats(random: Random, account: str, day: int, size: Size) -> Measurement:
    """How many seats an account has on a day; it grows over the month."""
    grown = round(size.seats * (0.55 + sum(account.encode()) % 90 / 100) * (1 + day / 200))
    at = datetime(2026, 10, day, 23, 30, tzinfo=BERLIN).astimezone(UTC)
    directory = "sso" if sum(account.encode()) % 2 else "invitations"
    return Measurement(
        "seats",
        account,
        uid(random),
        at,
        {"other.directory": directory, "measure.seats": max(1, grown)},
    )


def stored(random: Random, account: str, day: int, size: Size) -> Measurement:
    """What an account stores at noon, and what it sent since the day before."""
    base = size.gigabytes * (0.4 + sum(account.encode()) % 120 / 100)
    gigabytes = Decimal(round(base * (1 + day / 120) * random.uniform(0.995, 1.005) * 1000))
    egress = Decimal(spread(random, size.gigabytes * 8, 0.8))
    at = datetime(2026, 10, day, 12, tzinfo=BERLIN).astimezone(UTC)
    return Measurement(
        "storage",
        account,
        uid(random),
        at,
        {
            "where.region": region(account),
            "metadata.snapshot": f"{account}@2026-10-{day:02}",
            "measure.gigabytes": gigabytes / 1000,
            "measure.egress_gigabytes": egress / 1000,
        },
    )


def month(random: Random, sizes: Sequence[tuple[str, str, Size]]) -> list[Measurement]:
    """All measurements of October in the order of their time.

    Args:
        random: The seeded generator.
        sizes: Account, product and how much of it the account uses.
    """
    found: list[Measurement] = []
    for day in range(1, DAYS + 1):
        for account, product, size in sizes:
            found.extend(_one_day(random, account, product, day, size))
    return sorted(found, key=lambda measurement: (measurement.ts, measurement.uid))


def _one_day(
    random: Random, account: str, product: str, day: int, size: Size
) -> Iterator[Measurement]:
    match product:
        case "llm":
            users = max(2, size.seats // 2)
            for _ in range(count(random, size.conversations, day)):
                yield conversation(random, account, day, users)
        case "platform":
            for _ in range(count(random, size.hours, day)):
                yield endpoint_hour(random, account, day, size)
            yield seats(random, account, day, size)
        case _:
            yield stored(random, account, day, size)
