"""The operator: makes of Config and SchedulingShards what runs."""
