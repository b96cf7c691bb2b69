"""``python -m kai_scaling_pod``: ends with 0."""


def main() -> None:
    """Do nothing: what a scaling pod is for is that it is asked for."""


if __name__ == "__main__":
    main()
