import errno
import io
import json
import os
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import bert
import convert_checkpoint
from conversion import download, hugging_face, original
from conversion.interchange import CanonicalModel
from data import vocab
from modeling import models
from predictor import Predictor
from storage import UserError
from tests import programs, shared, small_model
from tests.conversion import hub_server

WORDS = [*vocab.SPECIAL_TOKENS, "red", "sky"]
CONFIG = small_model.narrow(len(WORDS), hidden_size=4)
NAME = "acme/bert"
URL = f"hf://{NAME}"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
  """Folders of one model: an original release and a Hugging Face folder."""
  folder = tmp_path_factory.mktemp("released")
  ckpt, safetensors = folder / "ckpt", folder / "safetensors"
  rng = np.random.RandomState(0)
  values = {
    v.path: rng.normal(size=v.shape).astype(np.float32)
    for v in models.pretrainer(CONFIG).variables
  }
  vocab.save(WORDS, folder / "vocab.txt")
  model = CanonicalModel("x", values, CONFIG.to_dict())
  model.vocabulary = str(folder / "vocab.txt")
  original.write(model, str(ckpt))
  hugging_face.write(model, str(safetensors), "pretraining")
  return SimpleNamespace(ckpt=ckpt, safetensors=safetensors)


@pytest.fixture
def hub(released, tmp_path, monkeypatch):
  """Makes huggingface_hub use a hub with the model and an empty cache."""
  with hub_server.serve() as hub:
    files = {x.name: x.read_bytes() for x in released.safetensors.iterdir()}
    others = ("pytorch_model.bin", "onnx/config.json", "model.fp16.safetensors")
    files |= dict.fromkeys(others, b"never read")
    hub.repositories[NAME] = {"main": files}
    template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    hub.output = tmp_path / "bert"  # folder of the converted model
    for name, value in {
      "constants.ENDPOINT": hub.url,
      "constants.HUGGINGFACE_CO_URL_TEMPLATE": template,
      "constants.HF_HUB_CACHE": str(tmp_path / "cache"),
      "utils._cache_assets.HF_ASSETS_CACHE": str(tmp_path / "made"),
      "constants.HF_HUB_DISABLE_TELEMETRY": True,
      "constants.DOWNLOAD_CHUNK_SIZE": 10,
    }.items():
      monkeypatch.setattr(f"huggingface_hub.{name}", value)
    monkeypatch.setattr("time.sleep", lambda _: None)
    yield hub


def _convert(hub, url, **flags):
  flags = {"input": url, "output": str(hub.output)} | flags
  settings = programs.arguments("convert_checkpoint", **flags)
  convert_checkpoint.check_flags(settings)
  convert_checkpoint.main(settings)


def _paths(hub, part):
  return [path for _, path, _ in hub.requests if part in path]


def _fails(hub, url, *texts):
  """Checks that the conversion ends with a one-line error with these texts."""
  with pytest.raises((UserError, OSError)) as error:
    _convert(hub, url)
  message = str(error.value)
  assert len(message.splitlines()) == 1
  for text in (url.partition("@")[0], *texts):
    assert text in message


# --- The Hugging Face Hub --------------------------------------------------


def test_only_needed_files_are_downloaded(hub, released, tmp_path, caplog):
  caplog.set_level("INFO")
  caplog.set_level("INFO", logger="absl")
  _convert(hub, URL)
  shared.assert_same_checkpoint(
    tmp_path / "bert/bert_model.ckpt", released.ckpt / "bert_model.ckpt"
  )
  assert f"files of {hub.url}/{NAME}, stored in {tmp_path}/cache" in caplog.text
  assert f"revision {hub_server.COMMIT}" in caplog.text
  assert "HTTP Request" not in caplog.text  # huggingface_hub logs nothing
  for name in ("pytorch_model", "onnx", "fp16"):
    assert not _paths(hub, name)
  del hub.requests[:]
  hub.output = tmp_path / "again"
  _convert(hub, URL)
  assert not _paths(hub, "/cdn/")  # the weights come from the cache


REMEDY = "check the name, the network, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE"
REMEDY += ", accept a model's terms on its page, and run the same command again"


def test_a_broken_or_missing_server_gives_a_one_line_error(hub, monkeypatch):
  hub.breaks = 1000
  _fails(hub, URL, f"cannot download {hub.url}/{NAME}: {REMEDY}", "closed conn")
  hub_is_at = "huggingface_hub.constants.ENDPOINT"
  monkeypatch.setattr(hub_is_at, "http://127.0.0.1:9")
  _fails(hub, "hf://acme/other", REMEDY, "refused")
  assert not hub.output.exists()


