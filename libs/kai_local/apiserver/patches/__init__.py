"""How an object is changed in part: patches of all four kinds."""
