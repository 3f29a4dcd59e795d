"""Evaluation of Placements of Open Cluster Management: clusters, reasons, and when to evaluate again. Pure."""
