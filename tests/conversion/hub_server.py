"""A loopback server that implements the Hugging Face Hub's API."""

import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" * 6 + "beef"
_API = re.compile(r"/api/models/(\w+/\w+)(?:/(\w+)(?:/([^?]+))?)?(?:\?.*)?$")
_RESOLVE = re.compile(r"/(\w+/\w+)/resolve/([^/]+)/(.+)$")


class Hub(ThreadingHTTPServer):
  """Serves repositories by name: {revision: {file name: bytes}}.

  Attributes:
    archives: bytes by path, such as "/bert.zip".
    pulls: titles of pull requests by repository.
    breaks: number of downloads, weights or archives, that will break off.
    corrupts: True if weights differ from the announced SHA-256.
    requests: (method, path, headers) so far.
    weights: bytes by SHA-256, to which clients were redirected.
  """

  daemon_threads = True

  def __init__(self):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.repositories, self.archives, self.pulls = {}, {}, {}
    self.requests, self.weights = [], {}
    self.breaks, self.corrupts = 0, False
    self.url = f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def serve():
  """Runs a Hub in a thread."""
  with Hub() as hub:
    threading.Thread(target=hub.serve_forever, args=(0.01,)).start()
    try:
      yield hub
    finally:
      hub.shutdown()


def commit_of(revision):
  """Returns a different commit for each revision."""
  digest = hashlib.sha1(revision.encode()).hexdigest()
  return COMMIT if revision in ("main", COMMIT) else digest


class _Handler(BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"

  def do_GET(self):
    hub = self.server
    hub.requests.append((self.command, self.path, dict(self.headers)))
    if match := _API.match(self.path):
      self._api(*match.groups())
    elif match := _RESOLVE.match(self.path):
      self._resolve(*match.groups())
    elif self.path.startswith("/cdn/"):
      content = hub.weights[self.path.removeprefix("/cdn/")]
      self._bytes(content[::-1] if hub.corrupts else content)
    elif self.path in hub.archives:
      self._bytes(hub.archives[self.path])
    else:
      self._answer(404)

  do_HEAD = do_GET

  def log_message(self, *_):
    pass

  def _answer(self, status, content=b"", headers=()):
    self.send_response(status)
    headers = {"Content-Length": str(len(content))} | dict(headers)
    for name, value in headers.items():
      self.send_header(name, value)
    self.end_headers()
    if self.command == "GET":
      self.wfile.write(content)

  def _json(self, value):
    content = json.dumps(value).encode()
    self._answer(200, content, {"Content-Type": "application/json"})

  def _bytes(self, content):
    """Sends a file from the requested byte on. With `breaks`, stops halfway."""
    hub, status, headers = self.server, 200, {}
    if wanted := re.match(r"bytes=(\d+)-", self.headers.get("Range", "")):
      start = int(wanted[1])
      end = f"{len(content) - 1}/{len(content)}"
      status, headers = 206, {"Content-Range": f"bytes {start}-{end}"}
      content = content[start:]
    headers["Content-Length"] = str(len(content))
    if hub.breaks and self.command == "GET":
      hub.breaks -= 1
      content = content[: len(content) // 2]
      self.close_connection = True
    return self._answer(status, content, headers)

  def _files(self, name, revision):
    """Returns the files of a revision, or None after a 404 response."""
    revisions = self.server.repositories.get(name)
    if revisions is None:
      return self._answer(404, headers={"X-Error-Code": "RepoNotFound"})
    for known, files in revisions.items():
      if revision in (known, commit_of(known)):
        return files
    return self._answer(404, headers={"X-Error-Code": "RevisionNotFound"})

  def _api(self, name, what, revision):
    if what == "discussions":
      titles = self.server.pulls.get(name, ())
      keys = {"status": "open", "isPullRequest": True}
      keys |= {"repo": {"name": name, "type": "model"}}
      keys |= {"author": {"name": "bot"}, "createdAt": "2024-01-01T00:00:00Z"}
      pulls = [keys | {"num": n, "title": t} for n, t in enumerate(titles, 1)]
      return self._json({"discussions": pulls, "count": len(pulls), "start": 0})
    revision = (revision or "main").replace("%2F", "/")
    if (files := self._files(name, revision)) is None:
      return None
    if what == "tree":
      return self._json([_entry(path, files[path]) for path in files])
    return self._json({"id": name, "sha": commit_of(revision)})

  def _resolve(self, name, revision, path):
    if (files := self._files(name, revision)) is None:
      return None
    headers = {"X-Repo-Commit": revision}
    content = files[path]
    if not path.endswith(".safetensors"):
      etag = hashlib.sha1(content).hexdigest()
      return self._answer(200, content, headers | {"ETag": f'"{etag}"'})
    digest = hashlib.sha256(content).hexdigest()
    self.server.weights[digest] = content
    other_host = self.server.url.replace("127.0.0.1", "localhost")
    headers |= {"Location": f"{other_host}/cdn/{digest}"}
    headers |= {"X-Linked-Etag": f'"{digest}"'}
    headers |= {"X-Linked-Size": str(len(content))}
    return self._answer(302, headers=headers)


def _entry(path, content):
  """Returns a file's entry in the list of a repository."""
  entry = {"type": "file", "path": path, "size": len(content)}
  entry["oid"] = hashlib.sha1(content).hexdigest()
  if path.endswith(".safetensors"):
    digest = hashlib.sha256(content).hexdigest()
    entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 135}
  return entry
