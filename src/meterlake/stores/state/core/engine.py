"""The database below State: SQLite or PostgreSQL, opened, migrated, its errors translated."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from threading import Lock, local
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    Select,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from meterlake.model.errors import Invalid, Unavailable
from meterlake.stores.files.durable import MAKE_ROOM, out_of_space
from meterlake.stores.interruption import interruption_of
from meterlake.stores.state.core.pool import (
    POOL_IDLE,
    POOL_MAX,
    WAIT_SECONDS,
    leave_pool,
    share_state_pool,
)

BUSY_SECONDS: Final = 10
_NAME: Final = "the State database"
# A server that accepts connections and then says nothing is given up after so long.
_CONNECT_SECONDS: Final = 2
# After so many seconds of silence a peer is asked whether it is there, so often, so many times.
_ALIVE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_GONE_SECONDS: Final = 25
# The newest revision in migrations/versions; a test compares the two.
HEAD: Final = "0049"
_MIGRATIONS: Final = Path(__file__).parent / "migrations"

# A wrong statement or value is our bug; everything else that a driver raises is the world's.
_OURS: Final = (DataError, IntegrityError, NotSupportedError, ProgrammingError)

# How a migration keeps others out; SQLite's BEGIN IMMEDIATE does so by itself.
_MIGRATION_LOCK: Final = {"postgresql": "SELECT pg_advisory_xact_lock(4706352987)"}
# A reader sees one state of the database from its first statement to its last, as in SQLite.
_READER_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "postgresql": {"isolation_level": "REPEATABLE READ"}
}


@contextmanager
def translate_errors(folder: Path | None = None, name: str = _NAME) -> Iterator[None]:
    """Turn a driver's complaint about the world into our own.

    Args:
        folder: Where the database's file lies, if it is one: a full disk is named.
        name: What the database is called, without a password.

    Raises:
        Unavailable: The database is locked, full, damaged, gone.
    """
    try:
        yield
    except DBAPIError as error:
        if interruption := interruption_of(error):
            raise interruption from None
        if isinstance(error, _OURS):
            raise
        reason = out_of_space(folder) if folder is not None else None
        if reason:
            raise Unavailable(name, reason, MAKE_ROOM) from error
        raise Unavailable(name, str(error.orig).strip()) from error
    except PoolTimeout as error:
        raise Unavailable(name, str(error)) from error


def sqlite_url(path: Path) -> URL:
    """The URL of a SQLite file; no character of the path means anything but itself."""
    return URL.create("sqlite", database=str(path))


def parse_url(setting: str) -> URL:
    """Read the URL of the settings.

    Raises:
        Invalid: It is not the URL of a database that State can live in.
    """
    rule = "it must be postgresql://user@host/database"
    try:
        url = make_url(setting)
    except (ArgumentError, ValueError):
        # The text may hold a password: it is not repeated.
        raise Invalid("state", "***", rule) from None
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite":
        return url.set(drivername="sqlite")
    raise Invalid("state", url.drivername, rule)


class Database:
    """Connections to State's database, for reading or for writing."""

    def __init__(self, url: URL) -> None:
        is_file = url.get_backend_name() == "sqlite"
        self._folder = Path(url.database).absolute().parent if is_file and url.database else None
        self._name = f"{_NAME}{place(url)}"
        self._url = url
        self._pool = None if is_file else share_state_pool(url, lambda: _make_engine(url))
        self.engine = _make_engine(url) if self._pool is None else self._pool.engine
        options = _READER_OPTIONS.get(self.engine.dialect.name, {})
        self._reader = self.engine.execution_options(**options)
        self._writer = self.engine.execution_options(writes=True)
        # Writers of one process take turns here: SQLite's own waiting sleeps between its tries.
        self._turn = Lock() if is_file else None
        # In a file nobody is waited for: reading it is no reason to leave the thread.
        self.is_file = is_file
        self._driver: Any = self.engine.dialect.loaded_dbapi
        self._compiled: dict[Select[Any], Any] = {}
        self._own = local()
        self._kept: list[Any] = []
        self._closed = False

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_errors(self._folder, self._name)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent state of the database; nothing that is written is kept.

        Raises:
            Unavailable: The database cannot be reached.
        """
        with (
            self._connection_turn(),
            self._translate_errors(),
            self._reader.connect() as connection,
            connection.begin() as transaction,
        ):
            yield connection
            transaction.rollback()

    def first(self, statement: Select[Any], values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The first row of one statement, its values as the driver gives them.

        For what is asked all the time: SQLAlchemy's way around a statement takes longer than the
        statement.

        Raises:
            Unavailable: The database cannot be reached.
        """
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = self._compiled[statement] = statement.compile(self.engine)
        names = getattr(compiled, "positiontup", None)
        given = values if names is None else tuple(values[name] for name in names)
        try:
            with (
                self._connection_turn(),
                self._translate_errors(),
                self._at_hand() as connection,
            ):
                cursor = connection.cursor()
                try:
                    cursor.execute(compiled.string, given)
                    row: tuple[Any, ...] | None = cursor.fetchone()
                finally:
                    cursor.close()
        except self._driver.OperationalError as error:
            # Nobody between the driver and us turns its errors into those of SQLAlchemy.
            raise Unavailable(self._name, str(error).strip()) from error
        return row

    @contextmanager
    def _at_hand(self) -> Iterator[Any]:
        """A connection of the driver for one look; to a file every thread keeps its own."""
        if not self.is_file:
            connection = self.engine.raw_connection()
            try:
                yield connection
            finally:
                connection.close()
            return
        kept = getattr(self._own, "connection", None)
        if kept is None:
            kept = self._own.connection = self.engine.raw_connection()
            self._kept.append(kept)
        yield kept.driver_connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is committed at the end, or leaves nothing if the body raises.

        Raises:
            Unavailable: The database cannot be reached, or another writer did not finish in time.
        """
        with (
            self._my_turn(),
            self._connection_turn(),
            self._translate_errors(),
            self._writer.connect() as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Hold a lock among all machines while the body runs; False if another process holds it.

        The server frees it when its session ends, so also when the network was cut for long: what
        must not be done twice is checked where it is done. A file has one machine, whose processes
        keep each other out by locks in files.

        Raises:
            Unavailable: The database cannot be reached.
        """
        if self.is_file:
            yield True
            return
        key = int.from_bytes(sha256(name.encode()).digest()[:8], signed=True)
        # Each statement for itself: no transaction stays open while the body runs.
        with self._own_session() as session:
            with self._translate_errors():
                taken = session.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": key})
            try:
                yield bool(taken)
            finally:
                if taken:
                    # Where that fails, the session ends, and the lock with it.
                    try:
                        session.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})
                    except DBAPIError as error:
                        session.invalidate(error)

    @contextmanager
    def _own_session(self) -> Iterator[Connection]:
        """A session beside the pool: a lock is held for as long as its work takes."""
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            hide_parameters=True,
            isolation_level="AUTOCOMMIT",
            connect_args=_driver_options(self._url),
        )
        with self._translate_errors():
            session = engine.connect()
        try:
            yield session
        finally:
            session.close()

    def _connection_turn(self) -> AbstractContextManager[None]:
        """Wait for a connection of the process."""
        return nullcontext() if self._pool is None else self._pool.turn(self._name)

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise Unavailable(self._name, "another writer did not finish in time")
        try:
            yield
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._kept:
            connection.close()
        self._kept.clear()
        self._own = local()
        if self._pool is None:
            self.engine.dispose()
        elif not self._closed:
            leave_pool(self._pool)
        self._closed = True


