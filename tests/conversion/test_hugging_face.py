import json
import re
from dataclasses import replace
from functools import cache, partial

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from conversion import hugging_face, interchange, original
from conversion.hugging_face import FROM_ORIGINAL, TO_ORIGINAL, translate
from conversion.interchange import HEADS, CanonicalModel
from data import vocab
from modeling import models
from modeling.config import BertConfig
from storage import UserError
from tests import small_model
from tests.data.test_vocab import tokenizer_json

CONFIG = small_model.narrow(13, num_hidden_layers=2)
MODELS = {
  "encoder": models.encoder,
  "pretraining": models.pretrainer,
  "masked_lm": partial(models.pretrainer, next_sentence=False),
  "classification": lambda config: models.classifier(config, 3),
  "tagging": lambda config: models.tagger(config, 3),
  "question_answering": models.span_labeler,
  "multiple_choice": models.multiple_choice,
}


@cache
def _shapes(head):
  return {v.path: tuple(v.shape) for v in MODELS[head](CONFIG).variables}


def _bert(head, config=CONFIG, **more):
  rng = np.random.RandomState(0)
  values = {
    name: rng.normal(size=shape).astype(np.float32)
    for name, shape in _shapes(head).items()
  }
  return CanonicalModel("x", values, config.to_dict(), **more)


def _write(folder, head, **more):
  """Writes a model; returns the model, settings and tensors."""
  bert = _bert(head, **more)
  hugging_face.write(bert, str(folder), head)
  settings = json.loads((folder / "config.json").read_text())
  return bert, settings, load_file(folder / "model.safetensors")


def _read(folder):
  return hugging_face.read(str(folder))


def _fails(folder, message):
  with pytest.raises((UserError, FileNotFoundError), match=message):
    _read(folder)


def _change(folder, change, name="config.json", removed=()):
  settings = json.loads((folder / name).read_text()) | change
  settings = {k: v for k, v in settings.items() if k not in removed}
  (folder / name).write_text(json.dumps(settings))


# Hugging Face's names and the original's. * stands for "bert.encoder.layer." or
# "bert/encoder/layer_".
NAMES = """
bert.embeddings.word_embeddings.weight bert/embeddings/word_embeddings
*11.attention.output.LayerNorm.weight *11/attention/output/LayerNorm/gamma
*0.attention.self.query.weight *0/attention/self/query/kernel
bert.pooler.dense.bias bert/pooler/dense/bias
cls.predictions.bias cls/predictions/output_bias
cls.seq_relationship.weight cls/seq_relationship/output_weights
classifier.weight output_weights
classifier.bias output_bias
qa_outputs.bias cls/squad/output_bias
"""
# Names that older versions of transformers wrote.
OLDER = """encoder.layer.3.output.dense.bias *3/output/dense/bias
bert.embeddings.LayerNorm.gamma bert/embeddings/LayerNorm/gamma
"""


@pytest.mark.parametrize("line", (NAMES + OLDER).strip().split("\n"))
def test_names_of_variables_are_converted_both_ways(line):
  name, original = line.split()
  name = name.replace("*", "bert.encoder.layer.")
  original = original.replace("*", "bert/encoder/layer_")
  assert translate(name, TO_ORIGINAL) == original
  if line in NAMES:
    assert translate(original, FROM_ORIGINAL) == name


@pytest.mark.parametrize("head", MODELS)
def test_a_written_model_is_read_bit_for_bit(tmp_path, head):
  bert, settings, tensors = _write(tmp_path, head)
  assert settings["architectures"] == [HEADS[head].architecture]
  assert (settings["pad_token_id"], settings["layer_norm_eps"]) == (0, 1e-12)
  aside = tmp_path / hugging_face.UNUSED_WEIGHTS
  assert aside.exists() == (not HEADS[head].pools)
  assert any("pooler" in name for name in tensors) == HEADS[head].pools
  back = _read(tmp_path)
  original.check_values(bert, back)
  assert BertConfig.from_dict(back.config) == CONFIG
  assert interchange.head_of(back) == head
  assert back.lower_case is None  # no file has settings of a tokenizer
  prefix = "" if head == "encoder" else "bert."
  tensor = tensors[f"{prefix}encoder.layer.1.intermediate.dense.weight"]
  kernel = bert.values["bert/encoder/layer_1/intermediate/dense/kernel"]
  np.testing.assert_array_equal(tensor, kernel.T)
  if aside.exists():  # folders that transformers saves have no such file
    aside.unlink()
    back = _read(tmp_path)
    assert "bert/pooler/dense/kernel" not in back.values
    original.assign(MODELS[interchange.head_of(back)](CONFIG), back, head)


