"""Export of a model by its flags."""

from collections.abc import Sequence

from cli.arguments import Arguments
from serving import export
from serving.export import Task
from training.step import set_dtype_policy


def run(
  args: Arguments, model, task: Task, labels: Sequence[str] | None = None
) -> None:
  """Exports a Keras model to --export_dir in --export_format.

  Args:
    args: cli.flags.define_export, define_vocabulary and `max_seq_length`.
    model: from a dict of inputs to a dict of outputs.
    task: serving signature of the model.
    labels: names of the model's classes, if any.

  Raises:
    FileExistsError: --export_dir is not empty.
    ValueError: the format cannot represent the model.
  """
  if args.export_format == "savedmodel":
    export.save(args.export_dir, model, task)
    return
  write = {"tflite": export.save_tflite, "keras": export.save_keras}
  with export.new_folder(args.export_dir) as folder:
    write[args.export_format](folder, model)
    export.save_tokenizer(
      folder,
      args.vocab_file,
      args.do_lower_case,
      args.max_seq_length,
      labels,
    )


def set_policy(args: Arguments) -> None:
  """Sets the dtype policy of models to export.

  Variables have the type of --dtype, but float32 in a .keras file, which can
  be trained.
  """
  set_dtype_policy(args.dtype, args.export_format == "keras")
