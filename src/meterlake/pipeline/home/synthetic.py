"""Synthetic measurements by the block: what `generate` writes, as text lines or as columns.

A row is a function of the seed and its number: every random value is one `splitmix64` of both. So
nothing depends on the size of a block, and a repeat is the same function at an earlier number.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property
from statistics import NormalDist
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
Whole: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

METER: Final = "llm_tokens"
REGIONS: Final = ("eu-central", "eu-north", "us-east", "us-west", "ap-south")
# Each with the median of its time to the first token in milliseconds.
MODELS: Final = {"larch-small": 240, "larch-medium": 570, "larch-large": 1300}
USERS: Final = 500

CSV_COLUMNS: Final = (
    "meter",
    "account",
    "uid",
    "ts",
    "who.user",
    "what.model",
    "where.region",
    "measure.input_tokens",
    "measure.output_tokens",
    "measure.latency_ms",
    "cost.inference",
)
ARROW_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("meter", "account", "uid")]
    + [("ts", pa.timestamp("us", tz="UTC"))]
    + [(name, pa.string()) for name in CSV_COLUMNS[4:7]]
    + [(name, pa.int64()) for name in CSV_COLUMNS[7:10]]
    + [("cost.inference", pa.decimal128(19, 6))]
)

# The columns of a block's frame in the order of `CSV_COLUMNS`; the cost is put together apart.
_CELLS: Final = (
    *("meter", "account", "uid", "ts"),
    *("user", "model", "region", "input", "output", "latency"),
)
# What is wrong with a bad row, by kind: meter, ts, ts, what.model, measure.input_tokens.
_WRONG: Final = (
    ("meter", "llm_token"),
    ("ts", "yesterday"),
    ("ts", "2099-12-31T23:59:59.000Z"),
    ("model", None),
    ("input", "n/a"),
)
_DAY_MS: Final = 86_400_000
_LATEST_MS: Final = 36 * 3_600_000

# The streams of random words, one per thing that is drawn.
_STREAMS: Final = 32
(_UID_HIGH, _ACCOUNT, _JITTER, _LATE, _LATENESS, _USER, _USER_2, _MODEL, _REGION) = range(9)
(_INPUT, _INPUT_2, _OUTPUT, _OUTPUT_2, _LATENCY, _BAD, _KIND, _REPEAT, _TARGET) = range(9, 18)


def mix(words: Words) -> Words:
    """The finalizer of splitmix64: a one-to-one map of 64-bit words to random-looking ones."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed


