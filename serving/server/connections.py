"""uvicorn connections with time limits and a graceful shutdown.

benchmarks/notes.md compares servers with similar limits.
"""

import asyncio
import contextlib
import socket
from functools import partial

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.server import Settings
from serving.server.app import App

# Time for the app to answer 408 before the connection closes.
_GRACE_SECONDS = 2.0
# A client may still use an idle connection for this long after SIGTERM.
_DRAIN_SECONDS = 1.0
_KEEP_ALIVE_SECONDS = 60


class _Protocol(H11Protocol):
  """HTTP/1.1 that closes connections of slow senders and slow readers."""

  seconds: float
  _deadline: asyncio.TimerHandle | None = None

  def connection_made(self, transport):
    super().connection_made(transport)
    accepted = transport.get_extra_info("socket")
    # Without NODELAY a body arrives 40 ms after the head. asyncio sets the
    # option only for sockets that name a protocol.
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):  # not on Linux
      timeout = int(1000 * self.seconds)
      accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
    self._watch()

  def data_received(self, data):
    super().data_received(data)
    self._watch()

  def _watch(self):
    if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
      if self._deadline:
        self._deadline.cancel()
      self._deadline = None
    elif not self._deadline:
      abort = self.transport.abort
      self._deadline = self.loop.call_later(self.seconds, abort)


class Server(uvicorn.Server):
  """Server that still answers all accepted requests after SIGTERM or Ctrl-C."""

  def __init__(self, app: App, settings: Settings):
    seconds = settings.read_timeout + _GRACE_SECONDS
    config = uvicorn.Config(
      app,
      http=type("Protocol", (_Protocol,), {"seconds": seconds}),
      ws="none",
      loop="asyncio",
      lifespan="off",
      log_config=None,
      log_level="error",
      access_log=False,
      server_header=False,
      timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    super().__init__(config)
    self._app = app
    app.connections = self.server_state.connections

  async def shutdown(self, sockets=None):
    """Stops accepting, answers the open connections, then ends."""
    loop = asyncio.get_running_loop()
    # A closed socket would reset connections that wait to be accepted, and
    # asyncio drops recently accepted ones. So this method accepts them all.
    for listening in sockets:
      loop.remove_reader(listening)
    for _ in range(3):
      await asyncio.sleep(0)  # asyncio sets up connections that it accepted
    accepted = []
    for listening in sockets:
      with contextlib.suppress(BlockingIOError):
        while True:
          accepted.append(listening.accept()[0])
    for server in self.servers:
      server.close()
    options = {"config": self.config, "server_state": self.server_state}
    protocol = partial(self.config.http_protocol_class, **options, app_state={})
    for connection in accepted:
      await loop.connect_accepted_socket(protocol, connection)
    self._app.is_draining = True  # answers now say `connection: close`
    steps = 50
    for _ in range(steps):
      if self.server_state.connections:
        await asyncio.sleep(_DRAIN_SECONDS / steps)
    await super().shutdown(sockets)
