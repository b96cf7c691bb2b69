"""What pages, dashboards and alerts say of metrics, for tests to compare with what processes tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "monitoring.md"
ALERTS: Final = ROOT / "docs" / "examples" / "monitoring" / "alerts.yaml"
DASHBOARDS: Final = ROOT / "helm" / "kai-scheduler" / "dashboards"
#: What a panel shows where there is nothing to tell, as is the rule for troubles.
NOTHING: Final = " or on() vector(0)"
#: Of Grafana: as far back as some scrapes, here one each second.
_RATE: Final = "30s"
_ROW: Final = re.compile(
    r"^\| `(?P<name>[a-z0-9_]+)` \| (?P<type>\w+) \| (?P<labels>[^|]+) \| (?P<tellers>[^|]+) \|"
)
_METRIC: Final = re.compile(
    r"\b(?:kai|workqueue|controller_runtime|rest_client|leader_election|process|python)_\w+"
)
_GROUPED: Final = re.compile(r"\bby \(([\w, ]+)\)")
_LABEL_VALUES: Final = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")


@dataclass(frozen=True, slots=True)
class Family:
    """What is said of a family of series: labels without those of its type, and who tells it."""

    kind: str
    labels: tuple[str, ...]
    tellers: tuple[str, ...]


def documented() -> dict[str, Family]:
    """The tables of the page, by name of the family."""
    rows = filter(None, map(_ROW.match, PAGE.read_text().splitlines()))
    return {row["name"]: Family(row["type"], _names(row["labels"]), _names(row["tellers"])) for row in rows}


def _names(cell: str) -> tuple[str, ...]:
    return tuple(name.strip("` ") for name in cell.split(",") if name.strip("`- "))


def told(text: str) -> dict[str, tuple[str, tuple[str, ...] | None]]:
    """Type and labels of each family in an exposition; labels are None where there is no series yet."""
    families: dict[str, tuple[str, tuple[str, ...] | None]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            families[name] = (kind, None)
        elif not line.startswith("#"):
            labels = re.findall(r'[{,](\w+)="', line)
            families[name] = (families[name][0], tuple(label for label in labels if label != "le"))
    return families


@dataclass(frozen=True, slots=True)
class Query:
    """An expression of a dashboard or an alert, and where it stands."""

    place: str
    expression: str

    @property
    def families(self) -> set[str]:
        """The families that it names."""
        return {re.sub(r"_(bucket|sum|count)$", "", name) for name in _METRIC.findall(self.expression)}

    @property
    def of_trouble(self) -> bool:
        """Whether it shows 0 where nothing is told."""
        return NOTHING in self.expression

    @property
    def strict(self) -> Query:
        """The same, showing nothing where nothing is told."""
        return Query(self.place, self.expression.replace(NOTHING, ""))

    @property
    def labels(self) -> set[str]:
        """What its answers are told apart by."""
        grouped = _GROUPED.search(self.expression)
        return {label.strip() for label in grouped[1].split(",")} - {"le"} if grouped is not None else set()


def dashboards() -> dict[str, dict[str, Any]]:
    """Grafana's JSON by name of the file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def dashboard_queries() -> Iterator[Query]:
    """All expressions, as Grafana would send them where all of each variable is chosen."""
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield Query(f"{name}: {panel['title']}", _filled(target["expr"]))
        for variable in dashboard["templating"]["list"]:
            if (asked := _LABEL_VALUES.fullmatch(str(variable.get("definition", "")))) is not None:
                series = _filled(asked["series"])
                yield Query(
                    f"{name}: variable {variable['name']}",
                    f"count by ({asked['label']}) ({_with(series, asked['label'])})",
                )


def _filled(expression: str) -> str:
    return re.sub(
        r"\$(namespace|pod|job|queue|action)\b", ".*", expression.replace("$__rate_interval", _RATE)
    )


def _with(series: str, label: str) -> str:
    """Only series that have the label."""
    name, _, chosen = series.partition("{")
    return f'{name}{{{label}!=""{"," + chosen if chosen else "}"}'


def alerts() -> Mapping[str, Any]:
    """The rules of the example, as a file of rules has them."""
    spec: Mapping[str, Any] = yaml.safe_load(ALERTS.read_text())["spec"]
    return spec


def alert_queries() -> Iterator[Query]:
    """What alerts look at."""
    for group in alerts()["groups"]:
        for rule in group["rules"]:
            yield Query(rule["alert"], rule["expr"])