ACTS = {"gelu_new": "gelu", "gelu": "gelu_erf", "relu": "relu", "tanh": "tanh"}
ACTS["linear"] = "linear"
# Names that are read, but not written.
MORE = {"gelu_python": "gelu_erf", "gelu_pytorch_tanh": "gelu"}


@pytest.mark.parametrize(("name", "act"), [*ACTS.items(), *MORE.items()])
def test_an_activation_is_converted_to_the_same_function(tmp_path, name, act):
  config = replace(CONFIG, hidden_act=act)
  _, settings, _ = _write(tmp_path, "encoder", config=config)
  assert settings["hidden_act"] == name or name in MORE
  _change(tmp_path, {"hidden_act": name})
  assert _read(tmp_path).config["hidden_act"] == act


def test_a_missing_setting_has_the_default_of_transformers(tmp_path):
  _write(tmp_path, "encoder", config=replace(CONFIG, type_vocab_size=2))
  _change(tmp_path, {}, removed=["type_vocab_size", "hidden_act"])
  config = _read(tmp_path).config
  assert (config["type_vocab_size"], config["hidden_act"]) == (2, "gelu_erf")


@pytest.mark.parametrize("labels", [("no", "LABEL_1", "yes"), ()])
def test_labels_are_converted(tmp_path, caplog, labels):
  more = {"labels": labels, "thresholds": {"thresholds.tsv": "x"}}
  _, settings, _ = _write(tmp_path, "classification", **more)
  assert "thresholds.tsv is left out: " in caplog.text
  names = labels or ("LABEL_0", "LABEL_1", "LABEL_2")
  assert settings["id2label"] == dict(zip("012", names, strict=True))
  assert settings["label2id"] == {name: i for i, name in enumerate(names)}
  assert _read(tmp_path).labels == labels
  assert ("has no labels.txt: config.json names" in caplog.text) != bool(labels)


def test_a_wrong_number_of_labels_is_refused():
  bert = _bert("classification", labels=("no", "yes"))
  with pytest.raises(ValueError, match=r"3 classes, but its .* names 2: corr"):
    original.complete(bert)


def test_twelve_class_names_that_are_numbers_keep_their_order(tmp_path):
  names = {str(i): 20 - i for i in range(12)}
  labels = tuple(map(str, names.values()))
  # A masked LM has no classes.
  for head, expected in (("classification", labels), ("masked_lm", ())):
    _write(tmp_path, head)
    _change(tmp_path, {"id2label": names})
    assert _read(tmp_path).labels == expected


def test_a_classifier_with_one_label_is_a_regression(tmp_path):
  bert = _bert("classification")
  for name in ("output_weights", "output_bias"):
    bert.values[name] = bert.values[name][:1]
  for head, expected in (("classification", "regression"), ("tagging", None)):
    hugging_face.write(bert, str(tmp_path), head)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings.get("problem_type") == expected
  bert.multi_label = True  # one label, which a text may lack
  hugging_face.write(bert, str(tmp_path), "classification")
  assert _read(tmp_path).multi_label


def test_a_multiple_choice_head_has_no_bias(tmp_path):
  _, _, tensors = _write(tmp_path, "multiple_choice")
  assert tensors["classifier.weight"].shape == (1, 8)
  np.testing.assert_array_equal(tensors["classifier.bias"], [0.0])


