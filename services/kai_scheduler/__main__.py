"""``python -m kai_scheduler``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai.runtime import compiled
    from kai_scheduler.service import SchedulerService
    from kai_scheduler.settings import SchedulerSettings


def main() -> None:
    """Run the scheduler."""
    settings = SchedulerSettings.load()
    observe.configure(service="scheduler", settings=settings.observe)
    compiled.lay_out()
    runtime.run(SchedulerService(settings))


if __name__ == "__main__":
    main()
