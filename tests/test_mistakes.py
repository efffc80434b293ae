"""A user's mistake gives one line, before TensorFlow is imported.

The program writes no file. Tests of modules cover the checks in detail. The
tests here show that the programs call the checks.
"""

import json
from functools import cache

import pytest

from data import features, labels
from data.vocab import SPECIAL_TOKENS
from modeling import models
from storage import tfrecord
from tests import programs, shared, small_model
from tests.training import toy
from training import checkpoint

WORDS = [*SPECIAL_TOKENS, "red", "blue", "sky", "."]
MODEL = "bert_config_file=bert_config.json vocab_file=vocab.txt"
TUNE = f"{MODEL} output_dir=out max_seq_length=12"
WINDOWS = "long_text=windows max_seq_length=6 max_text_length=40"
# Flags of each program; "extend" is build_vocab.py with --extend. A mistake
# adds flags, or removes one with "-name".
FLAGS = {
  "run_classifier": f"{TUNE} task_name=tsv data_dir=data",
  "run_ner": f"{TUNE} train_file=ner dev_file=ner",
  "run_swag": f"{TUNE} train_file=swag.csv dev_file=swag.csv",
  "run_squad": f"{TUNE} max_query_length=4 train_file=v1.json",
  "run_pretraining": "bert_config_file=toy.json output_dir=out "
  f"input_file=a.tfrecord max_seq_length={toy.T} max_predictions_per_seq=3 "
  "train_batch_size=8 num_train_steps=3",
  "extract_features": f"{MODEL} init_checkpoint=bert_model.ckpt "
  "input_file=text output_file=out max_seq_length=12",
  "fill_mask": f"{MODEL} init_checkpoint=bert_model.ckpt",
  "build_vocab": "input_file=text output_file=out",
  "extend": f"{MODEL} extend=vocab.txt init_checkpoint=. -vocab_file "
  "input_file=words output_file=new/vocab.txt new_words=1 append_words",
  "create_pretraining_data": "input_file=text vocab_file=vocab.txt "
  "output_file=out",
  "split_sentences": "input_file=text output_file=out",
  "convert_checkpoint": "output=out",
  "visualize": "model=bert_model.ckpt text=red output_file=out",
  "serve": "",
}
# Program | flags, with ~ for a blank in a value | error at the end of the log.
MISTAKES = """
run_classifier | | At least one of --do_train, --do_eval, --do_predict and --do_export
run_classifier | do_train task_name=SST2x | known are CoLA, SST-2, MRPC
run_classifier | do_train output_dir=/proc/x dry_run | --output_dir=/proc/x: /proc cannot be written to
create_pretraining_data | output_file=out,/proc/self/cwd/out | repeats a name
create_pretraining_data | input_file=/dev/null deduplicate | there is no text in
create_pretraining_data | input_file=/dev/null deduplicate num_workers=2 | --deduplicate reads /dev/null twice: make it a file
run_classifier | do_train output_dir=vocab.txt | --output_dir=vocab.txt is a file, no folder
run_classifier | do_train data_dir=nowhere | nowhere has no file train, dev or test
run_classifier | do_train -data_dir | this command needs --data_dir
run_classifier | do_train label_column=kind | no column 'kind'
run_classifier | do_train delimiter=ab | --delimiter=ab is not a delimiter
run_swag | do_train delimiter=" | --delimiter=" is not a delimiter
run_classifier | do_train encoding=cp125 | --encoding=cp125 is not an encoding
run_classifier | do_train task_name=MRPC delimiter=; | --delimiter is for --task_name=tsv: the columns of MRPC are fixed
run_classifier | do_train data_dir=excel | excel/train.csv, line 2: byte 0xe4 is not UTF-8: save all files as UTF-8, or give --encoding
run_classifier | do_train max_seq_length=512 | max_seq_length 512 exceeds max_position_embeddings 16
run_classifier | do_eval | no checkpoint in --output_dir=out and no --init_checkpoint: train first, or name one
run_classifier | do_train init_checkpoint=cased_L-12_H-768_A-12/bert_model.ckpt | is a cased model
run_classifier | do_train init_checkpoint=theirs | convert another model with convert_checkpoint.py
run_classifier | do_train init_checkpoint=scoped | scoped/a.ckpt has no bert/embeddings/word_embeddings, but tower/bert/embeddings/word_embeddings,
run_classifier | do_train pack_examples {windows} | --pack_examples does not go with --long_text=windows
run_classifier | do_train do_eval task_name=GLUE | data has no folder MNLI, QQP, QNLI
run_classifier | do_train task_name=GLUE | --task_name=GLUE needs --do_eval, for its table
run_classifier | do_eval dry_run task_name=GLUE | --dry_run of --task_name=GLUE needs --do_train; or name one task
run_classifier | do_train from_mnli | --from_mnli is for --task_name=GLUE: for one task
run_classifier | do_train {windows} window_stride=5 | --window_stride=5 leaves tokens out: a window of
run_classifier | do_train {windows} task_name=MRPC | is for single texts, but MRPC has pairs
run_classifier | do_eval {windows} output_dir=tuned | --long_text=windows, but the model in
run_classifier | do_predict multi_label output_dir=tuned | --multi_label=True, but the head
run_classifier | do_train multi_label task_name=sst-2 | --multi_label is for --task_name=tsv
run_classifier | do_eval init_checkpoint=ships/a.ckpt | 'yes' is not a label of --task_name=tsv; its labels are O, B-SHIP, I-SHIP
run_classifier | do_train class_weights=maybe=2 | --class_weights: 'maybe' is not a label
run_classifier | do_train num_cpu_devices=2 | --num_cpu_devices needs --distribution_strategy=mirrored
run_classifier | do_export export_dir=new export_format= | --export_format=: give one or more of
run_classifier | do_export output_dir=tuned export_dir=new[1] | reads no checkpoint from
run_classifier | do_export output_dir=tuned export_dir=numberless/2 | where a server looks for no version: name a folder that is in no export
run_classifier | do_export output_dir=new/a export_dir=new | new holds --output_dir: name another
run_classifier | do_train output_dir=tuned num_seeds=2 do_eval init_checkpoint=tuned | tuned/a.ckpt is of an earlier training or sweep: name another
run_classifier | do_train output_dir=swept | swept/best is of an earlier training or sweep: name another
run_classifier | do_train teacher=data | is not an --output_dir of run_classifier.py
run_classifier | do_train teacher=tuned multi_label | --multi_label=True, but --teacher=tuned was trained with --multi_label=False
run_classifier | do_train teacher=tuned | other labels, or another order: 0, 1 (of sst-2, the task of tuned) and no, yes
run_classifier | do_train attention=shallow init_checkpoint=right_to_left,right_to_left | --attention=left_to_right, but right_to_left was trained with --attention=right_to_left
run_classifier | do_train output_dir=[1] | TensorFlow reads no checkpoint from [1]: avoid * ? [ and
run_classifier | do_train output_dir=right_to_left | right_to_left has a model of run_pretraining.py: name another
run_ner | do_train -train_file | needs --train_file
run_ner | do_train -dev_file keep_best | needs --dev_file
run_ner | do_train tag_column=5 | line 1: 2 columns, but expected a word and its tag
run_ner | do_train do_eval dev_file=ship | ship, line 2: 'B-SHIP' is none of the model's tags
run_ner | do_train train_file=swapped | give --word_column=-1 --tag_column=0
run_ner | do_train output_dir=ships init_checkpoint=bert_model.ckpt | are O, B-SHIP, I-SHIP
run_ner | do_train output_dir=ships | to start from a released or converted model, give --init_checkpoint, too
run_ner | do_eval init_checkpoint=ships/a.ckpt | labels.txt). --do_train makes a head for other labels
run_ner | do_train feature_based add_bilstm | --feature_based has a BiLSTM: leave --add_bilstm out
run_ner | do_train feature_based | --feature_layers=concat_last_four takes 4 layers, but bert_config.json has num_hidden_layers 1: take
run_ner | do_train output_dir=features | --feature_based=False, but the model in features was trained with --feature_based=True
run_ner | do_train pack_examples document_context | --pack_examples does not go with --document_context
run_swag | do_train delimiter=tab | no column 'sent1', 'sent2', 'ending0', 'ending1', 'label'; there are 'sent1,sent2,
run_swag | do_train do_eval dev_file=bare.csv | bare.csv, line 1 (the header): no column 'label'
run_squad | | At least one of --do_train, --do_predict and --do_export
run_squad | do_train -train_file | this command needs --train_file
run_squad | do_predict | this command needs --predict_file
run_squad | do_train do_predict predict_file=ner | ner is not JSON
run_squad | do_train group_by_length | --group_by_length needs --dynamic_padding
run_squad | do_train f1_unit=character version_2_with_negative | --f1_unit=character cannot score questions without an answer
run_squad | do_train max_query_length=40 | max_query_length
run_squad | do_predict predict_file=v1.json output_dir=squad version_2_with_negative | --version_2_with_negative=True, but the model in
run_pretraining | do_eval | train first, or name one
run_pretraining | do_eval -input_file eval_file=nothing* | no file matches nothing*
run_pretraining | do_train -input_file | --do_train and --do_eval need --input_file
run_pretraining | do_train vocab_file=vocab.txt input_file=labels.tfrecord | labels.tfrecord: input_ids has 13 values in a record, expected 12
run_pretraining | do_train max_predictions_per_seq=9 | masked_lm_positions has 3 values in a record, expected 9
run_pretraining | do_train input_file=dynamic.tfrecord | dynamic.tfrecord was made with --masking=dynamic; --vocab_file is needed
run_pretraining | do_train init_checkpoint=nowhere/bert_model.ckpt | no file nowhere/bert_model.ckpt.index
run_pretraining | do_train stop_at_step=9 | --stop_at_step=9 is beyond --num_train_steps=3
run_pretraining | do_train sampling_weights=1,2 | --sampling_weights=1.0,2.0: give a number for each of the 1 patterns
run_pretraining | do_train mask_token_prob=0.9 random_token_prob=0.2 | random_token_prob 0.2 must be 0 or more, their sum 1 at most
run_pretraining | do_train bert_config_file=no.json | cannot read no.json: No such file
run_pretraining | do_export do_train dry_run export_dir=new | --do_export needs --vocab_file
run_pretraining | do_export export_dir=new output_dir=causal vocab_file=vocab.txt bert_config_file=bert_config.json | --do_lower_case=True, but the model in causal was trained with
run_pretraining | do_train objective=left_to_right attention=bidirectional | contradicts --objective=left_to_right
extract_features | do_export | --do_export needs --export_dir
extract_features | use_tpu distribution_strategy=mirrored | --use_tpu contradicts --distribution_strategy=mirrored
extract_features | -input_file | give --input_file and --output_file, or --do_export
extract_features | layers=0,3 | : the model has 1
extract_features | layers=0 output_file=out.npz | out.npz needs --format=npz
extract_features | input_file=gone | cannot read gone: No such file
extract_features | output_file=text | text is an input, too
create_pretraining_data | output_file=vocab.txt overwrite | vocab.txt is an input, too
extract_features | init_checkpoint=uncased_L-12_H-768_A-12/bert_model.ckpt do_lower_case=false | uncased_L-12_H-768_A-12 is a lower-cased model
extract_features | bert_config_file=deep.json | num_hidden_layers 1, but --bert_config_file=deep.json has num_hidden_layers 2
extract_features | {windows} | gives a vector for each text: give
extract_features | {windows} pooling=mean input_file=pairs | pairs, line 1 has two texts
fill_mask | | give --text or --input_file
fill_mask | text=no~mask | there is no [MASK] in 'no mask'
fill_mask | text=[MASK] vocab_file=long.txt | 10 lines but vocab_size in bert_config.json is 9
fill_mask | text=[MASK] vocab_file=unmasked.txt init_checkpoint=alone/a.ckpt | unmasked.txt lacks [MASK]
fill_mask | text=[MASK] init_checkpoint=squad | has no head that fills masks: name
fill_mask | text=[MASK] init_checkpoint=causal do_lower_case=false | a model of --objective=right_to_left cannot fill
build_vocab | input_file=blank | no words in blank
build_vocab | input_file=text,blank sampling_exponent=0.5 | no words in blank
build_vocab | output_file=text | text is an input, too
build_vocab | output_file=ner | ner exists already
build_vocab | preset=base | bert_config.json exists already
build_vocab | new_words=2 | --new_words needs --extend, the vocabulary to extend
build_vocab | vocab_size=7 | --vocab_size=7 is too small for the characters
build_vocab | special_tokens=[PAD],[UNK] | --special_tokens lacks [CLS], [SEP]
extend | new_words=0 | has 0 [unused] tokens to replace: to append
extend | vocab_size=9 | --vocab_size is not for --extend: leave it out
extend | -bert_config_file | this command needs --bert_config_file
extend | extend=other.txt | is not the vocabulary of the model: line 6 is
extend | output_file=old/vocab.txt | old is there already: name another --output_file, or remove it
extend | output_file=new/words | with --extend name FOLDER/vocab.txt
extend | input_file=text | has all words that text has --min_count=2
create_pretraining_data | input_file=gone* | no file matches gone*
create_pretraining_data | max_seq_length=4 | --max_seq_length=4: 4 is not integer >= 5
create_pretraining_data | masking=dynamic do_whole_word_mask | with --masking=dynamic give them to run_pretraining.py
create_pretraining_data | input_file=blank | there is no text in
create_pretraining_data | vocab_file=unmasked.txt | unmasked.txt lacks [MASK]
create_pretraining_data | output_file=ner | ner exists already
create_pretraining_data | -output_file | nothing to write: give --output_file, or --preview=3
create_pretraining_data | runner=DirectRunner output_file=a,b | several files; --runner takes
create_pretraining_data | text_field=text | text, line 1 is not a JSON object
split_sentences | input_file=gone | gone
split_sentences | output_file=ner | --overwrite
split_sentences | input_file=blank | holds no text
convert_checkpoint | input=hf://a/b/c | hf://a/b/c: write hf://ORGANIZATION/NAME, or hf://ORG
convert_checkpoint | input=gone | no checkpoint at 'gone'
convert_checkpoint | input=data | no checkpoint in the folder data: it has dev.tsv, test.tsv, train.tsv; expected
convert_checkpoint | input=alone | no bert_config.json beside alone/a.ckpt: give --bert_config_file
convert_checkpoint | input=bert_model.ckpt output=theirs | theirs/config.json exists already
visualize | -text | nothing to show: give --text, or --question and --context
visualize | model=export | no checkpoint in the folder export: it has
serve | model=gone | --model=gone: there is no folder gone
serve | model=data cors_origins=a.example | --cors_origins: 'a.example' is not an origin: write scheme://host or scheme://host:port in small letters, without a path, or *
""".strip().splitlines()  # noqa: E501
# Runs a program for each of several command lines, in forks of one process.
RUN = """
import json, os, runpy, sys, tempfile
from pathlib import Path
import runs.checks, cli.program, data.tables, tasks.open
for program, words in json.load(sys.stdin):
  before = {*Path().rglob("*")}
  with tempfile.TemporaryFile("w+") as log:
    if not os.fork():
      os.dup2(log.fileno(), 2)
      sys.argv = [program, *words]
      try:
        runpy.run_path(program, run_name="__main__")
        sys.exit()
      finally:
        for name in {"tensorflow", "keras"} & sys.modules.keys():
          print("imported", name, file=sys.stderr)
    status = os.waitstatus_to_exitcode(os.wait()[1])
    log.seek(0)
    changed = {*Path().rglob("*")} ^ before
    print(json.dumps([status, log.read(), [*map(str, changed)]]), flush=True)
"""


