"""All services but the scheduler in one process, with their API server: for counting what stays.

``clock`` is an event loop whose time passes at once, ``apiserver`` a server without network, schemas and
webhooks, ``leader`` what a scheduler would say, and ``town`` brings them and the services together.
"""
