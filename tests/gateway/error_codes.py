"""Every error code that the source can send, read from the source: arguments named `code`, by position or by name,
their defaults, and what is assigned to a variable of that name.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("gateway", "inference/server", "inference/tokenizer", "inference/engine")
FILES = ("inference/client.py", "inference/protocol.py")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Codes:
    found: dict[str, set[str]] = field(default_factory=dict)
    """Code → files."""
    unread: list[str] = field(default_factory=list)
    """Where a code is given by an expression that says nothing here."""


def trees() -> dict[str, ast.Module]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if path.parent.name != "cli"]
    paths += [ROOT / name for name in FILES]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def all_codes() -> Codes:
    sources, codes = trees(), Codes()
    of_all = _signatures(list(sources.values()))
    of_engine = _signatures([tree for name, tree in sources.items() if name.startswith("inference")])
    for name, tree in sources.items():
        takes = of_engine if name.startswith("inference") else of_all
        for expression in _expressions(tree, takes):
            literals = list(_literals(expression))
            for code in literals:
                codes.found.setdefault(code, set()).add(name)
            if not literals and not isinstance(expression, ast.Name | ast.Attribute):
                codes.unread.append(f"{name}:{expression.lineno} {ast.unparse(expression)}")
    return codes


def statuses() -> set[tuple[int, str]]:
    """(status, code) of what engines say, where both stand there."""
    found = set()
    for call in (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if _name(call.func) not in ("EngineError", "Failure"):
            continue
        given = [
            *call.args[:2],
            *(one.value for name in ("status", "code") for one in call.keywords if one.arg == name),
        ]
        values = [one.value for one in given if isinstance(one, ast.Constant)]
        match values:
            case [int(status), str(code)]:
                found.add((status, code))
    return found


def _signatures(modules: list[ast.Module]) -> dict[str, int]:
    """Name of a function or class → at which position it takes `code`; -1: by name only."""
    takes: dict[str, int] = {}
    heirs: dict[str, str] = {}
    for node in (node for tree in modules for node in ast.walk(tree)):
        if isinstance(node, Function) and node.name != "__init__":
            takes.update((node.name, index) for index in _position(node, 0))
        elif isinstance(node, ast.ClassDef):
            inits = [one for one in node.body if isinstance(one, Function) and one.name == "__init__"]
            positions = [index for init in inits for index in _position(init, 1)] or [-1] * _has_field(node)
            takes.update((node.name, index) for index in positions)
            if not inits and node.bases and isinstance(node.bases[0], ast.Name):
                heirs[node.name] = node.bases[0].id
    for _ in heirs:
        takes |= {name: takes[base] for name, base in heirs.items() if name not in takes and base in takes}
    return takes


def _has_field(node: ast.ClassDef) -> bool:
    return any(isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == "code" for one in node.body)


def _position(function: Function, skipped: int) -> list[int]:
    names = [argument.arg for argument in function.args.args]
    if "code" in names:
        return [names.index("code") - skipped]
    return [-1] if "code" in [argument.arg for argument in function.args.kwonlyargs] else []


def _expressions(tree: ast.Module, takes: dict[str, int]) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.Call():
                yield from _given(node, takes.get(_name(node.func)))
            case ast.ClassDef(bases=[ast.Name(id=base), *_]) if base in takes:
                calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and _is_super(call.func)]
                for call in calls:
                    yield from _given(call, takes[base])
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names = [argument.arg for argument in node.args.args]
                defaults = dict(zip(names[::-1], node.args.defaults[::-1], strict=False))
                yield from [defaults["code"]] if "code" in defaults else []
            case ast.Assign(targets=[ast.Name(id="code")]):
                yield node.value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                yield from (
                    v for t, v in zip(targets, values, strict=True) if isinstance(t, ast.Name) and t.id == "code"
                )


def _given(call: ast.Call, index: int | None) -> list[ast.expr]:
    if index is None:
        return []
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    has_it = 0 <= index < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args[: index + 1])
    return by_name or ([call.args[index]] if has_it else [])


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def _is_super(function: ast.expr) -> bool:
    return ast.unparse(function) == "super().__init__"


def _literals(expression: ast.expr) -> Iterator[str]:
    match expression:
        case ast.Constant(value=str(code)):
            yield code
        case ast.IfExp():
            yield from _literals(expression.body)
            yield from _literals(expression.orelse)
        case ast.BoolOp():
            for one in expression.values:
                yield from _literals(one)
