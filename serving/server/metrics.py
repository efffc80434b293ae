"""Prometheus metrics of the server."""

from collections.abc import Mapping

import prometheus_client as prometheus

from serving.server.models import Model

_SECONDS = (
  *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
  *(1, 2.5, 5, 10, 30, 60),
)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
  """Metrics by model; requests for no model of the server count for "".

  Attributes:
    requests: counter by `model` and HTTP `status`.
    seconds: histogram by `model`, from the head of a request to its answer.
    batch_texts: histogram by `model` of the texts in a batch.
  """

  def __init__(self):
    self._registry = prometheus.CollectorRegistry()
    names = {"namespace": "serving", "registry": self._registry}
    by_model = {"labelnames": ["model"], **names}
    self.requests = prometheus.Counter(
      "requests", "Answers.", ["model", "status"], **names
    )
    self.seconds = prometheus.Histogram(
      "seconds", "Latency.", buckets=_SECONDS, **by_model
    )
    self.batch_texts = prometheus.Histogram(
      "batch_texts", "Texts in a batch.", buckets=_TEXTS, **by_model
    )
    self._queue = prometheus.Gauge(
      "queue_texts", "Texts that wait.", **by_model
    )
    self._version = prometheus.Gauge("version", "Newest, or 0.", **by_model)

  def text(self, models: Mapping[str, Model]) -> bytes:
    """All metrics in Prometheus' text format."""
    for name, model in models.items():
      versions = model.versions
      queued = sum(version.batcher.queued for version in versions.values())
      self._queue.labels(name).set(queued)
      self._version.labels(name).set(max(versions, default=0))
    return prometheus.generate_latest(self._registry)
