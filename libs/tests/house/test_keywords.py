"""A call reads without the signature: flags, and what may be left out beside its like, are named in it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LIBS = Path(__file__).resolve().parents[3] / "libs"
ROOMS = (LIBS / "kai/engine",)
#: Those that may be passed by position, and why.
ALLOWED = {
    # The order is that in which they are asked and means nothing else; ``reduce`` folds many into one.
    ("engine/framework/victims.py", "both", "first"),
    ("engine/framework/victims.py", "both", "second"),
}


def _types(annotation: ast.expr | None) -> set[str]:
    """What an annotation allows, None apart."""
    if annotation is None:
        return set()
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _types(annotation.left) | _types(annotation.right)
    return {ast.unparse(annotation)} - {"None"}


def _optional(annotation: ast.expr | None) -> bool:
    return annotation is not None and "None" in ast.unparse(annotation).split(" | ")


def _confusing(parameters: list[tuple[str, ast.expr | None, bool]]) -> Iterator[str]:
    """Of parameters that can be passed by position, each with its type and whether it has a default."""
    types = [_types(annotation) for _, annotation, _ in parameters]
    for place, (name, annotation, default) in enumerate(parameters):
        beside = [types[at] for at in (place - 1, place + 1) if 0 <= at < len(types)]
        alike = any(types[place] & other for other in beside)
        if "bool" in types[place] or (alike and (default or _optional(annotation))):
            yield name


def _of_function(function: ast.FunctionDef, *, method: bool) -> Iterator[str]:
    given = function.args
    static = any(ast.unparse(each) == "staticmethod" for each in function.decorator_list)
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    found = [(each.arg, each.annotation, place >= required) for place, each in enumerate(positional)]
    return _confusing(found[1:] if method and not static else found)


def _private(function: ast.FunctionDef) -> bool:
    setter = any(ast.unparse(each).endswith(".setter") for each in function.decorator_list)
    return setter or (function.name.startswith("_") and function.name != "__init__")


def _functions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Those that others may call, and how classes are made; setters take what is assigned."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _functions(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not _private(node):
            yield f"{owner}{node.name}", node


def confusing(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, function and name of each parameter that should be passed by keyword only."""
    for name, function in _functions(ast.parse(source).body):
        for parameter in _of_function(function, method="." in name):
            yield function.lineno, name, parameter


def test_flags_and_what_may_be_left_out_beside_its_like_are_passed_by_keyword() -> None:
    found = [
        f"{path.relative_to(LIBS)}:{line}: {name}: {parameter}"
        for room in ROOMS
        for path in sorted(room.rglob("*.py"))
        for line, name, parameter in confusing(path.read_text())
        if (str(path.relative_to(room.parent)), name, parameter) not in ALLOWED
    ]
    assert not found, "put a * before these parameters"


def test_nothing_is_allowed_by_position_that_is_not_there() -> None:
    there = {
        (str(path.relative_to(room.parent)), name, parameter)
        for room in ROOMS
        for path in room.rglob("*.py")
        for _, name, parameter in confusing(path.read_text())
    }
    assert there >= ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "def f(job: Job, simulation: bool): ...",
        "def f(job: Job, simulation: bool | None = None): ...",
        "def f(simulation: bool = False): ...",
        "def f(a: int, b: int = 0): ...",
        "def f(a: int = 0, b: int = 0): ...",
        "def f(a: str, b: str | None): ...",
        "def f(a: str | None, b: str): ...",
        "class C:\n    def m(self, a: int, b: int = 0): ...",
        "class C:\n    def __init__(self, flag: bool): ...",
        "class C:\n    @staticmethod\n    def m(flag: bool): ...",
        "class C:\n    class D:\n        def m(self, flag: bool): ...",
    ],
)
def test_each_way_to_confuse_is_seen(source: str) -> None:
    assert list(confusing(source))


@pytest.mark.parametrize(
    "source",
    [
        "def f(job: Job, *, simulation: bool): ...",
        "def f(a: int, b: int): ...",
        "def f(a: int, b: str = ''): ...",
        "def _f(flag: bool): ...",
        "class _C:\n    def m(self, flag: bool): ...",
        "class C:\n    @p.setter\n    def p(self, flag: bool): ...",
    ],
)
def test_what_is_clear_may_be_passed_by_position(source: str) -> None:
    assert not list(confusing(source))
