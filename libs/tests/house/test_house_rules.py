"""The rules that the whole project keeps, checked by the tools that know them."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent


def run(*command: str) -> None:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}\n{result.stderr}"


def test_the_linter_finds_nothing() -> None:
    run(str(BIN / "ruff"), "check", ".")


def test_everything_is_formatted() -> None:
    run(str(BIN / "ruff"), "format", "--check", ".")


def test_types_hold() -> None:
    run(str(BIN / "mypy"))


def test_layers_are_kept() -> None:
    run(str(BIN / "lint-imports"))


def test_generated_stubs_are_current(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    protos = sorted(str(p.relative_to(tmp_path / "proto")) for p in (tmp_path / "proto").rglob("*.proto"))
    out = tmp_path / "libs"
    out.mkdir()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{tmp_path / 'proto'}",
            f"--plugin=protoc-gen-mypy={BIN / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={BIN / 'protoc-gen-mypy_grpc'}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            f"--mypy_grpc_out=quiet:{out}",
            *protos,
        ],
        check=True,
    )
    fresh = {p.name: p.read_text() for p in (out / "kai/wire/v1").iterdir()}
    committed = {p.name: p.read_text() for p in (ROOT / "libs/kai/wire/v1").glob("*_pb2*")}
    assert sorted(fresh) == sorted(committed)
    stale = [name for name in fresh if fresh[name] != committed[name]]
    assert not stale, f"run `make proto` and commit: {stale}"


def test_the_lock_file_records_no_download_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    pins = sum("==" in line for line in lock.splitlines())
    continued = sum(line.endswith("\\") and "==" in line for line in lock.splitlines())
    assert pins == continued > 50


def test_the_lock_file_names_all_that_its_packages_need() -> None:
    run(sys.executable, "-m", "pip", "check")


def test_the_linter_knows_every_service_and_the_image_holds_it() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    services = {path.name for path in (ROOT / "services").glob("kai_*") if (path / "__init__.py").exists()}
    linter = settings["importlinter"]
    assert services <= {*linter["root_packages"]}
    (apart,) = (each for each in linter["contracts"] if each["name"] == "services never import each other")
    assert {*apart["modules"]} == services - {"kai_cli"}
    (boxed,) = (each for each in linter["contracts"] if each.get("forbidden_modules") == ["kai_local"])
    assert services <= {*boxed["source_modules"]}
    found = settings["setuptools"]["packages"]["find"]
    assert (found["where"], found["include"]) == (["libs", "services"], ["kai*"])
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "COPY libs/kai libs/kai\nCOPY services services\n" in dockerfile