def test_a_written_folder_has_the_files_of_the_tokenizer(tmp_path):
  vocabulary, folder = tmp_path / "vocabulary", tmp_path / "out"
  vocabulary.write_bytes(b"[PAD]\r\na\n\xc3\xa9")
  folder.mkdir()
  others = "tokenizer.json", "added_tokens.json", "special_tokens_map.json"
  for name in others:  # for another vocabulary
    (folder / name).touch()
  _write(folder, "encoder", vocabulary=str(vocabulary), lower_case=False)
  assert not any((folder / name).exists() for name in others)
  assert (folder / "vocab.txt").read_bytes() == vocabulary.read_bytes()
  settings = json.loads((folder / "tokenizer_config.json").read_text())
  assert settings == {
    "tokenizer_class": "BertTokenizer",
    "model_max_length": 12,
    "do_lower_case": False,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    **{f"{x}_token": f"[{x.upper()}]" for x in "pad unk cls sep mask".split()},
  }
  assert _read(folder).lower_case is False
  # A model without `lower_case` has the original's default.
  _write(folder, "encoder", vocabulary=str(vocabulary))
  settings = json.loads((folder / "tokenizer_config.json").read_text())
  assert settings["do_lower_case"] is True


WORDS = (*vocab.SPECIAL_TOKENS, "owl", "##s")
TRANSFORMERS_5 = {"tokenizer_class": "BertTokenizer", "backend": "tokenizers"}
BACKEND = {"tokenizer_class": "TokenizersBackend"}


def _write_fast(folder, settings=None, lowercase=True):
  """Writes a folder like transformers 5: with tokenizer.json, no vocab.txt."""
  _write(folder, "encoder")
  tokenizer = tokenizer_json(WORDS)
  tokenizer["normalizer"]["lowercase"] = lowercase
  (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
  if settings is not None:
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
  "settings", [None, TRANSFORMERS_5, BACKEND | {"do_lower_case": None}]
)
def test_vocabulary_and_case_of_a_folder_of_transformers_5_are_read(
  tmp_path, caplog, settings, lower
):
  _write_fast(tmp_path, settings, lower)
  back = _read(tmp_path)
  assert back.lower_case is lower
  assert not caplog.messages
  original.complete(back)
  original.write(back, str(tmp_path / "out"))
  hugging_face.write(back, str(tmp_path), "encoder")  # removes tokenizer.json
  for folder in (tmp_path, tmp_path / "out"):
    assert (folder / "vocab.txt").read_text().split() == [*WORDS]
  assert _read(tmp_path).vocabulary == str(tmp_path / "vocab.txt")


def test_files_of_transformers_4_override_tokenizer_json(tmp_path):
  for lower in (True, False):
    _write_fast(tmp_path, {"do_lower_case": lower}, not lower)
    vocab.save(WORDS, tmp_path / "vocab.txt")
    back = _read(tmp_path)
    assert back.lower_case is lower
    assert back.vocabulary == str(tmp_path / "vocab.txt")


@pytest.mark.parametrize(
  ("settings", "is_warned"),
  [
    ({"tokenizer_class": "MecabTokenizer"}, True),
    ({"tokenize_chinese_chars": False}, True),
    ({"strip_accents": False}, True),
    ({"strip_accents": True}, False),
    ({"strip_accents": True, "do_lower_case": False}, True),
    ({"strip_accents": False, "do_lower_case": False}, False),
  ],
)
def test_a_warning_names_a_tokenizer_unlike_the_original_one(
  tmp_path, caplog, settings, is_warned
):
  _write_fast(tmp_path, settings)
  _read(tmp_path)
  name, value = next(iter(settings.items()))
  assert (f"{name} is {value!r}, unlike" in caplog.text) == is_warned
  assert len(caplog.messages) == is_warned


NO_ACCENTS = {"type": "BertNormalizer", "strip_accents": False}
SEQUENCE = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}
WHITESPACE = {"type": "Whitespace"}


