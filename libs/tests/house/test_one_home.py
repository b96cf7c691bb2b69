"""Words that a rule of the domain goes by stand in the rule's module only; who needs the rule asks that."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RULES = "libs/kai/model/rules"
HOMES = {
    "phases.py": frozenset({"Succeeded", "Failed"}),
    "taints.py": frozenset({"NoSchedule", "NoExecute"}),
    "priorities.py": frozenset({"preemptible"}),
}
#: Fields that a rule says the meaning of where nothing is said.
FIELDS = {"min_member": "minimums.py", "min_sub_group": "minimums.py"}
#: What the rule's module and those who keep its answers may ask; all others have something made of it.
KEPT_BY = {
    "in_use": {"libs/kai/snapshot/amounts.py", "libs/kai/snapshot/rows.py"},
    "mig_gpus": {
        "libs/kai/model/rules/gpus.py",
        "libs/kai/snapshot/class_table.py",
        "libs/kai/snapshot/resources.py",
    },
}
#: Keeps the answer, by row; test_rules.py of the snapshot compares.
ANSWERS = {("min_sub_group", "libs/kai/snapshot/rows.py")}
#: Judges what the engine decided, by rules of its own on purpose.
APART = {"libs/kai/bench/audit.py"}


def written(tree: ast.AST) -> Iterator[tuple[int, frozenset[str]]]:
    """Each literal collection of texts with its line, and each text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, frozenset({node.value})
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            texts = {getattr(each, "value", each) for each in node.elts}
            yield node.lineno, frozenset(each for each in texts if isinstance(each, str))


def defaulted(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each place where a field gets a value if it has none, by ``or`` or by ``if … is None``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            if isinstance(node.values[0], ast.Attribute) and isinstance(node.values[-1], ast.Constant):
                yield node.lineno, node.values[0].attr
        elif isinstance(node, ast.IfExp) and isinstance(node.test, ast.Compare):
            asked, against = node.test.left, node.test.comparators[0]
            if isinstance(asked, ast.Attribute) and ast.unparse(against) == "None":
                yield node.lineno, asked.attr


def asked(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each attribute that is read, and each name that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, each.name) for each in node.names)


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """What is ours, but for tests and for who judges the rules, by path."""
    paths = {
        str(path.relative_to(ROOT)): path
        for folder in ("libs/kai", "libs/kai_local", "services")
        for path in (ROOT / folder).rglob("*.py")
    }
    return [
        (place, ast.parse(path.read_text()))
        for place, path in paths.items()
        if place not in APART and not place.startswith("services/tests/")
    ]


def repeats() -> Iterator[tuple[str, str]]:
    """Of each rule's words, where they stand."""
    for place, tree in sources():
        for line, words in written(tree):
            for home, kept in HOMES.items():
                if words == kept:
                    yield home, place if place == f"{RULES}/{home}" else f"{place}:{line}"


def test_words_of_a_rule_stand_in_its_module_only() -> None:
    assert set(repeats()) == {(home, f"{RULES}/{home}") for home in HOMES}


@pytest.mark.parametrize("code", ["x in ('NoExecute', 'NoSchedule')", "{'NoSchedule', 'NoExecute'}"])
def test_they_are_found_in_any_order_and_collection(code: str) -> None:
    assert HOMES["taints.py"] in [words for _, words in written(ast.parse(code))]


def test_what_a_field_means_that_says_nothing_its_rule_says() -> None:
    found = {
        f"{place}:{line} {field}: ask {FIELDS[field]}"
        for place, tree in sources()
        for line, field in defaulted(tree)
        if field in FIELDS and place != f"{RULES}/{FIELDS[field]}" and (field, place) not in ANSWERS
    }
    assert not found


def test_parts_of_a_rule_are_put_together_in_its_module() -> None:
    found = {
        f"{place}:{line} {name}"
        for place, tree in sources()
        for line, name in asked(tree)
        if name in KEPT_BY and place not in KEPT_BY[name]
    }
    assert not found


@pytest.mark.parametrize(
    "code", ["x.min_member or 0", "1 if a.b.min_member is None else a.b.min_member", "x.min_member or y or 1"]
)
def test_it_is_found_however_it_is_written(code: str) -> None:
    assert "min_member" in [field for _, field in defaulted(ast.parse(code))]
