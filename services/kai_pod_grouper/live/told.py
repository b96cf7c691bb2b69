"""What was said about workloads, so that it is said once and not for each of their pods."""

from __future__ import annotations


class Told:
    """Texts about workloads, remembered for as long as pods exist of which they are true."""

    def __init__(self) -> None:
        self._texts: dict[str, set[str]] = {}
        #: Workloads by pod, and how many pods each has here.
        self._workloads: dict[str, str] = {}
        self._pods: dict[str, int] = {}

    def is_new(self, text: str, *, workload: str, pod: str) -> bool:
        """Whether it was not said about the workload; it is said now. Every pod of which it is true tells."""
        self._join(workload, pod)
        texts = self._texts[workload]
        if text in texts:
            return False
        texts.add(text)
        return True

    def forget(self, pod: str) -> None:
        """The pod is gone."""
        workload = self._workloads.pop(pod, None)
        if workload is None:
            return
        self._pods[workload] -= 1
        if not self._pods[workload]:
            del self._pods[workload], self._texts[workload]

    def _join(self, workload: str, pod: str) -> None:
        if self._workloads.get(pod) == workload:
            return
        self.forget(pod)
        self._workloads[pod] = workload
        self._pods[workload] = self._pods.get(workload, 0) + 1
        self._texts.setdefault(workload, set())
