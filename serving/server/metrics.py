"""Prometheus metrics of the server."""

from collections.abc import Mapping

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram

from serving.server.models import Model

# Bucket bounds of the histograms.
_SECONDS = (
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60
)  # fmt: skip
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
  """Metrics by model; the label "" counts requests for unknown models.

  `requests` counts answers by HTTP status. `seconds` is the time from the head
  of a request to the answer, `batch_texts` the number of texts in a batch.
  """

  def __init__(self):
    self._registry = prometheus_client.CollectorRegistry()
    base = {"namespace": "serving", "registry": self._registry}
    model = {"labelnames": ["model"], **base}
    self.requests = Counter("requests", "Answers.", ["model", "status"], **base)
    self.seconds = Histogram("seconds", "Latency.", buckets=_SECONDS, **model)
    self.batch_texts = Histogram(
      "batch_texts", "Texts of a call.", buckets=_TEXTS, **model
    )
    self._queue = Gauge("queue_texts", "Texts that wait.", **model)
    self._version = Gauge("version", "Newest, or 0.", **model)

  def text(self, models: Mapping[str, Model]) -> bytes:
    """Returns all metrics in Prometheus' text format."""
    for name, model in models.items():
      versions = model.versions
      queued = sum(version.workers.queued for version in versions.values())
      self._queue.labels(name).set(queued)
      self._version.labels(name).set(max(versions, default=0))
    return prometheus_client.generate_latest(self._registry)