@pytest.mark.parametrize(
  ("step", "value", "lower", "warning"),
  [
    ("normalizer", NO_ACCENTS, None, "strip_accents is False"),
    ("normalizer", SEQUENCE, True, "normalizer is 'Sequence'"),
    ("normalizer", None, None, "normalizer is 'missing'"),
    ("pre_tokenizer", WHITESPACE, True, "pre_tokenizer is 'Whitespace'"),
  ],
)
def test_a_warning_names_a_step_of_tokenizer_json_unlike_the_original_one(
  tmp_path, caplog, step, value, lower, warning
):
  _write_fast(tmp_path)
  _change(tmp_path, {step: value}, "tokenizer.json")
  assert _read(tmp_path).lower_case is lower
  [message] = caplog.messages
  assert f"{warning}, unlike" in message


def test_added_tokens_are_read_and_a_warning_names_those_with_punctuation(
  tmp_path, caplog
):
  _write_fast(tmp_path)
  vocab.save(WORDS, tmp_path / "vocab.txt")
  added = {"pandas": 7, "[E1]": 8}
  (tmp_path / "added_tokens.json").write_text(json.dumps(added))
  _read(tmp_path)
  assert "splits 2 added tokens, such as '[E1]'" in caplog.text
  path = tmp_path / "tokenizer.json"
  path.write_text(json.dumps(tokenizer_json(WORDS, added)))
  assert [*vocab.load(_read(tmp_path).vocabulary)] == [*WORDS, *added]
  assert "splits 1 added tokens, such as '[E1]'" in caplog.text


def test_variables_that_a_transformers_class_lacks_are_saved_in_another_file(
  tmp_path,
):
  bert = _bert("pretraining")
  name = "cls/seq_relationship/output_weights"
  bert.values[name] = bert.values[name].T.copy().T  # another memory layout
  bert.values["bert/glyphs/kernel"] = np.ones((2, 3), np.float32)
  hugging_face.write(bert, str(tmp_path), "encoder")
  original.check_values(bert, _read(tmp_path))
  tensors = load_file(tmp_path / "model.safetensors")
  assert not any(name.startswith(("cls", "bert", "glyphs")) for name in tensors)
  # transformers trains a new head, and saves it in the same folder.
  trained = {"cls.seq_relationship.weight": np.ones((2, 8), np.float32)}
  save_file(tensors | trained, tmp_path / "model.safetensors")
  assert (_read(tmp_path).values[name] == 1).all()
  (tmp_path / "vocab.txt").touch()  # left by another model
  hugging_face.write(_bert("encoder"), str(tmp_path), "encoder")
  names = sorted(path.name for path in tmp_path.iterdir())
  assert names == ["config.json", "model.safetensors"]


def test_unknown_tensors_and_copies_are_skipped(tmp_path):
  bert, _, tensors = _write(tmp_path, "pretraining")
  bias = tensors.pop("cls.predictions.bias")  # a file may have only the copy
  more = {
    "bert.embeddings.position_ids": np.arange(12)[np.newaxis],
    "bert.embeddings.token_type_ids": np.zeros((1, 12), int),
    "cls.predictions.decoder.weight": np.ones((13, 8), np.float32),
    "cls.predictions.decoder.bias": bias,
    "crf.transitions": np.zeros(3, np.float32),
  }
  save_file(tensors | more, tmp_path / "model.safetensors")
  back = _read(tmp_path)
  original.check_values(bert, back)
  [names] = back.skipped.values()
  assert {*names} == {name for name in more if "decoder" not in name}


def test_only_an_encoder_is_read_from_a_model_with_an_untied_masked_lm_head(
  tmp_path,
):
  _write(tmp_path, "masked_lm")
  _change(tmp_path, {"tie_word_embeddings": False})
  back = _read(tmp_path)
  with pytest.raises(UserError, match=r"tie_word_.* is False, .* head=encoder"):
    original.check_variables(back, "masked_lm")
  back.drop_head()
  original.check_variables(back, "encoder")


def test_weights_in_bfloat16_are_read_as_float32(tmp_path):
  _, _, tensors = _write(tmp_path, "encoder")
  half = {k: v.astype(ml_dtypes.bfloat16) for k, v in tensors.items()}
  save_file(half, tmp_path / "model.safetensors")
  values = _read(tmp_path).values
  table = values["bert/embeddings/word_embeddings"]
  expected = half["embeddings.word_embeddings.weight"].astype(np.float32)
  np.testing.assert_array_equal(table, expected)