@dataclass(frozen=True)
class Stream:
    """The endless, seeded sequence of rows that blocks are cut from.

    Attributes:
        seed: Another seed gives other rows.
        rows: How many rows fill the days.
        accounts: How many accounts there are; the n-th uses 1/n of what the first uses.
        first_day: The first day, in UTC.
        days: How many days.
        shares: The shares of bad rows and of repeats.
    """

    seed: int
    rows: int
    accounts: int
    first_day: date
    days: int
    shares: tuple[float, float]

    @cached_property
    def _key(self) -> np.uint64:
        golden = 0x9E3779B97F4A7C15
        return np.uint64(mix(np.array([(self.seed + 1) * golden % 2**64], np.uint64))[0])

    @cached_property
    def uid_key(self) -> np.uint64:
        """What the seed adds to the numbers of rows in their uids."""
        return np.uint64(mix(np.array([self._key], np.uint64))[0])

    @cached_property
    def _ranks(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        cumulated = np.cumsum(1.0 / np.arange(1, self.accounts + 1))
        ranks: np.ndarray[Any, np.dtype[np.float64]] = cumulated / cumulated[-1]
        return ranks

    def draw(self, rows: Words, stream: int) -> Words:
        """One random word per row."""
        return mix(rows * np.uint64(_STREAMS) + (self._key + np.uint64(stream)))

    def share(self, rows: Words, stream: int, share: float) -> Flags:
        """Which rows belong to a share of all."""
        if not share:
            return np.zeros(len(rows), np.bool_)
        flags: Flags = self.draw(rows, stream) < np.uint64(min(int(share * 2**64), 2**64 - 1))
        return flags

    def block(self, start: int, stop: int) -> "SyntheticBlock":
        """The rows from `start` up to `stop`."""
        slots = np.arange(start, stop, dtype=np.uint64)
        rows = slots.copy()
        repeats = waiting = self._is_repeat(rows)
        while waiting.any():  # a repeat of a repeat repeats what that one repeats
            rows[waiting] = self.draw(rows[waiting], _TARGET) % rows[waiting]
            waiting = self._is_repeat(rows)
        return SyntheticBlock(self, rows, repeats, self.share(rows, _BAD, self.shares[0]))

    def _is_repeat(self, rows: Words) -> Flags:
        flags: Flags = self.share(rows, _REPEAT, self.shares[1]) & (rows > 0)
        return flags

    def account_ranks(self, rows: Words) -> Whole:
        """Which account a row belongs to, 0 being the largest."""
        uniform = (self.draw(rows, _ACCOUNT) >> np.uint64(11)) * 2.0**-53
        return np.searchsorted(self._ranks, uniform, side="right").astype(np.int64)

    def milliseconds(self, rows: Words) -> Whole:
        """When a row happened, since the first day: in order but for two in a hundred, later sent."""
        step = self.days * _DAY_MS / max(self.rows, 1)
        at = (rows * step).astype(np.int64)
        at += (self.draw(rows, _JITTER) % np.uint64(max(int(step), 1))).astype(np.int64)
        late = self.share(rows, _LATE, 0.02)
        lateness = (self.draw(rows[late], _LATENESS) % np.uint64(_LATEST_MS)).astype(np.int64)
        at[late] = np.maximum(at[late] - lateness, 0)
        return at


@dataclass(frozen=True)
class SyntheticBlock:
    """Some rows of a stream: `rows` are the numbers that make them, `repeats` and `bad` flag them."""

    stream: Stream
    rows: Words
    repeats: Flags
    bad: Flags

    def __len__(self) -> int:
        return len(self.rows)

    def outcomes(self) -> Whole:
        """How many rows ingest accepts, drops as repeats and rejects."""
        rejected = int(self.bad.sum())
        repeats = int((self.repeats & ~self.bad).sum())
        return np.array([len(self) - repeats - rejected, repeats, rejected], np.int64)

    def text(self, kind: str, between: str) -> bytes:
        """The rows as text, one a line, joined by `between`."""
        if kind == "csv":
            pieces = [piece for cell in _CELLS for piece in (cell, "',")]
            pieces = [*pieces, "euros", "'.", "thousandths", "millionths"]
        else:
            pieces = [
                *('\'{"uid":"', "uid", '\'","meter":"', "meter", '\'","account":"', "account"),
                *('\'","ts":"', "ts", '\'","who":{"user":"', "user", '\'"},"what":{"model":'),
                *("model", '\'},"where":{"region":"', "region", '\'"},"measure":{"input_tokens":'),
                *("input", '\',"output_tokens":', "output", '\',"latency_ms":', "latency"),
                *('\'},"cost":{"inference":', "euros", "'.", "thousandths", "millionths", "'}}"),
            ]
        frame = self._texts(json=kind != "csv")
        line = frame.select(
            pl.concat_str(
                pl.lit(piece[1:]) if piece.startswith("'") else pl.col(piece) for piece in pieces
            ).str.join(between)
        )
        return str(line.item()).encode()

    def table(self) -> pa.Table:
        """The rows as typed columns; wrong texts become nulls where a type cannot hold them."""
        first = np.datetime64(self.stream.first_day, "ms")
        values = self._values()
        ts = pl.Series(first + values["ms"]).dt.cast_time_unit("us").dt.replace_time_zone("UTC")
        frame = pl.DataFrame(
            {
                **self._names(values),
                "uid": self._uids(),
                "ts": ts,
                "model": pl.Series(list(MODELS)).gather(values["model"]),
                "input": values["input"],
                "output": values["output"],
                "latency": values["latency"],
            }
        )
        columns = self._spoil(frame, typed=True).select(_CELLS).to_arrow().columns
        # Whole numbers as millionths, without touching a digit.
        whole = values["cost"]
        units = pa.array(whole).cast(pa.decimal128(19, 0))
        cost = pa.Array.from_buffers(pa.decimal128(19, 6), len(units), units.buffers())
        return pa.table([*columns, cost], list(CSV_COLUMNS)).cast(ARROW_SCHEMA)

    def _names(self, values: dict[str, Whole]) -> dict[str, pl.Series]:
        return {
            "meter": pl.Series([METER]).new_from_index(0, len(self)),
            "account": _codes(self.stream.accounts).gather(values["account"]),
            "user": _users().gather(values["user"]),
            "region": pl.Series(REGIONS).gather(values["region"]),
        }

    def _draw(self, stream: int) -> Words:
        return self.stream.draw(self.rows, stream)

    def _below(self, stream: int, bound: int) -> Whole:
        return (self._draw(stream) % np.uint64(bound)).astype(np.int64)

    def _skew(self, stream: int, median: int) -> Whole:
        """Whole numbers around a median: a quantile from a table, and some noise on it."""
        noise = self._below(stream + 1, 1024) + 512
        quantile = (self._draw(stream) >> np.uint64(52)).astype(np.int64)
        return _quantiles(median)[quantile] * noise // 1024 + 1

    def _values(self) -> dict[str, Whole]:
        model = np.searchsorted(np.array([60, 90]), self._below(_MODEL, 100), side="right")
        tokens_in, tokens_out = self._skew(_INPUT, 5200), self._skew(_OUTPUT, 900)
        latency = (
            np.array(list(MODELS.values()))[model] * (self._below(_LATENCY, 900) + 600) // 1000
        )
        return {
            "account": self.stream.account_ranks(self.rows),
            "ms": self.stream.milliseconds(self.rows),
            "user": np.minimum(self._below(_USER, USERS), self._below(_USER_2, USERS)),
            "model": model,
            "region": self._below(_REGION, len(REGIONS)),
            "input": tokens_in,
            "output": tokens_out,
            "latency": latency,
            # Millionths of a euro: 0.00000062 a token read, 0.0000021 a token written.
            "cost": (tokens_in * 62 + tokens_out * 210) // 100,
        }

    def _uids(self) -> pl.Series:
        """Texts shaped like UUIDs; their low half is a one-to-one map of the row's number."""
        words = np.empty((len(self), 2), dtype=">u8")
        words[:, 0] = self._draw(_UID_HIGH)
        words[:, 1] = mix(self.rows ^ self.stream.uid_key)
        digits = _hex_pairs()[words.view(np.uint8)].view(np.uint8)
        text = np.full((len(self), 36), ord("-"), np.uint8)
        for at, (first, last) in zip(
            (0, 9, 14, 19, 24), ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)), strict=True
        ):
            text[:, at : at + last - first] = digits[:, first:last]
        offsets = np.arange(0, 36 * (len(self) + 1), 36, dtype=np.int64)
        buffers = pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))
        return pl.Series(pa.LargeStringArray.from_buffers(len(self), *buffers))

    def _texts(self, *, json: bool) -> pl.DataFrame:
        values = self._values()
        day, ms = np.divmod(values["ms"], _DAY_MS)
        second, ms = np.divmod(ms, 1000)
        whole, micro = np.divmod(values["cost"], 1_000_000)
        models = [f'"{model}"' if json else model for model in MODELS]
        frame = pl.DataFrame(
            {
                **self._names(values),
                "uid": self._uids(),
                "day": _days(self.stream.first_day, self.stream.days).gather(day),
                "second": _seconds().gather(second),
                "ms": _three_digits().gather(ms),
                "model": pl.Series(models).gather(values["model"]),
                "input": values["input"],
                "output": values["output"],
                "latency": values["latency"],
                "euros": whole,
                "thousandths": _three_digits().gather(micro // 1000),
                "millionths": _three_digits().gather(micro % 1000),
            }
        )
        ts = pl.concat_str("day", "second", pl.lit("."), "ms", pl.lit("Z"))
        return self._spoil(frame.with_columns(ts=ts), typed=False, json=json)

    def _spoil(self, frame: pl.DataFrame, *, typed: bool, json: bool = False) -> pl.DataFrame:
        """Put in what is wrong with the bad rows."""
        if not self.bad.any():
            return frame
        kind = self._below(_KIND, len(_WRONG))
        if not typed:
            frame = frame.with_columns(pl.col("input").cast(pl.String))
        for number, (column, wrong) in enumerate(_WRONG):
            value = _wrong_value(wrong, frame.schema[column], typed=typed, json=json)
            flagged = pl.lit(pl.Series(self.bad & (kind == number)))
            frame = frame.with_columns(
                pl.when(~flagged).then(column).otherwise(value).alias(column)
            )
        return frame


def _wrong_value(text: str | None, dtype: pl.DataType, *, typed: bool, json: bool) -> pl.Expr:
    if typed:
        if dtype == pl.String:
            return pl.lit(text).cast(dtype, strict=False)
        future = datetime(2099, 12, 31, tzinfo=UTC) if text and text.startswith("2099") else None
        return pl.lit(future, dtype)
    if text is None:
        return pl.lit("null" if json else "")
    return pl.lit(f'"{text}"' if json and text == "n/a" else text)


@cache
def _quantiles(median: int) -> Whole:
    spread = NormalDist(0, 1.1)
    points = [median * 2.718281828459045 ** spread.inv_cdf((i + 0.5) / 4096) for i in range(4096)]
    return np.array([round(point) for point in points], np.int64)


@cache
def _hex_pairs() -> np.ndarray[Any, np.dtype[np.uint16]]:
    return np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


@cache
def _codes(accounts: int) -> pl.Series:
    return pl.Series([f"account-{number:05}" for number in range(1, accounts + 1)])


@cache
def _users() -> pl.Series:
    return pl.Series([f"u{number:04}" for number in range(1, USERS + 1)])


@cache
def _days(first_day: date, days: int) -> pl.Series:
    return pl.Series([f"{first_day + timedelta(days=day)}T" for day in range(days + 1)])


@cache
def _seconds() -> pl.Series:
    return pl.Series(
        [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in range(_DAY_MS // 1000)]
    )


@cache
def _three_digits() -> pl.Series:
    return pl.Series([f"{number:03}" for number in range(1000)])
