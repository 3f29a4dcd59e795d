"""Names of ManifestWorks and AppliedManifestWorks: finalizers, annotations and field managers."""

from agent.api.names.ocm import OCM_GROUP
from agent.api.names.prefixes import SHORT_PREFIX

WORK_FINALIZER = OCM_GROUP + "/manifest-work-cleanup"
"""Finalizer of a ManifestWork, held by the work agent of its cluster."""
APPLIED_FINALIZER = OCM_GROUP + "/applied-manifest-work-cleanup"
"""Finalizer of an AppliedManifestWork."""
CONFIG_HASH = "open-cluster-management.io/config-spec-hash"
"""Annotation of an object that was applied with ignored fields: the digest of its manifest."""
WORK_MANAGER = "work-agent"
"""Field manager of objects that come from ManifestWorks."""

ALTERNATIVES = SHORT_PREFIX + "alternatives"
"""Annotation of manifests for one object in several API versions; the newest served version is applied."""
ADOPT = SHORT_PREFIX + "adopt"
"""Annotation of a ManifestWork: `false` refuses objects that exist and were not created by it."""
EXECUTOR = SHORT_PREFIX + "executor"
"""Annotation of an AppliedManifestWork: user name of the executor, which deletes its objects, too."""
HUB_VERSION = SHORT_PREFIX + "hub-version"
"""Annotation of an AppliedManifestWork: resource version of its ManifestWork at creation."""
HUB_RESTORED = SHORT_PREFIX + "hub-restored"
"""Annotation of an AppliedManifestWork whose hub was restored from an older backup: it is not evicted."""
