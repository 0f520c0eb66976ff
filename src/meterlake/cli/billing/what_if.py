"""`meterlake bill what-if`: history priced anew under changed configuration; nothing is stored."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.billing.what_if_output import TABLE, WhatIfForm
from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.file_problems import show_problems
from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.errors import Invalid, MeterlakeError

if TYPE_CHECKING:
    from meterlake.model.resources.proposal import Document
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.what_if import WhatIf
    from meterlake.stores import Organization

Several = Parameter(negative="", show_default=False, consume_multiple=True)


def register(app: App) -> None:
    """Add the command."""
    app.command(what_if)


@Parameter(name="*")
@dataclass(frozen=True)
class WhatIfInput:
    """What is compared.

    Attributes:
        with_: Files, and folders of files, of configuration.
        months: A month such as 2026-10, or the first and the last one such as 2026-01..2026-10.
        backfill: The id of a staged backfill to compare, instead of files.
        accounts: Only these accounts, by code or id, and the parents above them.
        allow_unknown: Ignore unknown names within entities, instead of refusing them.
    """

    with_: Annotated[tuple[Path, ...], Several, Parameter(name="--with")] = ()
    months: Annotated[str | None, Parameter(show_default=False)] = None
    backfill: Annotated[str | None, Parameter(show_default=False)] = None
    accounts: Annotated[tuple[str, ...], Several, Parameter(name=["--accounts", "--account"])] = ()
    allow_unknown: Annotated[bool, Parameter(negative="")] = False

    def limits(self) -> "tuple[Month, Month] | None":
        """The first and the last month; None if no months are given.

        Raises:
            Invalid: They are none.
        """
        from meterlake.model.values.period import Month

        if self.months is None:
            return None
        first, dots, last = self.months.partition("..")
        try:
            return Month.parse(first), Month.parse(last if dots else first)
        except Invalid:
            rule = "it must be a month such as 2026-10, or a first and a last one such as 2026-01..2026-10"
            raise Invalid("--months", self.months, rule) from None


_NOTHING: Final = WhatIfInput()


def what_if(
    *,
    what: WhatIfInput = _NOTHING,
    form: WhatIfForm = TABLE,
    options: Options = NO_OPTIONS,
) -> int:
    """Price months anew with other configuration files, and show the differences. Nothing changes.

    You give files as for `meterlake config apply`. Entities that they do not mention stay as they
    are. The dates in them count: a price that starts in the past holds from then on. The command
    calculates all bills whose last day is in one of the months twice, locked or not: before, with
    the present configuration, and after, with your files. Each side has its own balances and
    commitments, from which the bills of one month after the other draw. Differences do not change
    the exit status.

    If you give --backfill instead of files, after has the measurements of a staged backfill, in the
    months and for the accounts that it touches.

    Example: `meterlake bill what-if --with prices.yaml --months 2026-01..2026-10`
    """
    from meterlake.cli.billing.what_if_output import check_form, show_comparison

    check_form(form, json=options.json)
    documents: list[Document] = []
    try:
        documents += _read_files(what)
        with (
            options.open() as organization,
            _compare(organization, what, documents, by_month=form.by_month) as found,
        ):
            amounts = AmountText.read(organization)
            show_comparison(found, form, amounts, options.output)
    except MeterlakeError as error:
        show_problems(documents, error, json=options.json)
        return 1
    return 0


def _read_files(what: WhatIfInput) -> "list[Document]":
    """The documents of the files; none for a backfill.

    Raises:
        Required: An option is missing.
        Invalid: Options contradict each other.
        NotFound, UnreadableConfiguration: As `config apply` says.
    """
    from meterlake.model.errors import Required
    from meterlake.pipeline.config.apply_configuration import read_documents

    if what.backfill is not None:
        if what.with_:
            raise Invalid("--backfill", what.backfill, "leave it out when you give --with")
        return []
    if not what.with_:
        raise Required("--with or --backfill")
    if what.months is None:
        raise Required("--months")
    what.limits()
    return read_documents(what.with_)


@contextmanager
def _compare(
    organization: "Organization",
    what: WhatIfInput,
    documents: "Sequence[Document]",
    *,
    by_month: bool,
) -> "Iterator[WhatIf]":
    """The comparison of files, or of a backfill."""
    from meterlake.pipeline.backfill.staged_effects import BackfillChoice, compare_backfill
    from meterlake.pipeline.billing.what_if import WhatIfChoice, compare_history

    limits, accounts = what.limits(), what.accounts or None
    if what.backfill is not None:
        choice = BackfillChoice(what.backfill, limits, accounts, by_month)
        with compare_backfill(organization, choice) as found:
            yield found
        return
    assert limits is not None, "they are required"
    history = WhatIfChoice(
        *limits,
        documents=documents,
        accounts=accounts,
        by_month=by_month,
        allow_unknown=what.allow_unknown,
    )
    with compare_history(organization, history) as found:
        yield found