def test_weights_with_a_wrong_hash_are_refused_and_downloaded_again(hub):
  hub.corrupts = True
  with pytest.raises(UserError, match="did not have the SHA-256 in its name"):
    _convert(hub, URL)
  hub.corrupts = False
  _convert(hub, URL)


@pytest.mark.parametrize("url", ["hf://acme/none", f"hf://{NAME}@v9"])
def test_a_wrong_name_gives_a_one_line_error(hub, url):
  _fails(hub, url, "404 Not Found")


def test_a_pickle_is_refused_and_the_error_suggests_safetensors(hub):
  files = dict(hub.repositories[NAME]["main"])
  pull = {"model.safetensors": files.pop("model.safetensors")}
  hub.repositories[NAME] = {"main": files}
  pickle = "has no model.safetensors, and a pickle is never read"
  _fails(hub, URL, pickle, "safe_serialization=True")
  hub.pulls[NAME] = ["Fix a word", "Adding `safetensors` variant"]
  hub.repositories[NAME]["refs/pr/2"] = files | pull
  pull = f"take hf://{NAME}@refs/pr/2 ('Adding `safetensors` variant', proposed"
  _fails(hub, URL, f"{pull} by bot)")
  _convert(hub, f"hf://{NAME}@refs/pr/2")
  assert not _paths(hub, "pytorch_model")


def test_a_model_that_is_no_bert_is_refused_before_weights_are_downloaded(hub):
  files = hub.repositories[NAME]["main"]
  config = json.loads(files["config.json"]) | {"model_type": "roberta"}
  files["config.json"] = json.dumps(config).encode()
  with pytest.raises(UserError, match="model_type is 'roberta', not 'bert'"):
    _convert(hub, URL)
  assert not _paths(hub, "model.safetensors")


def test_the_bert_in_a_sentence_transformers_repository_is_converted(hub):
  files = hub.repositories[NAME]["main"]
  module = {f"0_Transformer/{name}": data for name, data in files.items()}
  module["modules.json"] = b'[{"path": "0_Transformer"}]'
  hub.repositories["acme/vectors"] = {"main": module}
  _convert(hub, "hf://acme/vectors")
  assert not _paths(hub, "pytorch_model")


def test_a_repository_is_converted_only_once(hub, released, monkeypatch):
  model, encode = bert.load(URL)
  expected, _ = bert.load(released.ckpt)
  inputs = encode(["red sky"])
  outputs = (x(inputs)["pooled_output"] for x in (model, expected))
  np.testing.assert_array_equal(*outputs)
  del hub.requests[:]
  # A second conversion would fail.
  monkeypatch.setattr("conversion.hugging_face.read", None)
  vectors = Predictor(URL).embed(["red sky"])
  np.testing.assert_allclose(
    vectors, Predictor(released.ckpt).embed(["red sky"]), atol=1e-6
  )
  assert not _paths(hub, "/cdn/")  # no second download of the weights


def test_another_process_may_convert_a_repository_meanwhile(hub, monkeypatch):
  def write(bert, folder):
    os.mkdir(folder)
    cache = Path(folder).parents[1] / hub_server.COMMIT
    (cache / "vocab.txt").touch()  # by the other process

  monkeypatch.setattr("conversion.original.write", write)
  folder, _ = download.converted(URL)
  assert os.listdir(folder) == ["vocab.txt"]


def test_do_lower_case_comes_from_the_tokenizer_unless_the_user_gives_it(hub):
  files = hub.repositories[NAME]["main"]
  files["tokenizer_config.json"] = b'{"do_lower_case": false}'
  for given, tokens in (({}, ["[UNK]"]), ({"do_lower_case": True}, ["red"])):
    _, encode = bert.load(URL, **given)
    answers = Predictor(URL, **given)._answer.answers
    for tokenizer in (encode.tokenizer, answers.config.tokenizer):
      assert tokenizer.tokenize("RED") == tokens


# --- Zips of releases ------------------------------------------------------


def _zip(*members, **content):
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, data in content.items():
      archive.writestr(name, data)
    for member in members:
      archive.writestr(member, b"../outside")
  return file.getvalue()


