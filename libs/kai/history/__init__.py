"""What ran, what was decided and why, kept in a SQL database: SQLite or PostgreSQL.

Nothing that schedules reads it, so that losing it loses the past and nothing else.
"""
