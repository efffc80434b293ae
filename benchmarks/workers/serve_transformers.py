"""Worker: transformers answers pairs of texts.

A classifier runs in the pipeline of transformers. For questions transformers 5
has no pipeline any more: they are answered as in its examples, with windows of
the tokenizer and a search for the best span in numpy.
"""

import torch
import transformers

from benchmarks import worker
from benchmarks.workers import squad_torch

LENGTH, OVERLAP = 384, 128  # tokens of windows


def classifier(folder: str, dtype: torch.dtype):
  """A function from pairs of texts to labels."""
  pipeline = transformers.pipeline(
    "text-classification",
    model=folder,
    tokenizer=folder,
    dtype=dtype,
    device="cpu",
  )
  names = pipeline.model.config.id2label
  numbers = {name: str(number) for number, name in names.items()}

  def answer(pairs):
    texts = [{"text": first, "text_pair": second} for first, second in pairs]
    results = pipeline(
      texts, batch_size=len(texts), truncation=True, max_length=128
    )
    return [numbers[result["label"]] for result in results]

  return answer


def reader(folder: str, dtype: torch.dtype):
  """A function from pairs of question and context to answers."""
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  model = transformers.AutoModelForQuestionAnswering.from_pretrained(
    folder, dtype=dtype
  ).eval()

  @torch.inference_mode()
  def answer(pairs):
    windows = squad_torch.windows(tokenizer, pairs, LENGTH, OVERLAP)
    inputs = [window.inputs for window in windows]
    outputs = model(**tokenizer.pad(inputs, return_tensors="pt"))
    starts, ends = outputs.start_logits, outputs.end_logits
    logits = zip(starts.float().numpy(), ends.float().numpy(), strict=True)
    return squad_torch.answers(windows, list(logits), pairs)

  return answer


def prepare(folder: str, dtype: str) -> worker.Answer:
  """Loads a model; see `worker.answer_pairs` for requests."""
  config = transformers.AutoConfig.from_pretrained(folder)
  is_squad = "QuestionAnswering" in config.architectures[0]
  make = reader if is_squad else classifier
  return worker.answer_pairs(make(folder, getattr(torch, dtype)))


if __name__ == "__main__":
  worker.serve(prepare)
