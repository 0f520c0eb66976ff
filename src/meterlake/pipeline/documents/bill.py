"""The document of a bill in a format, as the command line and the API give it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meterlake.model.bills.document import AppendixDetail, DocumentFormat
from meterlake.pipeline.documents.content import read_document
from meterlake.pipeline.documents.render import RenderOptions, render_document, template_name
from meterlake.settings import Settings
from meterlake.stores import Stores

MEDIA_TYPES: Final = {
    DocumentFormat.HTML: "text/html",
    DocumentFormat.PDF: "application/pdf",
    DocumentFormat.JSON: "application/json",
}


@dataclass(frozen=True, slots=True)
class RenderedDocument:
    """A document, and the name that a file of it has."""

    name: str
    media_type: str
    data: bytes


def make_document(
    stores: Stores,
    org_id: str,
    bill_id: str,
    format: DocumentFormat,
    detail: AppendixDetail = AppendixDetail.AUTO,
    options: RenderOptions | None = None,
) -> RenderedDocument:
    """The document of a bill; without options, made as the settings say.

    Raises:
        NotFound: There is no such bill.
        UnbalancedBill: Its numbers do not add up.
        BadTemplate: The template cannot be used.
        NoGlyph: No font has a character.
        NotAvailable: What makes a PDF is not installed.
        Unavailable: A store failed, or the process that makes documents.
    """
    document = read_document(stores, org_id, bill_id, detail)
    if options is None:
        code = stores.state.organization(org_id).code
        options = options_of(stores.settings, code, format)
    data = render_document(document, format, options)
    name = f"bill-{document['bill']['number'] or bill_id}.{format}"
    return RenderedDocument(name, MEDIA_TYPES[format], data)


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
        template = _find_template(folder, code, format)
    return RenderOptions(template, fonts or settings.document_fonts, settings.document_seconds)


def _find_template(folder: Path, code: str, format: DocumentFormat) -> Path | None:
    own = folder / code
    # A code may hold what is no name of a folder.
    folders = [own, folder] if own.parent == folder and code != ".." else [folder]
    found = (each / template_name(format) for each in folders)
    return next((each for each in found if each.is_file()), None)
