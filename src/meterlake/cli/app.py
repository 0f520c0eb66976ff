"""All commands, and what becomes of whatever goes wrong in one of them."""

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Final

from cyclopts import App, CycloptsError, Group

from meterlake.cli import (
    backfill,
    close_month,
    configuration,
    demo,
    events,
    integrations,
    lookups,
    resources,
    runs,
    serve,
    setup,
    synthesis,
    usage,
    users,
    worker,
)
from meterlake.cli.billing import balances, bill, customer_link, late, revenue
from meterlake.cli.export import command as export
from meterlake.cli.ingest import command as ingest
from meterlake.cli.ingest import inbox, mappings, receipts, rejected
from meterlake.cli.lake import checks, maintain, publish, sql
from meterlake.cli.shell.next_steps import forget_place
from meterlake.cli.shell.output import error_line
from meterlake.cli.shell.signals import TERMINATED, Terminated, terminable
from meterlake.model.errors import MeterlakeError

_COMPLETION: Final = """Complete commands and options with the tab key, in new shells of this user.

The command finds your shell; it may be bash, zsh, fish or PowerShell. It adds a line to the start
file of the shell.

Example: `meterlake --install-completion`
"""
# The commands as `--help` shows them: what people do with them, in the order of a month.
GROUPS: Final = {
    "Start": ("demo", "init", "config", "generate"),
    "Accounts, catalogue, settings": ("list", "show", "create", "edit", "delete"),
    "Data in": ("ingest", "template", "watch", "inbox", "uploads", "mapping", "lookup", "receipts"),
    "Usage": ("aggregate", "aggregation", "sql", "status", "report", "explain"),
    "Bills": ("bill", "balance", "revenue", "late", "close-month"),
    "Data out": ("export", "publish", "integrations", "webhooks", "events"),
    "Correct": ("rejected", "backfill", "check"),
    "Operate": (
        *("serve", "worker", "runs", "deploy", "health", "settings", "users", "keys"),
        "customer-link",
        *("maintain", "move-lake", "shard-lake"),
    ),
    "Help": ("--help", "--version", "--install-completion"),
}
USAGE: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


@cache
def build() -> App:
    """The application with all its commands, in the order in which a newcomer meets them."""
    app = App(
        name="meterlake",
        help="Usage metering and billing: measurements in, exact bills out, every cent explained.",
        version=_version,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        help_format="markdown",
    )
    for module in (
        *(
            demo,
            setup,
            configuration,
            resources,
            lookups,
            ingest,
            mappings,
            inbox,
            rejected,
            receipts,
            backfill,
        ),
        *(
            events,
            integrations,
            checks,
            usage,
            bill,
            revenue,
            balances,
            late,
            close_month,
            export,
            publish,
            runs,
            sql,
            maintain,
            users,
            customer_link,
            serve,
            worker,
            synthesis,
        ),
    ):
        module.register(app)
    app.register_install_completion_command(help=_COMPLETION)
    for place, (title, names) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=place)
        for name in names:
            app[name].group = group
    return app


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("meterlake")
    except PackageNotFoundError:
        return "not installed: run from its sources"


def run(tokens: Sequence[str]) -> int:
    """Run one command line.

    Returns:
        The exit code: 0, 1 for an error, 2 for wrong usage, 130 after Ctrl-C, 143 after SIGTERM.
    """
    with terminable() as came:
        try:
            return _run_command(tokens)
        except Exception:
            # What a library made of the signal that interrupted it is no mistake.
            if came:
                return TERMINATED
            raise
        finally:
            forget_place()


def _run_command(tokens: Sequence[str]) -> int:
    json, app = "--json" in tokens, build()
    try:
        code = app(list(tokens), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        message = f"{error}{_other_place(app, tokens)}"
        return _report_failure("Usage", message, USAGE, json=json)
    except MeterlakeError as error:
        return _report_failure(type(error).__name__, str(error), 1, json=json)
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing may be written any more, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code if isinstance(code, int) else 0


def _other_place(app: App, tokens: Sequence[str]) -> str:
    """Where a command is that stands within another one, for who leaves that out."""
    word = next((each for each in tokens if not each.startswith("-")), "")
    if not word or word in app:
        return ""
    found = [each for each in app if not each.startswith("-") and word in app[each]]
    return "".join(f" Type `meterlake {each} {word}`." for each in found[:1])


def _report_failure(kind: str, message: str, code: int, *, json: bool) -> int:
    error_line(kind, message, json=json)
    return code
