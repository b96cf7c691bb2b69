"""What a real cluster keeps to and the controllers of an embedded one do not: whoever asks for it is told."""

from typing import Final

from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds.catalogue import Resource, dig

_JOB: Final = {
    "backoffLimitPerIndex": "spec.backoffLimit limits the failures of all indexes together",
    "maxFailedIndexes": "the Job fails by spec.backoffLimit alone",
}
#: Where the specifications of Jobs are.
_JOBS: Final = {("batch", "jobs"): ("spec",), ("batch", "cronjobs"): ("spec", "jobTemplate", "spec")}


def warnings(resource: Resource, obj: Obj) -> list[str]:
    """A warning for each field of a new object that nobody keeps to."""
    path = _JOBS.get(resource.key)
    spec = dig(obj, *path) if path is not None else None
    return [
        f"{'.'.join(path or ())}.{field}: the controllers of an embedded cluster do not keep to it; {instead}"
        for field, instead in _JOB.items()
        if field in (spec or {})
    ]
