"""What pods say of other pods: affinity, and spreading over domains.

What they require filters while ``predicates`` is on, what they prefer scores while ``podaffinity`` is.
Both are about the same terms and go by the same counts, so where both are on, one plugin does both.
"""
