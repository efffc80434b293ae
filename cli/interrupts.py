"""Ends a program at Ctrl-C with one line and status 130.

Import this module before all others.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_MESSAGE = b"ERROR: interrupted\n"


def _end(*_):
  os.write(2, _MESSAGE)
  os._exit(130)


@contextmanager
def clean_up() -> Iterator[None]:
  """Context in which Ctrl-C raises KeyboardInterrupt, so code can clean up."""
  if signal.getsignal(signal.SIGINT) is not _end:
    yield
    return
  signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    yield
  except KeyboardInterrupt:
    os.write(2, _MESSAGE)
    sys.exit(130)
  finally:
    signal.signal(signal.SIGINT, _end)


# Worker processes also import the program, but leave Ctrl-C to the parent
# process. Commands in the background continue to ignore Ctrl-C.
if (
  "__mp_main__" not in sys.modules
  and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
  signal.signal(signal.SIGINT, _end)
