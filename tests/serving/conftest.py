"""Fixtures for the export tests."""

from tests.serving.fixtures import *  # noqa: F403
