"""The chart as Helm renders it: its objects, and the values that it rejects."""

import itertools
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent import __version__
from agent.api import ownroles
from agent.api.accountpolicies import OWN, OWN_ACCOUNTS
from agent.api.accounts import Account, role_objects
from agent.api.admission import policies
from agent.api.crds import ac3_crds, crds, p2code_crds, placement_crds
from agent.api.crds.addons import hub_crds
from agent.api.gatewayroles import GATEWAY, GATEWAY_HOSTS, KEEP_GATEWAYS
from agent.api.hookroles import UNINSTALL
from agent.api.hubroles import HUB, hub_objects
from agent.api.names.links import GATEWAY_SECRET
from agent.api.ownroles import (
    AGENT,
    LINK_NAMESPACES,
    SERVE_MCS,
    SHARE_BY_LINKERD,
    SHARE_BY_SKUPPER,
    SOURCE_API,
    USED,
    WEBHOOK,
)
from agent.api.placementroles import (
    AC3_NETWORKS,
    EVALUATE_PLACEMENTS,
    KLUSTERLET,
    P2CODE,
    P2CODE_WORKS,
    PLACEMENT_SCORES,
    SERVE_PLACEMENTS,
)
from agent.api.roles import cluster_roles
from agent.base import log
from agent.dependencies.rules import copies
from agent.gateway.settings import parse
from agent.model import hostport
from agent.model.envoy import arguments
from agent.model.envoyparts import CONNECTIONS
from agent.model.envoystart import LIVE_PATH
from agent.model.gatewaypeer import FIRST_PORT, LAST_PORT
from agent.model.gatewaysize import FILES_LIMIT
from agent.services.gateways.trust import PORT_NAME
from agent.settings import parse as parse_agent
from hack.lab.sandbox.objects import REPOSITORY
from tests.chart import helm
from tests.chart.helm import CHART, NAMESPACE, Raw, of, pods, template
from webhook.configurations import Service, by_service, mutating, validating
from webhook.settings import parse as parse_webhook

pytestmark = pytest.mark.full("Needs Helm.")

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

CANDIDATES = ("candidateScheduler.enabled=true", "candidateScheduler.image.repository=example.test/kube-scheduler")
"""Values of an installation with candidate schedulers."""

MATRIX = (
    (),
    ("clusterName=cd", "sourceController.enabled=false", "webhook.checkSecrets=true"),
    ("certificates.provider=cert-manager",),
    ("certificates.provider=cert-manager", "certificates.issuerRef.name=ca", "certificates.issuerRef.kind=Issuer"),
    ("crds.install=false", "networkPolicy.enabled=false", "podDisruptionBudget.enabled=false", "priorityClassName="),
    ("crds.keep=false", "uninstall.policy=delete", "uninstall.timeout=600"),
    ("serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus", "uninstall.policy=orphan"),
    ("dashboard.enabled=true", "prometheusRule.enabled=true", "prometheusRule.labels.release=prometheus"),
    CANDIDATES,
    (*CANDIDATES, "candidateScheduler.image.tag=v1.36.3", "scheduler.resources.requests.cpu=1"),
    (
        "controllerManager.replicas=3",
        "controllerManager.resources.limits.memory=2Gi",
        "controllerManager.nodeSelector.pool=infra",
        "imagePullSecretName=regcred",
        "imagePullSecrets={regcred,other}",
        "webhook.reinvocationPolicy=IfNeeded",
        "fullnameOverride=multicluster-scheduler",
    ),
    (
        "agent.settings.probe-interval=2.5",
        "agent.settings.max-in-flight=128",
        "agent.clusterProperties.example\\.com/tier=gold",
        "agent.logJson=true",
        "agent.targetPlugins=true",
        "agent.answerDaemonSets=false",
        "webhook.settings.certificate-lifetime=30d",
        "commonLabels.team=platform",
        "commonAnnotations.note=x",
        "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
        "networkPolicy.webhookCIDRs={10.0.0.0/28,fd00::/64}",
        "global.imageRegistry=mirror.test/all",
    ),
    ("metrics.authentication=true", "serviceMonitor.enabled=true", "webhook.serviceAccount.name=other"),
    ("agent.placement.crds=true", "agent.placement.scoreMax.memory=2Ti", "agent.placement.scoreMax.cpu=64"),
    (
        *CANDIDATES,
        "startupSeconds=42",
        "agent.serviceAccount.create=false",
        "agent.serviceAccount.name=existing",
        "webhook.serviceAccount.name=other",
        "agent.extraEnv[0].name=HTTPS_PROXY,agent.extraEnv[0].value=none",
        "webhook.extraEnv[0].name=NODE,webhook.extraEnv[0].valueFrom.fieldRef.fieldPath=spec.nodeName",
    ),
)  # fmt: skip
EVERY = pytest.mark.parametrize("settings", MATRIX, ids=lambda settings: " ".join(settings)[:60] or "defaults")


def test_helm_finds_nothing_to_complain_of() -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))


@EVERY
def test_every_object_is_there_once_with_namespace_and_labels(settings: tuple[str, ...]) -> None:
    objects = template(*settings)
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(keys) == len(set(keys))
    for each in objects:
        where = each["metadata"].get("namespace")
        assert where in ((NAMESPACE, "kube-node-lease", "kube-system") if helm.is_namespaced(each) else (None,))
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "flotilla"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert len(each["metadata"]["name"]) <= 63


def test_labels_of_all_objects_are_on_pods_too() -> None:
    objects = template("commonLabels.team=platform", "agent.podLabels.team=agents")
    assert {each["metadata"]["labels"]["team"] for each in objects} == {"platform"}
    labels = {name.removeprefix("flotilla-"): spec["metadata"]["labels"]["team"] for name, spec in pods(objects)}
    assert labels == {
        "agent": "agents",
        "webhook": "platform",
        "uninstall": "platform",
        "test": "platform",
        "upgrade": "platform",
    }


