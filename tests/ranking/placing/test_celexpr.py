"""CEL expressions of Placements: accepted ones, and the handling of unusable ones."""

import sys
from typing import Any

import msgspec
import pytest

from agent.ranking.placing import celexpr
from agent.ranking.placing.celexpr import InvalidExpression, Question, answer, compile_expression, scores_named

CLUSTER: dict[str, Any] = {
    "metadata": {
        "name": "eu",
        "labels": {"env": "prod", "tier": "3"},
        "annotations": {"rack": '{"row": {"place": [1, 2]}}'},
    },
    "spec": {"taints": [{"key": "gpu", "effect": "NoSelect"}]},
    "status": {
        "version": {"kubernetes": "v1.30.6"},
        "allocatable": {"cpu": "3500m", "memory": "16Gi"},
        "capacity": {"cpu": "4", "memory": "16Gi"},
        "clusterClaims": [{"name": "platform.open-cluster-management.io", "value": "AWS"}],
    },
}
SCORES = {"usage": (("cpu", 3), ("memory", -5)), "empty": ()}
COSTLY = "".join(f"[0,1,2,3,4,5,6,7,8,9].all({name}, " for name in "abcde") + "a+b+c+d+e >= 0" + ")" * 5


def is_true(expression: str, cluster: dict[str, Any] = CLUSTER) -> bool:
    return compile_expression(expression).matches(msgspec.json.encode(cluster), SCORES)


