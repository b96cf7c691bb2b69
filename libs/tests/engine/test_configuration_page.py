"""docs/configuration.md has every plugin and every argument, as the table of plugins declares them."""

from pathlib import Path

from kai.engine.config.plugin_table import DEFAULT_PLUGINS, PLUGINS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "configuration.md").read_text()


def rows(header: str) -> list[list[str]]:
    _, _, rest = PAGE.partition(f"{header}\n|---")
    body = rest.split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


def in_order() -> list[str]:
    return [*DEFAULT_PLUGINS, *(name for name in PLUGINS if name not in DEFAULT_PLUGINS)]


def test_every_plugin_is_told_with_its_place_in_the_default_configuration() -> None:
    expected = []
    for name in in_order():
        spec = PLUGINS[name]
        place = str(spec.priority) if spec.priority is not None else "off"
        expected.append([f"`{name}`", place, spec.meaning])
    assert rows("| plugin | default | what it does |") == expected


def test_every_argument_is_told_with_its_values_and_its_default() -> None:
    expected = []
    for name in in_order():
        for each in PLUGINS[name].arguments.declared().values():
            spellings = ", ".join(f"`{spelling}`" for spelling in each.spellings)
            expected.append([f"`{name}`", spellings, each.kind.allowed, each.default or "-", each.meaning])
        for spelling, why in PLUGINS[name].without_effect.items():
            expected.append([f"`{name}`", f"`{spelling}`", "-", "-", f"no effect: {why}"])
    assert rows("| plugin | argument | value | default | meaning |") == expected
