"""The admission service: an HTTPS server without a state of its own, of which any number may run."""

from kai.runtime import Host, freeze_garbage
from kai.runtime.webhook import WebhookServer
from kai.tls import CertificateFiles
from kai.validation.registration import WARN
from kai_admission.advisor import advisor
from kai_admission.cluster_watch import ClusterWatch
from kai_admission.handlers import handlers
from kai_admission.settings import AdmissionSettings


class AdmissionService:
    """Answers the API server until it is told to stop."""

    name = "admission"
    #: It serves before there is an API server to be reached, and while there is none.
    needs_cluster = False

    def __init__(self, settings: AdmissionSettings) -> None:
        self.settings = settings

    async def run(self, host: Host) -> None:
        """Serve. Neither alive nor ready until connections are accepted."""
        watch = ClusterWatch(
            self.settings.known_names,
            kubeconfig=self.settings.kubeconfig,
            context=self.settings.context,
            registry=host.metrics,
            pace=self.settings.pace,
        )
        server = WebhookServer(
            {**handlers(self.settings), WARN: advisor(watch.facts, watch.is_missing, watch.renewed)},
            listen=self.settings.webhook_addr,
            certificates=CertificateFiles.in_directory(self.settings.cert_dir),
            registry=host.metrics,
            flag="--webhook-addr",
        )
        host.health.add(
            "webhook", lambda: server.started.is_set() or "waiting for its certificate", of_life=True
        )
        # What was loaded stays: a full collection walked it for 25 ms, while reviews waited.
        freeze_garbage()
        following = [watch.run()] if self.settings.watch_cluster else []
        await host.until_stopping(server.run(), *following)
