"""A name that a configuration may list is a plugin, or the page says that it is built in, and why."""

import re
from pathlib import Path

from kai.config.plugin_table import PLUGINS
from kai.engine.plugins import OPENERS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "configuration.md").read_text()


def test_every_name_is_a_plugin_or_told_to_be_built_in() -> None:
    table = PAGE.partition("| built in | why |\n|---|---|\n")[2].partition("\n\n")[0]
    told = [name for row in table.splitlines() for name in re.findall("`(.+?)`", row.split("|")[1])]
    assert sorted([*told, *OPENERS]) == sorted(PLUGINS)
