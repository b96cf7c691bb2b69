"""Objects in other words: whatever is a name is replaced, in every place where it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kai.model import names
from kai.model.dra import DEVICE_CLASS_RESOURCE_PREFIX
from kai.model.names import MULTI_GPU_GROUP_PREFIX, RESERVATION_CLAIM_PREFIX
from kai.model.objects import Json
from kai.replay.anonymous import meanings
from kai.replay.anonymous.words import Words

#: Maps of names to texts, by the field in which they stand.
_LABELS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})
_AMOUNTS: Final = frozenset(
    {"requests", "limits", "allocatable", "capacity", "overhead", "allocatedResources", "amount", "counters"}
)
#: Fields whose texts are words of the API.
_TERMS: Final = frozenset(
    {
        *("operator", "effect", "phase", "type", "status", "reason", "allocationMode", "whenUnsatisfiable"),
        *("nodeAffinityPolicy", "nodeTaintsPolicy", "restartPolicy", "preemptionPolicy", "qosClass"),
        *("volumeBindingMode", "volumeMode", "accessModes", "protocol", "kind", "topologyPolicies"),
    }
)
#: Fields whose texts are amounts, where they are such at all.
_MEASURED: Final = frozenset(
    {
        *("creationTimestamp", "deletionTimestamp", "startTime", "value"),
        *("preemptionDelay", "stalenessGracePeriod"),
        *("preemptMinRuntime", "reclaimMinRuntime", "capacity", "allocatable", "available"),
        *("maximumVolumeSize", "portion", "version"),
    }
)
#: Names of attributes of devices, which drivers choose and expressions spell out, behind those of domains.
_ATTRIBUTES: Final = frozenset({"matchAttribute", "distinctAttribute"})
#: Groups of the service accounts of a namespace.
_ACCOUNTS: Final = f"{names.ALL_SERVICE_ACCOUNTS}:"
_LITERAL: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_COMMENT: Final = re.compile(r"//[^\n]*")
#: What looks into a text, of which nothing is left.
_LOOKS_INTO: Final = re.compile(
    r"\.(startsWith|endsWith|contains|matches|indexOf|split|substring|replace|lowerAscii|upperAscii|find)\b|\\"
)


class Rewriting:
    """Rewrites objects by one set of words; while that gathers, what comes out is of no use."""

    def __init__(self, words: Words) -> None:
        self._words = words
        #: Expressions that may say something else afterwards: how many.
        self.doubtful = 0

    # --- texts ---------------------------------------------------------------------------------
    def name(self, text: str) -> str:
        """A name, or several with slashes or colons between."""
        if not text or text in meanings.WORDS or meanings.is_number(text):
            return text
        if text.startswith(_ACCOUNTS):
            return _ACCOUNTS + self.name(text.removeprefix(_ACCOUNTS))
        for between in ("/", ":"):
            if between in text and len(text) > 1:
                return between.join(self.name(part) for part in text.split(between))
        return self._words.of(text)

    def key(self, text: str) -> str:
        """The key of a label, an annotation or a taint."""
        if text in meanings.KEYS or text.startswith(names.AMD_VRAM_LABEL_PREFIX):
            return text
        for prefix in meanings.KEY_PREFIXES:
            if text.startswith(prefix):
                return prefix + self.name(text.removeprefix(prefix))
        return self.resource(text) if meanings.is_resource(text) else self.name(text)

    def resource(self, text: str) -> str:
        """The name of a resource."""
        if meanings.is_resource(text):
            return text
        if text.startswith(DEVICE_CLASS_RESOURCE_PREFIX):
            return DEVICE_CLASS_RESOURCE_PREFIX + self.name(text.removeprefix(DEVICE_CLASS_RESOURCE_PREFIX))
        return self.name(text)

    def attribute(self, text: str) -> str:
        """The name of an attribute, with a domain or without."""
        domain, between, name = text.rpartition("/")
        return f"{self.name(domain)}{between}{name}"

    def expression(self, text: str) -> str:
        """A condition in CEL: its texts in other words, amounts and attributes as they are."""
        if _LOOKS_INTO.search(text):
            self.doubtful += 1

        def literal(match: re.Match[str]) -> str:
            said = match[1] if match[1] is not None else match[2]
            return repr(said if meanings.is_amount(said) else self.name(said))

        # Comments go last: what looks like one inside of a text is none.
        return _COMMENT.sub("", _LITERAL.sub(literal, text))

    # --- objects -------------------------------------------------------------------------------
    def value(self, value: Any, field: str = "") -> Any:
        """Whatever stands in a field; numbers and switches stay."""
        if isinstance(value, dict):
            return self._object(value, field)
        if isinstance(value, list):
            return [self._item(each, field) for each in value]
        return self._text(value, field) if isinstance(value, str) else value

    def _item(self, value: Any, field: str) -> Any:
        """An element of a list: an object in it is no map of names, whatever the field is called."""
        if not isinstance(value, dict):
            return self.value(value, field)
        found = self._requirement(value) if _is_requirement(value) else self._fields(value)
        if field == "zones":
            found["name"] = self._text(str(value.get("name", "")), "zone")
        elif field == "resources":
            found["name"] = self.resource(str(value.get("name", "")))
        return found

    def _fields(self, value: Json) -> Json:
        return {key: self.value(each, key) for key, each in value.items()}

    def _object(self, value: Json, field: str) -> Json:
        if field == "attributes":
            return {self.attribute(key): self.value(each, "attribute") for key, each in value.items()}
        if field in _AMOUNTS and not _is_structure(value):
            named: Callable[[str], str] = self.attribute if _of_devices(value) else self.resource
            return {named(key): self.value(each, "value") for key, each in value.items()}
        if field in _LABELS and "nodeSelectorTerms" not in value:
            return {self.key(key): self._labelled(key, text) for key, text in value.items()}
        return self._requirement(value) if _is_requirement(value) else self._fields(value)

    def _requirement(self, value: Json) -> Json:
        """One expression of a selector, a taint or a toleration: the key says how values are meant."""
        key = value["key"]
        return {
            **self._fields(value),
            "key": self.key(key),
            **(
                {"values": [self._labelled(key, each) for each in value["values"]]}
                if "values" in value
                else {}
            ),
            **({"value": self._labelled(key, value["value"])} if "value" in value else {}),
        }

    def _labelled(self, key: str, text: Any) -> Any:
        """The value of a label or an annotation."""
        if not isinstance(text, str) or key in meanings.READ:
            return text
        if key in (names.NUMA_OBSERVED, names.NUMA_PREDICTED):
            return self._zones(text)
        if key.startswith(RESERVATION_CLAIM_PREFIX):
            return self._claim(text)
        if key.startswith(MULTI_GPU_GROUP_PREFIX):
            return self.name(text)
        return text if meanings.is_resource(key) and meanings.is_amount(text) else self.name(text)

    def _claim(self, text: str) -> str:
        """What a reservation pod says of a pod that holds a part: a time, who it is, and how much."""
        moment, _, rest = text.partition(" ")
        who, _, what = rest.partition(" ")
        return f"{moment} {self.name(who)} {what}" if meanings.is_number(moment) else ""

    def _zones(self, text: str) -> str:
        try:
            zones = msgspec.json.decode(text, type=list[dict[str, Any]])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return msgspec.json.encode([self.value(each) for each in zones]).decode()

    def _text(self, text: str, field: str) -> str:
        kept = (
            (field in _TERMS and meanings.is_term(text))
            or (field in _MEASURED and meanings.is_amount(text))
            or (field == "zone" and meanings.is_zone(text))
            or (field == "apiVersion" and text == "v1")
        )
        if kept:
            return text
        if field == "expression":
            return self.expression(text)
        if field in _ATTRIBUTES:
            return self.attribute(text)
        return self.key(text) if field in _KEY_FIELDS else self.name(text)


#: Fields whose texts are keys of labels.
_KEY_FIELDS: Final = frozenset(
    {
        *("topologyKey", "nodeLabel", "matchLabelKeys", "mismatchLabelKeys", "topologyLevel"),
        *("requiredTopologyLevel", "preferredTopologyLevel", "extendedResourceName", "resourceName"),
    }
)


def _is_requirement(value: Mapping[str, Any]) -> bool:
    """Whether it is an expression of a selector, a taint or a toleration."""
    return isinstance(value.get("key"), str)


def _is_structure(value: Mapping[str, Any]) -> bool:
    """Whether it is no map of amounts, though its field is called as one."""
    return any(isinstance(each, list) for each in value.values())


def _of_devices(value: Mapping[str, Any]) -> bool:
    """Whether amounts are those of a device, each an object with a value."""
    return any(isinstance(each, dict) for each in value.values())
