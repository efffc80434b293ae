"""Prometheus metrics of the server."""

import prometheus_client as prometheus

from serving.server.models import Models

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
    options = {"namespace": "serving", "registry": self._registry}
    self.requests = prometheus.Counter(
      "requests", "Answers.", ["model", "status"], **options
    )
    self.seconds = prometheus.Histogram(
      "seconds", "Latency.", ["model"], buckets=_SECONDS, **options
    )
    self.batch_texts = prometheus.Histogram(
      "batch_texts", "Texts in a batch.", ["model"], buckets=_TEXTS, **options
    )
    self._queue = prometheus.Gauge(
      "queue_texts", "Texts that wait.", ["model"], **options
    )
    self._version = prometheus.Gauge(
      "version", "Newest version that answers, or 0.", ["model"], **options
    )

  def text(self, models: Models) -> bytes:
    """All metrics in Prometheus' text format."""
    for model in models:
      versions = model.versions
      queued = sum(version.batcher.queued for version in versions.values())
      self._queue.labels(model.name).set(queued)
      self._version.labels(model.name).set(max(versions, default=0))
    return prometheus.generate_latest(self._registry)
