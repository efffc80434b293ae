"""Several workers train one model, end together, and are started by scripts."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

from data import vocab
from storage import tfrecord
from tests import programs, shared
from tests.programs import ROOT
from tests.training import toy
from training import checkpoint_files, report

STEPS = 20
_document = partial(shared.block, "several_machines.md")


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes records, one file without an index; returns flags to train."""
  folder = tmp_path_factory.mktemp("workers")
  toy.write_records(str(folder / "a.tfrecord"), 64)
  toy.write_records(str(folder / "b.tfrecord"), 64, seed=1)
  os.remove(tfrecord.index_path(str(folder / "b.tfrecord")))
  more = {"num_warmup_steps": 5, "num_train_steps": STEPS, "seed": 1}
  return toy.flags(folder, do_train=True, **more)


def start(program, environment=None, **flags):
  """Starts a program with a pipe for the log."""
  command = [sys.executable, str(ROOT / f"{program}.py")]
  command += [f"--{name}={value}" for name, value in flags.items()]
  environment = os.environ | (environment or {})
  return subprocess.Popen(
    command, stderr=subprocess.PIPE, text=True, env=environment
  )


def _environments():
  """Returns the environment of each of two workers on this machine."""
  sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
  addresses = [f"localhost:{one.getsockname()[1]}" for one in sockets]
  for one in sockets:
    one.close()
  configs = [
    {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}
    for i in range(2)
  ]
  return [{"TF_CONFIG": json.dumps(config)} for config in configs]


def _losses(folder):
  lines = report.read_metrics(str(folder))
  return [line["loss"] for line in lines if "gradient_norm" in line]


@pytest.mark.slow
def test_two_workers_train_like_one(given, tmp_path):
  # Each step saves a checkpoint and logs a line of metrics.
  given = given | {"learning_rate": 0.001, "save_checkpoints_steps": 1}
  given |= {"do_eval": True, "eval_batch_size": 7}
  alone = start("run_pretraining", **given, output_dir=tmp_path / "one")
  assert alone.wait() == 0, alone.stderr.read()
  words = [*vocab.SPECIAL_TOKENS, *map(str, range(toy.V))][: toy.V]
  vocab.save(words, tmp_path / "vocab.txt")
  export = {"do_export": True, "export_dir": tmp_path / "export"}
  export |= {"vocab_file": tmp_path / "vocab.txt"}
  flags = given | export | {"output_dir": tmp_path / "two"}
  flags |= {"distribution_strategy": "multi_worker_mirrored"}
  workers = [
    start("run_pretraining", each, **flags) for each in _environments()
  ]
  logs = [worker.communicate()[1] for worker in workers]
  for worker, log in zip(workers, logs, strict=True):
    assert worker.returncode == 0, log
    assert "WARNING" not in log
  # b.tfrecord has no index. Only the chief worker scans the file.
  assert ["scanning" in log for log in logs] == [True, False], logs
  shared.assert_same_checkpoint(
    tmp_path / "two", tmp_path / "one", toy.WITHOUT_EFFECT, atol=1e-5
  )
  # Exactly one worker writes.
  assert (tmp_path / "export" / "saved_model.pb").exists()
  assert len(list((tmp_path / "two").glob("events*"))) == 1
  # The workers share the evaluation's batches, unevenly here.
  result = [programs.results(tmp_path / name) for name in ("one", "two")]
  assert result[1] == pytest.approx(result[0], rel=1e-5)
  first, second = (_losses(tmp_path / name) for name in ("one", "two"))
  assert len(first) == STEPS
  np.testing.assert_allclose(second, first, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_supervised_workers_continue_after_one_worker_is_ended(
  given, tmp_path, number
):
  flags = given | {"num_train_steps": 1000, "save_checkpoints_steps": 50}
  flags |= {"learning_rate": 1e-4, "output_dir": tmp_path}
  words = shlex.join(f"--{name}={value}" for name, value in flags.items())
  line = _document("supervisor").replace("sleep 10", "sleep 1")
  # The real interpreter makes the program a direct child of the shell.
  line = line.replace("python ", f"{sys.executable} ").replace("$FLAGS", words)
  options = {"cwd": ROOT, "stderr": subprocess.PIPE, "text": True}
  supervisors = [
    subprocess.Popen(["bash", "-c", line], env=os.environ | each, **options)
    for each in _environments()
  ]
  while not (tmp_path / "model.ckpt-50.index").exists():
    assert supervisors[0].poll() is None
    time.sleep(0.1)
  parent = str(supervisors[1].pid)
  children = subprocess.check_output(["pgrep", "-P", parent], text=True)
  os.kill(int(children.split()[0]), number)
  for supervisor in supervisors:
    _, log = supervisor.communicate(timeout=900)
    assert supervisor.returncode == 0, log
    assert "resuming from" in log
  newest = checkpoint_files.find_checkpoint(str(tmp_path))
  assert newest.endswith("model.ckpt-1000")


def _check_cluster(line, index, hosts):
  config = json.loads(line)
  assert config["task"] == {"type": "worker", "index": index}
  assert config["cluster"] == {"worker": [f"{host}:12345" for host in hosts]}


def _run_script(script, folder, commands=(), **environment):
  """Runs a script with stand-in commands; returns each program's TF_CONFIG."""
  python = f"""if [ "$1" = -c ]; then exec {sys.executable} "$@"; fi
echo "$TF_CONFIG" >> "{folder}/configurations"
"""
  for name, text in (("python", python), *commands):
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o700)
  environment |= {"PATH": f"{folder}:{os.environ['PATH']}"}
  command = ["bash", "-ec", script]
  subprocess.run(command, check=True, env=os.environ | environment)
  return (folder / "configurations").read_text().splitlines()


def test_the_script_for_slurm_starts_every_worker(tmp_path):
  scontrol = ("scontrol", '[ "$3" = "n[1-3]" ] && seq -f n%g 3')
  srun = ("srun", 'for i in 0 1 2; do SLURM_PROCID=$i "${@:2}"; done')
  script, nodes = (_document("slurm"), {"SLURM_JOB_NODELIST": "n[1-3]"})
  lines = _run_script(script, tmp_path, (scontrol, srun), **nodes)
  for index, line in enumerate(lines):
    _check_cluster(line, index, ["n1", "n2", "n3"])
  assert len(lines) == 3


def test_the_job_for_kubernetes_starts_every_worker(tmp_path):
  yaml = pytest.importorskip("yaml")
  service, job = yaml.safe_load_all(_document("kubernetes"))
  name, spec = job["metadata"]["name"], job["spec"]
  pod = spec["template"]["spec"]
  assert service["metadata"]["name"] == pod["subdomain"]
  assert service["spec"]["selector"] == {"job-name": name}
  [container] = pod["containers"]
  [variable] = container["env"]
  number = int(variable["value"])
  assert number == spec["completions"] == spec["parallelism"]
  assert container["command"] == ["bash", "-c"]
  hosts = [f"{name}-{i}.{pod['subdomain']}" for i in range(number)]
  for index in (0, number - 1):
    values = {"WORKERS": variable["value"], "JOB_COMPLETION_INDEX": f"{index}"}
    lines = _run_script(container["args"][0], tmp_path, **values)
    _check_cluster(lines[-1], index, hosts)
