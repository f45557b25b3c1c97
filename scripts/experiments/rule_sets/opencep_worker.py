"""OpenCEP on a rule set, in a process of its own: `python opencep_worker.py OPENCEP_FOLDER JOB.json`.

OpenCEP is a checkout that the user names; nothing of it is here. The job has the rules (types, conditions, rates and
selectivities), the events and the seconds after which no more events are handed over. Rules get left-deep trees by
dynamic programming on the given statistics. With `shared` all are in one engine, which shares equal sub-trees
(`TREE_PLAN_SUBTREES_UNION`); else each has an engine of its own, and these work on the events one after the other.
"""

from __future__ import annotations

import collections
import collections.abc
import json
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Matches by rule within the events that were handed over in time, and the seconds from the first event on."""
    from adaptive.optimizer.OptimizerFactory import OptimizerParameters
    from adaptive.optimizer.OptimizerTypes import OptimizerTypes
    from adaptive.statistics.StatisticsTypes import StatisticsTypes
    from base.DataFormatter import DataFormatter, EventTypeClassifier
    from base.Pattern import Pattern
    from base.PatternStructure import PrimitiveEventStructure, SeqOperator
    from CEP import CEP
    from condition.BaseRelationCondition import BaseRelationCondition
    from condition.CompositeCondition import AndCondition
    from condition.Condition import Variable
    from evaluation.EvaluationMechanismFactory import TreeBasedEvaluationMechanismParameters
    from plan.multi.MultiPatternTreePlanMergeApproaches import MultiPatternTreePlanMergeApproaches
    from plan.TreeCostModels import TreeCostModels
    from plan.TreePlanBuilderFactory import TreePlanBuilderParameters
    from plan.TreePlanBuilderTypes import TreePlanBuilderTypes
    from stream.Stream import InputStream, OutputStream
    from tree.PatternMatchStorage import TreeStorageParameters

    class Near(BaseRelationCondition):  # type: ignore[misc]
        """abs(one - other) < distance; equal ones have the same variables and distance, so that they are shared."""

        def __init__(self, one: Variable, other: Variable, distance: float) -> None:
            super().__init__(one, other, lambda x, y: abs(x - y) < distance, f"near {distance}")

        def __repr__(self) -> str:
            return f"{self.left_term_repr} {self.relop_type} {self.right_term_repr}"

    class Types(EventTypeClassifier):  # type: ignore[misc]
        def get_event_type(self, event_payload: dict[str, Any]) -> str:
            return str(event_payload["type"])

    class Rows(DataFormatter):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(Types())

        def parse_event(self, raw_data: dict[str, Any]) -> dict[str, Any]:
            return dict(raw_data)

        def get_event_timestamp(self, event_payload: dict[str, Any]) -> datetime:
            return began + timedelta(microseconds=event_payload["ts"])

    class Events(InputStream):  # type: ignore[misc]
        def __init__(self, rows: list[dict[str, Any]], limit_s: float) -> None:
            self.rows, self.limit_s, self.place, self.start = rows, limit_s, 0, time.perf_counter()

        def __next__(self) -> dict[str, Any]:
            late = self.place % 100 == 0 and time.perf_counter() - self.start > self.limit_s
            if self.place >= len(self.rows) or late:
                raise StopIteration
            self.place += 1
            return self.rows[self.place - 1]

    class Matches(OutputStream):  # type: ignore[misc]
        def __init__(self) -> None:
            self.counts: Counter[int] = Counter()

        def add_item(self, item: Any) -> None:
            self.counts.update(item.pattern_ids or [1])  # a lone pattern has no number

        def close(self) -> None:
            pass

    def column(name: str) -> Any:
        return lambda payload: payload[name]

    began = datetime(2020, 1, 1)
    columns = {name: column(name) for name in job["columns"]}
    patterns = []
    for rule in job["rules"]:
        events = [PrimitiveEventStructure(kind, name) for name, kind in rule["positions"]]
        conditions = [
            Near(Variable(one, columns[name]), Variable(other, columns[name]), distance)
            for one, other, name, distance in rule["conditions"]
        ]
        pattern = Pattern(SeqOperator(*events), AndCondition(*conditions), timedelta(microseconds=job["window_us"]))
        pattern.set_statistics(
            {
                StatisticsTypes.ARRIVAL_RATES: rule["rates"],
                StatisticsTypes.SELECTIVITY_MATRIX: rule["selectivities"],
            }
        )
        patterns.append(pattern)
    parameters = TreeBasedEvaluationMechanismParameters(
        optimizer_params=OptimizerParameters(
            opt_type=OptimizerTypes.TRIVIAL_OPTIMIZER,
            tree_plan_params=TreePlanBuilderParameters(
                builder_type=TreePlanBuilderTypes.DYNAMIC_PROGRAMMING_LEFT_DEEP_TREE,
                cost_model_type=TreeCostModels.INTERMEDIATE_RESULTS_TREE_COST_MODEL,
                tree_plan_merger_type=MultiPatternTreePlanMergeApproaches.TREE_PLAN_SUBTREES_UNION,
            ),
        ),
        storage_params=TreeStorageParameters(
            sort_storage=False, clean_up_interval=10, prioritize_sorting_by_timestamp=True
        ),
    )

    def counted(some: list[Any], limit_s: float) -> tuple[list[int], int, float]:
        """Matches by pattern, events that were handed over, and seconds."""
        engine = CEP(some, parameters)
        stream, found = Events(job["events"], limit_s), Matches()
        engine.run(stream, found, Rows())
        taken = time.perf_counter() - stream.start
        return [found.counts[number] for number in range(1, len(some) + 1)], stream.place, taken

    if job["shared"]:
        by_pattern, events_done, seconds = counted(patterns, job["limit_s"])
    else:
        runs = [counted([pattern], float("inf")) for pattern in patterns]
        by_pattern, events_done = [counts[0] for counts, _, _ in runs], len(job["events"])
        seconds = sum(taken for *_, taken in runs)
    return {"matches": sum(by_pattern), "events": events_done, "seconds": seconds, "by_pattern": by_pattern}


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    collections.Callable = collections.abc.Callable  # type: ignore[attr-defined]  # OpenCEP takes it from there
    print(json.dumps(measure(json.loads(Path(sys.argv[2]).read_text()))))
