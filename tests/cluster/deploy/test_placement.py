"""Room for a plan: refused where there never will be any, waited for where an autoscaler can make it."""

from __future__ import annotations

import pytest

from cluster.deploy.placement import NODE_PATIENCE_S, PATIENCE_S, NoRoom, patience


def test_a_plan_that_fits_waits_for_places_that_others_hold() -> None:
    assert patience(3, 1, 4, None, wait_for_nodes_s=None) == PATIENCE_S
    assert patience(3, 1, 4, None, wait_for_nodes_s=300.0) == 300.0


def test_a_plan_that_never_fits_is_refused_with_what_would_fit() -> None:
    with pytest.raises(NoRoom, match=r"needs 7 CPUs .* the cluster has 4; use --units 3 or fewer"):
        patience(6, 1, 4, None, wait_for_nodes_s=None)


def test_an_autoscaler_is_given_time_to_start_nodes() -> None:
    assert patience(6, 1, 4, 8, wait_for_nodes_s=None) == NODE_PATIENCE_S


def test_what_even_the_autoscaler_cannot_start_is_refused() -> None:
    with pytest.raises(NoRoom, match=r"has 4 and can grow to 6; use --units 5 or fewer"):
        patience(6, 1, 4, 6, wait_for_nodes_s=None)


def test_who_knows_that_nodes_will_join_may_wait_for_them() -> None:
    assert patience(6, 1, 0, None, wait_for_nodes_s=120.0) == 120.0


def test_a_cluster_without_cpus_gives_no_advice_that_cannot_be_followed() -> None:
    with pytest.raises(NoRoom, match="use a cluster with more CPUs"):
        patience(1, 1, 0, None, wait_for_nodes_s=None)
