"""One file, read block by block into validated measurements, on several threads, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import polars as pl

from meterlake.model.errors import Invalid, UnreadableSource
from meterlake.model.measurements.columns import find_ignored, suggestions
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.measurement import Block, Decoded, MeterFields, Origin
from meterlake.model.measurements.receipt import SourceFormat
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.pipeline.ingest.derivations import NO_DERIVATIONS, Derivations
from meterlake.settings import Settings
from meterlake.stages.decode import split
from meterlake.stages.decode.csv import CsvDecoder, find_delimiter, header
from meterlake.stages.decode.json import FlatJsonDecoder, JsonDecoder
from meterlake.stages.decode.parquet import check_types, decode_batch
from meterlake.stages.ingest import mapped_columns as shape
from meterlake.stages.ingest.derive import derive
from meterlake.stages.ingest.validate import Accepted, Texts, validate
from meterlake.stages.ingest.validate.account_codes import AccountCodes
from meterlake.stages.ingest.validate.rejected_texts import complete_rejections
from meterlake.stores.files import source_file
from meterlake.stores.files.durable import disk

Item = TypeVar("Item")


class Decoder(Protocol):
    """What every text format has: a way from blocks to columns."""

    def decode(self, block: Block) -> Decoded:
        """Decode one block."""
        ...


@dataclass(frozen=True)
class Reading:
    """Everything that decides what a file's bytes mean."""

    path: Path
    name: str
    format: SourceFormat
    mapping: Mapping | None
    meters: dict[str, MeterFields]
    accounts: AccountCodes
    origin: Origin
    settings: Settings
    scratch: Path
    # The rows and parts to look at, of a source that was read before; None means all.
    only: pl.DataFrame | None = None
    derivations: Derivations = NO_DERIVATIONS
    # Columns that are not read, and what was perhaps meant; known when the first block is.
    ignored: dict[str, str | None] = field(default_factory=dict)
    # How far it is read, at any time.
    position: source_file.Position = field(default_factory=source_file.Position)

    @property
    def budget(self) -> source_file.Budget:
        """How much work it may be."""
        return source_file.Budget.of(self.path.stat().st_size, self.settings)

    @property
    def own_json(self) -> bool:
        """Whether its rows are JSON in the wire's shape already."""
        return self.mapping is None and self.format.format in {"json", "ndjson"}

    @property
    def own_csv(self) -> bool:
        """Whether its rows are CSV in our own format."""
        return self.mapping is None and self.format.format == "csv"

    @property
    def account(self) -> str | None:
        """The account code that all rows share, where the mapping fixes one.

        Raises:
            UnreadableSource: The mapping finds none in the file's name.
        """
        try:
            return self.mapping.fixed_account(self.name) if self.mapping else None
        except Invalid as error:
            raise UnreadableSource(self.name, Reason.NO_ACCOUNT, str(error)) from None


Complete = Callable[[list[Rejection]], list[Rejection]]


class ReadBlock(NamedTuple):
    """What one block held: `seen` counts its measurements, `skipped` those not looked at.

    `complete` adds the texts of their rows to rejections that are found later on. `errors` are
    derived values that accepted measurements lack; `used` the accounts whose own custom fields went
    into the others.
    """

    seen: int
    skipped: int
    accepted: list[Accepted]
    rejected: list[Rejection]
    rounded: int
    complete: Complete
    errors: list[Rejection]
    used: set[str]


