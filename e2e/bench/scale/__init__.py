"""Eight cases that tell how the whole pipeline bears a large cluster: ``python -m e2e.bench.scale``."""
