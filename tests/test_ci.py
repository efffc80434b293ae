"""The scripts in .ci."""

import re

from tests.programs import ROOT


def test_all_tests_of_make_test_processors_exist():
  """pytest runs no test at all if one of the given tests is missing."""
  script = (ROOT / ".ci/processors").read_text()
  tests = re.findall(r"^  (tests/\S+?)(?:::(\w+))?$", script, re.MULTILINE)
  assert len(tests) == script.count(" tests/") > 5
  for path, name in tests:
    assert f"def {name}" in (ROOT / path).read_text(), (path, name)
