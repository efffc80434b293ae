"""The HTTP server: uvicorn, with time limits for clients and an orderly end."""

import asyncio
import contextlib
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.server.app import App
from serving.server.models import Settings

# After its own limit the application answers; then the connection is closed.
_GRACE_SECONDS = 2.0
# A client may use an idle connection for so long after SIGTERM.
_DRAIN_SECONDS = 1.0
_KEEP_ALIVE_SECONDS = 60


class _Protocol(H11Protocol):
  """HTTP/1.1 that closes connections of slow senders and slow readers."""

  seconds: float
  _deadline: asyncio.TimerHandle | None = None

  def connection_made(self, transport):
    super().connection_made(transport)
    with contextlib.suppress(AttributeError, OSError):  # not on Linux
      transport.get_extra_info("socket").setsockopt(
        socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * self.seconds)
      )
    self._watch()

  def data_received(self, data):
    super().data_received(data)
    self._watch()

  def connection_lost(self, exc):
    self._watch(is_complete=True)
    super().connection_lost(exc)

  def _watch(self, is_complete=False):
    if is_complete or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
      if self._deadline:
        self._deadline.cancel()
      self._deadline = None
    elif not self._deadline:
      abort = self.transport.abort
      self._deadline = self.loop.call_later(self.seconds, abort)


class Server(uvicorn.Server):
  """Server that answers what it has accepted before it ends.

  `run(sockets=[...])` returns after SIGTERM or Ctrl-C.
  """

  def __init__(self, app: App, settings: Settings):
    seconds = settings.read_timeout + _GRACE_SECONDS
    config = uvicorn.Config(
      app.asgi(),
      http=type("Protocol", (_Protocol,), {"seconds": seconds}),
      ws="none",
      loop="asyncio",
      lifespan="off",
      log_config=None,
      log_level="error",
      access_log=False,
      server_header=False,
      limit_concurrency=settings.max_connections,
      timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    super().__init__(config)
    self._app = app

  async def shutdown(self, sockets=None):
    """Accepts no more connections, answers those there are, then ends."""
    self._app.is_draining = True  # answers say that they are the last
    await asyncio.sleep(0)  # accepts connections that are waiting
    for server in self.servers:
      server.close()
    steps = 50
    for _ in range(steps):
      if self.server_state.connections:
        await asyncio.sleep(_DRAIN_SECONDS / steps)
    await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
  """A socket that listens; ValueError if the address cannot be used."""
  family = socket.AF_INET6 if ":" in host else socket.AF_INET
  try:
    return socket.create_server((host, port), family=family, backlog=1024)
  except OSError as error:
    raise ValueError(
      f"cannot listen at --host={host} --port={port}: {error.strerror}; name "
      "another port, or 0 for any"
    ) from None
