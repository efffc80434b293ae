"""Downloads a model from a URL: the Hugging Face Hub, or a release's zip.

The module downloads nothing else, and reads neither code nor pickles.
"""

import errno
import hashlib
import logging as python_logging
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from tempfile import TemporaryDirectory

from absl import logging

from conversion import hugging_face, interchange
from conversion.interchange import BERT_CONFIG, HUB, ZIPS
from storage import UserError

_REPOSITORY = re.compile(r"hf://((?:[\w.-]+/)?[\w.-]+)(?:@(\S+))?")
# Files that conversion.hugging_face reads. The first module of a
# sentence_transformers model may have a separate folder, 0_*.
_DESCRIPTIONS = """modules.json config.json vocab.txt tokenizer.json
tokenizer_config.json added_tokens.json""".split()
_WEIGHTS = """model.safetensors model.safetensors.index.json
model-*-of-*.safetensors left_over.safetensors""".split()
_DESCRIPTIONS += [f"0_*/{name}" for name in _DESCRIPTIONS]
_DESCRIPTIONS.append("*_Pooling/config.json")
_WEIGHTS += [f"0_*/{name}" for name in _WEIGHTS]


@contextmanager
def fetched(path: str, output: str) -> Iterator[str]:
  """Yields the local path of a model; `path` is a URL or a local path.

  A zip goes to a temporary folder beside `output`. After an error, the same
  command continues the download. URL#sha256=... gives the zip's SHA-256.
  """
  if not path.startswith(ZIPS):
    yield from_hub(path) if path.startswith(HUB) else path
    return
  digest = hashlib.sha256(path.encode()).hexdigest()[:8]
  folder = f"{os.path.abspath(output)}.download-{digest}"
  os.makedirs(folder, exist_ok=True)
  archive = os.path.join(folder, "model.zip")
  address, _, expected = path.partition("#sha256=")
  if not os.path.exists(archive):
    logging.info("downloading %s to %s", address, archive)
    partial = f"{archive}.partial"
    get = _hugging_face_hub().file_download.http_get
    with _one_line(path, address), open(partial, "ab") as file:
      get(address, file, resume_size=file.tell())
    os.rename(partial, archive)
  digest = _sha256(archive)
  logging.info("%s has the SHA-256 %s", address, digest)
  if expected and expected.lower() != digest:
    os.remove(archive)
    raise UserError(f"{path}: its SHA-256 is {digest}, do not use it")
  yield unpack(path, archive)
  shutil.rmtree(folder)


def from_hub(url: str, with_weights: bool = True) -> str:
  """Downloads hf://ORGANIZATION/NAME[@REVISION]; returns the cache's folder.

  Checks the configuration before fetching weights. UserErrors name the remedy.
  """
  if not (match := _REPOSITORY.fullmatch(url)):
    raise UserError(
      f"{url}: write hf://ORGANIZATION/NAME, or hf://ORGANIZATION/NAME@REVISION"
    )
  name, revision = match.groups()
  hub = _hugging_face_hub()
  page, cache = f"{hub.constants.ENDPOINT}/{name}", hub.constants.HF_HUB_CACHE
  logging.info("%s: files of %s, stored in %s", url, page, cache)
  get = hub.snapshot_download
  with _one_line(url, page):
    folder = get(name, revision=revision, allow_patterns=_DESCRIPTIONS)
  hugging_face.read_config(folder)
  commit = os.path.basename(folder)
  logging.info("%s: revision %s", url, commit)
  if not with_weights:
    return folder
  with _one_line(url, page):
    get(name, revision=commit, allow_patterns=_WEIGHTS)
  weights = glob(f"{escape(folder)}/**/*.safetensors", recursive=True)
  if not weights:
    raise UserError(_without_safetensors(url, name))
  for path in map(os.path.realpath, weights):
    name = os.path.basename(path)  # the SHA-256, in the Hub's cache
    if re.fullmatch("[0-9a-f]{64}", name) and _sha256(path) != name:
      os.remove(path)
      raise UserError(
        f"{url}: {path} did not have the SHA-256 in its name, and was removed: "
        "run the same command again"
      )
  return folder


