"""Fixtures of the exports."""

from tests.serving.fixtures import *  # noqa: F403
