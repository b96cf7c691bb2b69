"""What is run as a module does nothing when it is imported, and all that it does in ``main``.

A cluster in a box imports it in one process, and calls it in another (``kai_local.processes.fork_server``).
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Statements at whose import nothing happens but definitions.
DEFINES = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
)


def entry_points() -> list[Path]:
    packages = [*ROOT.glob("services/kai_*"), *ROOT.glob("libs/kai_local/**/")]
    run = {package / "__main__.py" for package in packages if (package / "__main__.py").exists()}
    for file in ROOT.glob("libs/kai_local/**/*.py"):
        if '__name__ == "__main__"' in file.read_text():
            run.add(file)
    return sorted(run)


@pytest.mark.parametrize("file", entry_points(), ids=lambda file: str(file.relative_to(ROOT)))
def test_a_module_that_is_run_only_defines_what_it_does(file: Path) -> None:
    _docstring, *statements, last = ast.parse(file.read_text()).body
    assert ast.unparse(last) == "if __name__ == '__main__':\n    main()"
    assert "main" in {each.name for each in statements if isinstance(each, ast.FunctionDef)}
    for each in statements:
        if isinstance(each, ast.With):
            assert ast.unparse(each.items[0]) == "loading.of_a_service()"
        else:
            assert isinstance(each, DEFINES) or ast.unparse(each).startswith("if TYPE_CHECKING:"), (
                ast.unparse(each)
            )
