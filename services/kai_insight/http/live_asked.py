"""What somebody asks about the cluster as it is now, read from the address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kai_insight.http import asked
from kai_insight.http.endpoints import Form
from kai_insight.http.live_endpoints import LiveEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAsked:
    """A question within its bounds."""

    texts: Mapping[str, str] = field(default_factory=dict)
    limit: int = 0
    keys: tuple[int, ...] = ()

    def text(self, name: str) -> str:
        """What a parameter says; empty where it is left out."""
        return self.texts.get(name, "")


def read(endpoint: LiveEndpoint, pairs: Iterable[tuple[str, str]]) -> LiveAsked:
    """The question that these parameters are.

    Raises:
        Problem: one of them is not known, is there twice, is missing, or says what cannot be.
    """
    given = asked.named(endpoint.parameters, pairs)
    texts: dict[str, str] = {}
    limit = 0
    keys: tuple[int, ...] = ()
    for each in endpoint.parameters:
        said = given.get(each.name)
        match each.form:
            case Form.ROWS:
                limit = each.usual if said is None else asked.number(each, said)
            case Form.KEYS if said is not None:
                keys = asked.numbers(each, said)
            case Form.CHOICE:
                texts[each.name] = each.choices[0] if said is None else asked.choice(each, said)
            case Form.TEXT if said is not None:
                texts[each.name] = asked.text(each.name, said)
    return LiveAsked(texts=texts, limit=limit, keys=keys)