@pytest.fixture
def archive(hub, released):
  """A zip on the server, with the layout of the original releases."""
  files = {f"small/{x.name}": x.read_bytes() for x in released.ckpt.iterdir()}
  hub.archives["/bert.zip"] = _zip(**files)
  hub.zip = f"{hub.url}/bert.zip"
  return files


def test_a_zip_of_a_release_is_converted(hub, archive, released, tmp_path, log):
  _convert(hub, hub.zip)
  assert f"downloading {hub.zip} to {tmp_path}/bert.download" in log.text
  for name in ("bert_config.json", "vocab.txt"):
    written = (tmp_path / "bert" / name).read_text()
    assert written == (released.ckpt / name).read_text()
  shared.assert_same_checkpoint(
    tmp_path / "bert/bert_model.ckpt", released.ckpt / "bert_model.ckpt"
  )
  assert [x.name for x in tmp_path.iterdir()] == ["bert"]
  hub.output = tmp_path / "hf"
  _convert(hub, hub.zip, output_format="hugging_face")
  assert (tmp_path / "hf/model.safetensors").exists()


def test_the_same_command_continues_downloading_a_zip(hub, archive, tmp_path):
  size = len(hub.archives["/bert.zip"])
  hub.breaks = 1000
  _fails(hub, hub.zip, "run the same command again")
  hub.breaks = 0
  del hub.requests[:]
  (partial,) = tmp_path.glob("bert.download-*/model.zip.partial")
  have = partial.stat().st_size
  assert size // 2 < have < size
  _convert(hub, hub.zip)
  wanted = [headers.get("Range") for _, _, headers in hub.requests]
  assert wanted == [f"bytes={have}-"]


def test_the_hash_of_a_zip_is_checked(hub, archive):
  with pytest.MonkeyPatch.context() as patch:  # Ctrl-C while it is computed
    patch.setattr(download, "_sha256", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
      _convert(hub, f"{hub.zip}#sha256=00")
  hub.requests.clear()
  with pytest.raises(UserError, match=r"its SHA-256 is .*, do not"):
    _convert(hub, f"{hub.zip}#sha256=00")
  assert not hub.requests
  digest = download.hashlib.sha256(hub.archives["/bert.zip"]).hexdigest()
  _convert(hub, f"{hub.zip}#sha256={digest.upper()}")


def test_a_url_of_anything_but_a_release_gives_a_one_line_error(hub, archive):
  _fails(hub, f"{hub.url}/no.zip", "404 Not Found")
  _fails(hub, "http://127.0.0.1:9/a.zip", "run the same command again")
  broken = bytearray(_zip(**archive))
  broken[len(broken) // 2] ^= 255
  none = "has 0 files named bert_config.json, and a release has one"
  for content, message in (
    (b"<html>", "is not an intact zip ("),
    (bytes(broken), "is not an intact zip ("),
    (_zip(readme="hello"), none),
  ):
    hub.archives["/bert.zip"] = content
    _fails(hub, hub.zip, message)
  hub.requests.clear()
  _fails(hub, hub.zip, none)
  assert not hub.requests  # the intact zip is there already


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "..\\a", "link"])
def test_a_zip_with_a_link_or_a_path_outside_its_folder_is_refused(
  hub, archive, tmp_path, name
):
  member = zipfile.ZipInfo(name)
  if name == "link":
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
  hub.archives["/bert.zip"] = _zip(member, **archive)
  hub.output = tmp_path / "x/bert"
  _fails(hub, hub.zip, "do not use it", repr(name))
  assert {x.name for x in tmp_path.iterdir()} == {"x"}


def test_an_oserror_in_unpacking_means_a_corrupt_zip_unless_the_disk_is_full(
  hub, archive, monkeypatch
):
  error = OSError(errno.EINVAL, "Invalid argument")  # of a corrupt zip
  unpack = mock.Mock(side_effect=error)
  monkeypatch.setattr(zipfile.ZipFile, "extractall", unpack)
  _fails(hub, hub.zip, "is not an intact zip (")
  unpack.side_effect = OSError(errno.ENOSPC, "No space left on device")
  with pytest.raises(OSError, match="No space left"):
    _convert(hub, hub.zip)


def test_a_nonempty_output_folder_is_refused_before_downloading(hub, archive):
  hub.output.mkdir()
  (hub.output / "bert_config.json").touch()
  with pytest.raises(FileExistsError, match="exists already; remove it"):
    _convert(hub, hub.zip)
  assert not hub.requests
