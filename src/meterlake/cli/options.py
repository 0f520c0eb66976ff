"""What all commands share: the home, the organization, the form of the output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter, validators

from meterlake.cli.garbage import resume_collection
from meterlake.cli.output import Output
from meterlake.model.errors import Invalid, NotFound

if TYPE_CHECKING:
    from meterlake.settings import Settings
    from meterlake.stores import Stores
    from meterlake.stores.state import Organization

Home = Annotated[Path | None, Parameter(env_var="METERLAKE_HOME", show_default=False)]
Json = Annotated[bool, Parameter(negative="", show_default=False)]
# How many things are listed at most.
Limit = Annotated[int, Parameter(validator=validators.Number(gte=1))]


@Parameter(name="*")
@dataclass(frozen=True)
class HomeOptions:
    """Options of commands that work on a home.

    Attributes:
        home: The folder that holds everything; ./meterlake-home by default.
        json: Print one JSON object per line instead of a table.
    """

    home: Home = None
    json: Json = False

    @property
    def output(self) -> Output:
        """Where results go."""
        return Output(json=self.json)

    def settings(self) -> "Settings":
        """The settings of the home.

        Raises:
            Invalid: An environment variable or a line of `.env` breaks a rule.
        """
        return read_settings(self.home)


@Parameter(name="*")
@dataclass(frozen=True)
class Options(HomeOptions):
    """Options of commands that work on one organization.

    Attributes:
        org: Code or id of the organization; not needed when the home has only one.
    """

    org: Annotated[str | None, Parameter(show_default=False)] = None

    @contextmanager
    def looked_at(self) -> Iterator[tuple["Stores", "Organization"]]:
        """Open the home's stores for a short look, as `opened` does.

        DuckDB has one thread: in queries of some milliseconds several of them mostly wait for each
        other, which takes as much of the processor again.
        """
        settings = self.settings().model_copy(update={"threads": 1})
        with _without_pandas(), self._open(settings) as found:
            yield found

    @contextmanager
    def open(self) -> Iterator[tuple["Stores", "Organization"]]:
        """Open the home's stores and find the organization.

        Raises:
            NotFound: There is no such home or organization. In the body, what is not found is told
                with the nearest of what there is.
        """
        with self._open(self.settings()) as found:
            yield found

    @contextmanager
    def _open(self, settings: "Settings") -> Iterator[tuple["Stores", "Organization"]]:
        from meterlake.stores import open_stores

        with open_stores(settings) as stores:
            resume_collection()
            organization = stores.state.organization(self.org)
            try:
                yield stores, organization
            except (NotFound, Invalid) as error:
                from meterlake.pipeline.home.suggestions import with_suggestion

                raise with_suggestion(stores, organization.id, error) from error


class _NoPandas:
    """Finds no pandas, as where it is not installed; Arrow, unlike DuckDB, trips over less."""

    def find_spec(self, fullname: str, _path: object, _target: object = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Let nobody load pandas: where it is installed, DuckDB does for the first parameter."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


NO_HOME_OPTIONS: Final = HomeOptions()
NO_OPTIONS: Final = Options()


def read_settings(home: Path | None) -> "Settings":
    """The settings, with the home from the command line where it names one.

    Raises:
        Invalid: An environment variable or a line of `.env` breaks a rule.
    """
    from pydantic import ValidationError

    from meterlake.settings import Settings

    try:
        return Settings(home=home) if home else Settings()
    except ValidationError as error:
        problem = error.errors()[0]
        name = f"METERLAKE_{'_'.join(str(part) for part in problem['loc']).upper()}"
        raise Invalid(name, problem["input"], problem["msg"]) from None