@pytest.mark.parametrize(
    "expression",
    [
        # CEL's standard library.
        'managedCluster.metadata.labels["env"] == "prod"',
        'managedCluster.metadata.labels.env == "prod" && managedCluster.metadata.labels.exists(key, key == "tier")',
        "has(managedCluster.metadata.labels.env) && !has(managedCluster.metadata.labels.zone)",
        'managedCluster.status.clusterClaims.exists(c, c.name.startsWith("platform.") && c.value == "AWS")',
        'managedCluster.spec.taints.all(t, t.effect != "NoSelectIfNew")',
        "int(managedCluster.metadata.labels.tier) in [1, 3]",
        'managedCluster.metadata.name.matches("^(eu|us)$") && managedCluster.metadata.name.startsWith("e")',
        'timestamp("2026-01-01T00:00:00Z") < timestamp("2027-01-01T00:00:00Z")',
        'managedCluster.?metadata.?labels.?zone.orValue("none") == "none"',
        # Fields that the reference's type of a ManagedCluster always has.
        "managedCluster.spec.hubAcceptsClient == false && managedCluster.status.conditions == null",
        "managedCluster.size() == 3 && managedCluster.metadata.size() == 3",
        # Strings.
        '"a,b".split(",")[1] == "b" && "%s-%d".format(["a", 1]) == "a-1" && ["a", "b"].join("-") == "a-b"',
        '"abc 123".find("[0-9]+") == "123" && "abc".find("[0-9]+") == ""',
        '"a1 b2".findAll("[a-z][0-9]") == ["a1", "b2"] && "a1 b2".findAll("[a-z][0-9]", 1) == ["a1"]',
        # JSON, as in the reference and in its documentation.
        "managedCluster.metadata.annotations.rack.parseJSON().row.place[1] == 2",
        "parseJSON(managedCluster.metadata.annotations.rack).row.place.sum() == 3.0",
        # Versions.
        'semver(managedCluster.status.version.kubernetes.replace("v", "")).isGreaterThan(semver("1.30.0"))',
        'semver("1.0.0-rc.1").isLessThan(semver("1.0.0")) && semver("1.0.0-a.2").compareTo(semver("1.0.0-a.10")) == -1',
        'semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3',
        'semver("1.2.3+one") == semver("1.2.3+two") && isSemver("1.2.3") && !isSemver("1.2") && !isSemver("v1.2.3")',
        # Quantities.
        'quantity(managedCluster.status.allocatable.cpu).isLessThan(quantity("4"))',
        'quantity(managedCluster.status.allocatable.memory).compareTo(quantity("16384Mi")) == 0',
        'quantity("1Gi").add(quantity("1Gi")) == quantity("2Gi") && quantity("1").sub(1).sign() == 0',
        'quantity("50k").asInteger() == 50000 && quantity("500m").asApproximateFloat() == 0.5',
        '!quantity("500m").isInteger() && isQuantity("1Gi") && !isQuantity("much")',
        '[quantity("1"), quantity("3")].exists(q, q.isGreaterThan(quantity("2")))',
        # Lists.
        "[1, 2, 3].sum() == 6 && [1.5, 2.5].sum() == 4.0 && [1u, 2u].sum() == 3u && [].sum() == 0",
        '[1, 2, 2].isSorted() && !["b", "a"].isSorted() && ["b", "a"].min() == "a" && [1, 5].max() == 5',
        '[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && ["a"].indexOf("b") == -1',
        '"abcb".indexOf("b") == 1 && [{"a": 1}].indexOf({"a": 1}) == 0',
        # Addresses.
        'ip("10.0.0.1").family() == 4 && ip("::1").isLoopback() && !ip("127.0.0.1").isGlobalUnicast()',
        'ip.isCanonical("::1") && isIP("1.2.3.4") && !isIP("1.2.3") && isCIDR("::/0") && !isCIDR("10.0.0.0")',
        'cidr("10.0.0.0/8").containsIP("10.1.2.3") && !cidr("10.0.0.0/8").containsIP(ip("11.1.2.3"))',
        'cidr("10.0.0.0/8").containsCIDR("10.9.0.0/16") && !cidr("10.0.0.0/8").containsCIDR(cidr("::/0"))',
        'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("10.1.2.3/8").ip() == ip("10.1.2.3")',
        # Scores.
        'managedCluster.scores("usage").filter(s, s.name == "cpu").all(s, s.value > 2)',
        'managedCluster.scores("usage").map(s, s.value).sum() == -2 && managedCluster.scores("empty").size() == 0',
        'managedCluster.metadata.labels.env == "prod" && managedCluster.scores("us" + "age").size() == 2',
        # Only fields that an expression names are read, and none of those is missed.
        "managedCluster.metadata.size() == 3",
        "managedCluster['metadata'].name == 'eu'",
        "managedCluster.metadata['name'] == 'eu'",
        "[managedCluster].all(c, c.metadata.name == 'eu' && c.status.capacity.cpu == '4')",
        "managedCluster.metadata.name == 'eu' && managedCluster.metadata.size() == 3",
        "managedCluster // the whole\n.metadata.name == 'eu'",
        "managedCluster.status.capacity.size() == 2 && managedCluster.status.version.kubernetes != ''",
        "managedCluster.exists(key, key == 'status') && managedCluster.metadata.labels.env == 'prod'",
        "managedCluster.metadata == managedCluster.metadata && managedCluster.?spec.hasValue()",
    ],
)
def test_true_of_the_cluster(expression: str) -> None:
    assert is_true(expression)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param('managedCluster.metadata.labels.env == "dev"', id="it is false"),
        pytest.param("managedCluster.metadata.name", id="it says no bool"),
        pytest.param("1", id="it is a number"),
        pytest.param('managedCluster.metadata.labels.zone == "a"', id="a field is missing"),
        pytest.param('managedCluster.scores("none").size() == 0', id="there is no such score"),
        pytest.param('managedCluster.status.scores("usage").size() == 2', id="scores of what is no cluster"),
        pytest.param("1 / 0 == 1", id="it fails"),
        pytest.param("semver(managedCluster.status.version.kubernetes).major() == 1", id="a version with a v"),
        pytest.param('quantity("much").sign() == 0', id="no quantity"),
        pytest.param('"x".matches("(")', id="no regular expression"),
        pytest.param('"x".find("(") == ""', id="no regular expression to find"),
        pytest.param("[].min() == 0", id="the least of nothing"),
        pytest.param("[9223372036854775807, 1].sum() > 0", id="a sum that is too large"),
        pytest.param(COSTLY, id="more iterations than the library's budget"),
    ],
)
def test_what_is_not_true_or_fails_does_not_match(expression: str) -> None:
    assert not is_true(expression)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        pytest.param(
            "cluster == 'a'",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'cluster' (in container '')\n"
            " | cluster == 'a'\n | ^",
            id="an unknown name",
        ),
        pytest.param(
            "xxxx.expression",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'xxxx' (in container '')\n"
            " | xxxx.expression\n | ^",
            id="an unknown name with a field",
        ),
        pytest.param(
            "true &&\n\ta . b.a.b > 1",
            "compilation failed: ERROR: <input>:2:2: undeclared reference to 'a' (in container '')\n"
            " |  a . b.a.b > 1\n | .^",
            id="an unknown name with fields on another line",
        ),
        pytest.param(
            "'\u00e9' == '' && has(x.y.z)",
            "ERROR: <input>:1:18: undeclared reference to 'x' (in container '')\n"
            " | '\u00e9' == '' && has(x.y.z)\n | .\uff0e...............^",
            id="an unknown name in a macro",
        ),
        pytest.param(
            "a.b == c.d",
            "ERROR: <input>:1:8: undeclared reference to 'c' (in container '')\n | a.b == c.d\n | .......^",
            id="two unknown names",
        ),
        pytest.param(
            ".a.b == 1", "ERROR: <input>:1:2: undeclared reference to '.a' (in container '')", id="an absolute name"
        ),
        pytest.param("managedCluster.name ==", "compilation failed: ERROR: <input>:1:23: Syntax error", id="no syntax"),
        pytest.param(
            '"x" == 1', "found no matching overload for '_==_' applied to '(string, int)'", id="types that differ"
        ),
        pytest.param("nothing(1)", "undeclared reference to 'nothing'", id="an unknown function"),
        pytest.param(
            'quantity("1").isLessThan(semver("1.0.0"))',
            "no matching overload for 'isLessThan' applied to '(kubernetes.Quantity, kubernetes.Semver)'",
            id="a quantity and a version",
        ),
        pytest.param('semver("1.0.0", true).major() == 1', "undeclared reference to 'semver'", id="two arguments"),
        pytest.param("managedCluster.scores(1).size() == 0", "no matching overload for 'scores'", id="scores of 1"),
        pytest.param(
            'url("https://x").getHost() == "x"',
            "url: not in Flotilla's environment of CEL",
            id="what the reference has and we have not is named",
        ),
        pytest.param(
            'format.dns1123Label().validate("x").hasValue()', "format: not in Flotilla's environment", id="formats, too"
        ),
        pytest.param(
            "+".join(["1"] * 40) + " == 40",
            "compilation failed: ERROR: <input>:-1:-1: Exceeded max recursion depth of 32",
            id="nested too deeply",
        ),
        pytest.param(
            "[" * 40 + "]" * 40 + " == []",
            "compilation failed: Expression recursion limit exceeded. limit: 32",
            id="a value nested too deeply",
        ),
        pytest.param("x" * 100_001, "compilation failed: expression size exceeds codepoint limit", id="too long"),
    ],
)
def test_what_cannot_be_used_says_why(expression: str, want: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        compile_expression(expression)
    assert want in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("managedCluster.scores(\"a\").size() > managedCluster . scores( 'b' ).size()", {"a", "b"}),
        ('managedCluster.metadata.name == "a"', set()),
        ('managedCluster.scores("a").size() > managedCluster.scores("b" + "c").size()', None),
        ("managedCluster.scores(managedCluster.metadata.name).size() > 0", None),
        ('managedCluster.scores("a\\"b").size() > 0', None),
        ('managedCluster.scores("""a""").size() > 0', None),
    ],
)
def test_scores_that_an_expression_names(expression: str, want: set[str] | None) -> None:
    assert scores_named(expression) == want


def test_one_question_is_about_many_clusters() -> None:
    clusters = [
        msgspec.json.encode(cluster)
        for cluster in (CLUSTER, {"metadata": {"name": "us"}}, {"metadata": {"name": "ap"}, "status": {}})
    ]
    scores = [{"usage": (("cpu", 1),)}, {"usage": (("cpu", 9),)}, {}]
    question = Question('managedCluster.scores("usage").exists(s, s.value > 5)', clusters, scores)
    reply = msgspec.msgpack.decode(answer(msgspec.msgpack.encode(question)), type=celexpr.Answer)
    assert (reply.error, reply.matches) == ("", [False, True, False])


def test_without_the_library_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not celexpr.missing()
    for module in ("cel_expr_python", "cel_expr_python.cel"):
        monkeypatch.setitem(sys.modules, module, None)
    celexpr._environment.cache_clear()
    assert "install flotilla[cel]" in celexpr.missing()
    with pytest.raises(InvalidExpression, match=r"install flotilla\[cel\]"):
        compile_expression("true")
