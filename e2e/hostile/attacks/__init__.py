"""What a tenant can write in his own namespaces that no well-meaning person would; as plain data."""

from typing import Final

from e2e.hostile.attacks import binds, claims, combined, floods, grants, groups, numbers, owners
from e2e.hostile.attacks.tenant import Attack, Form, Patched, Tenant

__all__ = ["FORMS", "Attack", "Form", "Patched", "Tenant"]

FORMS: Final[tuple[Form, ...]] = (
    *groups.FORMS,
    *numbers.FORMS,
    *floods.FORMS,
    *claims.FORMS,
    *grants.FORMS,
    *binds.FORMS,
    *owners.FORMS,
    *combined.FORMS,
)
