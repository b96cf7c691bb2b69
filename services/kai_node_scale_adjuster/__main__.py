"""``python -m kai_node_scale_adjuster``."""

from kai import loading

with loading.of_a_service():
    from kai import observe, runtime
    from kai_node_scale_adjuster.service import NodeScaleAdjusterService
    from kai_node_scale_adjuster.settings import NodeScaleAdjusterSettings


def main() -> None:
    """Run the service until it is told to stop."""
    settings = NodeScaleAdjusterSettings.load()
    observe.configure(service=NodeScaleAdjusterService.name, settings=settings.observe)
    runtime.run(NodeScaleAdjusterService(settings))


if __name__ == "__main__":
    main()
