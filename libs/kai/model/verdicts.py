"""What insight found about a pod group that waits, in short; :mod:`kai.answers` has the whole."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kai.model.ids import PodGroupKey

#: What stands between a text of the scheduler and a verdict that follows it.
SEPARATOR: Final = "; verdict "


class GroupVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What has to happen before it starts, and the one reason: its code, and a text with numbers."""

    pod_group: PodGroupKey
    #: Of the group that was looked at: one that was made anew under its name is another.
    uid: str = ""
    #: Values of ``kai.answers.answer.Verdict`` and ``Code``.
    verdict: str
    code: str
    text: str

    def after(self, text: str) -> str:
        """It, behind what the scheduler says."""
        return f"{text}{SEPARATOR}{self.verdict} ({self.code}): {self.text}"


_CODE: Final = re.compile(rf"{re.escape(SEPARATOR)}[A-Z]+ \(([A-Za-z]+)\): ")


def code_behind(text: str) -> str:
    """The code of the verdict that stands behind what the scheduler says; empty if none does."""
    found = _CODE.search(text)
    return found[1] if found is not None else ""
