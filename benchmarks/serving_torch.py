"""transformers as a worker of benchmarks/serving.py.

Takes a Hugging Face folder, a type and the number of threads. A classifier is
asked by the pipeline; for questions transformers 5 has none any more, so they
are answered as its examples do it: windows by the tokenizer, the best span by
numpy.
"""

import sys

import numpy as np
import torch
import transformers

from benchmarks import serving_worker

# As run_squad.py has them.
LENGTH, STRIDE, N_BEST, LONGEST = 384, 128, 20, 30


def classifier(folder: str, dtype: torch.dtype):
  """Pairs of texts to labels."""
  ask = transformers.pipeline(
    "text-classification",
    model=folder,
    tokenizer=folder,
    dtype=dtype,
    device="cpu",
  )
  names = ask.model.config.id2label
  numbers = {name: str(number) for number, name in names.items()}

  def answer(pairs):
    given = [{"text": first, "text_pair": second} for first, second in pairs]
    found = ask(given, batch_size=len(given), truncation=True, max_length=128)
    return [numbers[one["label"]] for one in found]

  return answer


def reader(folder: str, dtype: torch.dtype):
  """Questions and contexts to answers."""
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  model = transformers.AutoModelForQuestionAnswering.from_pretrained(
    folder, dtype=dtype
  ).eval()

  @torch.inference_mode()
  def answer(pairs):
    questions, contexts = zip(*pairs, strict=True)
    windows = tokenizer(
      list(questions),
      list(contexts),
      truncation="only_second",
      max_length=LENGTH,
      stride=STRIDE,
      padding=True,
      return_overflowing_tokens=True,
      return_offsets_mapping=True,
      return_tensors="pt",
    )
    places = windows.pop("offset_mapping").numpy()
    rows = windows.pop("overflow_to_sample_mapping").tolist()
    logits = model(**windows)
    starts, ends = (
      values.float().numpy()
      for values in (logits.start_logits, logits.end_logits)
    )
    best = [(-np.inf, "")] * len(pairs)
    for i, row in enumerate(rows):
      is_context = np.array([s == 1 for s in windows.sequence_ids(i)])
      score, begin, end = _best_span(starts[i], ends[i], is_context)
      if score > best[row][0]:
        text = contexts[row][places[i][begin][0] : places[i][end][1]]
        best[row] = (score, text)
    return [text for _, text in best]

  return answer


def _best_span(starts, ends, is_context):
  starts = np.where(is_context, starts, -np.inf)
  ends = np.where(is_context, ends, -np.inf)
  begins = np.argsort(-starts)[:N_BEST, None]
  stops = np.argsort(-ends)[None, :N_BEST]
  fits = (stops >= begins) & (stops < begins + LONGEST)
  scores = np.where(fits, starts[begins] + ends[stops], -np.inf)
  i, j = np.unravel_index(np.argmax(scores), scores.shape)
  return scores[i, j], begins[i, 0], stops[0, j]


def main(folder: str, dtype: str, threads: str) -> None:
  torch.set_num_threads(int(threads))
  config = transformers.AutoConfig.from_pretrained(folder)
  is_squad = "QuestionAnswering" in config.architectures[0]
  make = reader if is_squad else classifier
  serving_worker.run(make(folder, getattr(torch, dtype)))


if __name__ == "__main__":
  main(*sys.argv[1:])
