"""``python -m kai_binder``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_binder.service import BinderService
    from kai_binder.settings import BinderSettings


def main() -> None:
    """Run the binder."""
    settings = BinderSettings.load()
    observe.configure(service="binder", settings=settings.observe)
    runtime.run(BinderService(settings))


if __name__ == "__main__":
    main()
