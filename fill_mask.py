r"""Predicts masked tokens of texts with a pre-trained model.

--text_pair adds the next-sentence probability. A text may have many masks:

  python fill_mask.py --bert_config_file=$BERT_DIR/bert_config.json \
    --vocab_file=$BERT_DIR/vocab.txt \
    --init_checkpoint=$BERT_DIR/bert_model.ckpt \
    --text='The capital of France is [MASK].'
"""

import cli.start_up  # noqa: F401, first: handles Ctrl-C during imports

from dataclasses import dataclass

from cli import program
from cli.settings import common, flag
from data import vocab_checks
from runs import model_files
from runs.settings import TrainedModel
from storage import UserError, textfiles
from training import checkpoint_files

_UNLIMITED = 1 << 16  # tokens: cuts off nothing before the check of lengths


@dataclass(frozen=True, kw_only=True)
class Settings(TrainedModel):
  """Flags of fill_mask.py."""

  text: tuple[str, ...] | None = common(
    None,
    "Text with [MASK], or any text with --text_pair; may be repeated.",
    text=True,
    repeated=True,
  )
  text_pair: str | None = flag(
    None, "Second text for each text: is it the next sentence?", text=True
  )
  input_file: str | None = common(None, "File of texts, a line each; -: stdin.")
  top_k: int = flag(5, "Number of tokens to print for each mask.", minimum=1)


def check_flags(settings: Settings) -> None:
  if not (settings.text or settings.input_file):
    raise UserError("nothing to fill in: give --text or --input_file")
  if settings.input_file != "-":
    settings.check_file("input_file")
  model_files.check(settings, model_files.config(settings))
  settings.tokenizer.check()
  trained = checkpoint_files.run_of(settings.init_checkpoint)["flags"]
  model_files.check_objective(trained.get("objective"))


def main(settings: Settings) -> None:
  texts = read_texts(settings)
  prefix = checkpoint_files.find_checkpoint(settings.init_checkpoint)
  shapes = checkpoint_files.shapes(prefix)
  kinds = checkpoint_files.kinds_of(shapes)
  if shapes and "masked_lm" not in kinds:
    raise UserError(
      f"{prefix} has no head that fills masks: name a pre-trained model, not "
      "an encoder alone or a fine-tuned one"
    )
  has_head = "pretraining" in kinds
  if settings.text_pair and not has_head:
    raise UserError(f"{prefix} has no next-sentence head: drop --text_pair")
  tokenizer = settings.tokenizer
  words = (text.replace(tokenizer.special.mask, " ") for text in texts)
  vocab_checks.warn_of_texts(words, tokenizer, "the texts")
  # Import TensorFlow late: wrong flags should fail fast.
  from modeling import models
  from serving.answers import TextConfig
  from tasks.pretraining.answers import Answers
  from training import checkpoint

  config = model_files.config(settings)
  answers = Answers(TextConfig(tokenizer, _UNLIMITED), settings.top_k)
  pair = settings.text_pair or ""
  examples = [answers.encode({"text": t, "text_pair": pair}) for t in texts]
  max_length = config.max_position_embeddings
  for text, encoded in zip(texts, examples, strict=True):
    if (length := len(encoded.rows[0]["input_ids"])) > max_length:
      raise UserError(
        f"{text[:40]!r} has {length} tokens with [CLS] and [SEP], which "
        f"exceeds max_position_embeddings {max_length} of the model: shorten it"
      )
  model = models.pretrainer(config, next_sentence=has_head)
  checkpoint.restore_strict(model, settings.init_checkpoint)
  program.end_with_reader()
  for text, encoded in zip(texts, examples, strict=True):
    print(f"{text} | {pair}" if pair else text)
    [row] = encoded.rows
    batch = {name: value[None] for name, value in row.items()}
    outputs = model(batch, training=False)
    arrays = {name: values[0].numpy() for name, values in outputs.items()}
    answer = answers.decode(encoded, [arrays])
    for mask in zip(answer["tokens"], answer["probabilities"], strict=True):
      pairs = zip(*mask, strict=True)
      print("  " + "  ".join(f"{token} {p:.1%}" for token, p in pairs))
    if "is_next" in answer:
      print(f"  IsNext {answer['is_next_probability']:.1%}")


def read_texts(settings: Settings) -> list[str]:
  """Texts of --text and --input_file; UserError for a text without a mask."""
  texts = list(settings.text or [])
  if settings.input_file:
    path = "/dev/stdin" if settings.input_file == "-" else settings.input_file
    texts += filter(str.strip, textfiles.lines(path))
  mask = settings.tokenizer.special.mask
  for text in texts:
    if mask not in text and not settings.text_pair:
      raise UserError(f"there is no {mask} in {text!r}")
  return texts


if __name__ == "__main__":
  program.run(Settings, check_flags, main)
