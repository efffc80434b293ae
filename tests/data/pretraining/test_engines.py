"""Beam's records on engines whose workers are processes of their own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from storage import files
from tests import object_store, programs
from tests.data.pretraining.corpus import random_text

REMEDY = "needs `pip install -r requirements-beam.txt`"
pytest.importorskip("apache_beam", reason=REMEDY)


pytestmark = pytest.mark.slow
DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"


class _Corpus(NamedTuple):
  """Text, and records of two local workers.

  `root` is the submitter's folder, where the vocabulary is, or a bucket; it has
  `text` and `records`, by `name` for the submitter.
  """

  folder: Path
  root: str
  name: str

  def outputs(self, output):
    """Paths of what is there of an output, sorted."""
    folder = f"{self.root}/records"
    names = files.list_folder(folder) if files.exists(folder) else []
    return [f"{folder}/{n}" for n in sorted(names) if n.startswith(output)]


@pytest.fixture(scope="module", params=["disk", "object store"], name="corpus")
def _corpus(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp("submitter")
  vocabulary = programs.ROOT / "tests/parity/golden/vocab.txt"
  (folder / "vocab.txt").write_bytes(vocabulary.read_bytes())
  (folder / "text").mkdir()
  (folder / "text/random").write_text(random_text(20_000))
  disk = _Corpus(folder, str(folder), ".")
  assert _make(disk, "local", "--num_workers=2").wait() == 0
  if request.param == "disk":
    yield disk
    return
  with (
    object_store.running(tmp_path_factory.mktemp("store")) as environment,
    pytest.MonkeyPatch.context() as patch,
  ):
    for name, value in environment.items():
      patch.setenv(name, value)
    path = f"{object_store.BUCKET}/text/random"
    with files.open_for_writing(path) as file:
      file.write((folder / "text/random").read_bytes())
    yield _Corpus(folder, object_store.BUCKET, object_store.BUCKET)


def _make(corpus, output, *flags):
  """Starts the program in the submitter's folder."""
  command = [sys.executable, programs.ROOT / "create_pretraining_data.py"]
  command += [f"--input_file={corpus.name}/text/*", "--vocab_file=vocab.txt"]
  command += [
    f"--output_file={corpus.name}/records/{output}",
    "--dupe_factor=1",
  ]
  command += ["--input_format=paragraphs", "--deduplicate", *flags]
  return subprocess.Popen(
    command, cwd=corpus.folder, stderr=subprocess.PIPE, text=True
  )


def _by_engine(corpus, output, runner, options):
  flags = f"--runner={runner}", f"--pipeline_options={options}"
  return _make(corpus, output, *flags)


def _check(process, corpus, output):
  """The records are the local ones, and nothing else was left."""
  _, log = process.communicate()
  assert process.returncode == 0, log
  paths = corpus.outputs(output)
  assert len(paths) > 5
  assert all("-of-" in path for path in paths)
  records = b"".join(map(_read, paths))
  assert records == (corpus.folder / "records/local").read_bytes()


def _read(path):
  with files.open_for_reading(path) as file:
    return file.read()


@contextlib.contextmanager
def _processes(folder, *modules):
  """Python modules that run with their arguments in an empty folder."""
  environment = os.environ | {
    "PYTHONPATH": str(programs.ROOT),
    # A pool starts its workers as `python`.
    "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
  }
  with open(folder / "log", "w") as log:
    started = [
      subprocess.Popen(
        [sys.executable, "-m", *map(str, words)],
        cwd=folder,
        env=environment,
        stderr=log,
        stdout=log,
        start_new_session=True,
      )
      for words in modules
    ]
  try:
    yield [process.pid for process in started]
  finally:
    for process in started:
      os.killpg(process.pid, signal.SIGKILL)
      process.wait()


def _free_ports(number):
  with contextlib.ExitStack() as stack:
    sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
    for each in sockets:
      each.bind(("localhost", 0))
    return [each.getsockname()[1] for each in sockets]


def _wait_for(ports):
  for port in ports:
    for _ in range(600):
      with socket.socket() as probe:
        if not probe.connect_ex(("localhost", port)):
          break
      time.sleep(0.1)


@contextlib.contextmanager
def _portable(folder):
  """Beam's job service and a pool of two workers: the options, and the pool."""
  jobs, workers = _free_ports(2)
  portability = "apache_beam.runners.portability.local_job_service_main"
  pool = "apache_beam.runners.worker.worker_pool_main"
  with _processes(
    folder, (portability, f"--port={jobs}"), (pool, f"--service_port={workers}")
  ) as pids:
    _wait_for((jobs, workers))
    yield (
      (
        f"--job_endpoint=localhost:{jobs} --environment_type=EXTERNAL "
        f"--environment_config=localhost:{workers} --direct_num_workers=2"
      ),
      pids[1],
    )


@contextlib.contextmanager
def _dask(folder):
  """A scheduler and two workers; the options, and the parent of the workers."""
  pytest.importorskip("distributed", reason=REMEDY)
  [port] = _free_ports(1)
  address = f"tcp://localhost:{port}"
  with _processes(
    folder,
    (
      "dask",
      "scheduler",
      "--host=localhost",
      f"--port={port}",
      "--no-dashboard",
    ),
    (
      "dask",
      "worker",
      address,
      "--nworkers=2",
      "--nthreads=1",
      "--no-dashboard",
    ),
  ) as pids:
    _wait_for([port])
    options = f"--dask_client_address={address} --dask_npartitions=8"
    yield options, pids[1]


def _kill_child(parent, corpus, output):
  """Kills the newest child of a process when there are two complete parts."""
  parts = f"{corpus.root}/records/{output}.parts-*/*-*"
  while len(files.glob_files(parts)) < 2:
    time.sleep(0.02)
  children = subprocess.check_output(["pgrep", "-P", str(parent)], text=True)
  os.kill(int(children.split()[-1]), signal.SIGKILL)


def test_portable_workers(corpus, tmp_path):
  with _portable(tmp_path) as (options, pool):
    process = _by_engine(corpus, "portable", "PortableRunner", options)
    _kill_child(pool, corpus, "portable")
    # Beam's own job service does not start workers again.
    _, log = process.communicate()
    assert process.returncode == 1
    assert "a worker process died" in log
    assert not corpus.outputs("portable")
    process = _by_engine(corpus, "portable", "PortableRunner", options)
    _check(process, corpus, "portable")


def test_dask(corpus, tmp_path):
  with _dask(tmp_path) as (options, parent):
    process = _by_engine(corpus, "dask", DASK, options)
    _kill_child(parent, corpus, "dask")
    _check(process, corpus, "dask")
