"""A cluster as somebody looks at it: a first frame, what changes in it, and details on demand. No I/O.

``holders``    who has devices, and by which numbers they are known
``devices``    who sits on which device of a node
``structure``  nodes in their order, domains, models and queues: what is drawn once
``groups``     how pod groups that hold or wait stand
``board``      all of a cluster, brought up to date by what changed
``told``       what is told, in the form that it has as JSON
``views``      the same as one may see it, as JSON
``waiting``    rows of what waits
``details``    a node, the pods of a workload, names of groups
``search``     nodes, workloads and queues by their names
``redaction``  texts without names of what somebody may not see
``slots``      how many pods still find room
"""
