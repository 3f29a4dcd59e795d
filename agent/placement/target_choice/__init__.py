"""Target choice: Events about invalid target annotations on Deployments and other owners of pods."""
