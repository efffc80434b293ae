"""Parsing of flags: --help in groups, an error as one line."""

import os
import re
import sys
import textwrap

from absl import flags

from cli.arguments import find_project_flags

# Flags of most commands, in the order of --help.
_FIRST = (
  *("task_name", "data_dir", "train_file", "dev_file", "predict_file"),
  *("test_file", "text", "input", "input_file", "output", "output_file"),
  *("bert_config_file", "vocab_file", "vocab_size", "init_checkpoint"),
  *("output_dir", "do_lower_case", "do_train", "do_eval", "do_predict"),
  *("do_export", "export_dir", "max_seq_length", "train_batch_size"),
  *("learning_rate", "num_train_epochs", "num_train_steps"),
  *("num_warmup_steps", "version_2_with_negative", "input_format", "layers"),
  *("overwrite", "model", "host", "port"),
)
_ORIGINAL = (
  *("batch_size", "doc_stride", "do_whole_word_mask", "dupe_factor"),
  *("eval_batch_size", "iterations_per_loop", "masked_lm_prob"),
  *("max_answer_length", "max_eval_steps", "max_predictions_per_seq"),
  *("max_query_length", "n_best_size", "null_score_diff_threshold"),
  *("predict_batch_size", "random_seed", "save_checkpoints_steps"),
  *("short_seq_prob", "use_one_hot_embeddings", "verbose_logging"),
  "warmup_proportion",
)
_DEVICES = (
  *("distribution_strategy", "dtype", "gcp_project", "jit_compile", "master"),
  *("num_cpu_devices", "num_tpu_cores", "num_workers", "pipeline_options"),
  *("profile_steps", "runner", "tpu_name", "tpu_zone", "use_tpu"),
)
_HELP = ("help", "helpshort")


def parse(argv: list[str]) -> list[str]:
  """Parses flags; returns the program's name and positional arguments.

  An error ends the program with status 1 and one line.
  """
  for name in _HELP:
    flags.DEFINE_flag(_Help(name))
  try:
    return flags.FLAGS(argv)
  except flags.Error as error:
    missing = re.findall(r"Flag --(\w+) must have a value", str(error))
    message = " ".join(str(error).removeprefix("ERROR:: ").split())
    if missing:
      message = f"missing: {', '.join(f'--{name}' for name in missing)}"
    print(f"ERROR: {message} (--help lists all flags)", file=sys.stderr)
    sys.exit(1)


class _Help(flags.BooleanFlag):
  """--help: prints the text and ends the program."""

  def __init__(self, name):
    super().__init__(name, False, "Show this help.", allow_override=True)

  def parse(self, argument):
    """Prints the help for --help, not for --nohelp."""
    if not self._parse(argument):
      return
    try:
      print(text(sys.modules["__main__"].__doc__ or "", flags.FLAGS))
      sys.stdout.flush()
    except BrokenPipeError:  # as of `--help | head`
      # Python flushes again at exit.
      os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def text(description: str, FLAGS: flags.FlagValues) -> str:
  """Description of a program and its flags, in groups."""
  names = {flag.name for flag in find_project_flags(FLAGS)} - {*_HELP}
  first = [name for name in _FIRST if name in names]
  additional = names - {*_FIRST, *_ORIGINAL, *_DEVICES}
  groups = {
    "Most commands": first,
    "Others of the original": sorted(names & {*_ORIGINAL}),
    "Beyond the original": sorted(additional),
    "Devices, processes and precision": sorted(names & {*_DEVICES}),
  }
  lines = [description.strip()]
  for heading, members in groups.items():
    if members:
      lines += ["", f"{heading}:"]
      lines += [_describe(FLAGS[name]) for name in members]
  lines += ["", "--flagfile=FILE reads flags from a file, one per line."]
  return "\n".join(lines)


def _describe(flag) -> str:
  """Lines of a flag: its name and default, then its help."""
  head = f"  --[no]{flag.name}" if flag.boolean else f"  --{flag.name}"
  if any("must have a value" in rule.message for rule in flag.validators):
    head += "  (required)"
  elif default := (flag.default_as_str or "").strip("'"):
    head += f"  (default {default})"
  help_text = re.sub(r"^<[^>]*>: ", "", flag.help)  # list of enum values
  if values := getattr(flag.parser, "enum_values", None):
    help_text = f"{', '.join(values)}: {help_text}"
  return head + "\n" + textwrap.indent(textwrap.fill(help_text, 72), " " * 6)
