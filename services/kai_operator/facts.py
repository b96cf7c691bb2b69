"""What the cluster is like, as far as an installation depends on it: kinds served, ports, policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kai.kube.reflector import Change, Removed, Upserted
from kai.model.objects import ApiObject, ApiStruct
from kai_operator.conversion import QUEUE_DEFINITION
from kai_operator.kinds import Manifest

#: Where this is served, user ids are given out by the cluster.
_OPENSHIFT: Final = "clusterversions.config.openshift.io"


class Names(ApiStruct):
    """How a definition calls its kind."""

    kind: str = ""


class Conversion(ApiStruct):
    """How versions become each other."""

    strategy: str = "None"


class Version(ApiStruct):
    """A version of a kind."""

    name: str = ""
    served: bool = False


class DefinitionSpec(ApiStruct):
    """``spec`` of a definition, without schemas."""

    group: str = ""
    names: Names = msgspec.field(default_factory=Names)
    versions: list[Version] | None = None
    conversion: Conversion | None = None


class DefinitionCondition(ApiStruct):
    """A condition of a definition."""

    type: str = ""
    status: str = ""


class DefinitionStatus(ApiStruct):
    """``status`` of a definition."""

    conditions: list[DefinitionCondition] | None = None


class Definition(ApiObject):
    """A custom resource definition."""

    spec: DefinitionSpec = msgspec.field(default_factory=DefinitionSpec)
    status: DefinitionStatus | None = None

    @property
    def established(self) -> bool:
        """Whether the API server serves it."""
        conditions = (self.status.conditions if self.status else None) or ()
        return any(one.type == "Established" and one.status == "True" for one in conditions)


class EndpointPort(ApiStruct):
    """A port of an EndpointSlice."""

    port: int | None = None


class EndpointSlice(ApiObject):
    """Where a Service is."""

    ports: list[EndpointPort] | None = None


@dataclass(slots=True)
class Surroundings:
    """Gathered from watches; ``changed`` is called when something of it is different."""

    changed: Callable[[], None]
    definitions: dict[str, Definition] = field(default_factory=dict)
    cluster_policies: dict[str, Manifest] = field(default_factory=dict)
    _ports: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _fakes: dict[str, bool] = field(default_factory=dict)

    @property
    def fake_gpus(self) -> bool:
        """Whether the devices of some node are only played."""
        return bool(self._fakes)

    @property
    def served(self) -> frozenset[str]:
        """Kinds by definitions, as ``group/Kind``."""
        return frozenset(
            f"{one.spec.group}/{one.spec.names.kind}" for one in self.definitions.values() if one.established
        )

    @property
    def openshift(self) -> bool:
        """Whether this is OpenShift."""
        return _OPENSHIFT in self.definitions

    @property
    def api_server_ports(self) -> tuple[int, ...]:
        """The ports at which the API server is reached."""
        return tuple(sorted({port for ports in self._ports.values() for port in ports}))

    @property
    def converts_queues(self) -> bool:
        """Whether somebody's webhook is asked to convert queues, as one of long ago was."""
        queues = self.definitions.get(QUEUE_DEFINITION)
        conversion = queues.spec.conversion if queues is not None else None
        return conversion is not None and conversion.strategy != "None"

    def serves(self, definition: str) -> bool:
        """Whether the kind with a definition of this name is served."""
        found = self.definitions.get(definition)
        return found is not None and found.established

    def take_definition(self, change: Change[Definition]) -> None:
        """A sink for definitions."""
        self._take(self.definitions, change, lambda found: found)

    def take_cluster_policy(self, change: Change[Any]) -> None:
        """A sink for NVIDIA's policies."""
        self._take(self.cluster_policies, change, lambda found: found)

    def take_fake(self, change: Change[ApiObject]) -> None:
        """A sink for nodes whose devices are only played; of several only the first and the last matter."""
        before = self.fake_gpus
        if isinstance(change, Upserted):
            self._fakes[change.obj.metadata.name] = True
        elif isinstance(change, Removed):
            self._fakes.pop(change.obj_key, None)
        if self.fake_gpus != before:
            self.changed()

    def take_slice(self, change: Change[EndpointSlice]) -> None:
        """A sink for the API server's own EndpointSlices."""
        self._take(self._ports, change, lambda found: tuple(_ports(found.ports or ())))

    def _take(self, into: dict[str, Any], change: Any, value: Callable[[Any], Any]) -> None:
        before = dict(into)
        if isinstance(change, Upserted):
            key = change.obj["metadata"]["name"] if isinstance(change.obj, dict) else change.obj.metadata.name
            into[key] = value(change.obj)
        elif isinstance(change, Removed):
            into.pop(change.obj_key.rpartition("/")[2], None)
        if into != before:
            self.changed()


def _ports(ports: Iterable[EndpointPort]) -> Iterable[int]:
    return (port.port for port in ports if port.port is not None)
