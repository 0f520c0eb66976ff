"""Scripts that tests run in other processes are text: no linter sees an import that is gone."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
IMPORT = re.compile(r"^from ((?:meterlake|tests)[\w.]*) import (\w+(?:, \w+)*)", re.MULTILINE)


def test_what_scripts_import_exists():
    imported = sorted(set(_imports()))

    assert len(imported) > 20
    missing = [(path, module, name) for path, module, name in imported if not _has(module, name)]
    assert missing == []


def _imports() -> Iterator[tuple[str, str, str]]:
    for path in TESTS.rglob("*.py"):
        text = path.read_text()
        if re.search(r"""["'].*from (meterlake|tests)|^BOTH|\"\"\"\n(import|from) """, text):
            for script in _strings(text):
                for module, names in IMPORT.findall(script.replace("; ", "\n")):
                    for name in names.split(", "):
                        yield str(path.relative_to(TESTS)), module, name


def _strings(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _has(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    if hasattr(found, name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None
