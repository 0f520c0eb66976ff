"""Pages of docs/ made from the declarations: `python -m meterlake.cli.reference docs/cli.md`.

The same makes docs/configuration.md and docs/dictionary.md.
"""

import re
import sys
from pathlib import Path
from typing import Final

from meterlake.cli.app import build
from meterlake.stages.config.reference.document import configuration_document
from meterlake.stages.publish.document import dictionary_document

_KINDS: Final = re.compile(r"(<!-- kinds:begin[^\n]*-->\n).*?(<!-- kinds:end -->)", re.DOTALL)
_DICTIONARY: Final = """<!-- Made by `python -m meterlake.cli.reference docs/dictionary.md`; a test compares. -->

"""

# Under `python -m`, cyclopts puts the module that was started into the usage lines.
_STARTER: Final = re.compile(r"(?<=[a-z]) -m [\w.]+")
# Code hosts keep each hyphen of a heading in its anchor, makers of sites join them, as links here do.
_OPTION_HEADING: Final = re.compile(r"^(?=#+ (meterlake) --([\w-]+)$)", re.MULTILINE)
_HEAD: Final = """<!-- Made by `python -m meterlake.cli.reference docs/cli.md`; a test compares. -->

# The command line

This page is for you if you use meterlake on the command line: it lists every command with its options and an example.

You can give every command `--home` (or `METERLAKE_HOME`) and `--json`; without `--json` you get tables.
A table is as wide as your terminal, or as `COLUMNS` says; in a pipe it is as wide as it needs.
A table never breaks ids, codes and numbers.
If your terminal is narrow, a table leaves out the least important columns; with `--wide` you see every column.
If a command suggests another one, it names `--home` and `--org` where you need them.
With `--as` (or `METERLAKE_USER`) you say who you are: a person by e-mail address, id, or first and last name, or a service user by id or name.
Your work then has the same author as over the API. It is no sign-in: if you can read the home, you can name any person.
Without it the author is `cli`, whichever user of the machine you are.
You name a bill by its id or the first eight digits of it, by its invoice number, or by the code of its account and the month of its last day:
`meterlake bill show acme 2026-10`. With `meterlake bill list` you see the existing bills.
You get an error as one line on stderr, broken between words on a terminal, and with `--json` as one object `{"error": {"code", "message"}}`.

| exit code | meaning |
|---|---|
| 0 | done; if it rejected rows, you see them in the report |
| 1 | an error, or a part of the work failed |
| 2 | the command line is wrong |
| 130 | you stopped it with Ctrl-C |
| 143 | you stopped it with SIGTERM; if you run the same command again, it goes on where it stopped, or begins anew |

With `meterlake --install-completion` your shell completes commands and options.
If you name a meter, an account, a source or a schedule that does not exist, the error names the nearest one that does:
`no Meter 'egres'; did you mean 'egress'?`.

"""


def reference() -> str:
    """The reference of all commands in Markdown."""
    made = build().generate_docs(output_format="markdown", heading_level=2)
    lines = (_STARTER.sub("", line.rstrip()) for line in made.splitlines())
    text = _OPTION_HEADING.sub(r'<a id="\1-\2"></a>\n\n', "\n".join(lines).strip())
    return f"{_HEAD}{text}\n"


def with_reference(page: str) -> str:
    """The page on configuration with the kinds as the declarations have them."""
    return _KINDS.sub(lambda found: found[1] + configuration_document() + found[2], page)


def dictionary() -> str:
    """The data dictionary in Markdown."""
    return _DICTIONARY + dictionary_document()


def main(path: Path) -> None:
    """Write a page anew."""
    match path.name:
        case "configuration.md":
            page = with_reference(path.read_text("utf-8"))
        case "dictionary.md":
            page = dictionary()
        case _:
            page = reference()
    path.write_text(page, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
