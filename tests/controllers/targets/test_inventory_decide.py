from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS
from agent.targets.inventory import decide as module
from agent.targets.inventory.decide import TargetContents, decide

ACCOUNTS = [("b", "two"), ("a", "one"), ("a", "another"), ("elsewhere", "three")]
CLAIMS = [("a", "data")]


def test_each_namespace_says_what_it_has_and_others_say_nothing() -> None:
    made = decide(TargetContents(["b", "a"], {SERVICE_ACCOUNTS: ACCOUNTS, PERSISTENT_VOLUME_CLAIMS: CLAIMS}))
    assert made.namespaces == [
        {"name": "a", "serviceAccounts": ["another", "one"], "persistentVolumeClaims": ["data"]},
        {"name": "b", "serviceAccounts": ["two"], "persistentVolumeClaims": []},
    ]
    assert (made.status, made.reason) == ("True", "Published")


def test_what_may_not_be_read_is_absent_rather_than_empty() -> None:
    made = decide(TargetContents(["a"], {SERVICE_ACCOUNTS: ACCOUNTS}, [PERSISTENT_VOLUME_CLAIMS]))
    assert made.namespaces == [{"name": "a", "serviceAccounts": ["another", "one"]}]
    assert (made.status, made.reason) == ("False", "Forbidden")
    assert "persistentvolumeclaims" in made.message
    assert "serviceaccounts" not in made.message


def test_where_nothing_may_be_read_nothing_is_said() -> None:
    made = decide(TargetContents(["a"], {}, [SERVICE_ACCOUNTS, PERSISTENT_VOLUME_CLAIMS]))
    assert made.namespaces == []
    assert "serviceaccounts and persistentvolumeclaims" in made.message


def test_more_names_than_an_object_can_hold_are_not_published() -> None:
    many = [("a", f"n{number}") for number in range(module.NAMES_LIMIT + 1)]
    made = decide(TargetContents(["a"], {SERVICE_ACCOUNTS: many}))
    assert (made.namespaces, made.status, made.reason) == ([], "False", "TooMany")
    assert decide(TargetContents(["b"], {SERVICE_ACCOUNTS: many})).status == "True"


def test_nothing_is_said_of_accounts_that_are_brought_there() -> None:
    found = {SERVICE_ACCOUNTS: ACCOUNTS, PERSISTENT_VOLUME_CLAIMS: CLAIMS}
    made = decide(TargetContents(["a", "b"], found, followed={"a"}))
    assert made.namespaces == [
        {"name": "a", "persistentVolumeClaims": ["data"]},
        {"name": "b", "serviceAccounts": ["two"], "persistentVolumeClaims": []},
    ]
