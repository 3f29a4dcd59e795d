"""Member of a hub: ManifestWorks, from their contents to the objects in the cluster."""
