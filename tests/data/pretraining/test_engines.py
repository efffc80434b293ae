"""Beam engines with worker processes write the records of local workers."""

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


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
  """Returns a folder with a vocabulary, a text and records of local workers."""
  folder = tmp_path_factory.mktemp("submitter")
  vocabulary = programs.ROOT / "tests/parity/golden/vocab.txt"
  (folder / "vocab.txt").write_bytes(vocabulary.read_bytes())
  (folder / "text").write_text(random_text(20_000))
  assert _make(folder, "local", "--num_workers=2").wait() == 0
  return folder


def _make(folder, output, *flags):
  """Starts create_pretraining_data.py in a folder."""
  command = [sys.executable, programs.ROOT / "create_pretraining_data.py"]
  command += ["--input_file=./text", "--vocab_file=vocab.txt"]
  command += [f"--output_file=./records/{output}", "--dupe_factor=1"]
  command += ["--input_format=paragraphs", "--deduplicate", *flags]
  return subprocess.Popen(
    command, cwd=folder, stderr=subprocess.PIPE, text=True
  )


def _by_engine(folder, output, runner, options):
  flags = f"--runner={runner}", f"--pipeline_options={options}"
  return _make(folder, output, *flags)


def _check(process, folder, output):
  """Checks that only complete files are left, equal to the local records."""
  _, log = process.communicate()
  assert process.returncode == 0, log
  paths = sorted((folder / "records").glob(f"{output}*"))
  assert len(paths) > 5
  assert all("-of-" in path.name for path in paths)
  records = b"".join(path.read_bytes() for path in paths)
  assert records == (folder / "records/local").read_bytes()


@contextlib.contextmanager
def _processes(folder, *commands):
  """Runs Python modules with arguments in a folder; yields the process ids."""
  environment = os.environ | {
    "PYTHONPATH": str(programs.ROOT),
    # The worker pool starts workers as `python`.
    "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
  }
  pids = []
  with open(folder / "log", "w") as log, contextlib.ExitStack() as stack:
    options = {"cwd": folder, "env": environment, "stderr": log, "stdout": log}
    for command in commands:
      arguments = [sys.executable, "-m", *command.split()]
      process = subprocess.Popen(arguments, start_new_session=True, **options)
      pids.append(process.pid)
      stack.callback(process.wait)
      stack.callback(os.killpg, process.pid, signal.SIGKILL)
    yield pids


def _free_port():
  with socket.create_server(("localhost", 0)) as server:
    return server.getsockname()[1]


def _wait_for(port):
  for _ in range(600):
    with socket.socket() as probe:
      if not probe.connect_ex(("localhost", port)):
        return
    time.sleep(0.1)


@contextlib.contextmanager
def _portable(folder):
  """Starts a job service and two workers.

  Yields the options for Beam and the process id of the worker pool.
  """
  jobs, workers = _free_port(), _free_port()
  portability = "apache_beam.runners.portability.local_job_service_main"
  pool = "apache_beam.runners.worker.worker_pool_main"
  options = (
    f"--job_endpoint=localhost:{jobs} --environment_type=EXTERNAL "
    f"--environment_config=localhost:{workers} --direct_num_workers=2"
  )
  with _processes(
    folder, f"{portability} --port={jobs}", f"{pool} --service_port={workers}"
  ) as pids:
    _wait_for(jobs)
    _wait_for(workers)
    yield options, pids[1]


@contextlib.contextmanager
def _dask(folder):
  """Starts Dask and two workers.

  Yields the options for Beam and the process id of the workers' parent.
  """
  pytest.importorskip("distributed", reason=REMEDY)
  port = _free_port()
  address = f"tcp://localhost:{port}"
  with _processes(
    folder,
    f"dask scheduler --host=localhost --port={port} --no-dashboard",
    f"dask worker {address} --nworkers=2 --nthreads=1 --no-dashboard",
  ) as pids:
    _wait_for(port)
    yield f"--dask_client_address={address} --dask_npartitions=8", pids[1]


def _kill_child(parent, folder, output):
  """Kills the newest child of a process after Beam has written two files."""
  while len([*folder.glob(f"records/{output}.parts-*/*-*")]) < 2:
    time.sleep(0.02)
  children = subprocess.check_output(["pgrep", "-P", str(parent)], text=True)
  os.kill(int(children.split()[-1]), signal.SIGKILL)


def test_a_killed_portable_worker_fails_the_pipeline(folder, tmp_path):
  with _portable(tmp_path) as (options, pool):
    process = _by_engine(folder, "portable", "PortableRunner", options)
    _kill_child(pool, folder, "portable")
    # Beam's own job service does not restart workers.
    _, log = process.communicate()
    assert process.returncode == 1
    assert "the pipeline failed" in log
    assert not [*(folder / "records").glob("portable*")]
    process = _by_engine(folder, "portable", "PortableRunner", options)
    _check(process, folder, "portable")


def test_dask_makes_the_records_after_a_worker_died(folder, tmp_path):
  with _dask(tmp_path) as (options, parent):
    process = _by_engine(folder, "dask", DASK, options)
    _kill_child(parent, folder, "dask")
    _check(process, folder, "dask")
