"""Texts that would do something where a page, a letter or a table took them for its own language."""

import csv
import io
import re
from email.message import EmailMessage
from html.parser import HTMLParser
from typing import Any, Final

_FORMULA: Final = "=cmd|' /C calc'!A0"
_MARKUP: Final = "\"'><img src=x onerror=attack()><script>attack()</script>{{7777*7777}}"
_EVALUATED: Final = "60481729"
# Text from right to left, a line of a header, and what ends a text in C.
_RIGHT_TO_LEFT: Final = "\u202e"
_HEADER: Final = "\r\nX-Attack: yes\r\nBcc: attack@example.com"
# In the order in which they are tried on each field: the worst one first.
ATTACKS: Final = (
    f"{_FORMULA}{_MARKUP}{_RIGHT_TO_LEFT}{_HEADER}\0",
    f"{_FORMULA}{_MARKUP}{_RIGHT_TO_LEFT}{_HEADER}",
    f"{_FORMULA}{_MARKUP}{_RIGHT_TO_LEFT}",
    "javascript:attack()",
    'https://example.com/"><script>attack()</script>',
    '"<script>attack()</script>"@example.com',
    "<script>attack()",
)
LINE: Final = ATTACKS[2]
SCRIPT_URL: Final = ATTACKS[3]
_MARK: Final = "attack()"
# Attributes whose value a browser follows or runs.
_FOLLOWED: Final = frozenset(
    {"href", "src", "action", "formaction", "xlink:href", "data", "srcset", "poster", "hx-get"}
)
_OWN_SCRIPTS: Final = re.compile(r"/(console/)?static/[\w./-]+(\?[\w.=-]*)?")
_BEGINS_FORMULA: Final = re.compile(r"[=+@\t\r-]")
_NUMBER: Final = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?", re.IGNORECASE)


class _Elements(HTMLParser):
    """Collects what is no text of a page, although it comes from a text."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.marks = 0
        self._raw = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._raw = tag if tag in {"script", "style"} else ""
        given = {name: value or "" for name, value in attrs}
        if tag == "script" and not _OWN_SCRIPTS.fullmatch(given.get("src", "")):
            self.faults.append(f"a script: {self.get_starttag_text()}")
        if tag in {"img", "iframe", "object", "embed", "base", "i"}:
            self.faults.append(f"an element: {self.get_starttag_text()}")
        for name, value in given.items():
            self.marks += _MARK in value
            if name.startswith("on") or not re.fullmatch(r"[a-z][\w:-]*", name, re.IGNORECASE):
                self.faults.append(f"an attribute {name}: {self.get_starttag_text()}")
            target = re.sub(r"[\x00-\x20]", "", value).lower()
            if name in _FOLLOWED and target.startswith(("javascript:", "data:", "vbscript:")):
                self.faults.append(f"a link: {self.get_starttag_text()}")

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._raw = ""

    def handle_data(self, data: str) -> None:
        self.marks += _MARK in data
        if self._raw and _MARK in data:
            self.faults.append(f"in a {self._raw}: {data[:200]}")

    def handle_comment(self, data: str) -> None:
        if _MARK in data:
            self.faults.append(f"in a comment: {data[:200]}")


def read_page(text: str) -> tuple[int, list[str]]:
    """How often a page has an attack as a text, and where one became more than a text."""
    found = _Elements()
    found.feed(text)
    found.close()
    if _EVALUATED in text:
        found.faults.append(f"a template evaluated {_EVALUATED}")
    return found.marks, found.faults


def formulas_of(text: str) -> list[str]:
    """Cells of a CSV file that a spreadsheet would calculate."""
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    return [each for each in cells if _BEGINS_FORMULA.match(each) and not _NUMBER.fullmatch(each)]


def faults_of_letter(letter: EmailMessage) -> list[str]:
    """Headers and parts of a letter that come from a text."""
    faults = [f"a header {each}" for each in ("X-Attack", "Bcc", "Cc") if each in letter]
    faults += [f"{name}: {value!r}" for name, value in letter.items() if "\n" in value]
    for part in letter.walk():
        if part.get_content_type() == "text/html":
            faults += read_page(part.get_content())[1]
    return faults


def with_text(value: Any, steps: tuple[str | int, ...], text: str) -> Any:
    """A document with another text at a place; what is on the way is made if it is missing."""
    if not steps:
        return text
    step, *rest = steps
    if isinstance(step, int):
        known = list(value) if isinstance(value, list) else []
        if step >= len(known):
            return [*known, with_text(None, tuple(rest), text)]
        known[step] = with_text(known[step], tuple(rest), text)
        return known
    members = value if isinstance(value, dict) else {}
    return {**members, step: with_text(members.get(step), tuple(rest), text)}
