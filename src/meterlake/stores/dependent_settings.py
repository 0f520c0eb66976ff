"""Settings whose promise holds only beside another setting: refused at the start, or said there."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from meterlake.model.configuration.network_addresses import names_this_machine
from meterlake.model.errors import Invalid
from meterlake.settings import Settings, variable
from meterlake.stores.files.durable import disk


@dataclass(frozen=True, slots=True)
class SettingDependency:
    """One setting that needs another one.

    Attributes:
        name: The setting that promises something.
        needs: The settings that decide whether it can, the first one first.
        rule: What has to be true, and what to do.
        lost: What happens otherwise.
        refused: Whether the server and the worker do not start then; otherwise they say it.
        broken: Whether the promise cannot be kept.
    """

    name: str
    needs: tuple[str, ...]
    rule: str
    lost: str
    refused: bool
    broken: Callable[[Settings], bool]

    @property
    def sentence(self) -> str:
        """What is wrong, and what to do, for logs."""
        return f"{variable(self.name)}: {self.lost}. {self.rule[0].upper()}{self.rule[1:]}."


def refuse_broken_promises(settings: Settings, changed: Collection[str] | None = None) -> None:
    """Refuse settings that would lose what they promise to keep.

    Args:
        settings: All of them.
        changed: Those that are about to change, as only they can be refused; all if None.

    Raises:
        Invalid: A setting needs another one; the sentence says which, and what to do.
    """
    for each in DEPENDENCIES:
        concerned = changed is None or not {each.name, *each.needs}.isdisjoint(changed)
        if each.refused and concerned and each.broken(settings):
            shown = "***" if each.name == "smtp_url" else getattr(settings, each.name)
            raise Invalid(variable(each.name), shown, f"{each.rule}; otherwise {each.lost}")


def settings_without_effect(settings: Settings) -> Iterator[str]:
    """A sentence for each setting that was given and does not do what it says."""
    for each in DEPENDENCIES:
        given = each.name in settings.model_fields_set
        if given and not each.refused and each.broken(settings):
            yield each.sentence


def _in_bucket(location: str | None) -> bool:
    return "://" in (location or "") and not (location or "").startswith("file:")


def _objects_end_with_home(settings: Settings) -> bool:
    """Whether the store of objects is on the disk that the home is on."""
    if _in_bucket(settings.objects):
        return False
    if settings.objects is None:
        return True
    text = settings.objects
    folder = Path(unquote(urlsplit(text).path)) if "://" in text else Path(text)
    return _device(folder) == _device(settings.home)


def _device(folder: Path) -> int:
    """The file system that a folder is on, or will be on."""
    with disk():
        there = folder.absolute().resolve()
        while not there.exists():
            there = there.parent
        return there.stat().st_dev


def _copied(settings: Settings) -> bool:
    return settings.segment_copies == "objects"


def _state_in_home(settings: Settings) -> bool:
    return not (settings.state or "").startswith("postgresql")


def _tasks_go_elsewhere(settings: Settings) -> bool:
    scheme, _, rest = (settings.runner or "").partition("://")
    host = urlsplit(f"//{rest}").hostname or ""
    return scheme == "dask" and bool(rest) and not names_this_machine(host)


def _limits(switch: str, *names: str) -> Iterator[SettingDependency]:
    for name in names:
        yield SettingDependency(
            name,
            (switch,),
            f"set {variable(switch)}=true, or leave {variable(name)} out",
            f"the server limits nothing while {variable(switch)} is false",
            False,
            lambda settings: not getattr(settings, switch),
        )


def _federated(name: str) -> SettingDependency:
    return SettingDependency(
        name,
        ("export_credentials",),
        f"set {variable('export_credentials')}=federated, or leave {variable(name)} out",
        "meterlake does not use it, because exports use the credentials of this machine",
        False,
        lambda settings: settings.export_credentials == "own",
    )


DEPENDENCIES: Final = (
    SettingDependency(
        "segment_copies",
        ("objects",),
        "set METERLAKE_OBJECTS to an s3:// or gs:// URL, or to a folder that another machine's"
        " file system is mounted on, or leave METERLAKE_SEGMENT_COPIES at none",
        "the copies lie on the disk of the home, and you lose them with it",
        True,
        lambda settings: _copied(settings) and _objects_end_with_home(settings),
    ),
    SettingDependency(
        "lake",
        ("catalog",),
        "set METERLAKE_CATALOG to a postgresql:// URL, or METERLAKE_LAKE to a folder",
        "the files are in a bucket and their catalog on this machine only",
        True,
        lambda settings: _in_bucket(settings.lake) and settings.catalog is None,
    ),
    SettingDependency(
        "smtp_url",
        ("smtp_from",),
        "set METERLAKE_SMTP_FROM to the address that letters are from, or leave METERLAKE_SMTP_URL out",
        "the worker can send no letter",
        True,
        lambda settings: settings.smtp_url is not None and settings.smtp_from is None,
    ),
    SettingDependency(
        "segment_copies",
        ("state",),
        "set METERLAKE_STATE to a postgresql:// URL, or keep backups of the home",
        "State is in the home, so another machine takes over the copies only after you restored it",
        False,
        lambda settings: _copied(settings) and _state_in_home(settings),
    ),
    SettingDependency(
        "segment_seconds",
        ("segment_copies", "segment_lost_seconds"),
        "set METERLAKE_SEGMENT_LOST_SECONDS to more than METERLAKE_SEGMENT_SECONDS",
        "other machines take over segments of a machine that is not lost, and ingest them twice,"
        " which counts as repeats",
        False,
        lambda settings: (
            _copied(settings) and settings.segment_seconds >= settings.segment_lost_seconds
        ),
    ),
    SettingDependency(
        "segment_lost_seconds",
        ("segment_copies",),
        "set METERLAKE_SEGMENT_COPIES=objects, or leave METERLAKE_SEGMENT_LOST_SECONDS out",
        "no worker takes over anything, because the server copies nothing",
        False,
        lambda settings: not _copied(settings),
    ),
    SettingDependency(
        "lake",
        ("objects",),
        "set METERLAKE_OBJECTS to an s3:// or gs:// URL",
        "lakes are in a bucket, but uploaded files lie on this machine, and no other one reads them",
        False,
        lambda settings: _in_bucket(settings.lake) and not _in_bucket(settings.objects),
    ),
    SettingDependency(
        "lake",
        ("state",),
        "set METERLAKE_STATE to a postgresql:// URL",
        "lakes outlive this machine, but configuration and bills are in the home and do not",
        False,
        lambda settings: _in_bucket(settings.lake) and _state_in_home(settings),
    ),
    SettingDependency(
        "smtp_url",
        ("public_url",),
        "set METERLAKE_PUBLIC_URL to where people reach the server",
        "the links in letters lead nowhere",
        False,
        lambda settings: settings.smtp_url is not None and settings.public_url is None,
    ),
    SettingDependency(
        "smtp_from",
        ("smtp_url",),
        "set METERLAKE_SMTP_URL, or leave METERLAKE_SMTP_FROM out",
        "letters stay in the folder outbox of the home",
        False,
        lambda settings: settings.smtp_url is None,
    ),
    SettingDependency(
        "upload_bytes",
        ("source_bytes",),
        "set METERLAKE_SOURCE_BYTES to at least METERLAKE_UPLOAD_BYTES",
        "uploads that METERLAKE_UPLOAD_BYTES allows fail after they came, because"
        " METERLAKE_SOURCE_BYTES is less",
        False,
        lambda settings: settings.upload_bytes > settings.source_bytes,
    ),
    SettingDependency(
        "custom_sql_seconds",
        ("custom_sql_run_seconds",),
        "set METERLAKE_CUSTOM_SQL_RUN_SECONDS to at least METERLAKE_CUSTOM_SQL_SECONDS",
        "a run ends its SQL before one account may take so long",
        False,
        lambda settings: settings.custom_sql_seconds > settings.custom_sql_run_seconds,
    ),
    SettingDependency(
        "runner_workers",
        ("runner",),
        "set METERLAKE_RUNNER, or leave METERLAKE_RUNNER_WORKERS out",
        "no runner carries fan-outs",
        False,
        lambda settings: settings.runner is None,
    ),
    SettingDependency(
        "runner",
        ("state",),
        "set METERLAKE_STATE to a postgresql:// URL, or run the scheduler on this machine",
        "State is in the home, which workers of a Dask scheduler on another machine do not see",
        False,
        lambda settings: _tasks_go_elsewhere(settings) and _state_in_home(settings),
    ),
    *map(_federated, ("federation_token_file", "sts_endpoint", "gcs_sts_endpoint")),
    *_limits("limit_config", "config_per_second", "config_per_address"),
    *_limits("limit_ingest", "ingest_per_second", "ingest_per_address"),
    *_limits(
        "limit_explorer",
        *("explorer_per_second", "explorer_burst", "explorer_v2_per_second", "explorer_v2_burst"),
    ),
)
