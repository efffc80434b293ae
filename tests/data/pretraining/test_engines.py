"""Beam's records on engines whose workers are processes of their own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests import programs
from tests.data.pretraining.corpus import random_text

REMEDY = "needs `pip install -r requirements-beam.txt`"
pytest.importorskip("apache_beam", reason=REMEDY)
pytestmark = pytest.mark.slow
DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"


@pytest.fixture(scope="module", name="corpus")
def _corpus(tmp_path_factory):
  """A folder with text, the vocabulary, and records of two local workers."""
  folder = tmp_path_factory.mktemp("submitter")
  vocabulary = programs.ROOT / "tests/parity/golden/vocab.txt"
  (folder / "vocab.txt").write_bytes(vocabulary.read_bytes())
  text = random_text(20_000)
  assert len(text) > 6 << 20  # at least six shards
  (folder / "text").write_text(text)
  assert _make(folder, "local", "--num_workers=2").wait() == 0
  return folder


def _make(folder, output, *flags):
  """Starts the program in a folder, with paths relative to it."""
  command = [sys.executable, programs.ROOT / "create_pretraining_data.py"]
  command += ["--input_file=text", "--vocab_file=vocab.txt", "--dupe_factor=1"]
  command += [f"--output_file={output}", "--max_seq_length=64", *flags]
  return subprocess.Popen(
    command, cwd=folder, stderr=subprocess.PIPE, text=True
  )


def _by_engine(folder, output, runner, options):
  flags = f"--runner={runner}", f"--pipeline_options={options}"
  return _make(folder, output, *flags)


def _check(process, folder, output):
  """The records are the local ones, and nothing else was left."""
  _, log = process.communicate()
  assert process.returncode == 0, log
  names = sorted(folder.glob(f"{output}*"))
  assert all("-of-" in name.name for name in names)
  records = b"".join(name.read_bytes() for name in names)
  assert records == (folder / "local").read_bytes()


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
    folder,
    (portability, f"--port={jobs}"),
    (pool, f"--service_port={workers}"),
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


def _kill_child(parent, folder, output):
  """Kills the newest child of a process when there are two complete parts."""
  parts = f"{output}.parts-*/*-*"
  while len(list(folder.glob(parts))) < 2:
    time.sleep(0.02)
  children = subprocess.check_output(["pgrep", "-P", str(parent)], text=True)
  os.kill(int(children.split()[-1]), signal.SIGKILL)


def test_portable_workers(corpus, tmp_path):
  with _portable(tmp_path) as (options, pool):
    process = _by_engine(corpus, "portable", "PortableRunner", options)
    _check(process, corpus, "portable")
    # Beam's own job service does not start workers again.
    process = _by_engine(corpus, "killed", "PortableRunner", options)
    _kill_child(pool, corpus, "killed")
    _, log = process.communicate()
    assert process.returncode == 1
    assert "a worker process died" in log
    assert not list(corpus.glob("killed*"))
    process = _by_engine(corpus, "killed", "PortableRunner", options)
    _check(process, corpus, "killed")


def test_dask(corpus, tmp_path):
  with _dask(tmp_path) as (options, parent):
    process = _by_engine(corpus, "dask", DASK, options)
    _kill_child(parent, corpus, "dask")
    _check(process, corpus, "dask")
