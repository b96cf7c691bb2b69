"""``python -m kai_admission``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_admission.service import AdmissionService
    from kai_admission.settings import AdmissionSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = AdmissionSettings.load()
    observe.configure(service=AdmissionService.name, settings=settings.observe)
    runtime.run(AdmissionService(settings))


if __name__ == "__main__":
    main()
