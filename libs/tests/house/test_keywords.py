"""A call reads without the signature: flags, and what may be left out beside its like, are named in it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

LIBS = Path(__file__).resolve().parents[3] / "libs"
ROOMS = (LIBS / "kai/engine", LIBS / "kai/snapshot")
#: Those that may be passed by position, and why.
ALLOWED = {
    # The order is that in which they are asked and means nothing else; ``reduce`` folds many into one.
    ("engine/framework/victims.py", "both", "first"),
    ("engine/framework/victims.py", "both", "second"),
    # One is made for each step of a search; only the statement makes them.
    ("engine/framework/statement.py", "Operation", "void"),
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


def _of_class(data: ast.ClassDef) -> Iterator[str]:
    """Of what a dataclass or struct is made of, where it does not say itself how it is made."""
    says = [ast.unparse(each) for each in data.decorator_list if "dataclass" in ast.unparse(each)]
    if any(ast.unparse(each).endswith("Struct") for each in data.bases):
        says.append(", ".join(f"{each.arg}={ast.unparse(each.value)}" for each in data.keywords))
    made = any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in data.body)
    if not says or "kw_only=True" in says[0] or made:
        return
    fields = [each for each in data.body if isinstance(each, ast.AnnAssign)]
    annotations = [ast.unparse(each.annotation) for each in fields]
    if "KW_ONLY" in annotations:
        fields = fields[: annotations.index("KW_ONLY")]
    yield from _confusing(
        [
            (ast.unparse(each.target), each.annotation, each.value is not None)
            for each in fields
            if "init=False" not in ast.unparse(each)
            and not ast.unparse(each.annotation).startswith("ClassVar")
        ]
    )


def _private(function: ast.FunctionDef) -> bool:
    setter = any(ast.unparse(each).endswith(".setter") for each in function.decorator_list)
    return setter or (function.name.startswith("_") and function.name != "__init__")


_Callable: TypeAlias = ast.FunctionDef | ast.ClassDef


def _callables(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, _Callable]]:
    """Those that others may call, and how classes are made; setters take what is assigned."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield f"{owner}{node.name}", node
            yield from _callables(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not _private(node):
            yield f"{owner}{node.name}", node


def confusing(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, function and name of each parameter that should be passed by keyword only."""
    for name, each in _callables(ast.parse(source).body):
        if isinstance(each, ast.FunctionDef):
            found = _of_function(each, method="." in name)
        else:
            found = _of_class(each)
        for parameter in found:
            yield each.lineno, name, parameter


def _found() -> Iterator[tuple[str, int, str, str]]:
    for room in ROOMS:
        for path in sorted(room.rglob("*.py")):
            for line, name, parameter in confusing(path.read_text()):
                yield str(path.relative_to(room.parent)), line, name, parameter


def test_flags_and_what_may_be_left_out_beside_its_like_are_passed_by_keyword() -> None:
    found = [
        f"{path}:{line}: {name}: {parameter}"
        for path, line, name, parameter in _found()
        if (path, name, parameter) not in ALLOWED
    ]
    assert not found, "put a * before these parameters, or make the class of data kw_only"


def test_nothing_is_allowed_by_position_that_is_not_there() -> None:
    assert {(path, name, parameter) for path, _, name, parameter in _found()} == ALLOWED


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
        "@dataclass(slots=True)\nclass C:\n    flag: bool",
        "@dataclass\nclass C:\n    a: int = 0\n    b: int = 0",
        "class C(msgspec.Struct, frozen=True):\n    flag: bool",
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
        "@dataclass(kw_only=True)\nclass C:\n    flag: bool",
        "@dataclass\nclass C:\n    name: str\n    _: KW_ONLY\n    flag: bool",
        "@dataclass\nclass C:\n    name: str\n    flag: bool = field(init=False)",
        "class C(msgspec.Struct, kw_only=True):\n    flag: bool",
        "class C:\n    flag: bool",
        "class C:\n    @p.setter\n    def p(self, flag: bool): ...",
    ],
)
def test_what_is_clear_may_be_passed_by_position(source: str) -> None:
    assert not list(confusing(source))
