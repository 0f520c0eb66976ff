"""`meterlake export schedules`: exports that are made again and again."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.export.options import (
    ALL,
    Flag,
    FormatName,
    Text,
    Texts,
    UsageOptions,
    given_options,
    show_exported,
)
from meterlake.cli.shell.options import INTEGER, NO_OPTIONS, Options

Source = Literal["usage", "operational"]
Code = Annotated[str, Parameter(name="CODE", required=True)]
_OFF: Final = (
    "No schedule runs: exports are in preview, which the organization's features switch on."
)
_PERMISSION: Final = "exportschedule"
LISTED: Final = (
    *("!code", "clock=runs", "enabled", "?nextRun=next run", "?lastStatus=last job"),
    *("?sourceType=source", "?name"),
)


@Parameter(name="*")
@dataclass(frozen=True)
class Clock:
    """When a schedule runs, always in UTC, and what of.

    Attributes:
        every: Such as `15 minutes`, `6 hours` or `day`; from 15 minutes to 3 days, counted from
            the creation of the schedule.
        offset: The minute of the hour, or the hour of the day, at which it runs.
        cron: Instead: a cron expression, such as `0 6 * * MON`.
        period: Of usage: the time that each run exports, such as yesterday or week-to-date.
        type: Of operational data: the types; you can give several.
    """

    every: Text = None
    offset: Annotated[int | None, INTEGER, Parameter(show_default=False)] = None
    cron: Text = None
    period: Text = None
    type: Texts = ()


NEVER: Final = Clock()


@Parameter(name="*")
@dataclass(frozen=True)
class ScheduleOptions:
    """How a schedule is known, and where its files go.

    Attributes:
        name: A name for people; if you leave it out, the code.
        format: The format of the files; meterlake compresses CSV and JSONL with gzip.
        destination: Codes or ids of destinations; without one, the home keeps the files for a day.
    """

    name: Text = None
    format: Annotated[FormatName | None, Parameter(show_default=False)] = None
    destination: Texts = ()


@Parameter(name="*")
@dataclass(frozen=True)
class AboutNew(ScheduleOptions):
    """The same of a new one.

    Attributes:
        disabled: Make it without a first job; it runs once you enable it.
    """

    format: FormatName = "csv"
    disabled: Flag = False


AS_IT_IS: Final = ScheduleOptions()
PLAIN: Final = AboutNew()


def register(app: App) -> None:
    """Add the commands."""
    schedules = App(name="schedules", help="Exports by a schedule.")
    schedules.command(list_, name="list")
    schedules.command(create)
    schedules.command(update)
    schedules.command(enable)
    schedules.command(disable)
    schedules.command(run)
    schedules.command(delete)
    app.command(schedules)


def list_(*, options: Options = NO_OPTIONS) -> None:
    """Show the schedules: when each runs next, and how its last job ended.

    Example: `meterlake export schedules list`
    """
    from meterlake.pipeline.export.control import list_schedules, schedules_run

    with options.open() as organization:
        found = list_schedules(organization)
        runs = schedules_run(organization)
    options.output.rows(found, LISTED, empty="No schedules.")
    _note(options, runs=runs)


def create(
    source: Source,
    code: Code,
    /,
    *,
    clock: Clock = NEVER,
    about: AboutNew = PLAIN,
    selection: UsageOptions = ALL,
    options: Options = NO_OPTIONS,
) -> None:
    """Make a schedule with its first job, which `meterlake serve` runs at once.

    Example: `meterlake export schedules create usage nightly --every day --offset 2 --period
    yesterday --destination lake`

    Example: `meterlake export schedules create operational bills --cron "0 6 * * MON" --type bills`

    Args:
        source: `usage` is measurements; `operational` is bills and configuration.
        code: Its code.
    """
    from meterlake.cli.export.changes import create_schedule, schedule_definition
    from meterlake.pipeline.export.control import schedules_run

    new = {"code": code, "source": source, "enabled": not about.disabled}
    definition = schedule_definition({**new, **_request_body(clock, about, selection)})
    with options.open() as organization:
        author = options.permitted(organization, ("config:create", _PERMISSION))
        made = create_schedule(organization, author, definition)
        runs = schedules_run(organization)
    options.output.record(made)
    _note(options, runs=runs)


def update(
    schedule: Code,
    /,
    *,
    clock: Clock = NEVER,
    about: ScheduleOptions = AS_IT_IS,
    selection: UsageOptions = ALL,
    code: Text = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Change the options of a schedule that you give, and nothing else. Its source stays.

    `--every` and `--cron` replace the whole clock, with its offset. If you can give an option
    several times, it replaces all former values, and an empty text empties it, such as
    `--destination ""`.

    Example: `meterlake export schedules update nightly --every "6 hours" --destination lake`

    Example: `meterlake export schedules update nightly --cron "0 6 * * MON" --meter ""`

    Args:
        schedule: Its code or id.
        code: Its new code.
    """
    from meterlake.cli.export.changes import update_schedule
    from meterlake.pipeline.export.control import schedules_run

    body = {**_request_body(clock, about, selection), **given_options({"code": code})}
    with options.open() as organization:
        author = options.permitted(organization, ("config:update", _PERMISSION))
        updated = update_schedule(organization, author, schedule, body)
        runs = schedules_run(organization)
    options.output.record(updated)
    _note(options, runs=runs)


