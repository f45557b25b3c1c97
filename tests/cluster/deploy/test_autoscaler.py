"""Why nodes could not be started, from what Ray's autoscaler writes."""

from __future__ import annotations

from cluster.deploy.autoscaler import LaunchFailure, growth, launch_causes

LOG = """2026-11-17 23:10:01,123 INFO node_provider.py:475 -- Launching 1 nodes of type worker.
2026-11-17 23:10:04,001 INFO node_provider.py:490 -- Failed to launch 1 nodes of type worker: first
2026-11-17 23:10:09,001 INFO node_provider.py:490 -- Failed to launch 2 nodes of type worker: Node Launch Exception \
(VcpuLimitExceeded): You have requested more vCPU capacity
2026-11-17 23:10:09,002 INFO node_provider.py:490 -- Failed to launch 1 nodes of type gpu: timed out
"""


def test_the_last_cause_of_each_type_counts() -> None:
    causes = launch_causes(LOG)
    assert set(causes) == {"worker", "gpu"}
    assert causes["worker"].startswith("Node Launch Exception (VcpuLimitExceeded)")


def test_a_quota_is_final_and_a_slow_answer_is_not() -> None:
    failures = {name: LaunchFailure(name, cause) for name, cause in launch_causes(LOG).items()}
    assert failures["worker"].final
    assert not failures["gpu"].final
    assert LaunchFailure("n2-standard", "QUOTA_EXCEEDED: Quota 'CPUS' exceeded").final
    assert str(failures["gpu"]) == "gpu: timed out"


def test_a_cluster_grows_to_its_head_and_the_largest_workers_that_it_may_have() -> None:
    types = {
        "head": {"resources": {"CPU": 2}, "max_workers": 0},
        "small": {"resources": {"CPU": 4}, "max_workers": 8},
        "large": {"resources": {"CPU": 16}, "max_workers": 2},
    }
    config = {"head_node_type": "head", "max_workers": 3, "available_node_types": types}
    assert growth(config) == 2 + 2 * 16 + 4
    assert growth({**config, "max_workers": 1}) == 2 + 16


def test_a_file_that_does_not_tell_the_cpus_of_its_machines_tells_nothing() -> None:
    local = {"head_node_type": "local", "max_workers": 3, "available_node_types": {"local": {"resources": {}}}}
    assert growth(local) is None
    assert growth({}) is None
