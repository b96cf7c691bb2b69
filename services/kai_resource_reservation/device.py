"""Which device this process can see. The only place that knows a vendor's library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class NoDevice(Exception):
    """There is not exactly one device, or the driver cannot be asked; the container is to be restarted."""


def visible_device(nvml: Any = None) -> str:
    """The UUID of the one GPU that this container was given.

    Args:
        nvml: the module ``pynvml`` or one like it; imported if not given.

    Raises:
        NoDevice: none or several are visible, or NVML is not there.
    """
    module = nvml if nvml is not None else _import_nvml()
    try:
        with _session(module):
            count = int(module.nvmlDeviceGetCount())
            if count != 1:
                raise NoDevice(
                    f"{count} GPUs are visible where the device plugin should have given exactly one"
                )
            uuid = module.nvmlDeviceGetUUID(module.nvmlDeviceGetHandleByIndex(0))
    except module.NVMLError as error:
        raise NoDevice(
            f"NVML cannot be asked: {error}; does the container have the NVIDIA runtime?"
        ) from error
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def _import_nvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NoDevice("the NVML bindings are not installed: pip install 'kai-scheduler[nvml]'") from error
    return pynvml


@contextmanager
def _session(module: Any) -> Iterator[None]:
    module.nvmlInit()
    try:
        yield
    finally:
        module.nvmlShutdown()
