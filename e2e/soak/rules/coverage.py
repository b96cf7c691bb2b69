"""What a soak brings gets to run: work of a form that never does would test nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from e2e.soak.frame import Breach, called

#: Fewer may all have been unlucky.
FEWEST = 6


def every_form_of_work_runs(works: Iterable[tuple[str, str]], bound: Collection[str]) -> Iterator[Breach]:
    """Of many works of a form (form and ``namespace/name``) one has a pod that was bound (by key)."""
    by_form: dict[str, list[str]] = defaultdict(list)
    for form, name in works:
        by_form[form].append(name)
    for form, names in sorted(by_form.items()):
        ran = any(key == name or key.startswith(f"{name}-") for name in names for key in bound)
        if len(names) >= FEWEST and not ran:
            yield Breach("never runs", called("Work", form), f"none of {len(names)} had a pod that was bound")
