"""The same losses, node by node, compiled. Importing it needs ``numba``."""

from __future__ import annotations

from typing import Any, TypeAlias

import numba
import numpy as np

from kai.engine.packing.free import FreeNodes
from kai.engine.packing.parts import SAVED, STEP_ROUNDING, STEPS
from kai.engine.packing.workload import Request, Workload
from kai.model.arrays import Floats, Ints

#: CPU, memory, devices and portion of each shape, the worth of parts, and what goes beside a device, as in a
#: workload: numba compiles no classes of ours.
_Shapes: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats, Floats]

_TINY = 1e-6


def losses(free: FreeNodes, request: Request, workload: Workload) -> tuple[Floats, Ints]:
    """See :func:`kai.engine.packing.headroom.losses`."""
    shapes = (
        workload.cpu_millis,
        workload.memory_bytes,
        workload.devices,
        workload.portion,
        workload.part_worth,
        workload.beside,
    )
    amounts = (float(request.cpu_millis), float(request.memory_bytes), float(request.portion))
    found: tuple[Any, Any] = _losses(
        free.cpu_millis,
        free.memory_bytes,
        free.whole,
        free.shared,
        free.group,
        amounts,
        request.devices,
        shapes,
        workload.weight,
    )
    return found


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _worth(
    cpu_millis: float, memory_bytes: float, whole: float, parts: Floats, shapes: _Shapes, weight: Floats
) -> float:
    s_cpu, s_memory, s_devices, s_portion, part_worth, beside = shapes
    total = whole + parts.sum()
    if total <= 0:
        return 0.0
    value = 0.0
    for k in range(s_cpu.size):
        if weight[k] == 0.0:
            continue
        if s_portion[k] < 1.0:
            slots = whole * np.floor(1.0 / s_portion[k] + _TINY)
            for part in parts:
                if part + _TINY >= s_portion[k]:
                    slots += np.floor(part / s_portion[k] + _TINY)
            slots = np.floor(slots / s_devices[k])
        else:
            slots = np.floor(whole / s_devices[k])
        if s_cpu[k] > 0:
            slots = min(slots, cpu_millis / s_cpu[k])
        if s_memory[k] > 0:
            slots = min(slots, memory_bytes / s_memory[k])
        if slots > 0:
            value += weight[k] * np.sqrt(slots * s_devices[k] * s_portion[k])
    saved = whole
    for part in parts:
        saved += part_worth[min(max(int(np.floor(part * STEPS + STEP_ROUNDING)), 0), STEPS)]
    if beside[0] > 0:
        saved = min(saved, cpu_millis / beside[0])
    if beside[1] > 0:
        saved = min(saved, memory_bytes / beside[1])
    return float(np.sqrt(total) * value + SAVED * saved)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _losses(
    cpu_millis: Floats,
    memory_bytes: Floats,
    whole: Floats,
    shared: Floats,
    group: Ints,
    amounts: tuple[float, float, float],
    devices: int,
    shapes: _Shapes,
    weights: Floats,
) -> tuple[Floats, Ints]:
    cpu_wanted, memory_wanted, portion = amounts
    loss = np.full(cpu_millis.size, np.inf)
    device = np.full(cpu_millis.size, -1, dtype=np.int64)
    # Those in use, and those that the request would open.
    parts = np.zeros(shared.shape[1] + max(devices, 1))
    for n in range(cpu_millis.size):
        if cpu_millis[n] < cpu_wanted or memory_bytes[n] < memory_wanted:
            continue
        parts[:] = 0.0
        parts[: shared.shape[1]] = shared[n]
        cpu_left, memory_left = cpu_millis[n] - cpu_wanted, memory_bytes[n] - memory_wanted
        before = _worth(cpu_millis[n], memory_bytes[n], whole[n], parts, shapes, weights[group[n]])
        if devices == 1 and portion < 1.0:
            after, device[n] = _best_part(
                cpu_left, memory_left, whole[n], shared[n], parts, portion, shapes, weights[group[n]]
            )
        else:
            opened = devices if portion >= 1.0 else devices - _join(shared[n], parts, portion, devices)
            if whole[n] < opened:
                continue
            if portion < 1.0:
                parts[shared.shape[1] : shared.shape[1] + opened] = 1.0 - portion
            after = _worth(cpu_left, memory_left, whole[n] - opened, parts, shapes, weights[group[n]])
        loss[n] = before - after
    return loss, device


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _best_part(
    cpu_left: float,
    memory_left: float,
    whole: float,
    shared: Floats,
    parts: Floats,
    portion: float,
    shapes: _Shapes,
    weight: Floats,
) -> tuple[float, int]:
    """The most that can be left after taking a part of one device, and of which; -inf if none has room."""
    best, device, room = -np.inf, -1, np.inf
    for d in range(shared.size + 1):
        opens = d == shared.size
        here = 2.0 if opens else shared[d]
        if (opens and whole < 1) or here < portion - _TINY:
            continue
        kept = parts[d]
        parts[d] = 1.0 - portion if opens else max(here - portion, 0.0)
        after = _worth(cpu_left, memory_left, whole - 1.0 if opens else whole, parts, shapes, weight)
        parts[d] = kept
        if after > best + _TINY or (after > best - _TINY and here < room):
            best, device, room = after, -1 if opens else d, here
    return best, device


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _join(shared: Floats, parts: Floats, portion: float, devices: int) -> int:
    """Take parts of the fullest devices in use that have room; how many were found."""
    for joined in range(devices):
        fullest = -1
        for d in range(shared.size):
            has_room = shared[d] >= portion - _TINY and parts[d] == shared[d]
            if has_room and (fullest < 0 or shared[d] < shared[fullest]):
                fullest = d
        if fullest < 0:
            return joined
        parts[fullest] = max(shared[fullest] - portion, 0.0)
    return devices
