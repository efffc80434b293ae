"""Models that a URL names: of the Hugging Face Hub, and archives of releases.

Nothing is downloaded but the files of that model, and none of them is code or
a pickle. Files of the Hub stay in its cache, which HF_HOME names.
"""

import hashlib
import os
import re
import secrets
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from glob import escape, glob
from http.client import HTTPException
from itertools import islice
from urllib.error import HTTPError, URLError
from urllib.parse import urldefrag, urlsplit
from urllib.request import Request, urlopen

from absl import logging

from conversion import hugging_face, interchange
from conversion.interchange import BERT_CONFIG, HUGGING_FACE, ORIGINAL
from storage import UserError, files, setting, textfiles
from storage.progress import Progress

HUB = "hf://"
_REPOSITORY = re.compile(r"hf://((?:[\w.-]+/)?[\w.-]+)(?:@(\S+))?")
# In the folder, or in a first module of sentence_transformers.
_DESCRIPTIONS = """config.json modules.json vocab.txt tokenizer.json
tokenizer_config.json 0_*/config.json 0_*/vocab.txt 0_*/tokenizer.json
0_*/tokenizer_config.json""".split()
_WEIGHTS = "model*.safetensors* left_over.safetensors 0_*/*.safetensors".split()
_SHA256 = re.compile("[0-9a-f]{64}")
_MEGABYTE = 2**20
_ATTEMPTS = 3  # of a download that breaks off
_SECONDS = 30  # without an answer


def is_url(path: str) -> bool:
  """True for hf://NAME and the URL of an archive."""
  return path.startswith((HUB, "https://", "http://"))


def format_of(url: str) -> str:
  """The format of the model that a URL names."""
  return HUGGING_FACE if url.startswith(HUB) else ORIGINAL


@contextmanager
def fetched(url: str, output: str) -> Iterator[str]:
  """Yields a local folder with the files of the model that a URL names.

  An archive is stored in a folder beside `output`, which is removed at the end.
  An error leaves it there, so that the same command continues the download.
  Raises UserError or OSError, with the remedy, if a file cannot be had.
  """
  if url.startswith(HUB):
    yield from_hub(url)
    return
  if files.is_remote(output):
    raise UserError(f"{setting('output', output)}: name a local folder")
  digest = hashlib.sha256(url.encode()).hexdigest()[:8]
  folder = f"{os.path.abspath(output)}.download-{digest}"
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, os.path.basename(urlsplit(url).path) or "zip")
  if not os.path.exists(path):
    _download(url, path)
  yield _unpack(url, path)
  shutil.rmtree(folder)


# --- The Hugging Face Hub --------------------------------------------------


def from_hub(url: str) -> str:
  """Folder, in the cache of huggingface_hub, with the files of hf://NAME.

  The name may end with a revision: hf://ORGANIZATION/NAME@REVISION. The files
  are those that conversion.hugging_face reads. config.json is checked before
  the weights are downloaded. Raises UserError with the remedy.
  """
  if not (match := _REPOSITORY.fullmatch(url)):
    raise UserError(
      f"{url}: write hf://ORGANIZATION/NAME, or hf://ORGANIZATION/NAME@REVISION"
    )
  try:
    import huggingface_hub as hub  # noqa: PLC0415, serving needs none
  except ImportError:
    raise UserError(f"{url} needs: pip install huggingface_hub") from None
  name, revision = match.groups()
  endpoint, cache = hub.constants.ENDPOINT, hub.constants.HF_HUB_CACHE
  logging.info("%s: files of %s/%s, stored in %s", url, endpoint, name, cache)
  try:
    folder = hub.snapshot_download(
      name, revision=revision, allow_patterns=_DESCRIPTIONS
    )
    path = os.path.join(hugging_face.first_module(folder), "config.json")
    if not os.path.exists(path):
      raise UserError(f"{url} has no config.json: it is no BERT for converting")
    hugging_face.original_config(textfiles.read_json(path), path)
    commit = os.path.basename(folder)
    logging.info("%s: revision %s", url, commit)
    hub.snapshot_download(name, revision=commit, allow_patterns=_WEIGHTS)
    weights = glob(f"{escape(folder)}/**/*.safetensors", recursive=True)
    if not weights:
      raise UserError(_without_safetensors(hub, url, name))
  except UserError:
    raise
  except Exception as error:
    if getattr(error, "errno", None) == ENOSPC:
      raise
    raise UserError(f"{url}: {_explain(hub, name, error)}") from error
  for path in weights:
    _check_hash(os.path.realpath(path))
  return folder


