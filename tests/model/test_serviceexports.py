"""Merge of the ServiceExports of several clusters."""

from typing import Any

import pytest

from agent.api import names
from agent.api.names import mcs
from agent.model.serviceexports import Export, failure, flaw, merge
from agent.model.serviceimports import (
    NO_SUCH_PORT,
    NOBODY,
    derived,
    exporting,
    hosts,
    is_ready,
    seen_from,
    service_import,
    told,
)
from agent.model.sharedcopies import MERGED
from agent.model.sharedcopies import service as copy_of

HTTP = {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}
ADMIN = {"name": "admin", "protocol": "TCP", "port": 9000, "targetPort": "admin"}
KEY = ("shop", "web")


def web(*ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Service as an API server stores it."""
    found = {"type": "ClusterIP", "selector": {"app": "web"}, "sessionAffinity": "None", "ipFamilies": ["IPv4"]}
    found |= {"clusterIP": "10.0.0.1", "internalTrafficPolicy": "Cluster", "ports": list(ports or (HTTP,))}
    return {"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {**found, **spec}}


def export(cluster: str, second: int, service: dict[str, Any] | None, **spec: Any) -> Export:
    created = f"2026-01-01T00:00:{second:02}Z"
    manifest = {"metadata": {"name": "web", "namespace": "shop", "creationTimestamp": created}, "spec": spec}
    return Export(cluster, manifest, service)


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        (web(), None),
        (web(clusterIP="None"), None),
        (web(type="LoadBalancer"), None),
        (None, "NoService"),
        (web(type="ExternalName", externalName="example.com"), "InvalidServiceType"),
    ],
)
def test_what_may_be_exported(service: dict[str, Any] | None, reason: str | None) -> None:
    found = flaw(export("us", 0, service))
    assert (found[0] if found is not None else None) == reason
    assert (merge([export("us", 0, service)]) is None) == (reason is not None)


@pytest.mark.parametrize(
    "marks",
    [{"labels": {mcs.LABEL_DERIVED: "web"}}, {"annotations": {names.ANNOTATION_IS_DELEGATE: ""}}],
    ids=["here", "its copy"],
)
def test_what_is_derived_is_not_exported_again(marks: dict[str, Any]) -> None:
    name = mcs.derived("web")
    service = {**web(), "metadata": {"name": name, **marks}}
    found = flaw(Export("us", {"metadata": {"name": name}}, service))
    assert found is not None
    assert found[0] == "InvalidServiceType"
    # A user who chooses such a name may still export the Service.
    assert flaw(Export("us", {"metadata": {"name": name}}, {**web(), "metadata": {"name": name}})) is None


@pytest.mark.parametrize(("spec", "words"), [({"selector": None}, "has no selector"), ({"ports": []}, "has no ports")])
def test_what_is_valid_and_cannot_be_served_says_why(spec: dict[str, Any], words: str) -> None:
    found = export("us", 0, web(**spec))
    assert flaw(found) is None
    assert words in failure(found)
    assert merge([found]) is None
    conditions = told(found, None, "")
    assert conditions["Valid"][:2] == ("True", "Valid")
    assert conditions["Ready"][:2] == ("False", "Failed")
    assert words in conditions["Ready"][2]


def test_exports_that_agree_are_one_service() -> None:
    found = merge([export("us", 1, web()), export("eu", 0, web())])
    assert found is not None
    assert (found.type, found.clusters, found.reasons) == ("ClusterSetIP", ("eu", "us"), ())
    assert found.ports == [{"name": "http", "protocol": "TCP", "port": 80}]
    assert told(export("us", 1, web()), found, "")["Conflict"] == ("False", "NoConflicts", "")


def test_one_that_is_not_valid_takes_no_part() -> None:
    found = merge([export("us", 0, web(type="ExternalName")), export("eu", 1, web())])
    assert found is not None
    assert found.clusters == ("eu",)
    assert found.reasons == ()


OTHER_PORT = {**HTTP, "port": 81}
OTHER_NAME = {**HTTP, "name": "www"}
NAMELESS = {"protocol": "TCP", "port": 80, "targetPort": 8080}
TIMEOUT = {"clientIP": {"timeoutSeconds": 10}}


@pytest.mark.parametrize(
    ("older", "younger", "want"),
    [
        ((HTTP,), (ADMIN,), ["admin:9000", "http:80"]),
        ((HTTP,), (HTTP, ADMIN), ["admin:9000", "http:80"]),
        ((HTTP,), (OTHER_PORT,), ["http:80"]),
        ((OTHER_PORT,), (HTTP,), ["http:81"]),
        ((HTTP,), (OTHER_NAME,), ["http:80"]),
        ((HTTP,), (NAMELESS,), ["http:80"]),
        ((NAMELESS,), (HTTP, ADMIN), [":80"]),
        ((NAMELESS,), ({**NAMELESS, "port": 81},), [":80"]),
        ((HTTP,), ({**HTTP, "name": "udp", "protocol": "UDP"},), ["http:80", "udp:80"]),
    ],
)
def test_ports_are_united_and_the_oldest_export_decides(
    older: tuple[dict[str, Any], ...], younger: tuple[dict[str, Any], ...], want: list[str]
) -> None:
    exports = [export("us", 5, web(*younger)), export("eu", 0, web(*older))]
    for given in (exports, exports[::-1]):
        found = merge(given)
        assert found is not None
        assert [f"{each.get('name', '')}:{each['port']}" for each in found.ports] == want
        assert found.reasons == ("PortConflict",)
        assert "eu, the oldest export" in found.conflicts


def test_the_order_of_ports_and_where_they_lead_are_no_conflict() -> None:
    older, younger = web(HTTP, ADMIN), web({**ADMIN, "targetPort": 1}, {**HTTP, "nodePort": 30080, "targetPort": 9})
    found = merge([export("eu", 0, older), export("us", 1, younger)])
    assert found is not None
    assert found.reasons == ()


CLIENT_IP = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": TIMEOUT}


@pytest.mark.parametrize(
    ("older", "younger", "reasons"),
    [
        ({}, {"clusterIP": "None"}, "TypeConflict"),
        ({"clusterIP": "None"}, {}, "TypeConflict"),
        ({}, CLIENT_IP, "SessionAffinityConflict,SessionAffinityConfigConflict"),
        (
            CLIENT_IP,
            {**CLIENT_IP, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 20}}},
            "SessionAffinityConfigConflict",
        ),
        ({}, {"internalTrafficPolicy": "Local"}, "InternalTrafficPolicyConflict"),
        ({}, {"trafficDistribution": "PreferClose"}, "TrafficDistributionConflict"),
        ({}, {"ipFamilies": ["IPv6"]}, "IPFamilyConflict"),
        ({"ipFamilies": ["IPv4", "IPv6"]}, {"ipFamilies": ["IPv6", "IPv4"]}, ""),
        ({}, {"type": "NodePort"}, ""),
        ({}, {"clusterIP": "10.9.9.9"}, ""),
    ],
)
def test_every_export_is_told_of_a_conflict(older: dict[str, Any], younger: dict[str, Any], reasons: str) -> None:
    exports = [export("eu", 0, web(**older)), export("us", 1, web(**younger))]
    found = merge(exports)
    assert found is not None
    assert ",".join(found.reasons) == reasons
    for each in exports:
        status, reason, message = told(each, found, "")["Conflict"]
        assert (status, reason) == (("True", reasons) if reasons else ("False", "NoConflicts"))
        assert bool(message) == bool(reasons)
    alone = merge(exports[:1])
    assert alone is not None
    assert (found.type, found.spec, found.families) == (alone.type, alone.spec, alone.families)


def test_exported_labels_and_annotations_are_those_of_the_oldest() -> None:
    exports = [
        export("us", 1, web(), exportedLabels={"b": "2"}, exportedAnnotations={"y": "2"}),
        export("eu", 0, web(), exportedLabels={"a": "1", "multicluster/x": "no"}, exportedAnnotations={"x": "1"}),
    ]
    found = merge(exports)
    assert found is not None
    assert found.reasons == ("LabelsConflict", "AnnotationsConflict")
    there = web()
    made = service_import("web", found, there, "uid")["metadata"]
    assert made["labels"] == {"a": "1", names.LABEL_PARENT_CLUSTER_UID: "uid"}
    assert made["annotations"].items() >= {"x": "1"}.items()
    assert "y" not in made["annotations"]


def test_of_one_second_the_names_of_clusters_decide() -> None:
    exports = [export("us", 0, web(OTHER_PORT)), export("eu", 0, web())]
    found = merge(exports)
    assert found is not None
    assert found.clusters == ("eu", "us")
    assert found.ports[0]["port"] == 80


def test_an_import_has_what_the_oldest_export_has_and_the_address_of_the_derived_service() -> None:
    found = merge([export("us", 0, web(trafficDistribution="PreferClose", **CLIENT_IP))])
    assert found is not None
    there = web(clusterIPs=["10.7.0.9"])
    made = service_import("web", found, there, "uid")
    assert made["spec"] == {
        "type": "ClusterSetIP",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        "ips": ["10.7.0.9"],
        "ipFamilies": ["IPv4"],
        "internalTrafficPolicy": "Cluster",
        "trafficDistribution": "PreferClose",
        **CLIENT_IP,
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert is_ready(found, there) == ("True", "Ready", "")
    assert is_ready(found, web(ipFamilies=["IPv6"]))[:2] == ("False", "IPFamilyNotSupported")


def test_a_headless_import_has_no_address() -> None:
    found = merge([export("us", 0, web(clusterIP="None"))])
    assert found is not None
    made = service_import("web", found, web(clusterIP="None", clusterIPs=["None"]), "uid")
    assert made["spec"]["type"] == "Headless"
    assert "ips" not in made["spec"]
    assert derived(KEY, found, None, {})["spec"]["clusterIP"] == "None"


def test_a_headless_derived_service_names_the_exports_whose_slices_have_host_names() -> None:
    here, there = export("here", 0, web(clusterIP="None")), export("eu", 1, web(clusterIP="None"))
    found = merge([here, there])
    assert found is not None
    made = derived(KEY, found, here, {"node-eu": there})
    exported = hosts(made)
    assert exported is not None
    assert (exported.service, exported.clusters) == ("web", {"": "here", "node-eu": "eu"})
    assert dict(exported.labels("node-eu")) == {mcs.LABEL_MCS_SERVICE: "web", mcs.LABEL_SOURCE_CLUSTER: "eu"}
    # Kubernetes' own slices of the derived Service would give each pod a second name.
    made["metadata"]["uid"] = "d"
    for service in (made, copy_of(seen_from(made, "node-eu"), "here", "uid")):
        assert not {*mcs.MCS_LABELS} & service["metadata"]["labels"].keys()
    assert hosts(derived(KEY, merge([export("here", 0, web())]) or found, None, {})) is None
    assert hosts(web(clusterIP="None")) is None


def test_in_each_cluster_the_derived_service_selects_what_that_exports() -> None:
    here = export("here", 0, web())
    there = export("eu", 1, web({**HTTP, "targetPort": "web"}, ADMIN, selector={"app": "shop"}))
    found = merge([here, there])
    assert found is not None
    made = derived(KEY, found, here, {"node-eu": there})
    assert made["metadata"]["name"] == mcs.derived("web")
    assert made["metadata"]["labels"][mcs.LABEL_SOURCE_CLUSTER] == "here"
    assert made["spec"]["selector"] == {"app": "web"}
    assert {each["name"]: each["targetPort"] for each in made["spec"]["ports"]} == {"http": 8080, "admin": NO_SUCH_PORT}
    made["metadata"]["uid"] = "d"

    copy = copy_of(seen_from(made, "node-eu"), "here", "uid")
    assert copy["spec"]["selector"] == {"app": "shop"}
    assert {each["name"]: each["targetPort"] for each in copy["spec"]["ports"]} == {"http": "web", "admin": "admin"}
    assert copy["metadata"]["labels"].items() >= {mcs.LABEL_MCS_SERVICE: "web", mcs.LABEL_SOURCE_CLUSTER: "eu"}.items()

    copy = copy_of(seen_from(made, "node-us"), "here", "uid")
    assert copy["spec"]["selector"] == NOBODY
    assert {each["targetPort"] for each in copy["spec"]["ports"]} == {NO_SUCH_PORT}
    assert not {*mcs.MCS_LABELS} & copy["metadata"]["labels"].keys()
    assert exporting(made).keys() == {"node-eu"}
    assert exporting(copy) == {}


@pytest.mark.parametrize(
    "differs", [{"port": 81}, {"protocol": "UDP"}, {"name": "www"}], ids=["number", "protocol", "name"]
)
def test_a_cluster_whose_port_lost_a_conflict_has_no_endpoint_at_the_one_that_won(differs: dict[str, Any]) -> None:
    """Callers ask for port 80: the losing cluster serves another port under the same name."""
    here, there = export("here", 0, web()), export("eu", 1, web({**HTTP, **differs}, ADMIN))
    found = merge([here, there])
    assert found is not None
    made = derived(KEY, found, here, {"node-eu": there})
    made["metadata"]["uid"] = "d"
    copy = copy_of(seen_from(made, "node-eu"), "here", "uid")
    targets = {each["name"]: each["targetPort"] for each in copy["spec"]["ports"]}
    assert targets["admin"] == "admin"
    assert targets["http"] == NO_SUCH_PORT
    younger = derived(KEY, found, there, {})["spec"]["ports"]
    assert {each["name"]: each["targetPort"] for each in younger}["http"] == NO_SUCH_PORT


@pytest.mark.parametrize("spec", [{}, {"clusterIP": "None"}, CLIENT_IP, {"ipFamilies": ["IPv4", "IPv6"]}])
def test_what_an_api_server_has_made_of_it_is_not_written_again(spec: dict[str, Any]) -> None:
    here = export("here", 0, web(**spec))
    found = merge([here])
    assert found is not None
    made = derived(KEY, found, here, {})
    given = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"], "sessionAffinity": "None"}
    metadata = {**made["metadata"], "uid": "u", "resourceVersion": "1", "managedFields": []}
    live = {**made, "metadata": metadata, "spec": {**given, **made["spec"]}, "status": {"loadBalancer": {}}}
    assert MERGED.same(live, derived(KEY, found, here, {}))
    imported = service_import("web", found, live, "uid")
    assert MERGED.same({**imported, "status": {"clusters": []}}, service_import("web", found, live, "uid"))


def test_a_service_that_is_not_derived_is_the_same_everywhere() -> None:
    service = web()
    assert seen_from(service, "node-eu") is service


def test_what_is_not_valid_or_waits_says_so() -> None:
    conditions = told(export("us", 0, None), None, "")
    assert conditions["Valid"][:2] == ("False", "NoService")
    assert conditions["Ready"][0] == "False"
    assert "Conflict" not in conditions
    found = merge([export("us", 0, web())])
    assert told(export("us", 0, web()), found, "wait")["Ready"] == ("False", "Pending", "wait")
    assert told(export("us", 0, web()), found, "")["Ready"] == ("True", "Exported", "")
