"""The benchmark of a whole application: its objects."""

from agent.model.p2code.check import Application, World, check, draft
from hack.lab.benchmarks.application import application


def test_its_workloads_are_spread_over_the_clusters_each_with_what_belongs_to_it() -> None:
    made = application(10, ["c1", "c2", "c3", "c4"])
    world = World(sets={"global": ("c1", "c2", "c3", "c4")}, bound=("global",))
    found = check(draft(made["spec"], "application", "global"), world)
    assert isinstance(found, Application)
    assert not found.bundling.orphans
    kinds = [sorted(each.kind for each in bundle.manifests) for bundle in found.bundling.bundles]
    assert kinds == [["ConfigMap", "Deployment", "Service"]] * 10
    asked = [each["annotations"] for each in made["spec"]["workloadAnnotations"]]
    assert asked[:5] == [[f"p2code.filter.site={name}"] for name in ("c1", "c2", "c3", "c4", "c1")]
