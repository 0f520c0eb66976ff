"""Renders one document in a process of its own: a template of somebody can harm nothing else.

It imports nothing of meterlake. Its limits hold for all that it does: seconds of the processor,
memory, and no file that it could write. A template reads files of its own folder alone, and the
network is out of reach: packages are neither found nor downloaded.

The job comes as JSON on the standard input, the document goes to the standard output. A mistake
of the template goes there, too, as JSON, and ends the process with 3.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any, Final

MISTAKE: Final = 3
FILES_MAX: Final = 10_000
_FILTERS: Final = (
    *("abs", "batch", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first"),
    *("float", "format", "groupby", "indent", "int", "items", "join", "last", "length", "list"),
    *("lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round"),
    *("select", "selectattr", "slice", "sort", "string", "sum", "title", "trim", "truncate"),
    *("unique", "upper", "wordcount", "wordwrap"),
)
_GLOBALS: Final = ("range", "namespace", "dict")
# What would end the escaping of values.
_REFUSED: Final = ("ScopedEvalContextModifier", "EvalContextModifier", "MarkSafe")


class _Mistake(Exception):
    """What is wrong with a template."""


def main() -> int:
    """Render what the standard input asks for."""
    sys.path += json.loads(os.environ["METERLAKE_RENDER_PATH"])
    job = json.load(sys.stdin)
    seconds = int(job["seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        data = _ENGINES[job["engine"]](job)
    except _Mistake as error:
        sys.stdout.write(json.dumps(error.args[0]))
        return MISTAKE
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
    return 0


def _typeset(job: dict[str, Any]) -> bytes:
    """A PDF of Typst."""
    import typst  # noqa: PLC0415 - pages do without it

    # Typst follows links: a folder whose links lead out of it is no folder of a template.
    root = Path(job["root"]).resolve()
    count = 0
    for folder, folders, files in os.walk(root):
        count += len(files)
        if count > FILES_MAX:
            rule = f"the folder of a template has at most {FILES_MAX:,} files; give it a folder of its own"
            raise _Mistake({"typst": rule})
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise _Mistake(
                    {"typst": f"{name} is a link that leads outside the template's folder"}
                )
    fonts = typst.Fonts(
        include_system_fonts=False, include_embedded_fonts=True, font_paths=job["fonts"]
    )
    families = order_families(fonts.families(), job["document"], job["families"])
    inputs = {"document": json.dumps(job["document"]), "fonts": json.dumps(families)}
    try:
        found = typst.compile(
            job["template"],
            root=job["root"],
            font_paths=fonts,
            sys_inputs=inputs,
            pdf_standards=["a-2u"],
            timestamp=job["timestamp"],
            pdf_tags=job["tags"],
            package_path=job["nowhere"],
            package_cache_path=job["nowhere"],
        )
    except typst.TypstError as error:
        raise _Mistake({"typst": error.diagnostic or error.message}) from None
    assert isinstance(found, bytes)
    return found


def order_families(found: list[str], document: Any, first: list[str]) -> list[str]:
    """The families in the order in which they are tried for each character.

    The same Chinese characters look another way in Japan and in Korea. Kana and Hangul tell which
    of the fonts comes first.
    """
    text = json.dumps(document, ensure_ascii=False)
    script = "SC"
    if any("\u3040" <= each <= "\u30ff" for each in text):
        script = "JP"
    elif any("\uac00" <= each <= "\ud7a3" or "\u1100" <= each <= "\u11ff" for each in text):
        script = "KR"
    known = [each for each in first if each in found]
    rest = [each for each in found if each not in first]
    return (
        sorted(
            known,
            key=lambda each: each.startswith("Noto Sans CJK") * (1 if each.endswith(script) else 2),
        )
        + rest
    )


def _render_page(job: dict[str, Any]) -> bytes:
    """A page of Jinja2."""
    from jinja2 import TemplateError  # noqa: PLC0415 - PDFs do without it
    from jinja2.exceptions import SecurityError  # noqa: PLC0415

    environment = _make_environment(Path(job["root"]).resolve())
    try:
        template = environment.get_template(Path(job["template"]).name)
        return bytes(template.render(job["document"]).encode())
    except (TemplateError, SecurityError) as error:
        raise _Mistake(_jinja_mistake(error)) from None
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise _Mistake(_jinja_mistake(error)) from None


def _make_environment(root: Path) -> Any:
    """What templates of a folder run in: it escapes all that they show, and reads that folder alone."""
    from jinja2 import FileSystemLoader, StrictUndefined  # noqa: PLC0415
    from jinja2.exceptions import SecurityError  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    class Environment(ImmutableSandboxedEnvironment):
        """Escapes whatever a template shows."""

        def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
            tree = super()._parse(source, name, filename)
            # Refuse a template that would show a value as it is.
            from jinja2 import nodes  # noqa: PLC0415
            from jinja2.exceptions import SecurityError  # noqa: PLC0415

            for node in tree.find_all(nodes.Node):
                if type(node).__name__ in _REFUSED:
                    raise SecurityError(f"line {node.lineno}: values are always escaped")
            return tree

    class Loader(FileSystemLoader):
        """Finds files of one folder, wherever links lead."""

        def get_source(self, environment: Any, template: str) -> Any:
            source, path, fresh = super().get_source(environment, template)
            if not Path(path).resolve().is_relative_to(root):
                raise SecurityError(f"{template} is outside the template's folder")
            return source, path, fresh

    made = Environment(
        loader=Loader(root),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters = {name: made.filters[name] for name in _FILTERS} | {"grouped": group_digits}
    made.globals = {name: made.globals[name] for name in _GLOBALS}
    return made


def _jinja_mistake(error: Exception) -> dict[str, Any]:
    """What is wrong, and the innermost line of a template where it is."""
    line, name = getattr(error, "lineno", None), getattr(error, "name", None)
    trace = error.__traceback__ if line is None else None
    while trace is not None:
        # Jinja2 gives templates frames of their own, with their files and lines.
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            line, name = trace.tb_lineno, Path(trace.tb_frame.f_code.co_filename).name
        trace = trace.tb_next
    text = str(error) or type(error).__name__
    if type(error).__name__ == "TemplateNotFound":
        text = f"{text!r} is not found in the template's folder"
    return {"jinja": text, "line": line, "file": name}


def group_digits(text: str, separator: str = ",", point: str = ".") -> str:
    """A number with its digits in groups of three: 1234567.5 is 1,234,567.5."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, fraction = digits.partition(".")
    grouped = f"{int(whole):,}".replace(",", separator)
    return f"{sign}{grouped}{point}{fraction}" if fraction else f"{sign}{grouped}"


_ENGINES: Final = {"typst": _typeset, "jinja": _render_page}

if __name__ == "__main__":
    # The whole process ends at once: nothing that a template left may run any more.
    code = main()
    sys.stdout.flush()
    os._exit(code)
