"""docs/dictionary.md, made from the declarations: `python -m meterlake.cli.shell.dictionary docs/dictionary.md`."""

import sys
from pathlib import Path
from typing import Final

from meterlake.stages.publish.document import dictionary_document

_HEAD: Final = """<!-- Made by `python -m meterlake.cli.shell.dictionary docs/dictionary.md`; a test compares. -->

"""


def dictionary() -> str:
    """The data dictionary in Markdown."""
    return _HEAD + dictionary_document()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(dictionary(), "utf-8")
