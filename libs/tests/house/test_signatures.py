"""Calls read as sentences: what could be taken for something else is named where it is given."""

import ast
from pathlib import Path

import pytest

SNAPSHOT = Path(__file__).parents[2] / "kai" / "snapshot"


def unnamed_options(tree):
    """Public functions with a flag or an option that may be given without its name, from the second on."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        given = [each for each in function.args.args if each.arg not in ("self", "cls")]
        optional = given[len(given) - len(function.args.defaults) :] if function.args.defaults else []
        flags = [each for each in given if each.annotation and ast.unparse(each.annotation) == "bool"]
        for each in given[1:]:
            if each in optional or each in flags:
                yield f"{function.name}({each.arg})"


@pytest.mark.parametrize("path", sorted(SNAPSHOT.glob("*.py")), ids=lambda path: path.stem)
def test_flags_and_options_of_the_snapshot_are_given_by_name(path):
    assert list(unnamed_options(ast.parse(path.read_text()))) == []


def test_a_flag_without_its_name_is_noticed():
    tree = ast.parse("def f(self, a: int, b: bool, c: int = 0, *, d: bool): ...\ndef g(a: int = 0): ...")
    assert list(unnamed_options(tree)) == ["f(b)", "f(c)"]