def _write_text(folder):
  texts = {
    "text": "red sky blue\nblue red sky\n",
    "words": "reds reds\n",
    "pairs": "red ||| blue\n",
    "blank": "\n \n\n",
    "ner": "red B-X\nsky O\n",
    "ship": "red O\nblue B-SHIP\n",
    "swapped": "B-X red\nO sky\n",
    "data/train.tsv": "text\tlabel\nred\tyes\nblue\tno\n",
    "data/dev.tsv": "text\tlabel\nred\tyes\n",
    "data/test.tsv": "text\nred\n",
    "swag.csv": "sent1,sent2,ending0,ending1,label\na,b,c,d,1\n",
    "theirs/config.json": "{}",
    "export/saved_model.pb": "",
    "numberless/task.json": "{}",
    "old/vocab.txt": "red",
    "bare.csv": "sent1,sent2,ending0,ending1\na,b,c,d\n",
  }
  answers = [{"text": "sky", "answer_start": 4}]
  question = {"id": "1", "question": "red", "answers": answers}
  shared.write_squad(folder / "v1.json", question, context="red sky")
  for name, text in texts.items():
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
  (folder / "excel").mkdir()
  (folder / "excel/train.csv").write_bytes(b"ID;Text;Label\n1;\xe4;yes\n")


