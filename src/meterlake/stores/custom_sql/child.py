"""The process that custom SQL is parsed, planned and run in. It is started by the path of this file.

It imports nothing of ours, because it has to start fast, and reaches nothing: DuckDB is locked, and
the system refuses it further files, sockets and memory. Whoever started it kills it when it takes
too long; the limit of the processor's time ends it where that one is gone, too.

A message is a line of JSON. After the one of a request `table` comes an Arrow IPC stream. Values are
answered as text, never as objects.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    import pyarrow as pa

sys.path += sys.argv[3:]  # where the libraries are

import duckdb

# In this order: the last ones forbid the first ones.
_LOCKS: Final = (
    # The same rows give the same value.
    "SET threads = 1",
    "SET temp_directory = ''",
    "SET errors_as_json = true",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET allow_persistent_secrets = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_TABLE: Final = "measurements"
# The exit code of one whose memory ran out; `process.py` knows it, too.
_NO_MEMORY: Final = 77
# Beyond what DuckDB counts: its planner, texts, and what the allocator holds on to.
_ROOM: Final = 512 * 2**20
_UNITS: Final = {"MB": 10**6, "GB": 10**9}
# Nobody asks for so long: whoever asks next starts another one.
_IDLE_S: Final = 60
_ERROR_MAX: Final = 10_000


# DuckDB and pyarrow load them if they are there. The first takes longer than all the rest; the
# second starts threads, and takes more time and memory than a plain stream of all columns.
_NOT_LOADED: Final = {"pandas", "pyarrow.dataset"}


class _Without:
    """Finds nothing of what shall not be loaded."""

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> None:
        if fullname in _NOT_LOADED:
            raise ModuleNotFoundError(fullname, name=fullname)


class _Rows:
    """Measurements that are replaced while statements that read them stay planned."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None
        return self.table.__arrow_c_stream__(requested_schema)


