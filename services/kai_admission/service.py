"""The admission service: a stateless HTTPS server, of which any number may run."""

from kai.runtime import Host
from kai.runtime.webhook import CertificateFiles, WebhookServer
from kai_admission.handlers import handlers
from kai_admission.settings import AdmissionSettings


class AdmissionService:
    """Answers the API server until it is told to stop."""

    name = "admission"
    needs_cluster = False

    def __init__(self, settings: AdmissionSettings) -> None:
        self.settings = settings

    async def run(self, host: Host) -> None:
        """Serve. Neither alive nor ready until connections are accepted."""
        server = WebhookServer(
            handlers(self.settings),
            listen=self.settings.webhook_addr,
            certificates=CertificateFiles.in_directory(self.settings.cert_dir),
            registry=host.metrics,
            flag="--webhook-addr",
        )
        host.health.add(
            "webhook", lambda: server.started.is_set() or "waiting for its certificate", of_life=True
        )
        await host.until_stopping(server.run())