def _write_models(folder):
  """Writes a pre-trained model, and output folders of trainings."""
  small_model.write(folder, WORDS)
  for name, tokens in (
    ("other", [*SPECIAL_TOKENS, *reversed(WORDS[5:])]),
    ("long", [*WORDS, "more"]),
    ("unmasked", [word for word in WORDS if word != "[MASK]"]),
  ):
    (folder / f"{name}.txt").write_text("\n".join(tokens))
  deep = small_model.config(len(WORDS), num_hidden_layers=2)
  deep.to_json(str(folder / "deep.json"))
  values = checkpoint.variables(models.encoder(small_model.config(len(WORDS))))
  checkpoint.write(str(folder / "bert_model.ckpt"), values)
  scoped = {
    name.replace("bert/", "tower/bert/"): v for name, v in values.items()
  }
  checkpoint.write(str(folder / "scoped/a.ckpt"), scoped)
  tuned = {"do_lower_case": True, "multi_label": False, "task_name": "sst-2"}
  tuned |= {"long_text": "truncate", "bert_config_file": "bert_config.json"}
  tuned |= {"is_regression": False, "vocab_file": "vocab.txt"}
  frozen = {"feature_based": True, "feature_layers": "weighted_sum_all"}
  causal = {"objective": "right_to_left", "do_lower_case": False}
  backward = dict.fromkeys(("objective", "attention"), "right_to_left")
  for name, program, flags in (
    ("tuned", "run_classifier", tuned),
    ("features", "run_ner", frozen | {"lstm_units": 6}),
    ("swept/best", "run_classifier", tuned),
    ("squad", "run_squad", {"version_2_with_negative": False}),
    ("right_to_left", "run_pretraining", backward),
    ("causal", "run_pretraining", causal),
    ("ships", "run_ner", {}),
    ("alone", "run_pretraining", {}),
  ):
    checkpoint.write(str(folder / name / "a.ckpt"), values)
    entry = {"program": program, "flags": flags, "directory": str(folder)}
    (folder / name / "run.json").write_text(json.dumps([entry]))
    if name not in ("alone", "ships"):
      text = 'model_checkpoint_path: "a.ckpt"\n'
      (folder / name / "checkpoint").write_text(text)
  labels.save(("O", "B-SHIP", "I-SHIP"), str(folder / "ships"))


