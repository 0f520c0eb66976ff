"""docs/cli.md, made from the commands' own help: `python -m meterlake.cli.reference docs/cli.md`."""

import re
import sys
from pathlib import Path
from typing import Final

from meterlake.cli.app import build

# Under `python -m`, cyclopts puts the module that was started into the usage lines.
_STARTER: Final = re.compile(r"(?<=[a-z]) -m [\w.]+")
# Code hosts keep each hyphen of a heading in its anchor, makers of sites join them, as links here do.
_OPTION_HEADING: Final = re.compile(r"^(?=#+ (meterlake) --([\w-]+)$)", re.MULTILINE)
_HEAD: Final = """<!-- Made by `python -m meterlake.cli.reference docs/cli.md`; a test compares. -->

# The command line

Every command takes `--home` (or `METERLAKE_HOME`) and `--json`; without `--json` results are tables.
A table is as wide as your terminal, or as `COLUMNS` says; in a pipe it is as wide as it needs.
Ids, codes and numbers are never broken. If the terminal is narrow, a table leaves out what matters least; `--wide` shows every column.
A command that is suggested names `--home` and `--org` where it needs them.
`--as` (or `METERLAKE_USER`) names who gives a command: a person by e-mail address, id, or first and last name, or a service user by id or name.
What they do has the author that it would have over the API. It is no sign-in: whoever may read the home may name anybody.
Without it the author is `cli`, whoever is logged in on the machine.
You name a bill by its id or the first eight digits of it, by its invoice number, or by the code of its account and the month of its last day:
`meterlake bill show acme 2026-10`. `meterlake bill list` shows the bills that there are.
Errors are one line on stderr, broken between words on a terminal, and with `--json` one object `{"error": {"code", "message"}}`.

| exit code | meaning |
|---|---|
| 0 | done; rows may have been rejected, the report says which |
| 1 | an error, or a part of the work failed |
| 2 | the command line is wrong |
| 130 | stopped by Ctrl-C |
| 143 | stopped by SIGTERM; the same command goes on where it stopped, or begins anew |

`meterlake --install-completion` lets the shell complete commands and options.
If a meter, an account, a source or a schedule does not exist, the error names the nearest one that does: `no Meter 'egres'; did you mean 'egress'?`.

"""


def reference() -> str:
    """The reference of all commands in Markdown."""
    made = build().generate_docs(output_format="markdown", heading_level=2)
    lines = (_STARTER.sub("", line.rstrip()) for line in made.splitlines())
    text = _OPTION_HEADING.sub(r'<a id="\1-\2"></a>\n\n', "\n".join(lines).strip())
    return f"{_HEAD}{text}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), "utf-8")
