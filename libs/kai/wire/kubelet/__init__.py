"""What kubelets serve, generated from ``proto/kai/wire/kubelet``; regenerate with ``make proto``."""
