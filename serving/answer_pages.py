"""Style and script of answers, for the pages of serve.py and visualize.py."""

from pathlib import Path

STYLE = Path(__file__).with_name("answers.css")
SCRIPT = Path(__file__).with_name("answers.js")