@EVERY
def test_pods_run_without_rights_on_their_node(settings: tuple[str, ...]) -> None:
    found = dict(pods(template(*settings)))
    assert len(found) == 5 + (CANDIDATES[0] in settings)
    for template_of in found.values():
        spec = template_of["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["resources"]["limits"].keys() == {"memory"}
        assert all("hostPath" not in volume for volume in spec["volumes"])


def test_what_the_platform_says_of_pods_can_be_left_to_it() -> None:
    left = ("runAsUser", "runAsGroup", "fsGroup", "seccompProfile")
    objects = template(*(f"podSecurity.{field}=null" for field in left), "webhook.securityContext.fsGroup=7")
    contexts = {name: spec["spec"]["securityContext"] for name, spec in pods(objects)}
    alone = {"runAsNonRoot": True}
    assert contexts["flotilla-agent"] == contexts["flotilla-uninstall"] == contexts["flotilla-test"] == alone
    assert contexts["flotilla-webhook"] == {**alone, "fsGroup": 7}


@EVERY
def test_agent_and_webhook_understand_their_flags(settings: tuple[str, ...]) -> None:
    found = dict(pods(template(*settings)))
    for name, spec in found.items():
        main = spec["spec"]["containers"][0]
        if main["command"] == ["python", "-m", "agent"]:
            assert parse_agent(main["args"]).kubelet_port == 10250, name
        elif main["command"] == ["python", "-m", "agent.extender"]:
            assert parse_agent(main["args"]).extender_address == "127.0.0.1:10261", name
        elif main["command"] == ["python", "-m", "webhook"]:
            assert parse_webhook(main["args"], {}).service is not None, name


def test_settings_reach_the_processes() -> None:
    objects = template(
        "clusterName=cd",
        "agent.settings.probe-interval=2.5",
        "agent.settings.max-in-flight=128",
        "agent.clusterProperties.example\\.com/tier=gold",
        "agent.logLevel=DEBUG",
        "sourceController.enabled=false",
        "webhook.settings.overlap=20m",
        "webhook.reinvocationPolicy=IfNeeded",
    )
    found = dict(pods(objects))
    agent = parse_agent(found["flotilla-agent"]["spec"]["containers"][0]["args"])
    assert (agent.cluster_name, agent.probe_interval, agent.max_in_flight) == ("cd", 2.5, 128)
    assert (agent.cluster_property, agent.log_level) == (("example.com/tier=gold",), "DEBUG")
    assert agent.source_controller is False
    webhook = parse_webhook(found["flotilla-webhook"]["spec"]["containers"][0]["args"], {})
    assert webhook.lifetimes.overlap.total_seconds() == 1200
    assert webhook.reinvocation_policy == "IfNeeded"
    assert webhook.service == Service(NAMESPACE, "flotilla-webhook", 443)
    assert webhook.register is False


def test_settings_for_experts_reach_the_processes() -> None:
    objects = template(
        "agent.settings.probe-interval=2.5",
        "agent.tuning.probe-interval=3.5",
        "agent.tuning.stand-in-volumes=false",
        "webhook.tuning.overlap=20m",
    )
    found = dict(pods(objects))
    arguments = found["flotilla-agent"]["spec"]["containers"][0]["args"]
    assert [each for each in arguments if "probe-interval" in each] == ["--tuning=probe-interval=3.5"]
    assert parse_agent(arguments).stand_in_volumes is False
    webhook = parse_webhook(found["flotilla-webhook"]["spec"]["containers"][0]["args"], {})
    assert webhook.lifetimes.overlap.total_seconds() == 1200


def test_no_process_gets_flags_of_earlier_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(log, "warn_later", warnings.append)
    for settings in MATRIX:
        for _, pod in pods(template(*settings)):
            for container in pod["spec"]["containers"]:
                if container["command"] == ["python", "-m", "agent"]:
                    parse_agent(container["args"])
                elif container["command"] == ["python", "-m", "webhook"]:
                    parse_webhook(container["args"], {})
    assert not warnings


DIGEST = "sha256:" + 64 * "0"


@pytest.mark.parametrize(("given", "seconds"), [("90", 90), ("90.5", 90.5), ("1m30s", 90), ("1500ms", 1.5)])
def test_times_are_durations_or_numbers_of_seconds(given: str, seconds: float) -> None:
    objects = template(
        *CANDIDATES,
        f"agent.settings.hold={given}",
        f"webhook.settings.overlap={given}",
        "candidateScheduler.bindTimeout=2m",
        "uninstall.timeout=4m59.5s",
    )
    found = dict(pods(objects))
    assert parse_agent(found["flotilla-agent"]["spec"]["containers"][0]["args"]).hold == seconds
    assert parse_webhook(found["flotilla-webhook"]["spec"]["containers"][0]["args"], {}).overlap == seconds
    assert "httpTimeout: 120s" in yaml.safe_dump(of(objects, "ConfigMap", "flotilla-candidates"))
    assert of(objects, "Job", "flotilla-uninstall")["spec"]["activeDeadlineSeconds"] == 420
    assert "--timeout=4m59.5s" in found["flotilla-uninstall"]["spec"]["containers"][0]["args"]


SCORE = "5:addonplacementscores.v1alpha1.cluster.open-cluster-management.io:resource-usage-score:cpuNodeAvailable"


def test_the_agent_may_watch_the_kinds_that_give_scores() -> None:
    objects = template(f"agent.extraScores={{{SCORE}}}", "agent.scheduling=reserve")
    settings = parse_agent(dict(pods(objects))["flotilla-agent"]["spec"]["containers"][0]["args"])
    assert (settings.extra_score, settings.scheduling) == ((SCORE,), "reserve")
    watched = ("cluster.open-cluster-management.io", "addonplacementscores", "watch", ())
    assert watched in roles_of(objects, "agent")[""]


@pytest.mark.parametrize("account", [AGENT, WEBHOOK, UNINSTALL], ids=lambda account: account.name)
def test_roles_have_exactly_the_verbs_of_the_table(account: Account) -> None:
    without = {"creation of its own registration", SOURCE_API, USED, KEEP_GATEWAYS}
    without |= {EVALUATE_PLACEMENTS, SERVE_PLACEMENTS, PLACEMENT_SCORES, P2CODE, SHARE_BY_SKUPPER, LINK_NAMESPACES}
    without |= {AC3_NETWORKS, P2CODE_WORKS, SHARE_BY_LINKERD, SERVE_MCS, GATEWAY_HOSTS, HUB, KLUSTERLET}
    without |= {ownroles.SECRETS_OF_TARGETS, ownroles.ASK_FOR_USERS}
    rendered = roles_of(template(), account.name)
    assert rendered == granted(role_objects(account, NAMESPACE, without=without))


def test_the_candidate_scheduler_has_the_verbs_of_its_table_and_kubernetes_own_roles_and_the_agent_none_of_them() -> (
    None
):
    objects = template(*CANDIDATES)
    table = granted(role_objects(ownroles.CANDIDATES, NAMESPACE))
    assert roles_of(objects, "candidates") == table
    system = {(account, role) for _, role, account in roles_bound(objects) if role.startswith("system:")}
    assert system == {("flotilla-candidates", f"system:{each}-scheduler") for each in ("kube", "volume")}
    assert roles_of(objects, "agent") == roles_of(template(), "agent")
    assert not roles_of(template(), "candidates")
    assert not [role for _, role, _ in roles_bound(template()) if role.startswith("system:")]


def roles_bound(objects: list[Raw]) -> list[tuple[str, str, str]]:
    """Return kind, role and account of every binding."""
    return [
        (each["kind"], each["roleRef"]["name"], subject["name"])
        for each in objects
        if each["kind"].endswith("RoleBinding")
        for subject in each["subjects"]
    ]


def test_the_agent_may_make_tokens_where_pods_elsewhere_are_to_use_them_and_nowhere_else() -> None:
    right = ("", "serviceaccounts/token", "create", ())
    assert right not in roles_of(template(), "agent")[""]
    assert right in roles_of(template("agent.settings.source-api=10.0.0.1:6443"), "agent")[""]


@pytest.mark.parametrize("name", ["agent.settings.kubelet-signer", "controllerManager.certificateSignerName"])
def test_the_agent_approves_for_the_signer_that_it_asks_and_for_no_other(name: str) -> None:
    def approved(*settings: str) -> list[tuple[str, ...]]:
        return [names for _, _, verb, names in roles_of(template(*settings), "agent")[""] if verb == "approve"]

    assert approved() == [("kubernetes.io/kubelet-serving",)]
    assert approved(f"{name}=beta.eks.amazonaws.com/app-serving") == [("beta.eks.amazonaws.com/app-serving",)]


def test_what_is_switched_off_takes_its_verbs_with_it() -> None:
    plain = template("sourceController.enabled=false", "certificates.provider=cert-manager")
    # Accounts, their bindings and Sources stay readable: agents copy the first two and read policies of the
    # third.
    read = {"get", "list", "watch"}
    for kind, wanted in (("serviceaccounts", read), ("rolebindings", read), ("sources", read - {"get"})):
        verbs = {verb for _, resource, verb, _ in roles_of(plain, "agent")[""] if resource == kind}
        assert verbs == wanted
    assert not {"sources/status", "clusterroles", "clusterrolebindings"} & {
        resource for _, resource, *_ in roles_of(plain, "agent")[""]
    }
    webhook = roles_of(plain, "webhook")
    assert {verb for _, _, verb, _ in webhook[NAMESPACE]} == {"get", "list", "watch"}
    assert not [rule for rule in webhook[""] if rule[1] == "secrets"]
    assert not [rule for rule in webhook[""] if rule[2] == "patch"]


def test_the_roles_of_admiraltys_walkthrough_are_there() -> None:
    objects = template()
    for role in cluster_roles():
        assert of(objects, "ClusterRole", role["metadata"]["name"])["rules"] == role["rules"]


def test_the_crds_are_those_of_the_code_and_stay_unless_told() -> None:
    found = {each["metadata"]["name"]: each for each in template() if each["kind"] == "CustomResourceDefinition"}
    assert {name: each["spec"] for name, each in found.items()} == {
        each["metadata"]["name"]: each["spec"] for each in crds()
    }
    for each in found.values():
        assert each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for each in template("crds.keep=false"):
        assert "helm.sh/resource-policy" not in (each["metadata"].get("annotations") or {})
    assert not [each for each in template("crds.install=false") if each["kind"] == "CustomResourceDefinition"]


def test_the_webhooks_are_those_of_the_code_and_leave_trust_to_the_webhook() -> None:
    objects = template()
    reach = by_service(Service(NAMESPACE, "flotilla-webhook", 443))
    for want in (mutating("multicluster-scheduler", reach, b""), validating("multicluster-scheduler", reach, b"")):
        for webhook in want["webhooks"]:
            del webhook["clientConfig"]["caBundle"]
        found = of(objects, want["kind"])
        assert found["metadata"]["name"] == want["metadata"]["name"]
        assert found["webhooks"] == want["webhooks"]


def webhooks(*settings: str) -> list[str]:
    found = of(template(*settings), "ValidatingWebhookConfiguration")["webhooks"]
    return [each["name"].partition(".")[0] for each in found]


def test_the_crds_of_placements_come_with_their_webhooks_for_those_who_ask_and_always_stay() -> None:
    def of_ocm(*settings: str) -> dict[str, Raw]:
        names = {each["metadata"]["name"] for each in placement_crds()}
        return {each["metadata"]["name"]: each for each in template(*settings) if each["metadata"]["name"] in names}

    found = of_ocm("agent.placement.crds=true", "crds.keep=false")
    assert {name: each["spec"] for name, each in found.items()} == {
        each["metadata"]["name"]: each["spec"] for each in placement_crds()
    }
    for each in found.values():
        assert each["metadata"]["labels"]["multicluster/ours"] == "true"
        assert each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert of_ocm() == {}
    own = ["validate", "warn", "warn-by-default", "targets"]
    assert webhooks() == own
    assert webhooks("agent.placement.mode=consume") == [*own, "namespaces"]
    assert webhooks("agent.placement.crds=true") == [*own, "bind-sets", "join-sets", "placements", "namespaces"]


def test_the_crd_of_p2code_comes_for_those_who_ask_and_always_stays() -> None:
    (wanted,) = p2code_crds()
    settings = (
        "agent.p2code.enabled=true",
        "crds.keep=false",
        "agent.p2code.precedence=and",
        "agent.p2code.namespace=x",
        "agent.p2code.works=true",
        "agent.p2code.distribution=works",
    )
    objects = template(*settings)
    (found,) = [each for each in objects if each["metadata"]["name"] == wanted["metadata"]["name"]]
    assert found["spec"] == wanted["spec"]
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    arguments = dict(pods(objects))["flotilla-agent"]["spec"]["containers"][0]["args"]
    assert [each for each in arguments if "p2code" in each] == [
        "--p2code",
        "--tuning=p2code-precedence=and",
        "--p2code-distribution=works",
        "--tuning=p2code-namespace=x",
    ]
    without = str(at_work(template()))
    assert wanted["spec"]["group"] not in without
    assert "--p2code" not in without
    assert webhooks("agent.p2code.enabled=true")[-1] == "applications"


def test_a_hub_comes_with_its_kinds_roles_and_policies_for_those_who_ask() -> None:
    objects = template("hub.enabled=true", "crds.keep=false")
    for wanted in (*hub_crds(), *placement_crds()):
        found = of(objects, "CustomResourceDefinition", wanted["metadata"]["name"])
        assert found["spec"] == wanted["spec"]
        assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for wanted in hub_objects(f"system:serviceaccount:{NAMESPACE}:flotilla-agent"):
        found = of(objects, wanted["kind"], wanted["metadata"]["name"])
        fields = ("rules", "roleRef", "subjects", "spec")
        assert {field: found.get(field) for field in fields} == {field: wanted.get(field) for field in fields}
        assert found["metadata"].get("namespace") == wanted["metadata"].get("namespace")
    arguments = dict(pods(objects))["flotilla-agent"]["spec"]["containers"][0]["args"]
    assert "--hub" in arguments
    without = str(at_work(template()))
    assert "--hub" not in without
    assert "open-cluster-management:" not in without
    assert {"bind-sets", "join-sets"} <= set(webhooks("hub.enabled=true"))


def test_the_crd_of_ac3_comes_for_those_who_ask_for_links_and_always_stays() -> None:
    (wanted,) = ac3_crds()
    on = "agent.ac3Networks.enabled=true"
    with pytest.raises(helm.Failed, match=r"agent\.settings\.service-links=false switches them off"):
        template(on, "agent.settings.service-links=false")
    for given, namespace in (((), "ac3no-system"), (("agent.ac3Networks.namespace=net",), "net")):
        objects = template(on, "crds.keep=false", *given)
        (found,) = [each for each in objects if each["metadata"]["name"] == wanted["metadata"]["name"]]
        assert found["spec"] == wanted["spec"]
        assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        arguments = dict(pods(objects))["flotilla-agent"]["spec"]["containers"][0]["args"]
        settings = parse_agent(arguments)
        assert (settings.ac3_networks, settings.ac3_namespace, settings.service_links) == (True, namespace, True)
    assert "ac3" not in str(at_work(template()))


def at_work(objects: list[Raw]) -> list[Raw]:
    """Return all objects but those for uninstalling, which also cover objects of features that are off now."""
    return [each for each in objects if "uninstall" not in each["metadata"]["name"]]


def test_scores_of_prometheus_reach_the_agent_in_a_file_and_a_change_starts_it_again(tmp_path: Path) -> None:
    entry = ("name=lag", "resource=net", "url=https://p/q", "query=max by (cluster) (lag)", "max=5")
    settings = ",".join(f"agent.prometheusScores[0].{each}" for each in (*entry, "tokenSecret.name=s"))
    objects = template(settings, "agent.placement.scoreMax.cpu=64", "agent.placement.usageScores=true")
    spec = dict(pods(objects))["flotilla-agent"]
    container = spec["spec"]["containers"][0]
    (flag,) = (each for each in container["args"] if each.startswith("--prometheus-scores="))
    path = Path(flag.partition("=")[2])
    (volume,) = (each["name"] for each in container["volumeMounts"] if each["mountPath"] == str(path.parent))
    (mounted,) = (each["configMap"]["name"] for each in spec["spec"]["volumes"] if each["name"] == volume)
    (tmp_path / path.name).write_text(of(objects, "ConfigMap", mounted)["data"][path.name])
    args = [each.replace(str(path.parent), str(tmp_path)) for each in container["args"]]
    (score,) = (parsed := parse_agent(args)).prometheus_scores
    assert (score.name, score.query, score.highest) == ("lag", "max by (cluster) (lag)", 5.0)
    assert score.token is not None
    assert (score.token.name, score.token.key) == ("s", "token")
    assert (parsed.score_max, parsed.usage_scores, parsed.placement) == (("cpu=64",), "true", "auto")

    def checksum(more: str) -> str:
        annotations = dict(pods(template(f"{settings},{more}")))["flotilla-agent"]["metadata"]["annotations"]
        return str(annotations["checksum/prometheus-scores"])

    assert checksum("agent.prometheusScores[0].min=1") != checksum("agent.prometheusScores[0].min=2")
    assert "annotations" not in dict(pods(template()))["flotilla-agent"]["metadata"]


def test_the_policies_are_those_of_the_code_about_the_releases_own_agent() -> None:
    for setting, name in (("", "flotilla-agent"), ("fullnameOverride=other", "other-agent")):
        objects = template(*filter(None, [setting]))
        user = f"system:serviceaccount:{NAMESPACE}:{name}"
        webhook = user.replace("-agent", "-webhook")
        own = ",".join(each.replace("flotilla-", name.removesuffix("agent")) for each in OWN_ACCOUNTS)
        for policy in policies(user, helm.NAMESPACE, webhook, own):
            found = of(objects, policy["kind"], policy["metadata"]["name"])
            assert found["spec"] == policy["spec"]
        serving = next(spec for named, spec in pods(objects) if named.endswith("-webhook"))
        assert parse_webhook(serving["spec"]["containers"][0]["args"], {}).agent_user == user
    kinds = {each["kind"] for each in template("admissionPolicies.enabled=false")}
    assert not {kind for kind in kinds if kind.startswith("ValidatingAdmissionPolicy")}


def test_cert_manager_makes_the_certificate_and_injects_its_ca() -> None:
    objects = template("certificates.provider=cert-manager")
    certificate = of(objects, "Certificate")
    assert certificate["spec"]["issuerRef"]["name"] == of(objects, "Issuer")["metadata"]["name"]
    assert f"flotilla-webhook.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = of(objects, kind)["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{certificate['metadata']['name']}"}
    webhook = dict(pods(objects))["flotilla-webhook"]["spec"]["containers"][0]
    settings = parse_webhook(webhook["args"], {})
    assert settings.certificates == "given"
    assert settings.certificate_secret == certificate["spec"]["secretName"]
    assert settings.certificate_name in certificate["spec"]["dnsNames"]


def test_only_api_servers_may_reach_the_webhook_where_their_addresses_are_known() -> None:
    def peers(*settings: str) -> list[Any]:
        rules = of(template(*settings), "NetworkPolicy", "flotilla-webhook")["spec"]["ingress"]
        return [rule.get("from") for rule in rules if rule["ports"] == [{"port": 9443, "protocol": "TCP"}]]

    assert peers() == [None]
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in ("10.0.0.0/28", "fd00::/64")]
    assert peers("networkPolicy.webhookCIDRs={10.0.0.0/28,fd00::/64}") == [blocks]