def _explain(hub, name, error):
  """The problem and its remedy in one line."""
  page = f"{hub.constants.ENDPOINT}/{name}"
  if isinstance(error, hub.errors.LocalEntryNotFoundError):
    error = error.__cause__ or error  # nor is the file in the cache
  status = getattr(getattr(error, "response", None), "status_code", None)
  if isinstance(error, hub.errors.GatedRepoError) or status == 403:
    return f"accept the terms at {page}, then set HF_TOKEN to a token of yours"
  if isinstance(error, hub.errors.RevisionNotFoundError):
    return f"there is no such revision; {page}/tree/main lists all of them"
  if isinstance(error, hub.errors.RepositoryNotFoundError) or status == 401:
    return f"there is no {page}, or it is private: check the name, or HF_TOKEN"
  if isinstance(error, hub.errors.HFValidationError):
    return "the Hub has no such names: write hf://ORGANIZATION/NAME"
  if isinstance(error, hub.errors.OfflineModeIsEnabled):
    return "not in the cache, and HF_HUB_OFFLINE is set: unset it once"
  reason = str(error).strip().partition("\n")[0] or type(error).__name__
  return (
    f"{page} cannot be downloaded ({reason}): check the network, HF_ENDPOINT "
    "and the proxy, and run the same command again"
  )


def _without_safetensors(hub, url, name):
  """Names a revision that has safetensors, if one was proposed."""
  text = f"{url} has no model.safetensors, and a pickle is never read: "
  api = hub.HfApi()
  with suppress(Exception):  # the remedy below needs no network
    pulls = api.get_repo_discussions(name, discussion_type="pull_request")
    titled = (pull for pull in pulls if "safetensors" in pull.title.lower())
    for pull in islice(titled, 5):
      reference = pull.git_reference or f"refs/pr/{pull.num}"
      listed = api.list_repo_files(name, revision=reference)
      if "model.safetensors" in listed:
        return f"{text}take {HUB}{name}@{reference} ({pull.title!r})"
  return (
    f"{text}take the zip of its authors, or load it with transformers, save it "
    "with safe_serialization=True and name that folder"
  )


def _check_hash(path):
  """Removes a file of the cache if its name is another SHA-256."""
  name = os.path.basename(path)
  with open(path, "rb") as file:
    if not _SHA256.fullmatch(name) or (
      hashlib.file_digest(file, "sha256").hexdigest() == name
    ):
      return
  os.remove(path)
  raise UserError(
    f"{path} had another SHA-256 than its name, and was removed: run the same "
    "command again, which downloads it again"
  )


def converted(url: str) -> str:
  """Folder with a checkpoint of the original's, made of hf://NAME.

  The folder is in the cache of huggingface_hub, and is made once a revision.
  """
  from conversion import conversion_checks, original  # noqa: PLC0415, slow

  if not url.startswith(HUB):
    raise UserError(
      f"{url}: only hf://ORGANIZATION/NAME can be opened; "
      f"convert_checkpoint.py makes a folder of other URLs"
    )
  source = from_hub(url)
  from huggingface_hub import cached_assets_path  # noqa: PLC0415

  repository = os.path.basename(os.path.dirname(os.path.dirname(source)))
  commit = os.path.basename(source)
  folder = str(cached_assets_path("bert", repository, commit))
  if os.path.exists(os.path.join(folder, BERT_CONFIG)):
    return folder
  bert = hugging_face.read(source)
  conversion_checks.complete(bert, None, None, for_transformers=False)
  conversion_checks.check_variables(bert, interchange.head_of(bert))
  partial = f"{folder}.partial-{os.getpid()}-{secrets.token_hex(4)}"
  try:
    original.write(bert, partial)
    with suppress(OSError):  # another process was first
      os.rename(partial, folder)
  finally:
    shutil.rmtree(partial, ignore_errors=True)
  return folder


