"""A snapshot file without anybody's names, from which the same is decided.

``words``       names on their way to other ones, in the same order
``meanings``    what texts mean by themselves, and stays
``reduction``   what decisions read of an object; nothing else comes along
``rewriting``   an object in other words
``file``        all of it, over a whole file
"""

from kai.replay.anonymous.file import anonymous

__all__ = ["anonymous"]