def test_shards_are_read_as_one_file(tmp_path):
  bert, _, tensors = _write(tmp_path, "masked_lm")
  (tmp_path / "left_over.safetensors").unlink()
  names, index = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)], {}
  for i, name in enumerate(names):
    part = {key: tensors[key] for key in sorted(tensors)[i::2]}
    save_file(part, tmp_path / name)
    index |= dict.fromkeys(part, name)
  (tmp_path / "model.safetensors").unlink()
  text = json.dumps({"metadata": {}, "weight_map": index})
  (tmp_path / "model.safetensors.index.json").write_text(text)
  assert interchange.format_of(str(tmp_path)) == "hugging_face"
  back = _read(tmp_path)
  for name in [name for name in bert.values if "pooler" in name]:
    del bert.values[name]
  original.check_values(bert, back)
  (tmp_path / names[1]).unlink()
  _fails(tmp_path, f"{names[1]} does not exist; model.safetensors.index.json")


# Configurations of version 6, and of earlier versions.
POOLINGS = [
  ("", {"pooling_mode": "mean"}, ""),
  ("", {"pooling_mode": "cls", "include_prompt": True}, "by cls, .*; pooling="),
  ("0_Transformer", {"pooling_mode_mean_tokens": True}, ""),
  (
    "0_Transformer",
    {"pooling_mode_max_tokens": True, "pooling_mode_lasttoken": True},
    "by pooling_mode_max_tokens and pooling_mode_lasttoken, but .* means$",
  ),
]


@pytest.mark.parametrize(("part", "pooling", "warning"), POOLINGS)
def test_the_bert_of_sentence_transformers_is_read(
  tmp_path, caplog, part, pooling, warning
):
  bert, *_ = _write(tmp_path / part, "encoder")
  modules = [{"path": part}]
  for kind in ("Pooling", "Dense"):
    modules.append({"path": f"1_{kind}", "type": f"models.{kind}"})
  (tmp_path / "1_Pooling").mkdir()
  (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
  (tmp_path / "modules.json").write_text(json.dumps(modules))
  assert interchange.format_of(str(tmp_path)) == "hugging_face"
  back = _read(tmp_path)
  assert back.origin == str(tmp_path / part)
  assert back.values.keys() == bert.values.keys()
  *first, last = [x for x in caplog.messages if "its vectors are made" in x]
  assert "by Dense, but" in last
  assert len(first) == bool(warning) and re.search(warning, "".join(first))


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"quantization_config": {"bits": 8}}, "quantization_config is {'bits'"),
    ({"model_type": "gpt2"}, "model_type is 'gpt2', not 'bert'"),
    ({"hidden_act": "silu"}, r"/config\.json: the original has no .* 'silu'"),
    ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ({"layer_norm_eps": 1e-5}, "layer_norm_eps is 1e-05"),
    ({"is_decoder": True}, "is_decoder is True"),
  ],
)
def test_a_configuration_of_another_network_is_refused(
  tmp_path, change, message
):
  _write(tmp_path, "encoder")
  _change(tmp_path, change)
  _fails(tmp_path, message)


def test_a_missing_and_a_corrupt_file_are_reported(tmp_path):
  _write_fast(tmp_path, TRANSFORMERS_5)
  for name in ("tokenizer.json", "config.json"):
    content = (tmp_path / name).read_text()
    (tmp_path / name).write_text(content[:-3])
    _fails(tmp_path, f"{name} is not JSON")
    (tmp_path / name).write_text(content)
  weights = tmp_path / "model.safetensors"
  weights.rename(tmp_path / "pytorch_model.bin")
  assert interchange.format_of(str(tmp_path)) == interchange.HUGGING_FACE
  _fails(tmp_path, "is a pickle")
  weights.write_bytes(b"no header")
  _fails(tmp_path, r"is not a safetensors.*git lfs pull")
  (tmp_path / "config.json").unlink()
  _fails(tmp_path, r"cannot read .*config\.json")
