"""The size and the shape of the code: `python tests/benchmarks/house.py [FOLDER ...]`.

Prints what `docs/decisions/house.md` shows, a column for each checkout; this one if none is named.
A private function with one caller is one whose name stands once more in its module. A file lists
the members of a bill's line if it names three of five.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from meterlake.model.bills.members import LINE_MEMBERS

PARTICIPLE = re.compile(
    r"_?(?:[a-z]+ed|found|told|held|made|said|kept|known|written|taken|given|shown|read|sent|put"
    r"|left|meant|paid|bound|built|cut|lent|drawn|thrown|chosen|broken|begun|understood|run)$"
)
PASSIVE = r"\b(?:is|are|was|were|be|been) \w+(?:ed|en|wn|ld|ept|ade|ent)\b"
AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef
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


def functions(found: dict[str, ast.Module]) -> Iterator[tuple[ast.Module, AnyFunction]]:
    """All functions, each with its module."""
    for tree in found.values():
        for node in ast.walk(tree):
            if isinstance(node, AnyFunction):
                yield tree, node


def has_one_caller(names: Counter[str], function: AnyFunction) -> bool:
    """Whether a private function is used at one place of its module, where names stand so often."""
    name = function.name
    return name.startswith("_") and not name.startswith("__") and names[name] == 1


def used_names(tree: ast.Module) -> Counter[str]:
    """How often each name is used in a module."""
    return Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )


def takes_both(function: AnyFunction) -> bool:
    """Whether a function takes the stores and the id of an organization apart."""
    arguments = function.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return {"stores", "org_id"} <= names


def lists_members(text: str) -> bool:
    """Whether a module names most members of a bill's line."""
    names = [each.name for each in LINE_MEMBERS]
    words = set(re.findall(r"\w+", text))
    return 5 * sum(bool({name, snake(name)} & words) for name in names) >= 3 * len(names)


def snake(name: str) -> str:
    """A name of the wire as one of Python."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def words_of_pages(root: Path) -> str:
    """The prose of the pages for users: no code, tables and headings."""
    text = ""
    for page in sorted((root / "docs").glob("*.md")):
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        text += "".join(
            f"{line}\n" for line in prose.splitlines() if not line.startswith(("|", "#"))
        )
    return re.sub(r"`[^`]*`", "X", text).lower()


def per_10_000(pattern: str, text: str) -> str:
    """How often something is said in ten thousand words."""
    return f"{10_000 * len(re.findall(pattern, text)) / len(text.split()):.0f}"


def ambiguous(found: dict[str, ast.Module]) -> list[str]:
    """Public class names that several modules define."""
    places = defaultdict(set)
    for module, tree in found.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    return [name for name, where in places.items() if len(where) > 1]


def figures(root: Path) -> dict[str, str]:
    """The figures of a checkout by what they count."""
    found = modules(root)
    package = root / "src" / "meterlake"
    texts = {path: path.read_text() for path in package.rglob("*.py")}
    rooms = Counter(str(path.parent.relative_to(package)) for path in texts if is_module(path))
    rooms.pop("stores/state/core/migrations/versions", None)
    largest = max(texts, key=lambda each: texts[each].count("\n"))
    between = arrows(found)
    every = list(functions(found))
    used = {id(tree): used_names(tree) for tree in found.values()}
    once = sum(has_one_caller(used[id(tree)], each) for tree, each in every)
    selects = [
        line
        for path, text in texts.items()
        if path.is_relative_to(package / "pipeline")
        for line in text.splitlines()
        if "SELECT" in line
    ]
    participles = [
        each.name
        for _, each in every
        if PARTICIPLE.match(each.name) and each.name not in NO_PARTICIPLE
    ]
    prose = words_of_pages(root)
    [(room_name, most)] = rooms.most_common(1)
    return {
        "modules": f"{len(texts)}",
        "modules in the largest room": f"{most}, `{room_name}`",
        "functions": f"{len(every)}",
        "private functions with one caller": f"{once}, {100 * once / len(every):.1f} %",
        "functions that take `stores` and `org_id`": f"{sum(takes_both(each) for _, each in every)}",
        "files that list the members of a line": f"{sum(map(lists_members, texts.values()))}",
        "lines with SELECT in the pipeline": f"{len(selects)}",
        "arrows between rooms of the pipeline": f"{len(between)}",
        "largest module": (
            f"`{largest.relative_to(package)}`, {texts[largest].count(chr(10))} lines"
        ),
        "functions named by a participle alone": f"{len(participles)}",
        "class names with several meanings": f"{len(ambiguous(found))}",
        "*you* per 10,000 words of the pages": per_10_000(r"\byou\b", prose),
        "passives per 10,000 words": per_10_000(PASSIVE, prose),
    }


def is_module(path: Path) -> bool:
    """Whether a file is a module and not the mark of a package."""
    return path.name != "__init__.py"


def main(roots: list[Path]) -> None:
    """Print the report: a line of Markdown for each figure."""
    columns = [figures(root) for root in roots]
    print(f"| | {' | '.join(root.resolve().name for root in roots)} |")
    print(f"|---|{'---|' * len(roots)}")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(each[name] for each in columns)} |")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or [Path(__file__).parents[2]])
