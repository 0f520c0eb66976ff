"""Files that are small and mean much: what reads them must not take the memory that they ask for."""

import gzip
import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

HEADER: Final = b"meter,account,uid,ts,measure.gb,where.region\n"
_ROW: Final = b"egress,acme,u,2026-09-01T00:00:00Z,1,eu\n"
_ROWS: Final = 65_536
_TEXTS: Final = {
    "meter": "egress",
    "account": "acme",
    "uid": "u",
    "ts": "2026-09-01T00:00:00Z",
    "measure.gb": "1",
    "where.region": "eu",
}


def same_value(rows: int, size: int) -> pa.Array:
    """One text for all rows, stored once."""
    indices = pa.array([0] * rows, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["x" * size]))


def long_values(rows: int, size: int) -> pa.Array:
    """A text for each row."""
    return pa.array(["x" * size] * rows, pa.large_string())


def parquet(rows: int, columns: Mapping[str, pa.Array], **options: Any) -> bytes:
    """A Parquet file of our own format, but for some columns."""
    given = {name: same_value(rows, 0) for name in _TEXTS} | {
        name: pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
        for name, text in _TEXTS.items()
    }
    file = io.BytesIO()
    pq.write_table(pa.table({**given, **columns}), file, compression="zstd", **options)
    return file.getvalue()


def _zipped(content: bytes, name: str = "rows.csv") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def _zstd(content: bytes, **options: Any) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, **options)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(content)


def _accepted(rows: int) -> bytes:
    """Rows that are accepted with the longest text that a field may hold."""
    region = "é" * 1024
    lines = [f"egress,acme,u{n},2026-09-01T00:00:00Z,1,{region}\n" for n in range(rows)]
    return HEADER + "".join(lines).encode()


def _zeros(size: int) -> bytes:
    """What nearly every packer makes very small."""
    return b"PAR1" + b"\0" * size + b"PAR1"


def _footer(length: int) -> bytes:
    return b"PAR1" + b"\x15" * length + length.to_bytes(4, "little") + b"PAR1"


def _many_nodes(count: int) -> bytes:
    """A footer whose schema says that it has very many nodes."""
    varint, left = b"", count
    while left >= 0x80:
        varint, left = varint + bytes([left & 0x7F | 0x80]), left >> 7
    footer = b"\x15\x02\x19\xfc" + varint + bytes([left]) + b"\x00" * 100
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _nested(depth: int) -> bytes:
    row = b'{"meter":"egress","account":"acme","uid":"u","ts":"2026-09-01T00:00:00Z",'
    return row + b'"measure":{"gb":1},"where":' + b'{"x":' * depth + b"1" + b"}" * depth + b"}\n"


def _keys(lines: int, count: int) -> bytes:
    return b"".join(
        b"{" + b",".join(b'"k%d_%d":1' % (line, key) for key in range(count)) + b"}\n"
        for line in range(lines)
    )


_DELTA: Final = {"use_dictionary": False, "column_encoding": {"where.region": "DELTA_BYTE_ARRAY"}}
_LARGE: Final = {"dictionary_pagesize_limit": 1 << 30}

