import msgspec
import pytest

from kai.model import dra
from kai.model.cel import SelectorFault, compile_selector, variables_of

pytest.importorskip("cel_expr_python")

DRIVER = "gpu.example.com"
DEVICE = msgspec.convert(
    {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "A100"},
            "index": {"int": 3},
            "other.com/ok": {"bool": True},
            "driverVersion": {"version": "1.10.0"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    },
    dra.Device,
)
OWN = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


def verdict(expression):
    selector = compile_selector(expression)
    return selector if isinstance(selector, SelectorFault) else selector.matches(variables_of(DRIVER, DEVICE))


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        f'device.driver == "{DRIVER}"',
        f'{OWN}.model == "A100" && {OWN}.index == 3',
        'device.attributes["other.com"].ok',
        f'{MEMORY}.compareTo(quantity("80Gi")) == 0',
        f'{MEMORY}.isGreaterThan(quantity("40000M"))',
        f'{MEMORY}.isLessThan(quantity("1Ti"))',
        f'{MEMORY}.sub(quantity("79Gi")).add(quantity("1Gi")).asInteger() == 2147483648',
        f'{OWN}.driverVersion.compareTo(semver("1.9.0")) > 0',
        f'{OWN}.driverVersion.isGreaterThan(semver("1.10.0-rc.1"))',
        f"{OWN}.driverVersion.minor() == 10",
        f"cel.bind(own, {OWN}, own.index > 2 && own.model.startsWith('A'))",
        f'{OWN}.model.lowerAscii() in ["a100", "h100"]',
        f"{OWN}.?missing.orValue(7) == 7",
        'isQuantity("4Gi") && !isQuantity("four") && isSemver("1.2.3") && !isSemver("1.2")',
        '!("model" in device.attributes["nobody.example.com"])',
        '!("memory" in device.capacity["nobody.example.com"])',
        "device.allowMultipleAllocations == false",
    ],
)
def test_an_expression_selects_the_device(expression):
    assert verdict(expression) is True


@pytest.mark.parametrize(
    "expression", ["false", f'{OWN}.model == "H100"', f'{MEMORY}.isLessThan(quantity("1Gi"))']
)
def test_an_expression_does_not_select_the_device(expression):
    assert verdict(expression) is False


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("device.driver ==", "does not compile"),
        ("devise.driver == 'x'", "does not compile"),
        ("1 + 1", "of type INT"),
        ("device.driver", "neither true nor false"),
        ('device.attributes["nobody.example.com"].model == "A100"', "model"),
        (f'{MEMORY}.isGreaterThan(quantity("a lot"))', "not a Kubernetes quantity"),
        (f'{OWN}.driverVersion.isLessThan(semver("2"))', "not a semantic version"),
    ],
)
def test_a_faulty_expression_is_explained(expression, reason):
    found = verdict(expression)
    assert isinstance(found, SelectorFault)
    assert reason in found.reason
    assert repr(expression) in found.reason
