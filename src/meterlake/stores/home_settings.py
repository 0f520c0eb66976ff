"""Settings that all processes of a home share: kept in the home, taken or compared at start.

`settings.json` holds them. A process that was told nothing takes what stands there; one that was
told something else does not start.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from meterlake.model.errors import Conflict, Invalid, NotFound, Required
from meterlake.model.values import wire
from meterlake.model.values.problems import describe_rule
from meterlake.model.work.jobs import FanOutRunner
from meterlake.settings import SCOPES, Settings, SettingScope, variable
from meterlake.stores.dependent_settings import refuse_broken_promises
from meterlake.stores.files.durable import disk, write_durably
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.objects.base import checked_key
from meterlake.stores.objects.destination import split_url

FILE_NAME: Final = "settings.json"
_LOCK: Final = ".settings.lock"
_HIDDEN: Final = "***"
# A URL of these may have a password, which is never written down.
_DATABASES: Final = frozenset({"state", "catalog"})
_STATE_FILE: Final = "state.sqlite"
# A slash is missing: no folder of such a name is meant.
_SCHEMES: Final = ("s3:", "gs:")
Known = Mapping[str, Any]


def agree_on_settings(settings: Settings, *, lasting: bool = False) -> Settings:
    """The settings of a process, completed by those of its home.

    Args:
        settings: What the process was told.
        lasting: Whether it stays: then it also writes down what services agree on.

    Raises:
        Conflict: It was told something else than the home says.
        Required: The home has a secret that only a variable can tell, and there is none.
        Invalid: A setting breaks a rule, or something in the home's file is not right.
    """
    home = settings.home.absolute()
    # Refuse what a home could not be opened with, before it stands in the home.
    for setting in ("state", "catalog", "lake", "objects"):
        value = getattr(settings, setting)
        if setting in settings.model_fields_set and value is not None:
            check_location(setting, value, variable(setting))
    if settings.runner is not None:
        FanOutRunner.parse(settings.runner, variable("runner"))
    names = [name for name in settings.model_fields_set if SCOPES[name] is not SettingScope.PROCESS]
    given = {name: getattr(settings, name) for name in names}
    given_settings = {
        name: _to_stored(name, each) for name, each in given.items() if each is not None
    }
    known, own = _read_known(home), given_settings
    _compare(known, own, home)
    scopes = {SettingScope.HOME, SettingScope.ROUTE} | (
        {SettingScope.SERVICE} if lasting else set()
    )
    new = {name for name in own if name not in known and SCOPES[name] in scopes}
    taken = _take_settings(known, own, lasting=lasting)
    if lasting:
        # Before anything of it stands in the home.
        refuse_broken_promises(settings.model_copy(update=taken))
    if new and home.is_dir():
        with hold_lock(home / _LOCK):
            # What another process has written meanwhile stays.
            known = {name: own[name] for name in new} | dict(_read_known(home))
            _write(home, known)
        _compare(known, own, home)
        taken = _take_settings(known, own, lasting=lasting)
    return settings.model_copy(update=taken)


def shared_settings(settings: Settings) -> dict[str, Any]:
    """What stands in a home, by name."""
    return dict(_read_known(settings.home.absolute()))


def change(settings: Settings, name: str, value: str | None) -> bool:
    """Change what stands in a home, for processes that start from now on; None removes it.

    Returns:
        Whether the value had a password, which was left out: every process needs the variable.

    Raises:
        NotFound: There is no such home.
        Invalid: It is no setting that homes have, or no value of it.
    """
    change_together(settings, {name: value})
    return value is not None and name in _DATABASES and _HIDDEN in _without_password(value)


def change_together(settings: Settings, values: Mapping[str, str | None]) -> None:
    """Change several settings of a home at once, or none of them; see `change`."""
    home = settings.home.absolute()
    if not home.is_dir():
        hint = "; `meterlake init --name NAME` makes one"
        raise NotFound("meterlake home", str(settings.home), hint)
    for name, value in values.items():
        if SCOPES.get(name, SettingScope.PROCESS) is SettingScope.PROCESS:
            shared = sorted(
                each for each, scope in SCOPES.items() if scope is not SettingScope.PROCESS
            )
            raise Invalid(
                "setting", name, f"it must be a setting that homes have: {', '.join(shared)}"
            )
        if name == "secret_key" and value is not None:
            raise Invalid(
                "setting", name, "it is never written on a command line; unset it instead"
            )
        if value is not None:
            check_location(name, value, name)
    with hold_lock(home / _LOCK):
        known = {name: each for name, each in _read_known(home).items() if name not in values}
        for name, value in values.items():
            if value is not None:
                known[name] = _to_stored(
                    name,
                    _parse_value(name, wire.loads(value) if name == "redirect_urls" else value),
                )
        # As a server would find them that is told what this process was told.
        defaults = {name: Settings.model_fields[name].default for name in values}
        found = {name: _parse_value(name, each) for name, each in known.items() if name in SCOPES}
        refuse_broken_promises(settings.model_copy(update=defaults | found), values)
        _write(home, known)


def check_location(name: str, value: str, field: str) -> None:
    """Refuse what no database, folder or bucket of a home can be called.

    Args:
        name: The setting: `state`, `catalog`, `lake` or `objects`; others are not looked at.
        value: Its value.
        field: Where it was written.

    Raises:
        Invalid: It is none.
    """
    match name:
        case "state" | "catalog":
            _check_database(name, value, field)
        case "lake" | "objects" if "://" in value:
            scheme, _, prefix = split_url(value, field)
            if scheme == "file" and name == "lake":
                raise Invalid(
                    field, value, "it must be a folder without file://, or an s3:// or gs:// URL"
                )
            if scheme != "file" and prefix.strip("/"):
                checked_key(prefix.strip("/"))
        case "lake" | "objects" if not value or value.startswith(_SCHEMES):
            raise Invalid(
                field, value, "it must be a folder, s3://bucket/prefix or gs://bucket/prefix"
            )


def _check_database(name: str, value: str, field: str) -> None:
    backends = {"postgresql", "sqlite"} if name == "state" else {"postgresql"}
    with suppress(ArgumentError, ValueError):
        if make_url(value).get_backend_name() in backends:
            return
    # The text may hold a password: it is not repeated.
    raise Invalid(field, _HIDDEN, "it must be postgresql://user@host/database")


def stored_value(name: str, value: Any) -> Any:
    """A value as it stands in a home: absolute, and without a password; None stays None."""
    return None if value is None else _to_stored(name, value)


def key_elsewhere(home: Path) -> bool:
    """Whether the key of a home's secrets comes from a variable, and is not to be made."""
    return "secret_key" in _read_known(home)


