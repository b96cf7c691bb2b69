"""``python -m kai_resource_reservation``."""

import sys

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai.runtime import SettingsError
    from kai_resource_reservation.service import ReservationService
    from kai_resource_reservation.settings import ReservationSettings


def main() -> None:
    """Run the reservation program."""
    settings = ReservationSettings.load()
    observe.configure(service="resource-reservation", settings=settings.observe)
    try:
        settings.require_identity()
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    runtime.run(ReservationService(settings))


if __name__ == "__main__":
    main()
