"""The document of a bill through a template: a page by Jinja2, a PDF by Typst, in a process with limits."""

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from importlib.util import find_spec
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Final

from meterlake.model.bills.bill_name import bill_file_name
from meterlake.model.bills.document import AppendixDetail, BillDocument, DocumentFormat
from meterlake.model.errors import BadTemplate, Invalid, NoGlyph, NotAvailable, Unavailable
from meterlake.pipeline.documents import render_process
from meterlake.pipeline.documents.content import read_documents
from meterlake.settings import Settings
from meterlake.stores import Organization

TEMPLATES: Final = Path(__file__).parent / "templates"
_SUFFIXES: Final = {DocumentFormat.HTML: ".html", DocumentFormat.PDF: ".typ"}
_ENGINES: Final = {DocumentFormat.HTML: "jinja", DocumentFormat.PDF: "typst"}
_NAME: Final = "bill"
MEMORY: Final = 4 << 30
# Tags lead readers of screens through a PDF. They make a long one fifteen times as large.
TAGGED_MAX: Final = 500
# So many documents are made at once, each of which may take that much memory.
_AT_ONCE: Final = BoundedSemaphore(2)
# So many documents are in memory at once.
_READ_TOGETHER: Final = 20
# A wall clock may run this much longer than the processor.
_WAIT: Final = 3
# What Typst says of a text that no font has, and where it says something.
_NO_GLYPH: Final = re.compile(r'the text `"(.+?)"` could not be displayed')
_AT: Final = re.compile(r"┌─ (?:\S*/)?([^/\s]+):(\d+):(\d+)")
_ESCAPE: Final = re.compile(r"\\u\{([0-9a-f]+)\}")
_SHOWN_MAX: Final = 500
# Nothing of the machine's own settings, and a proxy that nobody has: no download can begin.
_ENVIRONMENT: Final = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:1"),
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:1"),
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONUTF8": "1",
    # Each thread of a machine with many cores would take memory of the limit for itself.
    "RAYON_NUM_THREADS": "2",
    "MALLOC_ARENA_MAX": "2",
}
EXTRA: Final = "pip install 'meterlake[documents]'"
# What `meterlake[documents]` installs beside Typst; each package has fonts in its folder.
PACKAGES: Final = (
    *("justmytype_western_core", "justmytype_intl_rtl", "justmytype_intl_south_asia"),
    *("justmytype_intl_sea", "justmytype_intl_africa", "noto_cjk_sans_otc"),
)
# In the order in which they are tried for each character.
FAMILIES: Final = (
    *("Noto Sans", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"),
    *("Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Telugu", "Noto Sans Thai"),
    *("Noto Sans Lao", "Noto Sans Khmer", "Noto Sans Myanmar", "Noto Sans Ethiopic"),
    *("Noto Sans CJK SC", "Noto Sans CJK TC", "Noto Sans CJK JP", "Noto Sans CJK KR"),
    *("Noto Sans Symbols 2",),
)
MEDIA_TYPES: Final = {
    DocumentFormat.HTML: "text/html",
    DocumentFormat.PDF: "application/pdf",
    DocumentFormat.JSON: "application/json",
}


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How documents are made.

    Attributes:
        template: A file, or a folder with `bill.html` and `bill.typ`; meterlake's own if None.
        fonts: A folder with more fonts.
        seconds: Of the processor, that one document may take.
    """

    template: Path | None = None
    fonts: Path | None = None
    seconds: int = 60


def render_document(
    document: BillDocument, format: DocumentFormat, options: RenderOptions
) -> bytes:
    """A document in a format: the same bytes for the same document, template and fonts.

    Raises:
        BadTemplate: The template cannot be used.
        NoGlyph: No font has a character.
        NotAvailable: What makes a PDF is not installed.
        Unavailable: The process failed.
    """
    if format is DocumentFormat.JSON:
        return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"
    template = find_template(format, options.template)
    lines = sum(len(each["lines"]) for each in document["sections"])
    usages = (one for each in document["usage"]["lines"] for one in each["usages"])
    rows = lines + sum(len(each["rows"]) for each in usages)
    # The time that a PDF says it is of: the date of the bill, since no clock decides bytes.
    day = date.fromisoformat(document["bill"]["date"])
    timestamp = int(datetime.combine(day, time(), UTC).timestamp())
    job = {
        "engine": _ENGINES[format],
        "document": document,
        "template": str(template),
        "root": str(template.parent),
        "nowhere": str(TEMPLATES / "packages"),
        "fonts": font_folders(options.fonts) if format is DocumentFormat.PDF else [],
        "families": FAMILIES,
        "timestamp": timestamp,
        "tags": rows <= TAGGED_MAX,
        "seconds": options.seconds,
        "memory": MEMORY,
    }
    with _AT_ONCE:
        found = _run(job, template, options.seconds)
    if found.returncode == render_process.MISTAKE:
        raise _mistake(json.loads(found.stdout), template, document)
    if found.returncode != 0:
        raise _end(found, template, options.seconds)
    return found.stdout


def own_templates() -> dict[str, bytes]:
    """Meterlake's own templates by the names of their files."""
    paths = (TEMPLATES / template_name(each) for each in _SUFFIXES)
    return {each.name: each.read_bytes() for each in paths}


def template_name(format: DocumentFormat) -> str:
    """How the file of a template is called in its folder."""
    return f"{_NAME}{_SUFFIXES[format]}"


def find_template(format: DocumentFormat, chosen: Path | None) -> Path:
    """The file of a template.

    Raises:
        Invalid: There is no such file, or it is for another format.
    """
    suffix = _SUFFIXES[format]
    if chosen is None:
        return TEMPLATES / template_name(format)
    path = chosen / template_name(format) if chosen.is_dir() else chosen
    if not path.is_file():
        raise Invalid("template", str(path), "it must be a file that exists")
    if path.suffix != suffix:
        rule = f"it must be a file whose name ends with {suffix}, for {format}"
        raise Invalid("template", str(path), rule)
    return path.resolve()


def _run(job: dict[str, Any], template: Path, seconds: int) -> "subprocess.CompletedProcess[bytes]":
    packages = {
        str(Path(each).parent)
        for name in ("typst", "jinja2", "markupsafe")
        if (spec := find_spec(name)) is not None
        for each in spec.submodule_search_locations or ()
    }
    command = [sys.executable, "-S", "-E", "-s", "-B", render_process.__file__]
    environment = {**_ENVIRONMENT, "METERLAKE_RENDER_PATH": json.dumps(sorted(packages))}
    try:
        return subprocess.run(  # noqa: S603 - our own file, by our own interpreter
            command,
            input=json.dumps(job).encode(),
            capture_output=True,
            timeout=_WAIT * seconds,
            env=environment,
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow(template, seconds) from None
    except OSError as error:
        raise Unavailable("the process that makes documents", str(error)) from error


def _too_slow(template: Path, seconds: int) -> BadTemplate:
    return BadTemplate(
        template.name, f"the document was not made within {seconds} s; make the template simpler"
    )


def _end(
    found: "subprocess.CompletedProcess[bytes]", template: Path, seconds: int
) -> BadTemplate | Unavailable:
    """What an unexpected end of the process means."""
    text = found.stderr.decode("utf-8", "replace").strip()
    if found.returncode < 0 and -found.returncode in _OUT_OF_TIME:
        return _too_slow(template, seconds)
    if "MemoryError" in text or "memory allocation" in text or found.returncode == -_ABORTED:
        return BadTemplate(
            template.name,
            f"it needs more than {MEMORY >> 30} GiB of memory; make the template or its pictures smaller",
        )
    last = text.splitlines()[-1] if text else f"it ended with {found.returncode}"
    return Unavailable("the process that makes documents", last[:_SHOWN_MAX])


_OUT_OF_TIME: Final = (9, 24)
_ABORTED: Final = 6


def _mistake(mistake: dict[str, Any], template: Path, document: BillDocument) -> Exception:
    if "jinja" in mistake:
        file, line = mistake.get("file") or template.name, mistake.get("line")
        where = f"{file}, line {line}" if line else file
        return BadTemplate(where, mistake["jinja"][:_SHOWN_MAX])
    text = mistake["typst"]
    missing = _NO_GLYPH.search(text)
    if missing is not None:
        return _no_glyph(missing[1], document)
    at = _AT.search(text)
    where = f"{at[1]}, line {at[2]}" if at else template.name
    reason = text.split("\n", 1)[0].removeprefix("error: ")
    return BadTemplate(where, reason[:_SHOWN_MAX])


def _no_glyph(text: str, document: BillDocument) -> NoGlyph:
    """The character that no font has, and where the document has it."""
    shown = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    field = next((path for path, value in _texts(document) if shown in value), "the template")
    names = ", ".join(
        f"U+{ord(each):04X} {unicodedata.name(each, '')}".strip() for each in shown[:4]
    )
    remedy = "`--fonts FOLDER` (METERLAKE_DOCUMENT_FONTS) names a folder with more fonts"
    return NoGlyph(field, f"{shown!r} ({names})", remedy)


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """All texts of a document with their paths."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _texts(each, f"{path}[{number}]")


def font_folders(own: Path | None) -> list[str]:
    """The folders that fonts are looked for in.

    Args:
        own: The folder of the user.

    Raises:
        Invalid: It is no folder.
        NotAvailable: Typst is not installed.
    """
    if find_spec("typst") is None:
        raise NotAvailable("a PDF", f"its typesetter is not installed; install it: {EXTRA}")
    if own is not None and not own.is_dir():
        raise Invalid("fonts", str(own), "it must be a folder with fonts")
    installed: list[str] = []
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None:
            installed.extend(spec.submodule_search_locations or ())
    return [*installed, *([] if own is None else [str(own.resolve())])]


@dataclass(frozen=True, slots=True)
class RenderedDocument:
    """A document, and the name that a file of it has."""

    name: str
    media_type: str
    data: bytes


def make_document(
    organization: Organization,
    bill_id: str,
    format: DocumentFormat,
    detail: AppendixDetail = AppendixDetail.AUTO,
    options: RenderOptions | None = None,
) -> RenderedDocument:
    """The document of a bill; see `make_documents`."""
    [made] = make_documents(organization, [bill_id], format, detail, options)
    return made


def make_documents(
    organization: Organization,
    bill_ids: Sequence[str],
    format: DocumentFormat,
    detail: AppendixDetail = AppendixDetail.AUTO,
    options: RenderOptions | None = None,
) -> Iterator[RenderedDocument]:
    """The documents of some bills in their order; without options, made as the settings say.

    Raises:
        NotFound: There is no such bill.
        UnbalancedBill: The numbers of one do not add up.
        BadTemplate: The template cannot be used.
        NoGlyph: No font has a character.
        NotAvailable: What makes a PDF is not installed.
        Unavailable: A store failed, or the process that makes documents.
    """
    if options is None:
        options = options_of(organization.settings, organization.code, format)
    for first in range(0, len(bill_ids), _READ_TOGETHER):
        some = bill_ids[first : first + _READ_TOGETHER]
        for id_, document in zip(some, read_documents(organization, some, detail), strict=True):
            data = render_document(document, format, options)
            head = document["bill"]
            last_day = date.fromisoformat(head["lastDay"])
            name = bill_file_name(document["customer"]["code"] or id_, last_day, head["number"])
            yield RenderedDocument(f"{name}.{format}", MEDIA_TYPES[format], data)


def options_of(
    settings: Settings,
    code: str,
    format: DocumentFormat,
    template: Path | None = None,
    fonts: Path | None = None,
) -> RenderOptions:
    """How documents of an organization are made: as somebody says, else as the settings say.

    In the folder of templates, those of a folder with the code of the organization come first,
    then those of the folder itself, then meterlake's own.
    """
    folder = settings.document_templates
    if template is None and folder is not None and format is not DocumentFormat.JSON:
        own = folder / code
        # A code may hold what is no name of a folder.
        folders = [own, folder] if own.parent == folder and code != ".." else [folder]
        found = (each / template_name(format) for each in folders)
        template = next((each for each in found if each.is_file()), None)
    return RenderOptions(template, fonts or settings.document_fonts, settings.document_seconds)
