"""What tests of the engine and of its snapshot build, they build by what they share."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = {ROOT / "engine" / "builders.py", ROOT / "engine" / "random_worlds.py"}
#: Of the API; whoever tests has them from the builders, which have them from the library.
OBJECTS = {"a_group", "a_node", "a_pod", "a_priority_class", "a_queue", "usual_priorities"}


def functions() -> Iterator[tuple[str, Path]]:
    """Each function of a module that is not a test, with its module."""
    for folder in ("engine", "snapshot"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
                    yield node.name, path


def test_no_function_of_one_name_stands_in_three_modules() -> None:
    found = defaultdict(set)
    for name, path in functions():
        found[name].add(path.relative_to(ROOT))
    assert {name: sorted(paths) for name, paths in found.items() if len(paths) > 2} == {}


def test_nobody_calls_something_else_by_the_name_of_what_all_share() -> None:
    shared = {name for name, path in functions() if path in SHARED} | OBJECTS
    assert {"a_job", "a_state", "fuzz"} <= shared
    assert [(name, path) for name, path in functions() if path not in SHARED and name in shared] == []