# By name: how to make it, and what becomes of it: a reason of the whole file, or None if it is read.
SMALL: Final[dict[str, tuple[Callable[[], bytes], str | None]]] = {
    # Read in parts.
    "value-of-100-kB-in-each-row.parquet": (
        lambda: parquet(20_000, {"where.region": same_value(20_000, 100_000)}), None,
    ),
    "repeated-prefixes.parquet": (
        lambda: parquet(2_000, {"where.region": long_values(2_000, 100_000)}, **_DELTA), None,
    ),
    "repeated-prefixes-2.parquet": (
        lambda: parquet(
            2_000, {"where.region": long_values(2_000, 100_000)}, **_DELTA, data_page_version="2.0"
        ), None,
    ),
    "longest-texts-accepted.csv.gz": (lambda: gzip.compress(_accepted(150_000), 1), None),
    "short-lines.csv.gz": (lambda: gzip.compress(HEADER + b"x\n" * 600_000), None),
    "short-elements.json.gz": (lambda: gzip.compress(b"[" + b"12," * 600_000 + b"1]"), None),
    "one-line.csv.zip": (lambda: _zipped(HEADER + b"x" * (300 << 20)), None),
    "zeros.csv.zst": (lambda: _zstd(HEADER + b"\0" * (300 << 20)), None),
    "nested.ndjson": (lambda: _nested(100_000), None),
    "very-many-keys.ndjson.gz": (lambda: gzip.compress(_keys(10, 60_000)), None),
    # Refused by name.
    "value-of-200-MB.parquet": (
        lambda: parquet(_ROWS, {"where.region": same_value(_ROWS, 200 << 20)}, **_LARGE),
        "TooLarge",
    ),
    "row-of-40-MB.parquet": (
        lambda: parquet(_ROWS, {"where.region": same_value(_ROWS, 40 << 20)}, **_LARGE),
        "TooLarge",
    ),
    "page-of-400-MB.parquet": (
        lambda: parquet(
            400, {"where.region": long_values(400, 1 << 20)}, use_dictionary=False,
            data_page_size=1 << 30,
        ),
        "TooLarge",
    ),
    "footer-of-50-MB.parquet.gz": (lambda: gzip.compress(_footer(50 << 20)), "TooLarge"),
    "schema-of-a-million.parquet": (lambda: _many_nodes(1_000_000), "TooLarge"),
    "unclosed.json.gz": (lambda: gzip.compress(b"[" * 200_000), "DamagedFile"),
}  # fmt: skip

# Those that are small, and would be very much work.
LABORIOUS: Final[dict[str, Callable[[], bytes]]] = {
    "rows.parquet": lambda: parquet(300_000, {}),
    "value-of-100-kB-in-each-row.parquet": SMALL["value-of-100-kB-in-each-row.parquet"][0],
    "short-lines.csv.gz": lambda: gzip.compress(HEADER + b"x\n" * 300_000),
    "short-lines.csv.zst": lambda: _zstd(HEADER + b"x\n" * 300_000),
    "short-lines.ndjson.zip": lambda: _zipped(b"1\n" * 300_000, "rows.ndjson"),
    "short-elements.json.gz": lambda: gzip.compress(b"[" + b"12," * 300_000 + b"1]"),
    "zeros.csv.zst": lambda: _zstd(HEADER + b"\0" * (80 << 20)),
    "zeros.parquet.gz": lambda: gzip.compress(_zeros(180 << 20)),
    "zeros.parquet.zst": lambda: _zstd(_zeros(80 << 20)),
    "zeros.parquet.zip": lambda: _zipped(_zeros(180 << 20), "rows.parquet"),
    "rows.parquet.gz": lambda: gzip.compress(parquet(300_000, {})),
}  # fmt: skip
# Those that are as small, and no more work than any file may be.
MODEST: Final[dict[str, Callable[[], bytes]]] = {
    "rows.parquet": lambda: parquet(100_000, {}),
    "rows.parquet.gz": lambda: gzip.compress(parquet(100_000, {})),
    "rows.parquet.zst": lambda: _zstd(parquet(100_000, {})),
    "rows.parquet.zip": lambda: _zipped(parquet(100_000, {}), "rows.parquet"),
    "rows.csv.gz": lambda: gzip.compress(HEADER + _ROW * 100_000),
}

# Those that take many seconds, as they were found.
LARGE: Final[dict[str, tuple[Callable[[], bytes], str | None]]] = {
    "values-of-900-kB.parquet": (
        lambda: parquet(5_000, {"where.region": same_value(5_000, 900_000),
                                "uid": same_value(5_000, 900_000)}, **_LARGE), None,
    ),
    "window-of-2-GB.csv.zst": (
        lambda: _zstd(HEADER + _ROW * (4 << 20), window_log=31, enable_ldm=True),
        "DamagedCompression",
    ),
    "lines-of-quotes.csv.gz": (lambda: gzip.compress(HEADER + b'"\n' * 1_000_000), None),
    "lines-of-digits.ndjson.gz": (lambda: gzip.compress(b"1\n" * 1_500_000), None),
}  # fmt: skip
