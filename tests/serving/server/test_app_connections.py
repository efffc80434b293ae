"""Slow and misbehaving clients, and the shutdown of the server."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving.server import app, connections
from serving.server.app import Metrics
from tests.serving.server import stand_in

SETTINGS = stand_in.SETTINGS._replace(read_timeout=1.0)
PREDICT = "/v1/models/toy:predict"
HEAD = f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\n".encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(name="client")
def _client(tmp_path, monkeypatch):
  monkeypatch.setattr(connections, "_GRACE_SECONDS", 0.2)
  monkeypatch.setattr(connections, "_DRAIN_SECONDS", 0.2)
  with stand_in.toy(tmp_path, SETTINGS) as client:
    yield client


def _read_all(connection):
  data = b""
  with contextlib.suppress(ConnectionResetError):
    while part := connection.recv(65536):
      data += part
  return data


@pytest.mark.parametrize("start", [b"", HEAD])
def test_a_connection_with_a_slow_request_head_is_closed(client, start):
  with client.connect() as connection:
    connection.sendall(start)
    begin = time.monotonic()
    assert _read_all(connection) == b""
    assert time.monotonic() - begin < 10
  assert client.ask({"instances": ["a"]})[0] == 200


def test_a_request_has_one_deadline_from_its_first_byte_on(client):
  begin = time.monotonic()
  with client.connect() as connection, pytest.raises(OSError):
    for byte in HEAD:  # would take five seconds
      connection.sendall(bytes([byte]))
      time.sleep(0.1)
  assert time.monotonic() - begin < 4


def test_the_deadline_does_not_limit_the_answer_or_the_next_request(client):
  threading.Timer(1.6, client.version.gate.set).start()
  with contextlib.closing(client.keep_alive()) as connection:
    for _ in range(2):  # the first answer takes longer than the deadline
      connection.request("POST", PREDICT, json.dumps(stand_in.GATED))
      response = connection.getresponse()
      assert response.status == 200 and response.read()


def test_a_slow_body_gets_408(client):
  with client.connect() as connection:
    connection.sendall(HEAD + b'Content-Length: 50\r\n\r\n{"insta')
    answer = _read_all(connection)
  assert answer.startswith(b"HTTP/1.1 408 ")
  assert b"connection: close" in answer
  message = b"the request did not come in time (read_timeout)"
  assert answer.endswith(b'{"error": "%s"}' % message)


def test_a_body_of_ten_megabytes_gets_413(tmp_path):
  settings = stand_in.SETTINGS._replace(max_request_bytes=1_000_000)
  body = b'{"instances": ["' + b"a" * 10_000_000 + b'"]}'
  with stand_in.toy(tmp_path, settings) as client:
    status, _, answer = client.request("POST", PREDICT, body)
    assert status == 413
    assert b"more than 1000000 bytes (max_request_bytes)" in answer
    assert client.ask({"instances": ["a" * 900_000]})[0] == 200


def test_connections_beyond_the_limit_get_503(tmp_path):
  settings = SETTINGS._replace(max_connections=2, read_timeout=15)
  with stand_in.toy(tmp_path, settings) as client, client.connect():
    assert client.ask({"instances": ["a"]})[0] == 200
    with client.connect():
      status, headers, _ = client.request("POST", PREDICT, b"{}")
      assert (status, headers["connection"]) == (503, "close")
      for path in ("/healthz", "/readyz"):  # a busy server needs no restart
        assert client.request("GET", path)[0] == 200
    assert client.ask({"instances": ["a"]})[0] == 200


def _wait_until_refused(client):
  def is_refused():
    try:
      client.connect().close()
    except ConnectionRefusedError:
      return True

  stand_in.wait_until(is_refused)


def test_a_stopping_server_answers_accepted_requests(client):
  with ThreadPoolExecutor(5) as pool:
    futures = [pool.submit(client.ask, stand_in.GATED) for _ in range(5)]
    assert client.version.started.wait(10)
    stand_in.wait_until(lambda: client.version.workers.queued == 4)
    idle = client.connect()
    client.server.should_exit = True
    _wait_until_refused(client)
    client.version.gate.set()
  answer = {"predictions": [{"length": 1, "text": "a"}]}
  assert [future.result() for future in futures] == [(200, answer)] * 5
  with idle:
    assert _read_all(idle) == b""


@pytest.mark.parametrize("turns", [0, 1, 3])  # turns of the event loop
def test_a_stopping_server_answers_waiting_connections(turns):
  server = connections.Server(app.App({}, Metrics(), SETTINGS), SETTINGS)
  address = socket.create_server(("127.0.0.1", 0))

  async def start_and_end():
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup([address])
    name = address.getsockname()
    connections = [socket.create_connection(name, 5) for _ in range(20)]
    for connection in connections:
      connection.sendall(HEALTH + b"\r\n")
    for _ in range(turns):
      await asyncio.sleep(0)
    async with asyncio.timeout(10):
      await server.shutdown([address])
    return connections

  for connection in asyncio.run(start_and_end()):
    with connection:
      assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_a_stopping_server_answers_on_an_idle_connection(client, monkeypatch):
  monkeypatch.setattr(connections, "_DRAIN_SECONDS", 30)
  begin = time.monotonic()
  with contextlib.closing(client.keep_alive()) as connection:
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    client.server._app.is_draining = True
    # Load balancers send no requests to a server that is not ready.
    assert client.request("GET", "/readyz")[0] == 503
    client.server.should_exit = True
    _wait_until_refused(client)
    connection.request("POST", PREDICT, b'{"instances": ["ab"]}')
    response = connection.getresponse()
    assert (response.status, response.headers["connection"]) == (200, "close")
    response.read()
    stand_in.wait_until(lambda: not client.server.server_state.connections)
  assert time.monotonic() - begin < 20  # no client is left to wait for


def test_an_answer_does_not_wait_for_an_acknowledgement(client):
  with client.connect() as connection:
    connection.sendall(HEALTH + b"\r\n")
    assert connection.recv(13) == b"HTTP/1.1 200 "
    [protocol] = client.server.server_state.connections
    accepted = protocol.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    if option := getattr(socket, "TCP_USER_TIMEOUT", None):
      milliseconds = accepted.getsockopt(socket.IPPROTO_TCP, option)
      assert milliseconds == 1200  # read timeout and grace
