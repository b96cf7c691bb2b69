"""Grouping of kinds that no code knows, by definitions that the cluster has (``run.ai/v1alpha1``)."""

from kai.grouping.karta.rule import group

__all__ = ["group"]
