"""CSS and JavaScript that the pages of serve.py and visualize.py share."""

from pathlib import Path

STYLE = Path(__file__).with_name("answers.css")
SCRIPT = Path(__file__).with_name("answers.js")