def _to_stored(name: str, value: Any) -> Any:
    """A value as it stands in the file: absolute, and no secret."""
    match name:
        case "secret_key":
            return _fingerprint(_checked_key(value.get_secret_value()))
        case "state" | "catalog":
            return _without_password(value)
        case "export_folder" | "document_templates" | "document_fonts":
            return str(value.absolute())
        case "objects" | "lake":
            return value.rstrip("/") if "://" in value else str(Path(value).absolute())
        case "redirect_urls" | "webhook_allow":
            return list(value)
        case _:
            # As JSON gives it back.
            return Decimal(str(value)) if isinstance(value, float) else value


def _checked_key(key: str) -> str:
    from cryptography.fernet import Fernet  # noqa: PLC0415 - few commands need it

    try:
        Fernet(key)
    except ValueError:
        raise Invalid(
            "secret key", "***", "it must be 32 random bytes in URL-safe Base64"
        ) from None
    return key


def _without_password(text: str) -> str:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        return _HIDDEN  # No URL: whoever opens it says so.
    if "password" in url.query:
        url = url.difference_update_query(["password"]).set(password=_HIDDEN)
    return url.render_as_string(hide_password=True)


def _compare(known: Known, own: Known, home: Path) -> None:
    for name, value in own.items():
        if SCOPES[name] is not SettingScope.ROUTE and not _same(name, known.get(name), value, home):
            raise Conflict(_difference(name, known.get(name), value))


def _same(name: str, known: Any, value: Any, home: Path) -> bool:
    if name == "state":
        if known is None:
            file = home / _STATE_FILE
            known = f"sqlite:///{file}" if file.exists() else value
        return _database(known) == _database(value)
    if name in {"lake", "catalog"} and known is None:
        return not any((home / "lakes").glob("*/catalog.sqlite"))
    if name == "catalog":
        return _database(known) == _database(value)
    if name == "secret_key" and known is None:
        # Whether a key from a variable is that of the home's file, if there is one.
        file = home / "secret.key"
        with disk():
            return not file.exists() or _fingerprint(file.read_text().strip()) == value
    return known is None or bool(known == value)


def _database(url: str) -> tuple[str, str | None]:
    """What tells databases apart; one may be reached under several names of its host."""
    with suppress(ArgumentError, ValueError):
        found = make_url(url)
        return found.get_backend_name(), found.database
    return url, None


def _fingerprint(key: str) -> str:
    return hashlib.sha256(f"meterlake {key}".encode()).hexdigest()[:16]


def _difference(name: str, known: Any, value: Any) -> str:
    if name == "secret_key":
        return f"{variable(name)} is another key than the one of this home: set it to that one"
    was = f"{'the' if name == 'lake' else 'SQLite in the'} home folder" if known is None else known
    hint = f"stop the home's processes and run `meterlake settings set {name} VALUE`"
    if name in {"lake", "catalog"}:
        moving = f"move its lakes with `meterlake move-lake --{name} VALUE`"
        hint = moving if known is None else f"{moving}, or {hint}"
    return (
        f"{variable(name)} is {value} for this process and {was} for its home: unset the"
        f" variable, or {hint}"
    )


def _take_settings(known: Known, own: Known, *, lasting: bool) -> dict[str, Any]:
    taken: dict[str, Any] = {}
    for name, value in known.items():
        if name in own or name not in SCOPES:
            continue
        if name == "secret_key":
            if lasting:
                raise Required(variable(name))
        elif name in _DATABASES and _HIDDEN in value:
            raise Required(f"{variable(name)} with the password of {value}")
        else:
            taken[name] = _parse_value(name, value)
    return taken


def _parse_value(name: str, value: Any) -> Any:
    field = Settings.model_fields[name]
    try:
        return TypeAdapter[Any](field.rebuild_annotation()).validate_python(value)
    except ValidationError as error:
        raise Invalid(name, value, describe_rule(error.errors()[0])) from None


def _read_known(home: Path) -> Known:
    path = home / FILE_NAME
    with disk():
        if not path.exists():
            return {}
        text = path.read_bytes()
    with suppress(Invalid):
        found = wire.loads(text)
        if isinstance(found, dict):
            return found
    raise Invalid("settings of the home", str(path), "it must be a JSON object")


def _write(home: Path, known: Known) -> None:
    with write_durably(home / FILE_NAME) as temporary:
        temporary.write_bytes(wire.dumps_pretty(dict(known)))
        temporary.chmod(0o600)
