"""What every rule rests on: the default rule, the draft of a group, the walk up the owners, the upsert."""
