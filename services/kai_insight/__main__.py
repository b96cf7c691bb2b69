"""``python -m kai_insight``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_insight.service import InsightService
    from kai_insight.settings import InsightSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = InsightSettings.load()
    observe.configure(service=InsightService.name, settings=settings.observe)
    runtime.run(InsightService(settings))


if __name__ == "__main__":
    main()
