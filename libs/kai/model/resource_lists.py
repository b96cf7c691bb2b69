"""Resource lists of status fields: exact sums, usual texts, smallest patches."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from kai.model import quantity
from kai.model.objects import Json, ResourceList

_LARGEST = Decimal(quantity.INT64_MAX)


def parsed(amount: str) -> Decimal:
    """A quantity as a number within int64; what is none counts as nothing: the API server lets none pass."""
    try:
        return min(max(quantity.parse(amount), -_LARGEST), _LARGEST)
    except quantity.InvalidQuantity:
        return Decimal(0)


def amounts(listed: ResourceList | None) -> dict[str, Decimal]:
    """A resource list as numbers, a new dictionary each time."""
    return {resource: parsed(amount) for resource, amount in (listed or {}).items()}


def add(total: dict[str, Decimal], amounts: Iterable[tuple[str, Decimal]]) -> None:
    """Add amounts by resource name to ``total``, none beyond int64."""
    for resource, amount in amounts:
        total[resource] = min(total.get(resource, Decimal(0)) + amount, _LARGEST)


def rendered(amounts: Mapping[str, Decimal]) -> ResourceList:
    """Amounts as quantities, what is counted in bytes with binary suffixes."""
    return {name: quantity.render(amount, binary=in_bytes(name)) for name, amount in amounts.items()}


def in_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def difference(new: ResourceList, old: ResourceList) -> Json:
    """The merge patch from ``old`` to ``new``; amounts that are equal but written differently stay."""
    changes: Json = {
        key: amount for key, amount in new.items() if key not in old or parsed(old[key]) != parsed(amount)
    }
    changes |= {key: None for key in old if key not in new}
    return changes
