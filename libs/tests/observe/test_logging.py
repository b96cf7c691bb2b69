"""What a log line looks like."""

import json
import logging

import structlog

from kai import observe
from kai.observe import LogLevels, ObserveSettings


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_json_with_time_level_service_and_identity(capsys):
    observe.configure(service="binder", settings=ObserveSettings(json=True))
    structlog.get_logger().info("bind failed", pod="team/worker")
    (line,) = lines(capsys)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "bind failed", "pod": "team/worker", "level": "info", "service": "binder"}


def test_what_is_below_the_level_is_silent(capsys):
    observe.configure(
        service="binder", settings=ObserveSettings(levels=LogLevels(logging.WARNING), json=True)
    )
    structlog.get_logger().info("nothing")
    structlog.get_logger().warning("something")
    assert [line["event"] for line in lines(capsys)] == ["something"]


def test_the_standard_library_logs_in_the_same_form(capsys):
    observe.configure(service="binder", settings=ObserveSettings(json=True))
    logging.getLogger("aiohttp").warning("odd request %s", 7)
    logging.getLogger("aiohttp").info("chatter")
    (line,) = lines(capsys)
    assert (line["event"], line["level"], line["service"]) == ("odd request 7", "warning", "binder")


def test_a_terminal_gets_readable_lines(capsys):
    observe.configure(service="binder", settings=ObserveSettings(json=False))
    structlog.get_logger().info("leading", epoch=7)
    text = capsys.readouterr().err
    assert "leading" in text
    assert "epoch" in text


def test_words_of_others_command_no_terminal(capsys):
    observe.configure(service="binder", settings=ObserveSettings(json=False))
    trouble = ValueError("no queue \x1b]0;t\x07\x9b2J")
    structlog.get_logger().error(
        "refused", exc_info=trouble, node="a\x1b[2J", queue="a\x1b[2J\nb", names=["\x1b[2J"]
    )
    logging.getLogger("aiohttp").warning("odd request %s", "\x1b[2J")
    text = capsys.readouterr().err
    assert not {"\x1b", "\x07", "\x9b"} & set(text)
    assert r"node=a\x1b[2J " in text
    assert r"queue='a\\x1b[2J\nb'" in text
    assert r"no queue \x1b]0;t\x07\x9b2J" in text
    assert r"odd request \x1b[2J" in text
    assert text.splitlines()[1].startswith("ValueError: no queue")


def test_a_registry_tells_about_the_process():
    registry = observe.new_registry()
    assert registry.get_sample_value("process_open_fds") > 0
