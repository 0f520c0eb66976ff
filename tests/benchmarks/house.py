"""The size and the shape of the code: `python tests/benchmarks/house.py [FOLDER]`.

Prints what `docs/decisions/house.md` shows: modules by room, arrows between the rooms of the
pipeline, the largest module, functions that are named by a participle alone, and class names with
several meanings. FOLDER is a checkout; this one if absent.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

PARTICIPLE = re.compile(
    r"_?(?:[a-z]+ed|found|told|held|made|said|kept|known|written|taken|given|shown|read|sent|put"
    r"|left|meant|paid|bound|built|cut|lent|drawn|thrown|chosen|broken|begun|understood|run)$"
)
NO_PARTICIPLE = {"need", "_need", "feed", "speed", "embed", "proceed", "read", "put", "run", "cut"}


def modules(root: Path) -> dict[str, ast.Module]:
    """Every module of the package, parsed, by its dotted name below it."""
    package = root / "src" / "meterlake"
    return {
        ".".join(path.relative_to(package).with_suffix("").parts): ast.parse(path.read_text())
        for path in sorted(package.rglob("*.py"))
        if path.name != "__init__.py"
    }


def room(module: str) -> str:
    """The folder of a module, of two parts at most."""
    return ".".join(module.split(".")[:-1][:2]) or "meterlake"


def imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports of the package, as dotted names below it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("meterlake."):
            base = str(node.module).removeprefix("meterlake.")
            yield base
            yield from (f"{base}.{each.name}" for each in node.names)


def arrows(found: dict[str, ast.Module]) -> Counter[tuple[str, str]]:
    """How many imports lead from one room of the pipeline to another."""
    counts: Counter[tuple[str, str]] = Counter()
    for module, tree in found.items():
        for target in set(imports(tree)) & found.keys():
            if module.startswith("pipeline.") and target.startswith("pipeline."):
                ends = room(module), room(target)
                counts.update([ends] if ends[0] != ends[1] else [])
    return counts


def functions(found: dict[str, ast.Module]) -> list[str]:
    """The names of all functions that are a participle alone."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = [
        node.name for tree in found.values() for node in ast.walk(tree) if isinstance(node, kinds)
    ]
    return [name for name in names if PARTICIPLE.match(name) and name not in NO_PARTICIPLE]


def ambiguous(found: dict[str, ast.Module]) -> list[str]:
    """Public class names that several modules define."""
    places = defaultdict(set)
    for module, tree in found.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    return [name for name, where in places.items() if len(where) > 1]


def main(root: Path) -> None:
    """Print the report."""
    found = modules(root)
    lines = {
        module: len(
            (root / "src/meterlake" / module.replace(".", "/"))
            .with_suffix(".py")
            .read_text()
            .splitlines()
        )
        for module in found
    }
    largest = max(lines, key=lambda each: lines[each])
    between = arrows(found)
    print(f"modules: {len(found)}, lines: {sum(lines.values()):,}")
    print("modules by room:")
    for name, count in sorted(Counter(map(room, found)).items()):
        print(f"  {name:28} {count:4}")
    print(f"arrows between rooms of the pipeline: {len(between)} ({sum(between.values())} imports)")
    print(f"largest module: {largest} ({lines[largest]} lines)")
    print(f"functions named by a participle alone: {len(functions(found))}")
    print(f"class names with several meanings: {len(ambiguous(found))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2])
