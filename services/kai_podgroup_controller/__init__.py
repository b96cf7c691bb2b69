"""Status, conditions and events of PodGroups and their pods; the PodGroup webhook."""
