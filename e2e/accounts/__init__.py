"""With the credentials of each of our processes: what it needs not do is refused, and the reason said.

Roles refuse most of it, admission policies of the chart the rest: they hold what an account may write to what
its process writes. What only our accounts may write is refused to tenants; administrators can repair it.
"""
