"""What API servers call the resource of a kind."""


def plural(kind: str) -> str:
    """The kind in small letters and the plural, as projects name the resources that they define."""
    name = kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
