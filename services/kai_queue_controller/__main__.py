"""``python -m kai_queue_controller``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_queue_controller.service import QueueControllerService
    from kai_queue_controller.settings import QueueControllerSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = QueueControllerSettings.load()
    observe.configure(service=QueueControllerService.name, settings=settings.observe)
    runtime.run(QueueControllerService(settings))


if __name__ == "__main__":
    main()
