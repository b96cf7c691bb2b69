"""``python -m kai_operator``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_operator.service import OperatorService
    from kai_operator.settings import OperatorSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = OperatorSettings.load()
    observe.configure(service=OperatorService.name, settings=settings.observe)
    runtime.run(OperatorService(settings))


if __name__ == "__main__":
    main()
