import os
import time

import pytest

from storage import workers


def _prepare():
  def double(task):
    if task == "deadly.txt":
      os._exit(9)
    time.sleep(0.3 * (task == "slow"))
    return task * 2

  return double


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_tasks(processes):
  tasks = ["slow", "a", "b", "c"]
  results = list(workers.ordered_map(_prepare, tasks, processes))
  assert results == ["slowslow", "aa", "bb", "cc"]


def test_a_dead_worker_is_an_error_that_names_its_task():
  with pytest.raises(ChildProcessError, match=r"worked on deadly\.txt"):
    list(workers.ordered_map(_prepare, ["a", "deadly.txt", "c"], 2))