def _make_engine(url: URL) -> Engine:
    is_file = url.get_backend_name() == "sqlite"
    # Threads of a file take what they need: nobody else has to do with less.
    size = (20, 40) if is_file else (POOL_IDLE, POOL_MAX - POOL_IDLE)
    engine = create_engine(
        url,
        connect_args=_driver_options(url),
        # A connection that died while it rested in the pool is replaced, not handed out.
        pool_pre_ping=not is_file,
        # Values of a statement are data of customers: no message about it has them.
        hide_parameters=True,
        pool_size=size[0],
        max_overflow=size[1],
        pool_timeout=WAIT_SECONDS,
    )
    if is_file:
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def place(url: URL) -> str:
    """Where a server is, to go on in a sentence; a file is named where it matters."""
    if url.get_backend_name() == "sqlite":
        return ""
    host, port = (_display(url.query.get(name)) for name in ("host", "port"))
    found = ":".join(filter(None, (url.host or host, str(url.port or "") or port)))
    return f" at {found}" if found else ""


def _display(value: tuple[str, ...] | str | None) -> str:
    return ",".join(value) if isinstance(value, tuple) else value or ""


def _driver_options(url: URL) -> dict[str, Any]:
    if url.get_backend_name() == "sqlite":
        return {"timeout": BUSY_SECONDS}
    return connection_options(url, _CONNECT_SECONDS)


def connection_options(url: URL, connect_seconds: int) -> dict[str, int | str]:
    """What libpq is told beyond the URL, which may say something else.

    A peer that is gone without a word is noticed after some 25 seconds: by us, and by the server,
    which else would keep the transactions and the locks of a lost machine for hours.
    """
    timeout = {"tcp_user_timeout": _GONE_SECONDS * 1000}
    theirs = {f"tcp_{name}": value for name, value in _ALIVE.items()} | timeout
    options: dict[str, int | str] = {
        "connect_timeout": connect_seconds,
        "keepalives": 1,
        **_ALIVE,
        **timeout,
        "options": " ".join(f"-c {name}={value}" for name, value in theirs.items()),
    }
    return {name: value for name, value in options.items() if name not in url.query}


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # Without this Python's sqlite3 begins transactions itself, too late and never IMMEDIATE.
    connection.isolation_level = None
    _to_wal(connection)
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _to_wal(connection: Any) -> None:
    """Switch the file's journal once; where several do so at a time, SQLite does not wait."""
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.OperationalError as error:
            # Only a lock goes away while one waits: a full disk or a damaged file stays.
            locked = (error.sqlite_errorcode or 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not locked or time.monotonic() > give_up:
                raise
            time.sleep(0.02)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def revision(connection: Connection) -> str | None:
    """The revision that a database is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def migrate(database: Database) -> None:
    """Bring a database to the newest revision; one that is there already is only looked at.

    Raises:
        Invalid: A newer version of meterlake made the database.
        Unavailable: The database cannot be reached.
    """
    with database.reading() as connection:
        if revision(connection) == HEAD:
            return
    with database.writing() as connection:
        lock = _MIGRATION_LOCK.get(connection.dialect.name)
        if lock:
            connection.exec_driver_sql(lock)
        found = revision(connection)
        if found != HEAD:
            _upgrade(connection, found)


def _upgrade(connection: Connection, found: str | None) -> None:
    # Alembic costs 0.1 s to import, and a database is migrated once.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    # The value goes through ConfigParser, to which % means something.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        # Of no use to a new database.
        from meterlake.stores.state.core.migrations import earlier  # noqa: PLC0415

        if found not in earlier.REVISIONS:
            raise Invalid(
                "state", found, f"it must be a revision that this version knows, at most {HEAD}"
            )
        earlier.upgrade(connection, found)
    command.upgrade(config, "head")
