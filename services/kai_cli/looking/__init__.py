"""``kai ui``: the page over a cluster that the kubeconfig names, with the rights that it gives."""