@dataclass
class _Work:
    """What one block becomes; runs on a pool's thread."""

    reading: Reading
    account: str | None = field(init=False)
    only_rows: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.account = self.reading.account
        only = self.reading.only
        self.only_rows = frozenset() if only is None else frozenset(only["row"])

    def __call__(self, decoded: Decoded) -> ReadBlock:
        reading = self.reading
        accepted: list[Accepted] = []
        rejected = [
            row
            for row in decoded.rejected
            if self.reading.only is None or row.row in self.only_rows
        ]
        seen, rounded = len(decoded.rejected), 0
        skipped = seen - len(rejected)
        parts: dict[int, pl.DataFrame] = {}
        for part in shape.shape(decoded.frame, reading.mapping, self.account):
            rows = parts[part.number] = self._select_columns(part)
            seen += len(part.frame)
            skipped += len(part.frame) - len(rows)
            found = validate(
                rows,
                part.number,
                reading.meters,
                reading.accounts,
                reading.origin,
                # A mapping may bring texts of its own.
                Texts(decoded.may_hold_nul or reading.mapping is not None, reading.own_csv),
            )
            accepted += found.accepted
            rejected += found.rejected
            rounded += found.rounded
        complete = partial(complete_rejections, decoded, parts, reading.own_json)
        derived, errors, used = self._derive(accepted)
        return ReadBlock(
            seen, skipped, derived, complete(rejected), rounded, complete, complete(errors), used
        )

    def _derive(self, accepted: list[Accepted]) -> tuple[list[Accepted], list[Rejection], set[str]]:
        frames: list[Accepted] = []
        errors: list[Rejection] = []
        used: set[str] = set()
        for each in accepted:
            derivation = self.reading.derivations.by_meter.get(each.meter.id)
            if derivation is None:
                frames.append(each)
                continue
            frame = each.frame
            if derivation.reads_account_code:
                codes = self.reading.accounts.codes(frame["account_id"], each.new_accounts)
                frame = frame.with_columns(codes.alias("account.code"))
            found = derive(derivation, frame)
            frames.append(each._replace(frame=found.frame))
            errors += found.errors
            used |= found.accounts
        return frames, errors, used

    def _select_columns(self, part: shape.MeterPart) -> pl.DataFrame:
        if self.reading.only is None:
            return part.frame
        rows = self.reading.only.filter(pl.col("part") == part.number)
        return part.frame.join(rows.select("row"), on="row", how="semi", maintain_order="left")


def read(reading: Reading) -> Iterator[ReadBlock]:
    """Read a file; blocks come in the order of its rows.

    Raises:
        UnreadableSource: The file cannot be read at all.
        Unavailable: The disk failed.
    """
    work = _Work(reading)
    if reading.format.format == "parquet":
        yield from _in_order(work, _parquet(reading), reading.settings.threads)
    else:
        decoder, blocks = _text(reading)
        yield from _in_order(
            lambda block: work(decoder.decode(block)), blocks, reading.settings.threads
        )


def completed_again(reading: Reading, rejected: list[Rejection]) -> list[Rejection]:
    """Rejections with the texts of their rows, found by reading the file once more."""
    waiting = {row.row for row in rejected}
    found: dict[tuple[int, int], Rejection] = {}
    for decoded in _decode(reading) if rejected else ():
        numbers = decoded.frame["row"]
        here = set(numbers.filter(numbers.is_in(sorted(waiting))).to_list())
        if here:
            shaped = shape.shape(decoded.frame, reading.mapping, reading.account)
            parts = {part.number: part.frame for part in shaped}
            rows = [row for row in rejected if row.row in here]
            found |= {
                row.place(): row
                for row in complete_rejections(decoded, parts, reading.own_json, rows)
            }
            waiting -= here
        if not waiting:
            break
    return [found.get(row.place(), row) for row in rejected]


def _decode(reading: Reading) -> Iterator[Decoded]:
    if reading.format.format == "parquet":
        yield from _parquet(reading)
    else:
        decoder, blocks = _text(reading)
        yield from map(decoder.decode, blocks)


