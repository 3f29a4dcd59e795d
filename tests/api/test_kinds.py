from agent.api.kinds import CLUSTER_TARGETS, PODS, TARGETS


def test_paths_of_core_and_of_group_kinds() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "p", "log") == "/api/v1/namespaces/ns/pods/p/log"
    assert TARGETS.path("ns") == "/apis/multicluster.admiralty.io/v1alpha1/namespaces/ns/targets"


def test_cluster_scoped_kinds_have_no_namespace_in_their_path() -> None:
    assert CLUSTER_TARGETS.path("ns", "x") == "/apis/multicluster.admiralty.io/v1alpha1/clustertargets/x"


def test_the_api_version_and_the_full_name_name_the_group() -> None:
    assert (PODS.api_version, str(PODS)) == ("v1", "pods")
    assert TARGETS.api_version == "multicluster.admiralty.io/v1alpha1"
    assert str(TARGETS) == "targets.multicluster.admiralty.io"
