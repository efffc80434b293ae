"""Programs that read texts: accepted texts, models and files."""

import socket
from types import SimpleNamespace

import pytest

from data import vocab
from data.pretraining import documents, vocab_learning
from modeling.config import BertConfig
from serving.server import app as server_app
from serving.server import connections as server_connections
from serving.server import models as server_models
from serving.server import version
from storage import Progress
from tests import programs, stages

# --- fill_mask.py ----------------------------------------------------------


@pytest.mark.parametrize(
  ("flags", "lines", "expected"),
  [
    ({"text": ["a [MASK]"]}, None, ["a [MASK]"]),
    ({"text": ["[MASK] b", "[MASK]"]}, None, ["[MASK] b", "[MASK]"]),
    ({}, "[MASK] c\n\n \n[MASK]", ["[MASK] c", "[MASK]"]),
    ({"text": ["[MASK] a"]}, "[MASK] b\n", ["[MASK] a", "[MASK] b"]),
    ({"text": ["a"], "text_pair": "b"}, None, ["a"]),
    ({"text": ["a"], "text_pair": "b"}, "c\n[MASK]\n", ["a", "c", "[MASK]"]),
    ({"text": ["a"], "text_pair": ""}, None, None),  # no second text
    ({"text": ["[MASK]"], "text_pair": ""}, None, ["[MASK]"]),
    ({"text": ["[MASK]", "a"]}, None, None),
    ({"text": []}, "\n \n", None),
    ({"text": [""]}, None, None),
  ],
)
def test_all_texts_to_fill_are_read(tmp_path, flags, lines, expected):
  if lines is not None:
    (tmp_path / "lines").write_text(lines)
    flags = flags | {"input_file": str(tmp_path / "lines")}
  (tmp_path / "vocab.txt").write_text("\n".join(vocab.SPECIAL_TOKENS))
  flags = flags | {"vocab_file": str(tmp_path / "vocab.txt")}
  args = programs.arguments("fill_mask", **flags)
  read = stages.program("fill_mask").read_texts
  if expected is None:
    with pytest.raises(ValueError, match=r"there is no \[MASK\]|nothing to fi"):
      read(args)
  else:
    assert read(args) == expected


# --- visualize.py ----------------------------------------------------------


@pytest.mark.parametrize(
  ("flags", "inputs", "optional", "expected"),
  [
    ({"text": "a"}, ["text"], [], {"text": "a"}),
    ({"text": "a"}, ["text", "text_pair"], ["text_pair"], {"text": "a"}),
    (
      {"text": "a", "text_pair": ""},
      ["text", "text_pair"],
      ["text_pair"],
      {"text": "a"},
    ),
    (
      {"text": "a", "text_pair": "b"},
      ["text_a", "text_b"],
      [],
      {"text_a": "a", "text_b": "b"},
    ),
    ({"text": "a", "text_pair": ""}, ["text_a", "text_b"], [], None),
    ({"text": "a", "question": "b"}, ["text"], [], None),
    ({"text": "a", "question": ""}, ["text"], [], {"text": "a"}),
    ({"question": "q"}, ["question", "context"], [], None),
    (
      {"text": "a", "text_pair": "b", "choices": ["c", ""]},
      ["sent1", "sent2", "choices"],
      [],
      {"sent1": "a", "sent2": "b", "choices": ["c", ""]},
    ),
  ],
)
def test_texts_of_a_page_have_the_names_of_the_model(
  flags, inputs, optional, expected
):
  answers = SimpleNamespace(
    inputs=dict.fromkeys(inputs, 0), optional=frozenset(optional)
  )
  args = programs.arguments("visualize", model="m", **flags)
  texts = stages.program("visualize")._texts
  if expected is None:
    with pytest.raises(ValueError, match="the model in m takes --"):
      texts(args, answers)
  else:
    assert texts(args, answers) == expected


# --- build_vocab.py --------------------------------------------------------


@pytest.mark.parametrize(
  ("patterns", "exponent", "is_repeated"),
  [
    ("{0}/en,{0}/is", 1.0, False),
    ("{0}/en,{0}/is", 0.5, True),
    (" {0}/en , ,{0}/is,", 0.5, True),
    ("{0}/*", 0.5, False),  # one source
    ("{0}/en,{0}/is", 0.0, True),
  ],
)
def test_words_are_weighed_by_pattern(
  tmp_path, patterns, exponent, is_repeated
):
  (tmp_path / "en").write_text("the " * 400)
  (tmp_path / "is").write_text("og " * 4)
  args = programs.arguments(
    "build_vocab",
    **{"input_file": patterns.format(tmp_path), "sampling_exponent": exponent},
  )
  counts = stages.program("build_vocab").count_words(args)
  factor = round(100 ** (1 - exponent)) if is_repeated else 1
  assert counts == {"the": 400, "og": 4 * factor}