def _in_order(
    work: Callable[[Item], ReadBlock], items: Iterable[Item], threads: int
) -> Iterator[ReadBlock]:
    waiting: deque[Future[ReadBlock]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _text(reading: Reading) -> tuple[Decoder, Iterator[Block]]:
    settings = reading.settings
    raw = source_file.chunks(
        reading.path,
        reading.name,
        reading.format.compression,
        settings.block_bytes,
        reading.budget,
        reading.position,
    )
    if reading.format.format == "csv":
        return _csv(reading, split.utf8_text(raw, reading.name))
    text = split.plain_text(raw, reading.name)
    if reading.format.format == "json":
        blocks = split.ArraySplitter(settings.line_bytes, reading.name).split(text)
    else:
        blocks = split.LineSplitter(settings.line_bytes).split(text)
    if reading.mapping is not None:
        columns = reading.mapping.columns()
        json: Decoder = FlatJsonDecoder(reading.name, columns, reading.settings.line_bytes)
    else:
        fields = {each.column: each for meter in reading.meters.values() for each in meter.fields}
        json = JsonDecoder(reading.name, tuple(fields.values()), reading.settings.line_bytes)
    return json, _counted(reading, blocks)


def _counted(reading: Reading, blocks: Iterator[Block]) -> Iterator[Block]:
    """Blocks, until there are too many rows for a file of its size."""
    budget, rows = reading.budget, 0
    for block in blocks:
        rows += block.lines
        budget.check_rows(rows, reading.name)
        yield block


def _csv(reading: Reading, text: Iterator[bytes]) -> tuple[Decoder, Iterator[Block]]:
    first, rest = _first_line(text, reading)
    given = reading.mapping.delimiter if reading.mapping else None
    delimiter = given or find_delimiter(first, shape.needed_columns(reading.mapping))
    if first.endswith(b"\r"):
        # Programs that end lines so write the breaks within values so, too.
        rest = split.with_lf(rest)
    columns = header(first, reading.name, delimiter)
    shape.check_columns(columns, reading.name, reading.mapping)
    _note_ignored(reading, columns)
    texts = shape.text_columns(columns, reading.mapping)
    decoder = CsvDecoder(reading.name, columns, reading.settings.line_bytes, delimiter, texts)
    splitter = split.LineSplitter(reading.settings.line_bytes, decoder.records, line=2)
    return decoder, _counted(reading, splitter.split(rest))


def _note_ignored(reading: Reading, columns: list[str]) -> None:
    """Note the columns that nobody reads; a mapping leaves out what it does not want."""
    if reading.mapping is not None:
        return
    read = shape.wanted_columns(columns, None)
    others = find_ignored(columns, read)
    fields = {each.column for meter in reading.meters.values() for each in meter.fields}
    reading.ignored.update(suggestions(others, fields, read))


def _first_line(text: Iterator[bytes], reading: Reading) -> tuple[bytes, Iterator[bytes]]:
    line_bytes = reading.settings.line_bytes
    head = b""
    for chunk in text:
        head += chunk
        if b"\n" in head or len(head) > line_bytes:
            break
    line, _, rest = head.partition(b"\n")
    if len(line) > line_bytes:
        detail = f"the first line is longer than {line_bytes} bytes; it must name the columns"
        raise UnreadableSource(reading.name, Reason.MISSING_HEADER, detail)
    return line, chain([rest] if rest else [], text)


def _parquet(reading: Reading) -> Iterator[Decoded]:
    # Parquet is read from its end: compressed as a whole it has to be unpacked first.
    if reading.format.compression is None:
        path = reading.path
    else:
        path = reading.scratch / "uncompressed.parquet"
        with disk(), path.open("wb") as file:
            for chunk in source_file.chunks(
                reading.path,
                reading.name,
                reading.format.compression,
                reading.settings.block_bytes,
                reading.budget,
            ):
                file.write(chunk)
    types = source_file.parquet_types(path, reading.name)
    shape.check_columns(list(types), reading.name, reading.mapping)
    columns = shape.wanted_columns(list(types), reading.mapping)
    _note_ignored(reading, list(types))
    check_types({column: types[column] for column in columns}, reading.name)
    first, position = 1, reading.position
    for batch in source_file.batches(path, reading.name, columns, position, reading.budget):
        yield decode_batch(batch, first, reading.name)
        first += len(batch)
