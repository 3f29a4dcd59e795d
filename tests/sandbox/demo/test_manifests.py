from agent.model.proxypod import is_elected
from hack.lab.demo import manifests


def test_pods_of_the_deployment_and_of_the_job_are_elected() -> None:
    for obj in (manifests.deployment(3), manifests.job(6, 3)):
        assert is_elected(obj["spec"]["template"])
