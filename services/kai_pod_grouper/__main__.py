"""``python -m kai_pod_grouper``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_pod_grouper.service import PodGrouperService
    from kai_pod_grouper.settings import PodGrouperSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = PodGrouperSettings.load()
    observe.configure(service=PodGrouperService.name, settings=settings.observe)
    runtime.run(PodGrouperService(settings))


if __name__ == "__main__":
    main()
