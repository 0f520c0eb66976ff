"""What is wrong with files of configuration, for people and for programs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from meterlake.cli.shell.output import problem_lines
from meterlake.model.errors import MeterlakeError

if TYPE_CHECKING:
    from meterlake.model.resources.proposal import Document


def show_problems(documents: "Iterable[Document]", error: MeterlakeError, *, json: bool) -> None:
    """Print what is wrong with files of configuration.

    Raises:
        MeterlakeError: The error itself, if it is about none of them.
    """
    from meterlake.pipeline.config.file_problems import problems_of

    problems = problems_of(documents, error)
    if not error.problems and not problems[0].file:
        raise error
    problem_lines(type(error).__name__, str(error), problems, json=json)