@pytest.mark.parametrize("preset", [None, "mini"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("present", [(), ("v",), ("bert_config.json",)])
def test_a_preset_has_the_tokens_of_the_text(
  tmp_path, caplog, preset, overwrite, present
):
  """There may be fewer tokens than --vocab_size. --overwrite replaces files."""
  module = stages.program("build_vocab")
  (tmp_path / "text").write_text("low lower lowest slow slower slowest\n" * 9)
  for name in present:
    (tmp_path / name).write_text("old")
  args = programs.arguments(
    "build_vocab",
    **{"input_file": str(tmp_path / "text"), "overwrite": overwrite},
    **{"output_file": str(tmp_path / "v"), "preset": preset},
  )
  is_in_the_way = "v" in present or (preset and present)
  if is_in_the_way and not overwrite:
    with pytest.raises(FileExistsError, match="exists already; remove it"):
      module.check_flags(args)
    return
  module.check_flags(args)
  module.main(args)
  number = len(vocab.load(tmp_path / "v"))
  assert 20 < number < args.vocab_size
  path = tmp_path / "bert_config.json"
  if preset:
    config = BertConfig.from_json(str(path))
    expected = BertConfig.preset("mini", number, from_scratch=True)
    assert config == expected
  else:
    assert path.exists() == ("bert_config.json" in present)


def test_reading_and_learning_show_progress(tmp_path, monkeypatch):
  done = {}

  class Counted(Progress):
    """Sums the work that is done."""

    def add(self, number, **counts):
      done[self.task] = done.get(self.task, 0) + number
      super().add(number, **counts)

  module = stages.program("build_vocab")
  for owner in (module, vocab_learning):
    monkeypatch.setattr(owner, "Progress", Counted)
  text = "low lower lowest größe\n" * 9
  (tmp_path / "text").write_text(text)
  args = programs.arguments(
    "build_vocab",
    **{"input_file": str(tmp_path / "text")},
    **{"output_file": str(tmp_path / "v")},
  )
  module.main(args)
  assert done["read"] == pytest.approx(len(text.encode()) / 1e6)
  tokens = vocab.load(tmp_path / "v")
  assert (
    done["learned"] == sum(len(t.removeprefix("##")) > 1 for t in tokens) - 5
  )


# --- split_sentences.py ----------------------------------------------------


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n\n"])
@pytest.mark.parametrize("blank", [None, "", "\n \n"])
def test_each_file_is_a_document_whatever_its_end(
  tmp_path, monkeypatch, end, blank
):
  texts = {"a": f"One. Two.{end}", "b": blank, "c": f"Three.{end}"}
  for name, text in texts.items():
    if text is not None:
      (tmp_path / name).write_bytes(text.encode())
  done = []
  add = Progress.add
  monkeypatch.setattr(
    Progress,
    "add",
    lambda *given, **n: done.append(given[1]) or add(*given, **n),
  )
  paths = [str(tmp_path / name) for name in texts if texts[name] is not None]
  args = programs.arguments(
    "split_sentences",
    **{"input_file": ",".join(paths), "output_file": str(tmp_path / "out")},
    source="prose",
  )
  stages.program("split_sentences").main(args)
  lines = (tmp_path / "out").read_text().split("\n")
  parts = documents.split_documents(lines)
  assert [*parts] == [["One.", "Two."], ["Three."]]
  size = sum(len((text or "").encode()) for text in texts.values())
  assert sum(done) == pytest.approx(size / 1e6)


# --- serve.py --------------------------------------------------------------


@pytest.fixture(name="served", params=[False, True])
def _served(request, monkeypatch):
  """Stand-ins of a server: module, events, metrics, and whether it loads."""
  module, is_loading = stages.program("serve"), request.param
  events = []

  class Thread:
    """The thread that loads models."""

    def join(self, seconds):
      events.append(("join", seconds))

    def is_alive(self):
      return is_loading

  class Polled:
    """Loads all versions at once."""

    def __init__(self, models, seconds):
      self.models = list(models)
      assert seconds == 7.0

    def __enter__(self):
      for model in self.models:
        model.poll()
      return Thread()

    def __exit__(self, *_):
      events.append("stopped")

  class Server:
    """Notes what it serves."""

    def __init__(self, app, settings):
      self.handle_exit = lambda *_: None
      assert settings.max_queue_size == 9
      events.append(("models", [*app]))

    def run(self, sockets):
      [address] = sockets
      events.append(("run", address.getsockname()[1] > 0))
      address.close()

  def open_model(path, engine):
    assert engine == "litert_int8"
    return path

  def make(model, settings, sizes):
    sizes.observe(len(model))
    events.append(("version", model))
    return SimpleNamespace(workers=SimpleNamespace(queued=0))

  metrics = server_app.Metrics()
  monkeypatch.setattr(server_app, "Metrics", lambda: metrics)
  monkeypatch.setattr(server_models, "polled", Polled)
  monkeypatch.setattr(server_app, "App", lambda served, *_: served)
  monkeypatch.setattr(server_connections, "Server", Server)
  monkeypatch.setattr(version, "Version", make)
  monkeypatch.setattr(module, "open_model", open_model)
  monkeypatch.setattr(module.signal, "signal", lambda *_: None)
  monkeypatch.setattr(module.os, "_exit", lambda n: events.append(("exit", n)))
  return module, events, metrics, is_loading


def test_each_model_is_served_with_the_flags(tmp_path, served):
  """Texts are counted for each model, and loading does not delay the end."""
  module, events, metrics, is_loading = served
  for name in ("a/1", "a/2", "a/3", "b/1"):
    (tmp_path / name).mkdir(parents=True)
  a, b = str(tmp_path / "a"), str(tmp_path / "b")
  with socket.create_server(("127.0.0.1", 0)) as other:
    port = other.getsockname()[1]
  args = programs.arguments(
    "serve",
    **{"model": [a, f"x={b}"], "engine": "litert_int8", "num_versions": 2},
    **{"poll_seconds": 7.0, "max_queue_size": 9, "port": port},
  )
  module.check_flags(args)
  module.main(args)
  text = metrics.text({}).decode()
  total = 2 * len(f"{a}/2")
  assert f'serving_batch_texts_sum{{model="a"}} {total}.0' in text
  assert f'serving_batch_texts_sum{{model="x"}} {len(b) + 2}.0' in text
  paths = [f"{a}/2", f"{a}/3", f"{b}/1"]
  assert events == [
    ("models", ["a", "x"]),
    *(("version", path) for path in paths),
    ("run", True),
    "stopped",
    ("join", 1.0),
    *[("exit", 0)] * is_loading,
  ]
