"""How loud a program is, and each of its parts."""

import json
import logging

import pytest
import structlog

from kai import observe
from kai.observe import LevelError, LogLevels, ObserveSettings


@pytest.fixture(autouse=True)
def silent_afterwards():
    yield
    observe.change_log_levels(LogLevels())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("debug", "debug"),
        ("WARN", "warning"),
        ("4", "debug"),
        ("3", "info"),
        ("kai.model=debug", "info,kai.model=debug"),
        (" error , kai.observe=info,asyncio=debug ", "error,asyncio=debug,kai.observe=info"),
        ("kai_of_another_program=debug", None),
        ("kai.replay.nothing=debug", None),
        ("kai_scheduler.core=debug", "info,kai_scheduler.core=debug"),  # of another program
        ("kai_scheduler.crore=debug", None),
        ("antigravity=debug", "info,antigravity=debug"),  # found, and not imported
    ],
)
def test_levels_are_written_so(text, told):
    if told is None:
        with pytest.raises(LevelError):
            LogLevels.parse(text)
        return
    levels = LogLevels.parse(text)
    assert str(levels) == told
    assert LogLevels.parse(told) == levels


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loud", "allowed are debug, info, warning, error or a verbosity number"),
        ("", "allowed are debug"),
        ("info,kai.observe=loud", "allowed are debug"),
        ("info,debug", "two levels for all; write one of them as PART=debug"),
        ("kai.observe=info,kai.observe=debug", "kai.observe is there twice"),
        ("kai.obsrve=debug", "no part of this program is called 'kai.obsrve'; did you mean kai.observe?"),
        ("zzz.zzz=debug", "write the name of a module"),
        ("=debug", "no part of this program is called ''"),
    ],
)
def test_what_is_wrong_with_levels_is_said(text, said):
    with pytest.raises(LevelError) as caught:
        LogLevels.parse(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("module", "level"),
    [
        ("kai.observe", logging.DEBUG),
        ("kai.observe.profiler", logging.DEBUG),
        ("kai.observer", logging.ERROR),
        ("kai.observe.metrics", logging.WARNING),
        ("", logging.ERROR),
    ],
)
def test_the_nearest_part_around_a_module_counts(module, level):
    levels = LogLevels.parse("error,kai.observe=debug,kai.observe.metrics=warning")
    assert levels.of(module) == level


def said(capsys):
    return [
        (line["event"], line.get("logger")) for line in map(json.loads, capsys.readouterr().err.splitlines())
    ]


def test_a_part_can_be_made_louder_and_quieter_while_the_program_runs(capsys):
    observe.configure(service="binder", settings=ObserveSettings(json=True))
    loud, quiet = structlog.get_logger("kai.observe.metrics"), structlog.get_logger("kai.model")
    loud.debug("not yet")
    observe.change_log_levels(LogLevels.parse("warning,kai.observe=debug"))
    loud.debug("in detail")
    quiet.info("silent")
    quiet.warning("heard")
    observe.change_log_levels(LogLevels.parse("info"))
    loud.debug("no more")
    quiet.info("heard again")
    assert said(capsys) == [
        ("in detail", "kai.observe.metrics"),
        ("heard", "kai.model"),
        ("heard again", "kai.model"),
    ]


def test_libraries_are_parts_and_silent_below_warnings_until_named(capsys):
    observe.configure(service="binder", settings=ObserveSettings(json=True))
    library = logging.getLogger("asyncio")
    library.debug("not yet")
    observe.change_log_levels(LogLevels.parse("info,asyncio=debug"))
    library.debug("in detail")
    observe.change_log_levels(LogLevels.parse("debug"))
    library.debug("no more")
    assert said(capsys) == [("in detail", "asyncio")]


def test_a_traceback_is_said_with_its_error(capsys):
    observe.configure(service="binder", settings=ObserveSettings(json=True))
    try:
        {}["x"]
    except KeyError:
        structlog.get_logger("kai.kube").exception("failed")
    (line,) = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (line["level"], line["exception"][0]["exc_type"]) == ("error", "KeyError")
