"""Hugging Face BERT folders: config.json, model.safetensors, a vocabulary.

Unlike in the original, kernels are transposed, and "gelu" is the exact form.
Variables that a transformers class lacks go to the file UNUSED_WEIGHTS.
"""

import json
import os
import re
from functools import cache

import numpy as np
from absl import logging
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from conversion import interchange
from conversion.interchange import FILES, HEADS, HUGGING_FACE, CanonicalModel
from data import tokenization, vocab
from data.vocab import SPECIAL_TOKENS
from modeling.config import BertConfig
from storage import UserError, files, setting, textfiles

CONFIG, WEIGHTS, UNUSED_WEIGHTS, TOKENIZER, VOCABULARY = FILES[HUGGING_FACE][:5]
_FAST_TOKENIZER, _ADDED_TOKENS, _SPECIAL_MAP = FILES[HUGGING_FACE][5:]

# hidden_act in config.json -> in bert_config.json.
_ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_pytorch_tanh": "gelu",
  "gelu_python": "gelu_erf",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
}
# Where several names have one meaning, the first wins.
_ACTIVATIONS_BACK = {v: k for k, v in reversed(_ACTIVATIONS.items())}
# config.json must have these values: the original has no other form.
_REQUIRED = {
  "model_type": "bert",
  "position_embedding_type": "absolute",
  "layer_norm_eps": 1e-12,
  "is_decoder": False,
  "add_cross_attention": False,
  "quantization_config": None,
}
_HEAD_NAMES = {
  "cls.predictions.bias": "cls/predictions/output_bias",
  "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
  "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
  "classifier.weight": "output_weights",
  "classifier.bias": "output_bias",
  "qa_outputs.weight": "cls/squad/output_weights",
  "qa_outputs.bias": "cls/squad/output_bias",
}
# Rules for `translate`: names of head variables, patterns of other names.
_PATTERNS = (
  (r"^(embeddings|encoder|pooler)\.", r"bert.\1."),
  (r"\.layer\.(\d+)\.", r".layer_\1."),
  (r"_embeddings\.weight$", "_embeddings"),
  (r"LayerNorm\.weight$", "LayerNorm.gamma"),
  (r"LayerNorm\.bias$", "LayerNorm.beta"),
  (r"\.weight$", ".kernel"),
  (r"\.", "/"),
)
_PATTERNS_BACK = (
  (r"/", "."),
  (r"\.layer_(\d+)\.", r".layer.\1."),
  (r"_embeddings$", "_embeddings.weight"),
  (r"\.(kernel|gamma)$", ".weight"),
  (r"\.beta$", ".bias"),
)
TO_ORIGINAL = (_HEAD_NAMES, _PATTERNS)
FROM_ORIGINAL = ({v: k for k, v in _HEAD_NAMES.items()}, _PATTERNS_BACK)
_MULTI_LABEL = "multi_label_classification"
# Values of tokenizers that split texts as the original does.
_LIKE_ORIGINAL: dict[str, list] = {
  "tokenizer_class": (
    "BertTokenizer BertTokenizerFast PreTrainedTokenizerFast TokenizersBackend"
  ).split(),
  "tokenize_chinese_chars": [True],
  "normalizer": ["BertNormalizer"],
  "pre_tokenizer": ["BertPreTokenizer"],
}
_ENCODER = re.compile(r"bert/(embeddings|encoder|pooler)/")
_CONSTANTS = re.compile(r"(position|token_type)_ids$")
# {copy: variable}. The original ties both.
_TIED = {
  "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
  "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def translate(name: str, rules: tuple) -> str:
  """Translates a tensor's name, as in "a.b.weight" -> "a/b/kernel"."""
  names, patterns = rules
  if name in names:
    return names[name]
  for pattern, replacement in patterns:
    name = re.sub(pattern, replacement, name)
  return name


@interchange.names_path
def read(folder: str) -> CanonicalModel:
  """Reads a folder; ValueError for a model other than the original's BERT."""
  folder, settings, config = read_config(folder)
  bert = CanonicalModel(folder, config=config)
  bert.vocabulary, bert.lower_case = read_tokenizer(folder)
  names = settings.get("id2label") or {}
  labels = tuple(str(names[key]) for key in sorted(names, key=int))
  if any(label != f"LABEL_{i}" for i, label in enumerate(labels)):
    bert.labels = labels  # not the placeholders LABEL_0, LABEL_1, ...
  bert.multi_label = settings.get("problem_type") == _MULTI_LABEL
  bert.is_tied = settings.get("tie_word_embeddings", True)
  tensors = _read_tensors(os.path.join(folder, WEIGHTS))
  for key, source in _TIED.items():
    if key in tensors:
      tensors.setdefault(source, tensors.pop(key))  # may have only the copy
  named = settings.get("architectures") or ()
  heads = (key for key, head in HEADS.items() if head.architecture in named)
  bert.head = next(heads, None)
  if bert.head == "multiple_choice":
    weight = tensors.pop("classifier.weight").astype(np.float32)
    bert.values["cls/choice"] = weight.reshape(-1)
    tensors.pop("classifier.bias", None)  # the same for all choices
  for key, value in tensors.items():
    name = translate(key, TO_ORIGINAL)
    is_known = name.startswith("bert/") or name in interchange.HEAD_VARIABLES
    if is_known and not _CONSTANTS.search(name):
      value = value.astype(np.float32)
      bert.values[name] = value.T if name.endswith("/kernel") else value
    else:
      bert.skip(key, "that the original does not have")
  if files.exists(path := os.path.join(folder, UNUSED_WEIGHTS)):
    bert.values = _read_tensors(path) | bert.values  # newer, if in both
  if "output_bias" not in bert.values:
    bert.labels = ()  # the labels are of a head that has been removed
  return bert


@interchange.names_path
def read_config(folder: str) -> tuple[str, dict, dict]:
  """Returns BERT's folder, and config.json and bert_config.json as dicts.

  In a sentence_transformers model, BERT is the first module. Raises UserError
  for a network other than the original's.
  """
  if files.exists(path := os.path.join(folder, "modules.json")):
    first, *others = json.loads(files.read_text(path))
    for module in others:
      _warn_of_module(folder, module["path"], module.get("type", ""))
    folder = os.path.join(folder, first["path"]).rstrip("/")
  path = os.path.join(folder, CONFIG)
  settings = textfiles.read_json(path)
  for key, expected in _REQUIRED.items():
    if settings.get(key, expected) != expected:
      raise UserError(f"{path}: {key} is {settings[key]!r}, not {expected!r}")
  act = settings.get("hidden_act", "gelu")
  if act not in _ACTIVATIONS:
    raise UserError(f"{path}: the original has no hidden_act {act!r}")
  # transformers' default for type_vocab_size is 2, the original's is 16.
  config = {"type_vocab_size": 2} | settings | {"hidden_act": _ACTIVATIONS[act]}
  return folder, settings, config


@cache
def _warn_of_module(folder, path, kind):
  """Warns of a module after which Predictor has other vectors of texts."""
  kind = kind.rpartition(".")[2]
  file = os.path.join(folder, path, CONFIG)
  if kind in ("", "Normalize", "Dropout"):
    return
  if kind == "Pooling" and files.exists(file):
    values = textfiles.read_json(file)
    names = [x for x in values if "pooling_mode_" in x and values[x] is True]
    kind = str(values.get("pooling_mode", " and ".join(names)))
    if kind in ("mean", "pooling_mode_mean_tokens"):  # since and before 6.0
      return
  is_cls = kind in ("cls", "pooling_mode_cls_token")
  remedy = f"; {setting('pooling', 'cls')} makes the same" * is_cls
  text = "%s: its vectors are made by %s, but vectors of Predictor are means%s"
  logging.warning(text, folder, kind, remedy)


def read_tokenizer(folder: str) -> tuple[str | None, bool | None]:
  """Returns the path of the vocabulary and do_lower_case; None if unknown.

  Warns of settings and added tokens that the original's tokenizer lacks.
  """
  names = TOKENIZER, _FAST_TOKENIZER, _ADDED_TOKENS
  settings, fast, added = (
    textfiles.read_json(path) if files.exists(path) else {}
    for path in (os.path.join(folder, name) for name in names)
  )
  paths = [os.path.join(folder, x) for x in (VOCABULARY, _FAST_TOKENIZER)]
  # Without added tokens, vocab.txt has fewer tokens than tokenizer.json.
  present = filter(files.exists, paths)
  path = max(present, key=lambda path: len(vocab.load(path)), default=None)
  normalizer = fast.get("normalizer") or {"type": "missing"}
  splitter = fast.get("pre_tokenizer") or {"type": "missing"}
  lower = settings.get("do_lower_case")
  if lower is None:
    lower = normalizer.get("lowercase")
  parts = normalizer.get("normalizers", ())  # of a Sequence
  if lower is None and {"type": "Lowercase"} in parts:
    lower = True
  is_lower = lower is not False
  known = _LIKE_ORIGINAL | {"strip_accents": [is_lower]}
  actual = {
    "strip_accents": normalizer.get("strip_accents"),
    "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
    "normalizer": normalizer["type"] if fast else None,
    "pre_tokenizer": splitter["type"] if fast else None,
  } | settings
  for name, values in known.items():
    if (value := actual.get(name)) not in (None, *values):
      text = "%s: %s is %r, unlike the original's: some texts get other tokens"
      logging.warning(text, folder, name, value)
  if path:
    tokenize = tokenization.open_tokenizer(path, is_lower).tokenize
    tokens = [*added] + [x["content"] for x in fast.get("added_tokens", ())]
    split = {x for x in tokens if tokenize(x) != [x]}.difference(SPECIAL_TOKENS)
    if split:
      text = "%s: the original's tokenizer splits %d added tokens, such as %r"
      logging.warning(text, folder, len(split), min(split))
  return path, lower


def _read_tensors(path):
  folder, name = os.path.split(path)
  names, index = {name}, f"{path}.index.json"
  remedy = "a pytorch_model.bin is a pickle and not read: load the model in "
  remedy += "transformers and save it with safe_serialization=True"
  if not files.exists(path) and files.exists(index):
    names = {*textfiles.read_json(index)["weight_map"].values()}
    remedy = f"{os.path.basename(index)} names it: copy it, too"
  tensors = {}
  for name in sorted(names):
    path = os.path.join(folder, name)
    if not files.exists(path):
      raise FileNotFoundError(f"{path} does not exist; {remedy}")
    try:
      tensors |= load_file(path)
    except SafetensorError as error:
      raise UserError(
        f"{path} is not a safetensors file: {error}; in a clone without Git "
        "LFS, `git lfs pull` fetches it"
      ) from None
  return tensors


def write(bert: CanonicalModel, folder: str, head: str) -> None:
  """Writes a local folder that transformers loads without a missing tensor.

  Variables that the class of `head` (see HEADS) lacks go to UNUSED_WEIGHTS.
  """
  kind = HEADS[head]
  for name in bert.thresholds:
    logging.warning("%s is left out: transformers has no thresholds", name)
  settings = _hugging_face_config(bert, kind)
  tensors, unused = _divide(bert, kind)
  interchange.write_json(os.path.join(folder, CONFIG), settings)
  files.remove_old(folder, UNUSED_WEIGHTS)
  for name, values in ((WEIGHTS, tensors), (UNUSED_WEIGHTS, unused)):
    if values:
      with files.open_for_writing(os.path.join(folder, name)) as file:
        file.write(save(values, {"format": "pt"}))  # transformers needs "pt"
  if bert.vocabulary:
    text = vocab.read_text(bert.vocabulary)
    files.write_text(os.path.join(folder, VOCABULARY), text)
    tokenizer = {
      "tokenizer_class": "BertTokenizer",
      "do_lower_case": bert.lower_case is not False,
      "strip_accents": None,  # follows do_lower_case
      "tokenize_chinese_chars": True,
      "model_max_length": bert.config["max_position_embeddings"],
      **{f"{x.strip('[]').lower()}_token": x for x in SPECIAL_TOKENS},
    }
    interchange.write_json(os.path.join(folder, TOKENIZER), tokenizer)
  else:
    files.remove_old(folder, VOCABULARY, TOKENIZER)
  # Last, because `bert.vocabulary` may be one of these.
  files.remove_old(folder, _FAST_TOKENIZER, _ADDED_TOKENS, _SPECIAL_MAP)


def _divide(bert: CanonicalModel, kind: interchange.Head) -> tuple[dict, dict]:
  tensors, unused = {}, {}
  reason = f"that {kind.architecture} lacks (saved in {UNUSED_WEIGHTS})"
  for name, value in bert.values.items():
    is_used = name in kind.variables or _ENCODER.match(name)
    if not is_used or (name.startswith("bert/pooler/") and not kind.pools):
      unused[name] = np.asarray(value, order="C")
      bert.skip(name, reason)
    elif name == "cls/choice":
      tensors["classifier.weight"] = value[np.newaxis]  # [1, H]
      tensors["classifier.bias"] = np.zeros(1, value.dtype)
    else:
      key = translate(name, FROM_ORIGINAL)
      if not kind.variables:
        key = key.removeprefix("bert.")
      value = value.T if name.endswith("/kernel") else value
      tensors[key] = np.ascontiguousarray(value)
  return tensors, unused


def _hugging_face_config(bert: CanonicalModel, kind: interchange.Head) -> dict:
  config = BertConfig.from_dict(bert.config)
  settings = config.to_dict() | {
    "architectures": [kind.architecture],
    "model_type": "bert",
    "hidden_act": _ACTIVATIONS_BACK[config.hidden_act],
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,  # the original always pads with 0
    "tie_word_embeddings": True,
  }
  if "output_weights" in kind.variables:
    names = bert.labels or [f"LABEL_{i}" for i in range(bert.num_labels)]
    if not bert.labels and bert.num_labels > 1:
      text = "%s has no labels.txt: %s names the classes %s, ..."
      logging.warning(text, bert.origin, CONFIG, names[0])
    settings["id2label"] = {str(i): name for i, name in enumerate(names)}
    settings["label2id"] = {name: i for i, name in enumerate(names)}
    if bert.multi_label:
      settings["problem_type"] = _MULTI_LABEL
    elif kind.pools and bert.num_labels == 1:
      settings["problem_type"] = "regression"
  return settings
