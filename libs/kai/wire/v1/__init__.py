"""Generated from proto/kai/wire/v1."""
