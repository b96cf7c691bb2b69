"""``python -m kai_numa_placement_exporter``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_numa_placement_exporter.service import NumaPlacementExporterService
    from kai_numa_placement_exporter.settings import NumaPlacementExporterSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = NumaPlacementExporterSettings.load()
    observe.configure(service=NumaPlacementExporterService.name, settings=settings.observe)
    runtime.run(NumaPlacementExporterService(settings))


if __name__ == "__main__":
    main()
