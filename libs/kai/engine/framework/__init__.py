"""What the engine and its plugins agree on; it knows no plugin.

``protocols``  what a plugin can be: small contracts, of which it fulfils one or several
``handle``     what a plugin may see of a cycle
``kept``       what its owner keeps from cycle to cycle, with its type
``resolved``   the plugins of a cycle by what they can do, and for each class of pods
"""
