"""The parts of the ``kubernetes`` package that we use, without the rest of it.

Its two top modules import all there is: synchronous client, dynamic client, streams, utilities. In each of
our processes that is 11 MiB and a third of a second for nothing. So while our parts are imported both are
in place unexecuted, as packages that only know where their submodules are; whoever imports the package
itself afterwards gets all of it.
"""

from __future__ import annotations

import importlib.util
import sys

_stand_ins = [name for name in ("kubernetes", "kubernetes.aio") if name not in sys.modules]
for _name in _stand_ins:
    _spec = importlib.util.find_spec(_name)
    assert _spec is not None, f"the package {_name} is not installed"
    sys.modules[_name] = importlib.util.module_from_spec(_spec)

from kubernetes.aio import config  # noqa: E402
from kubernetes.aio.client.configuration import Configuration  # noqa: E402
from kubernetes.aio.client.rest import RESTClientObject  # noqa: E402
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger  # noqa: E402
from kubernetes.aio.config.kube_config import _cleanup_temp_files as cleanup_temp_files  # noqa: E402

for _name in _stand_ins:
    del sys.modules[_name]

__all__ = [
    "Configuration",
    "KubeConfigLoader",
    "KubeConfigMerger",
    "RESTClientObject",
    "cleanup_temp_files",
    "config",
]