class _Child:
    """One DuckDB, and what is asked of it."""

    def __init__(self, requests: BinaryIO, memory: str) -> None:
        self.requests = requests
        self.used = 0
        self.memory = int(memory[:-2]) * _UNITS[memory[-2:]]
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.connection.execute("SET enable_progress_bar = false")
        self.connection.execute(f"SET memory_limit = '{memory}'")
        for statement in _LOCKS:
            self.connection.execute(statement)
        self.rows = _Rows()
        self.schema: pa.Schema | None = None
        self.planned: dict[str, str] = {}

    def reserve(self, rows: int = 0) -> None:
        """Let the system refuse more memory than the query may take, beside the rows it reads."""
        if sys.platform == "linux":  # elsewhere it is not kept, or refused
            _limit(resource.RLIMIT_AS, self.used + 2 * self.memory + 2 * rows + _ROOM)

    def ping(self, _: dict[str, Any]) -> dict[str, Any]:
        return {}

    def tokens(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"places": [place for place, _ in duckdb.tokenize(request["sql"])]}

    def parse(self, request: dict[str, Any]) -> dict[str, Any]:
        # Not as a parameter: for those DuckDB loads files.
        quoted = request["sql"].replace("'", "''")
        row = self.connection.execute(f"SELECT json_serialize_sql('{quoted}')").fetchone()
        assert row is not None
        return {"tree": row[0]}

    def keywords(self, _: dict[str, Any]) -> dict[str, Any]:
        found = self.connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        )
        return {"keywords": [name for (name,) in found.fetchall()]}

    def bind(self, request: dict[str, Any]) -> dict[str, Any]:
        """What a query over no rows of given columns would give; it is planned and not run."""
        quoted = {name.replace('"', '""'): kind for name, kind in request["columns"].items()}
        listed = ", ".join(f'"{name}" {kind}' for name, kind in quoted.items())
        self.connection.execute(f"CREATE OR REPLACE TABLE {_TABLE} ({listed})")
        # What cannot be planned in time shall be known now. Planning is more than describing.
        self._at_place("PREPARE bound AS ", request["sql"])
        self.connection.execute("DEALLOCATE bound")
        rows = self._at_place("DESCRIBE ", request["sql"])
        return {"types": [str(row[1]) for row in rows.fetchall()]}

    def table(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measurements in the place of those that were there."""
        # Never both at once: the limit is that of the new ones.
        self.rows.table = None
        self.reserve(request["bytes"])
        self.put(_receive(self.requests))
        return {}

    def put(self, table: "pa.Table") -> None:
        self.rows.table = table
        if table.schema == self.schema:
            return
        for name in self.planned.values():
            self.connection.execute(f"DEALLOCATE {name}")
        self.planned.clear()
        self.schema = table.schema
        self.connection.register(_TABLE, self.rows)

    def value(self, request: dict[str, Any]) -> dict[str, Any]:
        """Types and up to two rows of what a query gives; it is planned at its first run."""
        sql = request["sql"]
        if sql not in self.planned:
            name = f"q{len(self.planned)}"
            self._at_place(f"PREPARE {name} AS ", sql)
            self.planned[sql] = name
        result = self.connection.execute(f"EXECUTE {self.planned[sql]}")
        types = [str(each[1]) for each in result.description or ()]
        # Python's objects of other types need further libraries.
        rows = result.fetchmany(2) if types[0].startswith("DECIMAL") or "INT" in types[0] else []
        texts = [str(row[0]) if isinstance(row[0], int | Decimal) else None for row in rows]
        return {"types": types, "rows": texts}

    def _at_place(self, before: str, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(before + sql)
        except duckdb.Error as error:
            # For the place in the query itself.
            error.moved = len(before)  # type: ignore[attr-defined]
            raise


def _receive(source: BinaryIO) -> "pa.Table":
    from pyarrow import ipc  # noqa: PLC0415 - who only checks queries has none

    with ipc.open_stream(source, options=ipc.IpcReadOptions(use_threads=False)) as stream:
        return stream.read_all()


def _address_space() -> int:
    with suppress(OSError):  # no Linux
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        return int(pages) * resource.getpagesize()
    return 0


def _limit(what: int, bound: int) -> None:
    hard = resource.getrlimit(what)[1]
    soft = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.setrlimit(what, (soft, hard))


def _warm_up(child: _Child) -> None:
    """What libraries load when they need it first, they load while there still are files."""
    sys.meta_path.insert(0, _Without())
    import pyarrow as pa  # noqa: PLC0415

    types = {"n": pa.decimal128(38, 12), "t": pa.string(), "ts": pa.timestamp("us")}
    rows = pa.Table.from_arrays([pa.nulls(1, kind) for kind in types.values()], list(types))
    sink = BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    sink.seek(0)
    child.put(_receive(sink))
    child.connection.execute(f"SELECT max(n), max(t), max(ts), 1.5 FROM {_TABLE}").fetchall()


def _answer(do: Callable[[dict[str, Any]], dict[str, Any]], request: dict[str, Any]) -> Any:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    used = spent.ru_utime + spent.ru_stime
    _limit(resource.RLIMIT_CPU, math.ceil(used + request.pop("seconds")) + 2)
    try:
        return do(request)
    except duckdb.OutOfMemoryException:
        return {"error": "memory"}
    except MemoryError:
        os._exit(_NO_MEMORY)
    except (duckdb.FatalException, duckdb.InternalException) as error:
        return {"error": str(error)[:_ERROR_MAX], "moved": 0, "over": True}
    except (duckdb.Error, OverflowError, ValueError) as error:
        return {"error": str(error)[:_ERROR_MAX], "moved": getattr(error, "moved", 0)}


def _main() -> None:
    requests, answers = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    mode, memory = sys.argv[1:3]
    child = _Child(requests, memory)
    if mode == "run":
        _warm_up(child)
    child.used = _address_space()
    child.reserve()
    # From here on no file is opened, written, or left behind by a crash.
    for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(what, (0, 0))
    answer: Any = {}
    while True:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()
        # Nothing is left in the buffer: one request is sent when the one before is answered.
        if mode == "check" and not select([requests], [], [], _IDLE_S)[0]:
            return
        line = requests.readline()
        if not line:
            return
        request = json.loads(line)
        answer = _answer(getattr(child, request.pop("do")), request)


if __name__ == "__main__":
    _main()
