"""What a Kubernetes API server answers: the same requests to a real one and to the embedded one."""
