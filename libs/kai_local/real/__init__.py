"""A real control plane on this machine: etcd, kube-apiserver, kube-controller-manager, and KWOK for nodes."""
