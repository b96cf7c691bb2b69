"""The choices that an installation makes about grouping."""

from dataclasses import dataclass

from kai.model import names


@dataclass(frozen=True, slots=True)
class GroupingOptions:
    """Label keys and switches. ``node_pool_label_key`` empty: pods' pools are not copied."""

    scheduler_name: str = names.SCHEDULER_NAME
    queue_label_key: str = names.QUEUE_LABEL
    node_pool_label_key: str = names.NODE_POOL_LABEL
    search_legacy_pg: bool = True
    knative_gang_schedule: bool = True
    generic_karta_fallback: bool = True
