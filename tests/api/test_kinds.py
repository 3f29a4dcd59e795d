from agent.api.kinds import CLUSTER_TARGETS, PODS, TARGETS


def test_paths_of_core_and_of_group_kinds() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "p", "log") == "/api/v1/namespaces/ns/pods/p/log"
    assert TARGETS.path("ns") == "/apis/multicluster.admiralty.io/v1alpha1/namespaces/ns/targets"


def test_a_name_that_no_object_has_leads_to_no_other_object() -> None:
    assert PODS.path("ns", "../../kube-system/pods/p") == "/api/v1/namespaces/ns/pods/..%2F..%2Fkube-system%2Fpods%2Fp"
    assert PODS.path("a/b", "p?x#y%2F") == "/api/v1/namespaces/a%2Fb/pods/p%3Fx%23y%252F"
    assert PODS.path("ns", "a.b-c:8080") == "/api/v1/namespaces/ns/pods/a.b-c:8080"


def test_cluster_scoped_kinds_have_no_namespace_in_their_path() -> None:
    assert CLUSTER_TARGETS.path("ns", "x") == "/apis/multicluster.admiralty.io/v1alpha1/clustertargets/x"


def test_the_api_version_and_the_full_name_name_the_group() -> None:
    assert (PODS.api_version, str(PODS)) == ("v1", "pods")
    assert TARGETS.api_version == "multicluster.admiralty.io/v1alpha1"
    assert str(TARGETS) == "targets.multicluster.admiralty.io"
