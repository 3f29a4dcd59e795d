from hack.lab.benchmarks.placement import evaluations


def test_an_evaluation_is_measured_without_a_cluster() -> None:
    budgets = evaluations(20)
    assert [budget.limit for budget in budgets] == [15.0, 15.0, 15.0]
    assert all("20 clusters" in budget.name and budget.measured > 0 for budget in budgets)
