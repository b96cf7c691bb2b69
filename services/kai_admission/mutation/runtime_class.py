"""Gives pods that share a GPU the container runtime that can hand it to them."""

from collections.abc import Callable

from kai_admission.mutation.draft import PodDraft


def enforce(runtime_class: str) -> Callable[[PodDraft], None]:
    """A mutator that sets this class where a sharing pod has none; a pod's own choice is respected."""

    def mutate(draft: PodDraft) -> None:
        if draft.sharing_container is not None and not draft.spec.get("runtimeClassName"):
            draft.spec["runtimeClassName"] = runtime_class

    return mutate
