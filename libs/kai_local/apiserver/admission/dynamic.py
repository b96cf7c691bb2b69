"""Admission that users configure: webhooks that change, then policies, then webhooks that only look."""

from kai_local.apiserver.admission.policies import Policies
from kai_local.apiserver.admission.webhooks import WebhookCaller
from kai_local.apiserver.calls.requests import Target, WriteOptions
from kai_local.apiserver.errors import Obj


class DynamicAdmission:
    """What the registry asks about each write."""

    def __init__(self, policies: Policies, webhooks: WebhookCaller) -> None:
        self._policies = policies
        self._webhooks = webhooks

    def concern(self, operation: str, target: Target) -> bool:
        """Whether anybody may want to see such a request."""
        return self._policies.concern(operation, target) or self._webhooks.concern(operation, target)

    async def mutate(
        self, operation: str, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
    ) -> Obj | None:
        """The object as the mutating webhooks leave it."""
        return await self._webhooks.mutate(operation, target, obj, old, options)

    async def validate(
        self, operation: str, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
    ) -> None:
        """Raises ApiFailure when a policy or a webhook refuses."""
        self._policies.validate(operation, target, obj, old, options)
        await self._webhooks.validate(operation, target, obj, old, options)
