"""``python -m kai_podgroup_controller``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_podgroup_controller.service import PodGroupControllerService
    from kai_podgroup_controller.settings import PodGroupControllerSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = PodGroupControllerSettings.load()
    observe.configure(service=PodGroupControllerService.name, settings=settings.observe)
    runtime.run(PodGroupControllerService(settings))


if __name__ == "__main__":
    main()
