"""What sources have in a cluster, whether they live, and how it is taken away when they do not."""
