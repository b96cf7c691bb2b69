"""What controllers and operators make of workloads, so that a file need not have their pods.

``making``   from a file's objects to the pods that would come of them
``parts``    how an object belongs to another, and a pod comes of a template
the others   who makes what, a module for each project: its ``MAKERS`` are by API group and kind
"""
