"""Worker: Predictor answers pairs of texts by an export."""

from benchmarks import worker
from predictor import Predictor


def prepare(path: str) -> worker.Answer:
  """Loads the model of `path`, FOLDER or FOLDER?ENGINE."""
  folder, _, engine = path.partition("?")
  predict = Predictor(folder, engine or "auto", warm_up=True)
  is_squad = "question" in predict.inputs
  names = ("question", "context") if is_squad else ("text_a", "text_b")

  def answer(pairs):
    texts = zip(*pairs, strict=True)
    results = predict(**dict(zip(names, texts, strict=True)))
    return [result["answer" if is_squad else "label"] for result in results]

  return worker.answer_pairs(answer)
