"""Where in configuration files something is wrong."""

from collections.abc import Iterable
from typing import NamedTuple

from meterlake.model.errors import MeterlakeError, UnreadableConfiguration
from meterlake.model.resources.proposal import Document
from meterlake.model.values.documents import DocumentLines


class ConfigurationProblem(NamedTuple):
    """What is wrong with files.

    Attributes:
        file: The file; empty if it is about what no file holds.
        line: Its line, from 1, if it is known.
        message: The place within the file, and what is wrong there.
    """

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{where}{self.message}"


def problems_of(documents: Iterable[Document], error: MeterlakeError) -> list[ConfigurationProblem]:
    """What is wrong with documents, each with its file and its line, in their order."""
    locate = _Locator(documents)
    found = [locate.problem(each) for each in error.problems or (error,)]
    return sorted(found, key=lambda each: (each.file, each.line or 0))


class _Locator:
    """Finds the lines of documents; each is looked through once, and only if something is wrong."""

    def __init__(self, documents: Iterable[Document]) -> None:
        # One name may be the beginning of another one.
        self._documents = sorted(documents, key=lambda each: len(each.name), reverse=True)
        self._lines: dict[str, DocumentLines] = {}

    def problem(self, error: MeterlakeError) -> ConfigurationProblem:
        if isinstance(error, UnreadableConfiguration):
            rule = str(error.args[2]).removeprefix(f"line {error.line}, ")
            return ConfigurationProblem(str(error.args[0]), error.line, rule)
        sentence = f"{error.place}: {error}" if error.place else str(error)
        place = error.place or str(error.args[0])
        for document in self._documents:
            if place == document.name:
                message = sentence.removeprefix(f"{document.name}: ")
                return ConfigurationProblem(document.name, self._line(document, ""), message)
            if place.startswith(f"{document.name}: "):
                inner = place.removeprefix(f"{document.name}: ")
                message = sentence.removeprefix(f"{document.name}: ")
                return ConfigurationProblem(document.name, self._line(document, inner), message)
        return ConfigurationProblem("", None, sentence)

    def _line(self, document: Document, place: str) -> int | None:
        if not document.data:
            return None
        if document.name not in self._lines:
            self._lines[document.name] = DocumentLines(document.data)
        return self._lines[document.name].line(place)