def enable(code: Code, /, *, options: Options = NO_OPTIONS) -> None:
    """Let a schedule make jobs from now on, and none for the time in which it was off.

    Example: `meterlake export schedules enable nightly`

    Args:
        code: Its code or id.
    """
    _enable(code, options, enabled=True)


def disable(code: Code, /, *, options: Options = NO_OPTIONS) -> None:
    """Let a schedule make no more jobs; its existing jobs still run.

    Example: `meterlake export schedules disable nightly`

    Args:
        code: Its code or id.
    """
    _enable(code, options, enabled=False)


def run(code: Code, /, *, options: Options = NO_OPTIONS) -> None:
    """Run a schedule once more, now; its regular runs stay as they are.

    Example: `meterlake export schedules run nightly`

    Args:
        code: Its code or id.
    """
    from meterlake.pipeline.export.control import run_schedule
    from meterlake.pipeline.export.run import run_to_end_here

    with options.open() as organization:
        author = options.permitted(organization, ("config:update", _PERMISSION))
        job = run_schedule(organization, author, code)
        exported = run_to_end_here(organization.stores, job)
    show_exported(exported, options.output)


def delete(code: Code, /, *, options: Options = NO_OPTIONS) -> None:
    """Delete a schedule; its jobs stay.

    Example: `meterlake export schedules delete nightly`

    Args:
        code: Its code or id.
    """
    from meterlake.pipeline.export.control import delete_schedule

    with options.open() as organization:
        author = options.permitted(organization, ("config:delete", _PERMISSION))
        gone = delete_schedule(organization, author, code)
    options.output.record(gone)


def _enable(code: str, options: Options, *, enabled: bool) -> None:
    from meterlake.pipeline.export.control import enable_schedule, schedules_run

    with options.open() as organization:
        author = options.permitted(organization, ("config:update", _PERMISSION))
        found = enable_schedule(organization, author, code, enabled=enabled)
        runs = schedules_run(organization)
    options.output.rows([found], LISTED)
    _note(options, runs=runs)


def _note(options: Options, *, runs: bool) -> None:
    """Say why nothing runs: on the command line, exports need not be switched on."""
    if not runs:
        options.output.note(_OFF)


def _request_body(clock: Clock, about: ScheduleOptions, selection: UsageOptions) -> dict[str, Any]:
    """What was given, in the words of the pipeline."""
    return given_options(
        {
            "name": about.name,
            "format": about.format,
            "destinations": about.destination,
            "every": clock.every,
            "offset": clock.offset,
            "cron": clock.cron,
            "types": clock.type,
            "time_period": clock.period,
            **selection.pipeline_options(),
        }
    )
