"""Builds a wheel of one package, bert_tf2, from the checkout.

The checkout has the layout of google-research/bert. Names such as `data` would
disturb other projects. The build copies programs and packages into one package,
and puts the package's name before absolute imports.
"""

import re
from pathlib import Path

import setuptools
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
NAME = "bert_tf2"
PACKAGES = "cli conversion data modeling runs serving storage tasks training"
CODE = {file.stem: file.read_text("utf-8") for file in HERE.glob("*.py")}
del CODE["setup"]
NAMES = "|".join([*PACKAGES.split(), *CODE])
RENAMES = {
  rf"^( *)import ({NAMES})(?= |$)": rf"\1from {NAME} import \2",
  rf"^( *)(from|import) ({NAMES})\b": rf"\1\2 {NAME}.\3",
  rf'(import_module\(f?")({NAMES})\b': rf"\1{NAME}.\2",
}

INIT = f'''"""BERT on TensorFlow 2: `load`, `TextEncoder` and `Predictor`."""

from importlib import import_module

_MODULES = {{"load": "bert", "TextEncoder": "bert", "Predictor": "predictor"}}
__all__ = [*_MODULES]


def __getattr__(name):  # imports TensorFlow only when it is needed
  if name not in _MODULES:
    raise AttributeError(name)
  return getattr(import_module(f"{NAME}.{{_MODULES[name]}}"), name)
'''
COMMANDS = '''"""Console commands: bert-run-squad is `python run_squad.py`."""

import runpy


def __getattr__(name):
  def command():
    module = f"{__package__}.{name}"
    runpy.run_module(module, run_name="__main__", alter_sys=True)

  return command
'''


class Build(build_py):
  """Copies the checkout's files into one package."""

  def run(self):
    texts = {"__init__.py": INIT, "commands.py": COMMANDS, "py.typed": ""}
    texts |= {f"{name}.py": code for name, code in CODE.items()}
    for folder in PACKAGES.split():
      for file in (HERE / folder).rglob("[!.]*.*"):
        if file.suffix != ".pyc":
          texts[str(file.relative_to(HERE))] = file.read_text("utf-8")
    for name, text in texts.items():
      for pattern, new in RENAMES.items() if name.endswith(".py") else ():
        text = re.sub(f"(?m){pattern}", new, text)
      path = Path(self.build_lib, NAME, name)
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(text, "utf-8")


NEEDED = (HERE / "requirements.txt").read_text("utf-8")
setuptools.setup(
  packages=[NAME],
  package_dir={NAME: "."},
  cmdclass={"build_py": Build},
  install_requires=re.findall(r"(?m)^(?!pytest|hypoth|tf-models)\w.*", NEEDED),
)
