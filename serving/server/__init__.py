"""HTTP server for exported models, with TF Serving's REST API."""

from collections.abc import Sequence
from typing import NamedTuple


class Settings(NamedTuple):
  """Settings of the server. Each is a flag of serve.py."""

  max_queue_size: int = 512
  max_request_bytes: int = 1_000_000
  read_timeout: float = 15.0
  request_timeout: float = 30.0
  max_connections: int = 500
  access_log: bool = False
  cors_origins: Sequence[str] = ()


class RestError(Exception):
  """An error with a message and an HTTP status of 400 or more."""

  def __init__(self, message: str, status: int = 400):
    super().__init__(message)
    self.status = status
