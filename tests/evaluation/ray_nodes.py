"""A benchmark on a real cluster of several Ray nodes, one of which is killed; run as a program, in a folder.

A program of its own, as Ray reads how it is to be closed when it is imported.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tiny import TINY

from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner, Run, make_plan
from homefold.evaluation.ray_crew import RayCrew
from homefold.evaluation.records import RunRecord

CLOSED = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0" * 64,
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "2",
}


def options(out: Path) -> BenchOptions:
    """Two units of two runs each."""
    return BenchOptions(
        suite="digits-mini",
        out=out,
        preset="quick",
        seeds=1,
        methods=("deep-all", "without-projection"),
        targets=("street", "scan"),
        device="cpu",
        settings=TINY,
        images_per_class=6,
        on="ray",
    )


def main(out: Path) -> None:
    """Write beside `out` which units were begun, each time that one was; Ray may print what it likes."""
    os.environ.update(CLOSED)
    import ray
    from ray.cluster_utils import Cluster

    common = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**common, "num_cpus": 0, "include_dashboard": False})
    lost, _ = [cluster.add_node(**common, num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR")
    began: list[int] = []
    start = RayCrew._starter

    def counting(self: RayCrew, ray: object) -> object:
        starts = start(self, ray)

        def begin(place: int, ids: frozenset[str]) -> object:
            began.append(place)
            return starts(place, ids)

        return begin

    RayCrew._starter = counting  # type: ignore[method-assign]
    killed: list[str] = []

    def kill(run: Run, record: RunRecord) -> None:
        if not killed:  # neither machine has done all of its unit
            killed.append(run.id)
            cluster.remove_node(lost, allow_graceful=False)

    wanted = options(out)
    planner = Planner(wanted)
    records = run_bench(wanted, planner=planner, plan=make_plan(planner), on_run=kill)
    told = {"began": began, "status": [record.status for record in records]}
    out.with_name("told.json").write_text(json.dumps(told))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
