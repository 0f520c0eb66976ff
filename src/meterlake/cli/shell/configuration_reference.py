"""docs/configuration.md: `python -m meterlake.cli.shell.configuration_reference docs/configuration.md`."""

import re
import sys
from pathlib import Path
from typing import Final

from meterlake.stages.config.reference.document import configuration_document

_BLOCK: Final = re.compile(r"(<!-- kinds:begin[^\n]*-->\n).*?(<!-- kinds:end -->)", re.DOTALL)


def with_reference(page: str) -> str:
    """The page with the kinds as the declarations have them."""
    return _BLOCK.sub(lambda found: found[1] + configuration_document() + found[2], page)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_reference(path.read_text("utf-8")), "utf-8")
