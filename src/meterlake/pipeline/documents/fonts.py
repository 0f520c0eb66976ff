"""The fonts of PDF documents: those of installed packages, and those of a folder of the user."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from meterlake.model.errors import Invalid, NotAvailable

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
    return [*_find_installed(), *([] if own is None else [str(own.resolve())])]


def _find_installed() -> Iterator[str]:
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None:
            yield from spec.submodule_search_locations or ()
