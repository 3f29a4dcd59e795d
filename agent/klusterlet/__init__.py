"""Member of a hub of Open Cluster Management: applies the ManifestWorks of its cluster, and reports their state."""
