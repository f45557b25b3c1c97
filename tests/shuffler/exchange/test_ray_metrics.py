"""The parts of metrics that need no Ray."""

from __future__ import annotations

from shuffler.exchange.ray_metrics import BusyMeter, process_tags


def test_tags_come_from_the_name_of_the_actor() -> None:
    assert dict(process_tags("q1/o3/2")) == {"query": "q1", "operator": "o3", "unit": "2", "process": "q1/o3/2"}
    assert process_tags("q1/sink")["operator"] == "sink"
    assert process_tags("q1/host/4")["operator"] == "host"


def test_copies_of_a_sliced_plan_belong_to_one_query() -> None:
    tags = process_tags("q1#3/o3/2")
    assert tags["query"] == "q1"
    assert tags["process"] == "q1#3/o3/2"


def test_a_slash_in_the_name_of_a_query_does_no_harm() -> None:
    assert process_tags("a/b/o3/0")["query"] == "a/b"
    assert process_tags("a/b/sink")["query"] == "a/b"


def test_a_shuffler_serves_all_queries() -> None:
    assert dict(process_tags("a,b/shuffler/1", ("a", "b"))) == {
        "query": "a,b",
        "operator": "shuffler",
        "unit": "1",
        "process": "a,b/shuffler/1",
    }


def test_the_busy_share_is_that_of_recent_time() -> None:
    now = 0.0
    meter = BusyMeter(lambda: now)
    assert meter.fraction(0.0) == 0.0
    now = 1.0
    assert meter.fraction(0.5) == 0.5
    for _ in range(30):
        now += 0.5
        last = meter.fraction(0.5)
    assert last == 0.0


def test_a_message_that_took_longer_than_the_time_between_two_readings_is_no_more_than_all() -> None:
    now = 0.0
    meter = BusyMeter(lambda: now)
    meter.fraction(0.0)
    now = 0.5
    assert meter.fraction(2.0) == 1.0
