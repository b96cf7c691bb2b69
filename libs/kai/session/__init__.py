"""The Redis session cache: what several processes want to know without asking each other.

It may vanish at any moment without anything becoming wrong; nothing ever waits for it.
"""