# --- Archives --------------------------------------------------------------


def _download(url, path):
  """Downloads the file of a URL; continues what an earlier call left.

  The URL may end with #sha256=..., to which the file is compared.
  """
  address, expected = urldefrag(url)
  logging.info("downloading %s to %s", address, path)
  partial, problem, total = f"{path}.partial", "", 0
  for _ in range(_ATTEMPTS):
    have = os.path.getsize(partial) if os.path.exists(partial) else 0
    try:
      total = _append(address, partial, have)
    except HTTPError as error:
      if error.code == 416 and have:  # the file is another one now
        os.remove(partial)
        continue
      raise UserError(
        f"{address}: the server answers {error.code} {error.reason}: check the "
        "address, or name the folder of an archive that you unpacked"
      ) from error
    except (URLError, HTTPException, ConnectionError, TimeoutError) as error:
      problem = getattr(error, "reason", None) or error
      continue
    if os.path.getsize(partial) == total:
      break
  else:
    have = os.path.getsize(partial) if os.path.exists(partial) else 0
    raise UserError(
      f"{address}: the download broke off after {have:,} of {total:,} "
      f"bytes ({problem or 'closed'}): run the same command again to continue"
    )
  with open(partial, "rb") as file:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
  logging.info("%s has the SHA-256 %s", address, digest)
  if expected and expected.lower() != f"sha256={digest}":
    os.remove(partial)
    raise UserError(
      f"{address} has the SHA-256 {digest}, not {expected}: do not use it"
    )
  os.rename(partial, path)


def _append(url, path, have):
  """Appends to a file the bytes of a URL after `have`; returns their number.

  The file may be shorter than that number if the connection ends.
  """
  headers = {"Range": f"bytes={have}-"} if have else {}
  with urlopen(Request(url, headers=headers), timeout=_SECONDS) as response:
    if url.startswith("https:") and not response.url.startswith("https:"):
      raise UserError(f"{url} leads to {response.url}, which is not encrypted")
    if response.status != 206:  # the whole file, not what follows
      have = 0
    total = have + int(response.headers["Content-Length"] or 0)
    progress = Progress("downloaded", total / _MEGABYTE, "MB")
    progress.add(have / _MEGABYTE)
    with open(path, "ab" if have else "wb") as file:
      while chunk := response.read(_MEGABYTE):
        file.write(chunk)
        progress.add(len(chunk) / _MEGABYTE)
    return total or os.path.getsize(path)


def _unpack(url, path):
  """Unpacks a zip archive; returns its only folder with a bert_config.json."""
  folder = f"{path}.unpacked"
  try:
    with zipfile.ZipFile(path) as archive:
      for member in archive.infolist():
        names = member.filename.split("/")
        is_link = stat.S_ISLNK(member.external_attr >> 16)
        if is_link or not names[0] or ".." in names or "\\" in member.filename:
          raise UserError(
            f"{url}: the archive has a link, or a path that leaves its folder, "
            f"{member.filename!r}: do not use it"
          )
      size = sum(member.file_size for member in archive.infolist())
      if size > shutil.disk_usage(os.path.dirname(path)).free:
        raise OSError(ENOSPC, os.strerror(ENOSPC), folder)
      archive.extractall(folder)
  except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
    os.remove(path)
    raise UserError(
      f"{url} is no intact zip archive ({error}), and was removed: check the "
      "address, and run the same command again"
    ) from None
  configs = glob(f"{escape(folder)}/**/{BERT_CONFIG}", recursive=True)
  if len(configs) != 1:
    raise UserError(
      f"{url} has {len(configs)} files named {BERT_CONFIG}, and a release has "
      f"one: name a folder in {folder}"
    )
  return os.path.dirname(configs[0])