def converted(url: str) -> tuple[str, bool | None]:
  """Converts hf://NAME into a cache; returns the folder and do_lower_case.

  do_lower_case is None if the tokenizer's settings are missing.
  """
  from conversion import original  # noqa: PLC0415, TensorFlow

  source = from_hub(url, with_weights=False)
  *_, name, _, commit = source.split(os.sep)  # models--A--B/snapshots/COMMIT
  cache = _hugging_face_hub().cached_assets_path("bert", name, commit)
  if not os.listdir(cache):
    bert = hugging_face.read(from_hub(url))
    original.complete(bert)
    original.check_variables(bert, interchange.head_of(bert))
    with TemporaryDirectory(dir=cache.parent) as partial:
      folder = os.path.join(partial, "bert")
      original.write(bert, folder)
      if not os.listdir(cache):  # another process may have been first
        os.rename(folder, cache)
  folder, *_ = hugging_face.read_config(source)
  return str(cache), hugging_face.read_tokenizer(folder)[1]


def _hugging_face_hub():
  os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
  python_logging.getLogger("httpx2").setLevel(python_logging.WARNING)
  import huggingface_hub.constants  # noqa: PLC0415
  import huggingface_hub.file_download  # noqa: PLC0415

  return huggingface_hub


@contextmanager
def _one_line(url, page):
  try:
    yield
  except Exception as error:
    # The cause says why the Hub fell back on the cache.
    reason = " ".join(str(error.__cause__ or error).split())
    raise UserError(
      f"{url}: cannot download {page}: check the name, the network, HF_TOKEN, "
      "HF_ENDPOINT and HF_HUB_OFFLINE, accept a model's terms on its page, and "
      f"run the same command again ({reason})"
    ) from error


def _without_safetensors(url, name):
  """Text of an error; names a pull request that adds safetensors, if any."""
  text = f"{url} has no model.safetensors, and a pickle is never read: "
  api = _hugging_face_hub().HfApi()
  with suppress(Exception):  # the remedy below works without network
    pulls = api.get_repo_discussions(name, discussion_type="pull_request")
    pull = next(x for x in pulls if "safetensors" in x.title.lower())
    by = f"{pull.title!r}, proposed by {pull.author}"
    return f"{text}take {HUB}{name}@refs/pr/{pull.num} ({by})"
  return (
    f"{text}take the zip of its authors, or load it with transformers, save it "
    "with safe_serialization=True and name that folder"
  )


def _sha256(path):
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(url: str, path: str) -> str:
  """Unpacks a zip; returns the only folder with a bert_config.json."""
  folder = os.path.join(os.path.dirname(path), "unpacked")
  try:
    with zipfile.ZipFile(path) as archive:
      for member in archive.infolist():
        names = re.split(r"[/\\]", member.filename)
        is_link = stat.S_ISLNK(member.external_attr >> 16)
        if is_link or ".." in names or not names[0]:
          raise UserError(
            f"{url}: {member.filename!r} is a link, or leaves the zip's "
            "folder: do not use it"
          )
      archive.extractall(folder)
  except Exception as error:  # zipfile raises errors of many classes
    is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    if is_full or isinstance(error, UserError):
      raise
    os.remove(path)
    raise UserError(
      f"{url} is not an intact zip ({error}), and was removed: check the "
      "address, and run the same command again"
    ) from None
  configs = glob(f"{escape(folder)}/**/{BERT_CONFIG}", recursive=True)
  if len(configs) != 1:
    raise UserError(
      f"{url} has {len(configs)} files named {BERT_CONFIG}, and a release has "
      f"one: name a folder in {folder}"
    )
  return os.path.dirname(configs[0])
