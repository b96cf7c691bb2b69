"""``python -m kai_resource_reservation``."""

import sys
from typing import Final

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai.runtime import SettingsError
    from kai_resource_reservation.service import ReservationService
    from kai_resource_reservation.settings import ReservationSettings

#: As a shell tells of a process that SIGTERM has ended.
STOPPED: Final = 143


def main() -> None:
    """Run the reservation program.

    Its kubelet starts it again unless it ends with 0, and then takes the pod for ended, for good. So only the
    loss of the device is 0: whoever stops a node's containers before a reboot does not end the pod.
    """
    settings = ReservationSettings.load()
    observe.configure(service="resource-reservation", settings=settings.observe)
    try:
        settings.require_identity()
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    service = ReservationService(settings)
    try:
        runtime.run(service)
    except SystemExit as ended:
        sys.exit(ended.code or (0 if service.lost_device else STOPPED))


if __name__ == "__main__":
    main()
