"""Where the characters of a PDF stand, as another program than ours reads them."""

from collections.abc import Iterator
from typing import NamedTuple

import pypdfium2
from pypdfium2 import raw

WATERMARK = 60  # points: letters of this size lie behind everything
TOUCH = 0.3  # points: ink of neighbours may come this near


class Ink(NamedTuple):
    """The box of a character's ink, in points from the lower left corner of its page."""

    left: float
    bottom: float
    right: float
    top: float
    text: str


def _ink(page: pypdfium2.PdfPage) -> Iterator[Ink]:
    found = page.get_textpage()
    for at in range(found.count_chars()):
        text = chr(raw.FPDFText_GetUnicode(found, at))
        if text.strip() and raw.FPDFText_GetFontSize(found, at) < WATERMARK:
            yield Ink(*found.get_charbox(at), text)


def _overlaps(page: pypdfium2.PdfPage) -> Iterator[str]:
    """Digits and what is printed over them, and ink outside of the page."""
    found = sorted(_ink(page))
    width = page.get_width()
    for at, one in enumerate(found):
        if one.left < 0 or one.right > width:
            yield f"{one.text} outside of the page"
        for other in found[at + 1 :]:
            if other.left >= one.right - TOUCH:
                break
            height = min(one.top, other.top) - max(one.bottom, other.bottom)
            if height > TOUCH and (one.text.isdigit() or other.text.isdigit()):
                yield f"{one.text} and {other.text} at {one.left:.0f}, {one.bottom:.0f}"


def faults_of_layout(data: bytes, numbers: list[str]) -> list[str]:
    """Digits that are printed over others, and numbers that do not stand whole on one line."""
    pages = pypdfium2.PdfDocument(data)
    found = [
        f"page {number}: {each}"
        for number, page in enumerate(pages, start=1)
        for each in _overlaps(page)
    ]
    lines = [
        line.replace(" ", "")
        for page in pages
        for line in page.get_textpage().get_text_range().splitlines()
    ]
    pages.close()
    found += [f"{each} is broken" for each in numbers if not any(each in line for line in lines)]
    return found
