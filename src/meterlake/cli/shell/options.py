"""What all commands share: the home, the organization, the form of the output, the names of options."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter, Token, validators

from meterlake.cli.shell.garbage import resume_collection
from meterlake.cli.shell.next_steps import note_home, note_organization
from meterlake.cli.shell.output import Output
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.ids import UNNAMED

if TYPE_CHECKING:
    from meterlake.settings import Settings
    from meterlake.stores import Organization, Stores


Home = Annotated[Path | None, Parameter(env_var="METERLAKE_HOME", show_default=False)]
Person = Annotated[str | None, Parameter(name="--as", env_var="METERLAKE_USER", show_default=False)]
Switch = Annotated[bool, Parameter(negative="", show_default=False)]
# What the API's fields are called on the command line.
_OPTIONS: Final = {
    "name": "--name",
    "code": "CODE",
    "export type": "--type",
    "startDate": "--since",
    "endDate": "--until",
    "timePeriod": "--period",
    "meterIds": "--meter",
    "accountIds": "--account",
    "dimensionFilters": "--filter",
    "aggregations": "--aggregate",
    "groups": "--group",
    "operationalDataTypes": "--type",
    "focus": "--type",
    "month": "--month",
    "destinationIds": "--destination",
    "scheduleType": "--every",
    "period": "--every",
    "offset": "--offset",
    "cronExpression": "--cron",
    "bucketName": "--bucket",
    "prefix": "--prefix",
    "iamRoleArn": "--role-arn",
    "projectNumber": "--project-number",
    "poolId": "--pool",
    "providerId": "--provider",
    "serviceAccountEmail": "--service-account",
}
_IN_RULES: Final = {
    **{name: option for name, option in _OPTIONS.items() if not name.islower()},
    "sourceType": "the source",
    "destinationType": "the type",
}
_NAME: Final = re.compile(rf"\b(?:{'|'.join(_IN_RULES)})\b")


def read_integer(_: object, tokens: Sequence[Token]) -> int:
    """A whole number; 2.5 is none, where cyclopts would round it.

    Raises:
        ValueError: The text is something else.
    """
    [token] = tokens
    try:
        return int(token.value)
    except ValueError:
        raise ValueError(f"{token.value!r} is no whole number") from None


INTEGER: Final = Parameter(converter=read_integer)
Integer = Annotated[int, INTEGER]
# How many things are listed at most.
Limit = Annotated[int, INTEGER, Parameter(validator=validators.Number(gte=1))]


@Parameter(name="*")
@dataclass(frozen=True)
class HomeOptions:
    """Options of commands that work on a home.

    Attributes:
        home: The folder that holds everything; ./meterlake-home by default.
        json: Print one JSON object per line instead of a table.
        wide: Show every column of tables, however wide they get.
    """

    home: Home = None
    json: Switch = False
    wide: Switch = False

    @property
    def output(self) -> Output:
        """Where results go."""
        return Output(json=self.json, wide=self.wide)

    def settings(self) -> "Settings":
        """The settings of the home.

        Raises:
            Invalid: An environment variable or a line of `.env` breaks a rule.
        """
        found = read_settings(self.home)
        note_home(found)
        return found


@Parameter(name="*")
@dataclass(frozen=True)
class Options(HomeOptions):
    """Options of commands that work on one organization.

    Attributes:
        org: Code or id of the organization; you need it only if the home has several.
        as_: Who you are in the organization: a person by e-mail address, id, or first and last
            name, or a service user by id or name. Your permission policies decide what you may
            change, and approvals, versions and backfills carry this author.
    """

    org: Annotated[str | None, Parameter(show_default=False)] = None
    as_: Person = None

    def _author(self, organization: "Organization") -> str:
        """Who gives the command, as what they do says it.

        Raises:
            NotFound: The organization has no such person.
            Forbidden: The person's access has ended.
        """
        from meterlake.pipeline.access.named_people import author_named

        return UNNAMED if self.as_ is None else author_named(organization, self.as_)

    def permitted(
        self, organization: "Organization", to: tuple[str, str], ids: Iterable[str] = ()
    ) -> str:
        """Who gives the command, if they may do something: the policies of who `--as` names decide.

        No command that changes something knows its author in another way.

        Args:
            organization: The organization.
            to: The action and the type of the resource, as operations of the API have them.
            ids: Which of them; without any, all of the type.

        Raises:
            NotFound: The organization has no such person.
            Forbidden: The person may not, or the person's access has ended.
        """
        if self.as_ is None:
            return UNNAMED
        from meterlake.pipeline.access.named_people import author_named, permit_author

        author = author_named(organization, self.as_)
        permit_author(organization, author, to, ids)
        return author

    @contextmanager
    def looked_at(self) -> Iterator["Organization"]:
        """Open the home's stores for a short look, as `opened` does.

        DuckDB has one thread: in queries of some milliseconds several of them mostly wait for each
        other, which takes as much of the processor again.
        """
        from meterlake.stores.unneeded_modules import without_pandas

        settings = self.settings().model_copy(update={"threads": 1})
        with without_pandas(), self._open(settings) as found:
            yield found

    @contextmanager
    def open(self) -> Iterator["Organization"]:
        """Open the home's stores and find the organization.

        Raises:
            NotFound: There is no such home or organization. In the body, what is not found is told
                with the nearest of what there is.
        """
        from meterlake.stores.unneeded_modules import without_pandas

        with without_pandas(), self._open(self.settings()) as found:
            yield found

    @contextmanager
    def _open(self, settings: "Settings") -> Iterator["Organization"]:
        from meterlake.stores import open_stores

        with open_stores(settings) as stores:
            resume_collection()
            organization = stores.find_organization(self.org)
            if stores.state.count_organizations() > 1:
                note_organization(organization.code)
            # Also a command that only looks says that there is no such person.
            self._author(organization)
            try:
                yield organization
            except (NotFound, Invalid) as error:
                from meterlake.pipeline.home.suggestions import with_suggestion

                raise with_suggestion(organization, error) from error


@Parameter(name="*")
@dataclass(frozen=True)
class FanOutOptions(Options):
    """Options of commands whose work has parts that can be done at once.

    Attributes:
        runner: The runner of the parts: threads, processes, dask, or dask://host:port. If you leave
            it out, METERLAKE_RUNNER decides.
    """

    runner: Annotated[str | None, Parameter(show_default=False)] = None

    def settings(self) -> "Settings":
        """The settings of the home, with the runner.

        Raises:
            Invalid: There is no such runner; or an environment variable breaks a rule.
        """
        from meterlake.model.work.jobs import FanOutRunner

        found = super().settings()
        if self.runner is None:
            return found
        FanOutRunner.parse(self.runner)
        return found.model_copy(update={"runner": self.runner})


@Parameter(name="*")
@dataclass(frozen=True)
class OrganizationOptions(FanOutOptions):
    """Options of commands that work on one organization, or on all of them.

    Attributes:
        all_orgs: Work on all organizations of the home; if one fails, the others go on.
    """

    all_orgs: Annotated[bool, Parameter(name="--all-orgs", negative="", show_default=False)] = False

    @contextmanager
    def open_all(self) -> Iterator["Stores"]:
        """Open the home's stores for work on all of its organizations.

        Raises:
            NotFound: There is no such home.
            Invalid: An organization is named, too.
        """
        from meterlake.stores import open_stores

        if self.org is not None:
            raise Invalid("--org", self.org, "leave it out when you give --all-orgs")
        if self.as_ is not None:
            rule = "leave it out when you give --all-orgs: a person is a user of one organization"
            raise Invalid("--as", self.as_, rule)
        with open_stores(self.settings()) as stores:
            resume_collection()
            yield stores


# What sending, mending and giving up rows of measurements takes.
UPLOAD: Final = ("measurements:upload", "measurements")
NO_HOME_OPTIONS: Final = HomeOptions()
NO_OPTIONS: Final = Options()
NO_FAN_OUT_OPTIONS: Final = FanOutOptions()
NO_ORGANIZATION_OPTIONS: Final = OrganizationOptions()


def read_settings(home: Path | None) -> "Settings":
    """The settings, with the home from the command line where it names one.

    Raises:
        Invalid: An environment variable or a line of `.env` breaks a rule.
    """
    from pydantic import ValidationError

    from meterlake.model.values.problems import describe_rule
    from meterlake.settings import Settings

    try:
        return Settings(home=home) if home else Settings()
    except ValidationError as error:
        problem = error.errors()[0]
        name = f"METERLAKE_{'_'.join(str(part) for part in problem['loc']).upper()}"
        raise Invalid(name, problem["input"], describe_rule(problem)) from None


@contextmanager
def as_options(known_by: Callable[[str], str] = str, **others: str) -> Iterator[None]:
    """Have what is wrong with fields of the API told of the options that they were given by.

    Args:
        known_by: What people call the id that is wrong, or the text itself.
        others: Fields that have another option than usually.
    """
    try:
        yield
    except Invalid as error:
        field, value, rule = error.args
        option = {**_OPTIONS, **others}.get(re.split(r"[.\[]", field)[0], field)
        told = _NAME.sub(lambda match: _IN_RULES[match[0]], rule)
        if isinstance(value, str):
            value = known_by(value)
        raise type(error)(option, value, told) from None
