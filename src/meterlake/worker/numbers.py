"""What a worker counts for Prometheus: itself, jobs, and submitted bytes that wait."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from meterlake.model.errors import MeterlakeError
from meterlake.stores import Stores

_OURS: Final = (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR)


def metrics_text(stores: Stores) -> bytes:
    """The page of metrics; without those of State if it does not answer."""
    registry = CollectorRegistry()
    for each in (*_OURS, WaitingWork(stores)):
        registry.register(each)
    return generate_latest(registry)


class WaitingWork(Collector):
    """Jobs that wait or run, of all workers; submitted bytes that wait in this home."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def describe(self) -> list[Metric]:
        """Nothing: registering must not ask State."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Ask State and the folders of segments."""
        with suppress(MeterlakeError):
            org_ids = [each.id for each in self._stores.state.organizations()]
            yield self._jobs(org_ids)
            yield self._segments(org_ids)

    def _jobs(self, org_ids: list[str]) -> Metric:
        text = "Jobs of all organizations that wait or run."
        found = GaugeMetricFamily("meterlake_jobs", text, labels=["kind", "status"])
        for (kind, status), count in self._stores.state.jobs.count_unfinished(org_ids).items():
            found.add_metric([kind, status], count)
        return found

    def _segments(self, org_ids: list[str]) -> Metric:
        text = "Bytes of submitted measurements that wait in this home."
        folders = map(self._stores.segment_folder, org_ids)
        total = sum(each.waiting_bytes() for each in folders)
        return GaugeMetricFamily("meterlake_segment_bytes", text, value=total)
