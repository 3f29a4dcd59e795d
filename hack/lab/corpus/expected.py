"""Manifests of the corpus that are expected to differ, and why; docs/contribute/corpus.md has the same table."""

EXPECTED: dict[str, str] = {
    "static-volume.yaml": "the volume is in this cluster, and no target has it",
    "storage-class.yaml": "the class does not follow, and no target has it",
    "volumes-ephemeral-claim.yaml": "the claim is created twice, and the unused one in the source stays Pending",
}
"""Reasons by file. The report names entries that are alike after all."""