def test_rights_go_to_the_accounts_that_are_named_and_those_that_exist_are_not_made() -> None:
    others = ("webhook.serviceAccount.name=its", "candidateScheduler.serviceAccount.name=binder")
    named = ("agent.serviceAccount.create=false", "agent.serviceAccount.name=mine", *others)
    plain, objects = template(*CANDIDATES), template(*CANDIDATES, *named)
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    assert made == {"its", "binder", "flotilla-uninstall", "flotilla-test", "flotilla-upgrade"}
    accounts = {name: spec["spec"]["serviceAccountName"] for name, spec in pods(objects)}
    new = {"flotilla-agent": "mine", "flotilla-webhook": "its", "flotilla-candidates": "binder"}
    assert accounts.items() >= new.items()
    for before, after in zip(bindings(plain), bindings(objects), strict=True):
        assert after == (*before[:2], new.get(before[2], before[2]))
    policies = [str(each["spec"]) for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
    assert any(":mine'" in each for each in policies)
    assert not any("flotilla-agent" in each for each in policies)


def test_no_delegate_runs_as_an_account_that_the_chart_makes_or_names() -> None:
    every = ("gateway.enabled=true", "gateway.serviceAccount.name=door", "webhook.serviceAccount.name=its")
    for settings in ((), every, (*every, "fullnameOverride=other", "agent.serviceAccount.name=mine")):
        objects = template(*CANDIDATES, *settings)
        used = {spec["spec"]["serviceAccountName"] for _, spec in pods(objects)}
        used |= {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
        agent = next(spec for _, spec in pods(objects) if spec["spec"]["containers"][0]["command"][-1] == "agent")
        refused = parse_agent(agent["spec"]["containers"][0]["args"]).own_accounts
        assert used <= refused
        policy = of(objects, "ValidatingAdmissionPolicy", OWN)
        (names,) = re.findall(r"'([^']*)'\.split", policy["spec"]["validations"][0]["expression"])
        assert set(names.split(",")) == refused


def bindings(objects: list[Raw]) -> list[tuple[str, str, str]]:
    """Return kind, name and account of every binding."""
    return [
        (each["kind"], each["metadata"]["name"], each["subjects"][0]["name"])
        for each in objects
        if each["kind"].endswith("RoleBinding")
    ]


def test_metrics_with_authentication_have_a_port_of_their_own_and_health_stays() -> None:
    objects = template("metrics.authentication=true", "serviceMonitor.enabled=true")
    found = dict(pods(objects))
    for name in ("agent", "webhook"):
        container = found[f"flotilla-{name}"]["spec"]["containers"][0]
        assert "--metrics-address=:8443" in container["args"]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        assert (ports["health"], ports["metrics"]) == (8080, 8443)
        assert {container[f"{each}Probe"]["httpGet"]["port"] for each in ("liveness", "readiness")} == {"health"}
        policy = of(objects, "NetworkPolicy", f"flotilla-{name}")["spec"]["ingress"]
        reached = [port["port"] for rule in policy for port in rule["ports"]]
        assert 8443 in reached
        assert 8080 not in reached
    reviewing = of(objects, "ClusterRoleBinding", "flotilla-metrics")
    assert reviewing["roleRef"]["name"] == "system:auth-delegator"
    assert [each["name"] for each in reviewing["subjects"]] == ["flotilla-agent", "flotilla-webhook"]
    (endpoint,) = of(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("metrics", "https")
    assert "--metrics-address" not in str(template())


def test_gateways_are_scraped_where_there_are_some_without_a_token() -> None:
    assert "flotilla-gateway-metrics" not in str(template("serviceMonitor.enabled=true"))
    for settings, port in (((), "metrics"), (("metrics.authentication=true",), "plain-metrics")):
        objects = template("gateway.enabled=true", "serviceMonitor.enabled=true", *settings)
        service = of(objects, "Service", "flotilla-gateway-metrics")
        assert [each["name"] for each in service["spec"]["ports"]] == [port]
        labels = dict(pods(objects))["flotilla-gateway"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        # These labels are the ones that copied network policies admit.
        assert copies.GATEWAYS["podSelector"]["matchLabels"].items() <= labels.items()
        container = dict(pods(objects))["flotilla-gateway"]["spec"]["containers"][0]
        assert {"name": service["spec"]["ports"][0]["targetPort"], "containerPort": 8080} in container["ports"]
        monitor = of(objects, "ServiceMonitor")["spec"]
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        (scraped,) = (each for each in monitor["endpoints"] if each["port"] == port)
        assert not {"scheme", "bearerTokenFile"} & scraped.keys()
        # The Service that other clusters call has no port to scrape.
        called = of(objects, "Service", "flotilla-gateway")["spec"]["ports"]
        assert not {each["name"] for each in called} & {each["port"] for each in monitor["endpoints"]}


def test_gateways_come_with_the_rights_of_their_table_and_without_the_key_of_their_ca() -> None:
    assert "flotilla-gateway" not in {each["metadata"]["name"] for each in template()}
    settings = ("gateway.addresses[0]=gw.example.org:443", f"gateway.image.digest={DIGEST}")
    objects = template("gateway.enabled=true", *settings)
    assert roles_of(objects, "gateway") == granted(role_objects(GATEWAY, NAMESPACE))
    pod = dict(pods(objects))["flotilla-gateway"]
    config, envoy = pod["spec"]["containers"]
    assert envoy["image"] == f"envoyproxy/envoy@{DIGEST}"
    assert envoy["args"] == arguments("/run/flotilla-gateway")
    probe, live = envoy["livenessProbe"]["httpGet"], parse(config["args"]).live
    assert {each["name"]: each["containerPort"] for each in envoy["ports"]}[probe["port"]] == hostport.split(live)[1]
    assert probe["path"] == LIVE_PATH
    told = parse(config["args"])
    assert told.from_cluster
    # The agent omits configuration beyond this limit before the kernel kills Envoy's container.
    (memory,) = [each["valueFrom"] for each in config["env"] if each["name"] == "FLOTILLA_GATEWAY_MEMORY"]
    assert memory == {"resourceFieldRef": {"containerName": envoy["name"], "resource": "limits.memory"}}
    (files,) = [each["emptyDir"] for each in pod["spec"]["volumes"] if "emptyDir" in each]
    assert int(files["sizeLimit"].removesuffix("Mi")) * 2**20 > FILES_LIMIT
    assert told.connections == CONNECTIONS
    assert (told.directory, told.input) == ("/run/flotilla-gateway", "/run/flotilla-gateway/gateway.json")
    (prepare,) = pod["spec"]["initContainers"]
    assert parse(prepare["args"]).prepare
    assert parse(prepare["args"]).connections == told.connections
    (mounted,) = [each["secret"] for each in pod["spec"]["volumes"] if "secret" in each]
    assert mounted["secretName"] == GATEWAY_SECRET
    assert {each["key"] for each in mounted["items"]} == {"tls.crt", "tls.key"}
    arguments_of_agent = dict(pods(objects))["flotilla-agent"]["spec"]["containers"][0]["args"]
    told = {"--gateway", "--tuning=gateway-service=flotilla-gateway", "--gateway-address=gw.example.org:443"}
    assert told <= set(arguments_of_agent)
    assert "--gateway-udp" not in arguments_of_agent
    asked = dict(pods(template("gateway.enabled=true", "gateway.udp=true")))["flotilla-agent"]
    assert "--gateway-udp" in asked["spec"]["containers"][0]["args"]
    with_hosts = dict(pods(template("gateway.enabled=true", "gateway.headless=true")))["flotilla-agent"]
    added = set(with_hosts["spec"]["containers"][0]["args"]) - set(arguments_of_agent)
    assert added == {"--gateway-headless"}
    (port,) = of(objects, "Service", "flotilla-gateway")["spec"]["ports"]
    assert (port["name"], port["targetPort"]) == (PORT_NAME, "gateway")
    called, metrics = of(objects, "NetworkPolicy", "flotilla-gateway")["spec"]["ingress"]
    assert [(each["port"], each.get("endPort"), each["protocol"]) for each in called["ports"]] == [
        (15443, None, "TCP"),
        (FIRST_PORT, LAST_PORT, "TCP"),
        (FIRST_PORT, LAST_PORT, "UDP"),
    ]
    assert [each["port"] for each in metrics["ports"]] == [8080]


def test_metrics_of_the_bind_extender_are_guarded_and_found_as_those_of_the_agent() -> None:
    objects = template(*CANDIDATES, "metrics.authentication=true")
    extender = dict(pods(objects))["flotilla-candidates"]["spec"]["containers"][0]
    assert "--metrics-address=:8443" in extender["args"]
    assert [each["name"] for each in of(objects, "ClusterRoleBinding", "flotilla-metrics")["subjects"]] == [
        f"flotilla-{each}" for each in ("agent", "webhook", "candidates")
    ]
    (reached,) = of(objects, "NetworkPolicy", "flotilla-candidates")["spec"]["ingress"]
    assert reached == {"ports": [{"port": 8443, "protocol": "TCP"}]}
    labels = dict(pods(objects))["flotilla-candidates"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget"):
        selector = of(objects, kind, "flotilla-candidates")["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items()
    names = {each["metadata"]["name"] for each in template()}
    assert not [name for name in names if "candidates" in name]


def test_a_start_may_take_as_long_as_is_said() -> None:
    found = dict(pods(template("startupSeconds=42")))
    for name in ("flotilla-agent", "flotilla-webhook"):
        probe = found[name]["spec"]["containers"][0]["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] == 45
    assert not [spec for _, spec in pods(template()) if "startupProbe" in spec["spec"]["containers"][0]]


def test_the_candidate_scheduler_asks_the_extender_beside_it_and_nobody_else() -> None:
    objects = template(*CANDIDATES, "agent.settings.hold=20")
    extender_container, scheduler = dict(pods(objects))["flotilla-candidates"]["spec"]["containers"]
    settings = parse_agent(extender_container["args"])
    config = yaml.safe_load(of(objects, "ConfigMap")["data"]["candidate-scheduler.yaml"])
    (extender,) = config["extenders"]
    assert settings.extender_address == extender["urlPrefix"].removeprefix("http://")
    assert settings.hold == 20
    assert extender["urlPrefix"].startswith("http://127.0.0.1:")
    (agent,) = dict(pods(objects))["flotilla-agent"]["spec"]["containers"]
    assert parse_agent(agent["args"]).extender_address == ""
    assert config["profiles"] == [{"schedulerName": "admiralty-candidate"}]
    assert scheduler["image"] == "example.test/kube-scheduler:v1.36.3"
    assert config["leaderElection"]["resourceNamespace"] == NAMESPACE


def test_candidate_schedulers_are_as_many_as_agents_and_where_these_may_be_unless_told() -> None:
    like_agents = ("agent.replicas=3", "agent.nodeSelector.pool=infra", "agent.tolerations[0].key=infra")
    own = ("candidateScheduler.replicas=1", "candidateScheduler.nodeSelector.pool=own")
    for settings, replicas, pool in (((), 3, "infra"), (own, 1, "own")):
        found = of(template(*CANDIDATES, *like_agents, *settings), "Deployment", "flotilla-candidates")["spec"]
        spec = found["template"]["spec"]
        assert (found["replicas"], spec["nodeSelector"], spec["tolerations"]) == (
            replicas,
            {"pool": pool},
            [{"key": "infra"}],
        )


def test_other_settings_of_the_candidate_scheduler_bring_other_pods() -> None:
    def annotations(*settings: str) -> Raw:
        return dict(dict(pods(template(*CANDIDATES, *settings)))["flotilla-candidates"]["metadata"]["annotations"])

    assert annotations() == annotations("agent.logLevel=DEBUG")
    assert annotations() != annotations("candidateScheduler.bindTimeout=200")
    more = annotations("candidateScheduler.podAnnotations.a=b")
    assert more == {**annotations(), "a": "b"}


def test_admiraltys_names_mean_the_same() -> None:
    objects = template(
        "controllerManager.replicas=3",
        "controllerManager.resources.limits.memory=2Gi",
        "controllerManager.nodeSelector.pool=infra",
        "controllerManager.certificateSignerName=example.test/signer",
        "imagePullSecretName=regcred",
        "fullnameOverride=multicluster-scheduler",
    )
    agent = of(objects, "Deployment", "multicluster-scheduler-agent")
    assert agent["spec"]["replicas"] == 3
    spec = agent["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": "infra"}
    assert spec["imagePullSecrets"] == [{"name": "regcred"}]
    assert spec["containers"][0]["resources"]["limits"] == {"memory": "2Gi"}
    assert spec["containers"][0]["resources"]["requests"] == VALUES["agent"]["resources"]["requests"]
    assert parse_agent(spec["containers"][0]["args"]).kubelet_signer == "example.test/signer"


def test_an_installation_changed_in_nothing_but_its_version_keeps_selectors() -> None:
    for each in template():
        if each["kind"] == "Deployment":
            assert "app.kubernetes.io/version" not in each["spec"]["selector"]["matchLabels"]


SCORED = ",".join(
    f"agent.prometheusScores[0].{each}" for each in ("name=a", "resource=b", "max=1", "url=http://p", "query=up")
)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("restarter.replicas=2",), "restarter means something in Admiralty's chart only: remove it"),
        (("debug.controllerManager=true",), "see agent.logLevel"),
        (("postDeleteJob.image.tag=1",), "see uninstall.policy"),
        (("controllerManager.image.repository=x",), "set image.repository"),
        (("scheduler.replicas=2",), "scheduler.replicas means something in Admiralty's chart only"),
        (("certificates.issuerRef.name=ca",), "certificates.issuerRef needs certificates.provider=cert-manager"),
        (("candidateScheduler.enabled=true",), "candidateScheduler.enabled needs candidateScheduler.image.repository"),
        ((*CANDIDATES, "agent.settings.hold=300"), "must be shorter than candidateScheduler.bindTimeout"),
        ((*CANDIDATES, "agent.settings.hold=4m60s"), "must be shorter than candidateScheduler.bindTimeout"),
        ((*CANDIDATES, "agent.settings.hold=40s", "candidateScheduler.bindTimeout=39.9s"), "agent.settings.hold (40s)"),
        (("uninstall.timeout=soon",), "uninstall/timeout"),
        (("agent.settings.cluster-name=x",), "agent.settings.cluster-name: use clusterName"),
        (("webhook.settings.register=true",), "webhook.settings.register: use nothing"),
        (
            ("agent.settings.probe-intervall=2",),
            "agent.settings.probe-intervall: the agent of this version has no",
        ),
        (
            ("webhook.settings.max-in-flight=2",),
            "webhook.settings.max-in-flight: the webhook of this version has no",
        ),
        (("agent.tuning.probe-intervall=2",), "agent.tuning.probe-intervall: the agent of this version has no such"),
        (("agent.tuning.moves=true",), "agent.tuning.moves: use agent.settings.moves"),
        (
            ("webhook.serviceAccount.create=false",),
            "webhook.serviceAccount.create=false needs webhook.serviceAccount.name",
        ),
        (("agent.extraEnv[0].name=POD_NAME",), "agent.extraEnv: remove POD_NAME: the chart sets it"),
        (("agent.podAnnotations.multicluster/elect=",), "agent.podAnnotations: remove multicluster/elect"),
        (
            ("candidateScheduler.podAnnotations.multicluster/elect=",),
            "candidateScheduler.podAnnotations: remove multicluster/elect",
        ),
        (
            ("candidateScheduler.serviceAccount.create=false",),
            "candidateScheduler.serviceAccount.create=false needs candidateScheduler.serviceAccount.name",
        ),
        (
            ("webhook.podAnnotations.multicluster\\.admiralty\\.io/elect=",),
            "webhook.podAnnotations: remove multicluster.admiralty.io/elect",
        ),
        (("crds.install=false", "crds.keep=false"), "crds.keep=false with crds.install=false"),
        (("agent.settings.placement=serve",), "agent.settings.placement: use agent.placement.mode"),
        (("webhook.settings.placements=true",), "webhook.settings.placements: use agent.placement.crds"),
        (("hub.enabled=true", "agent.placement.mode=consume"), "hub.enabled=true with agent.placement.mode=consume"),
        (("hub.enabled=true", "admissionPolicies.enabled=false"), "a policy alone keeps clusters from accepting"),
        (("agent.settings.hub=true",), "agent.settings.hub: use hub.enabled"),
        (
            ("agent.placement.mode=off", "agent.placement.usageScores=true"),
            "agent.placement.usageScores=true with agent.placement.mode=off",
        ),
        (
            ("agent.placement.mode=off", "agent.placement.evaluate=true"),
            "agent.placement.evaluate=true with agent.placement.mode=off",
        ),
        (("agent.placement.mode=off", SCORED), "agent.prometheusScores with agent.placement.mode=off"),
        (
            (f"{SCORED},agent.prometheusScores[0].min=2",),
            "agent.prometheusScores[0].max (1) must be more than its min (2)",
        ),
        (
            (f"{SCORED},agent.prometheusScores[0].tokenSecret.name=s",),
            "agent.prometheusScores[0].tokenSecret is for https only, and url is http://p",
        ),
    ],
)
def test_values_that_cannot_be_meant_are_refused_with_the_remedy(settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(helm.Failed, match=re.escape(message)):
        template(*settings)


@pytest.mark.parametrize("settings", [(), CANDIDATES], ids=["plain", "with candidate schedulers"])
def test_values_of_an_earlier_version_are_refused_with_the_remedy(tmp_path: Path, settings: tuple[str, ...]) -> None:
    shutil.copytree(CHART, tmp_path / "flotilla")
    # With --reuse-values an earlier release has only its own values and none of this version's defaults.
    new = ("serviceAccount", "replicas", "extender", "nodeSelector", "tolerations", "podAnnotations", "podLabels")
    kept = {key: value for key, value in VALUES["candidateScheduler"].items() if key not in new}
    text = yaml.safe_dump({**VALUES, "candidateScheduler": kept})
    (tmp_path / "flotilla" / "values.yaml").write_text(text)
    flags = [flag for setting in settings for flag in ("--set", setting)]
    with pytest.raises(helm.Failed, match="with --reset-then-reuse-values instead of --reuse-values"):
        helm.run("template", "flotilla", str(tmp_path / "flotilla"), "--kube-version", "1.36.3", *flags)


def test_values_from_before_there_were_placements_change_nothing(tmp_path: Path) -> None:
    shutil.copytree(CHART, tmp_path / "flotilla")
    kept = {name: value for name, value in VALUES["agent"].items() if name not in ("placement", "prometheusScores")}
    (tmp_path / "flotilla" / "values.yaml").write_text(yaml.safe_dump({**VALUES, "agent": kept}))
    command = ("template", "flotilla", str(tmp_path / "flotilla"), "-n", NAMESPACE, "--kube-version", "1.36.3")
    assert [each for each in yaml.safe_load_all(helm.run(*command)) if each] == template()
    # YAML parses an unquoted `off` as false.
    off = helm.run(*command, "--set", "agent.placement.mode=false")
    assert "--placement=off" in off


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("agent.replica=2", "replica"),
        ("agent.replicas=0", "replicas"),
        ("agent.logLevel=LOUD", "logLevel"),
        ("uninstall.policy=destroy", "policy"),
        ("certificates.provider=vault", "provider"),
        ("clusterName=-cd", "clusterName"),
        ("webhook.reinvocationPolicy=Always", "reinvocationPolicy"),
        ("agent.settings.Probe=1", "Probe"),
        ("image.digest=sha256:abc", "digest"),
        ("tolerations=x", "tolerations"),
        ("networkPolicy.webhookCIDRs={10.0.0.1}", "webhookCIDRs"),
        ("candidateScheduler.image.digest=latest", "digest"),
        ("agent.placement.mode=hub", "mode"),
        ("agent.placement.usageScores=perhaps", "usageScores"),
        ("agent.placement.scoreMax.cpu=lots", "cpu"),
        ("agent.prometheusScores[0].name=a", "resource"),
    ],
)
def test_the_schema_refuses_a_value_and_names_it(setting: str, field: str) -> None:
    with pytest.raises(helm.Failed, match=field) as caught:
        template(setting)
    assert "values don't meet the specifications of the schema" in str(caught.value)


def test_the_chart_asks_for_the_image_of_the_version_that_it_comes_with() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    package = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert chart["version"] == chart["appVersion"] == package == __version__
    assert images(template()) == {f"{VALUES['image']['repository']}:{__version__}"}


def test_all_images_come_from_one_registry_and_by_digest_where_that_is_asked() -> None:
    digest = "sha256:" + "0" * 64
    settings = (*CANDIDATES, "global.imageRegistry=mirror.test:5000/all/", "candidateScheduler.image.tag=v1.36.3")
    own, scheduler = f"flotilla:{__version__}", "example.test/kube-scheduler"
    assert images(template(*settings)) == {f"mirror.test:5000/all/{own}", f"mirror.test:5000/all/{scheduler}:v1.36.3"}
    pinned = template(*CANDIDATES, f"candidateScheduler.image.digest={digest}", f"image.digest={digest}")
    assert images(pinned) == {f"flotilla@{digest}", f"{scheduler}@{digest}"}


def images(objects: list[Raw]) -> set[str]:
    """Return the images of all containers."""
    return {each["image"] for _, spec in pods(objects) for each in spec["spec"]["containers"]}


def test_the_chart_tells_the_home_and_the_sources_that_the_package_tells() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    urls = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"].get("urls", {})
    assert chart["maintainers"]
    assert chart.get("home") == urls.get("Homepage")
    assert chart.get("sources", []) == [url for name, url in urls.items() if name == "Repository"]


def test_kubernetes_before_1_30_is_refused() -> None:
    with pytest.raises(helm.Failed, match=r"kubeVersion: >=1\.30"):
        template(kubernetes="1.29.9")


def test_the_schema_knows_every_value_and_describes_it() -> None:
    for path, node in walk(SCHEMA):
        assert node.get("description"), path
        if node.get("properties") and path not in (".global", ".scheduler"):
            assert node["additionalProperties"] is False, path
    assert set(SCHEMA["properties"]) == set(VALUES)


def walk(schema: Raw, path: str = "") -> list[tuple[str, Raw]]:
    """Return every property of the schema with its path."""
    found = [(path, schema)]
    for name, inner in schema.get("properties", {}).items():
        found += walk(inner, f"{path}.{name}")
    return found


Rule = tuple[str, str, str, tuple[str, ...]]


def granted(objects: list[Raw]) -> dict[str, list[Rule]]:
    """Return every single rule by namespace (empty: cluster-wide)."""
    found: dict[str, list[Rule]] = {}
    for each in objects:
        if each["kind"] in ("Role", "ClusterRole"):
            rules = found.setdefault(each["metadata"].get("namespace", ""), [])
            for rule in each["rules"]:
                parts: Any = itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
                rules += [(*part, tuple(rule.get("resourceNames", ()))) for part in parts]
            rules.sort()
    return found


def roles_of(objects: list[Raw], account: str) -> dict[str, list[Rule]]:
    """Return the rules that the bindings of a service account grant."""
    bound = [
        (each["roleRef"]["kind"], each["metadata"].get("namespace"), each["roleRef"]["name"])
        for each in objects
        if each["kind"].endswith("RoleBinding") and each["subjects"][0]["name"] == f"flotilla-{account}"
    ]
    return granted(
        [
            each
            for each in objects
            if (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) in bound
        ]
    )