def _parts(line):
  return map(str.strip, line.split("|"))


def _words(line):
  """Returns the program and command line of a mistake."""
  name, flags, _ = _parts(line)
  flags = flags.format(windows=WINDOWS)
  given = {}
  for word in f"{FLAGS[name]} {flags}".split():
    flag, _, value = word.partition("=")
    if flag.startswith("-"):
      given.pop(flag[1:], None)
    else:
      value = value if "=" in word else True
      given[flag] = f"--{flag}={value}".replace("~", " ")
  program = "build_vocab" if name == "extend" else name
  return str(programs.ROOT / f"{program}.py"), [*given.values()]


@pytest.fixture(name="outcomes", scope="module")
def _outcomes(tmp_path_factory):
  """Makes a program's mistakes: {line: (status, log, changed files)}."""
  folder = tmp_path_factory.mktemp("mistakes")
  _write_text(folder)
  _write_models(folder)
  toy.flags(folder)
  (folder / "bert_config.json").rename(folder / "toy.json")
  small_model.write(folder, WORDS)
  toy.write_records(str(folder / "a.tfrecord"), 2)
  for name, schema in (
    ("dynamic", features.pretraining(toy.T)),
    ("labels", features.classification(toy.T + 1)),
  ):
    row = {name: [1] * feature.size for name, feature in schema.items()}
    tfrecord.save(str(folder / f"{name}.tfrecord"), schema, [row])

  @cache
  def run(name):
    lines = [line for line in MISTAKES if line.startswith(f"{name} |")]
    commands = json.dumps([*map(_words, lines)])
    environment = {"PYTHONPATH": str(programs.ROOT), "PATH": "/usr/bin"}
    options = {"cwd": folder, "env": environment}
    done = programs.python(["-c", RUN], commands, **options)
    outcomes = map(json.loads, done.stdout.splitlines())
    return dict(zip(lines, outcomes, strict=True))

  return run


@pytest.mark.parametrize("line", MISTAKES, ids=lambda line: line[:60])
def test_a_mistake_gives_one_line_and_changes_no_file(outcomes, line):
  name, _, message = _parts(line)
  status, log, changed = outcomes(name)[line]
  programs.check_error(status, log, message)
  assert not changed
