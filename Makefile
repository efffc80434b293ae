# make demo   text in, a pre-trained and evaluated BERT out, in a few minutes
# make test   the tests of every change; make test-all   all tests
# make test-processors   tests that train, as other processors would compute
# make mutants PACKAGE=data COUNT=60 SEED=1   small bugs that tests must notice
# make lint   style, as ruff knows it, and types, as mypy does

# The newest Python that TensorFlow has wheels for and that works; or name one,
# as in make PYTHON=/path/to/python3.13.
PYTHON ?= $(firstword $(foreach python, \
  python3.13 python3.12 python3.11 python3 python, $(shell $(python) -c \
  'import sys, ensurepip; (3, 11) <= sys.version_info[:2] <= (3, 13) and \
  print("$(python)")' 2>/dev/null)))
VENV := .venv
RUN := $(VENV)/bin/python
OUT := demo-output

.PHONY: demo test test-all test-processors mutants lint clean
.DELETE_ON_ERROR:
.SECONDARY:

$(VENV)/installed: requirements.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 with venv works" \
	  "here: install one (Debian: apt install python3-venv), or name it:" \
	  "make $(MAKECMDGOALS) PYTHON=/path/to/python3.13"; exit 1; }
	@echo "Installing 3 GB of packages into $(VENV): minutes without output"
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

# Two processes; -rs says at the end what was skipped and why: Beam, JAX, real data.
TEST := $(RUN) -m pytest -rs --durations=20 --numprocesses=2 --dist=worksteal

test: $(VENV)/installed
	$(TEST) -m "not slow"

test-all: $(VENV)/installed
	$(TEST)

test-processors: $(VENV)/installed
	PYTHON=$(RUN) .ci/processors

mutants: COUNT = 60
mutants: SEED = 1
mutants: $(VENV)/installed
	$(RUN) -m tests.mutants $(PACKAGE) --count=$(COUNT) --seed=$(SEED)

lint: $(VENV)/installed requirements-dev.txt
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

clean:
	rm -rf $(OUT)

# The demonstration: each step is a command as you would type it yourself. A step
# that is done is not repeated; `make clean` forgets them all.

demo: $(OUT)/fill.txt $(OUT)/answers.jsonl $(OUT)/inside.html
	@echo; echo "1. Pre-trained, on text that it has not seen ($(OUT)/model;"
	@echo "a guess has a next_sentence_accuracy of 0.57):"
	@cat $(OUT)/model/eval_results.txt
	@echo; echo "2. What it puts for [MASK]:"; cat $(OUT)/fill.txt
	@echo; echo "3. Fine-tuned: the subject of a text, one of six (the largest: 0.23):"
	@cat $(OUT)/subjects/eval_results.txt
	@echo; echo "4. Answers of the export ($(OUT)/export/1), and the right subjects;"
	@echo "about six of ten answers are right:"; \
	  sed -E 's/.*"label": ("[a-z]*").*/\1/' $(OUT)/answers.jsonl \
	  | paste -d' ' demo/questions.jsonl - demo/subjects.txt
	@echo; echo "To open in a browser: both trainings, $(OUT)/model/run.html and"
	@echo "$(OUT)/subjects/run.html; attention and the way to a word, $(OUT)/inside.html"
	@echo "Next, a sentence of yours:"
	@echo "  $(RUN) predictor.py --model=$(OUT)/export/1 --text='...'"

$(OUT)/text: | $(VENV)/installed
	@echo "Warnings below are for your own data: this demo has short documents, so some"
	@echo "second sentences are random; it cuts long texts; some texts are about HTML."
	$(RUN) demo/reference_text.py $@

$(OUT)/%.txt: | $(OUT)/text
	$(RUN) split_sentences.py --input_file='$(OUT)/text/$*/*.txt' \
	  --output_file=$@

$(OUT)/vocab.txt: $(OUT)/train.txt
	$(RUN) build_vocab.py --input_file=$< --output_file=$@ --vocab_size=2000 \
	  --preset=tiny --overwrite

$(OUT)/bert_config.json: $(OUT)/vocab.txt

$(OUT)/train.tfrecord: RECORDS = --masking=dynamic --dupe_factor=5
$(OUT)/held_out.tfrecord: RECORDS = --dupe_factor=3

$(OUT)/%.tfrecord: $(OUT)/%.txt $(OUT)/vocab.txt
	$(RUN) create_pretraining_data.py --input_file=$< --output_file=$@ \
	  --vocab_file=$(OUT)/vocab.txt --max_seq_length=64 $(RECORDS)

MODEL := --bert_config_file=$(OUT)/bert_config.json \
  --vocab_file=$(OUT)/vocab.txt

$(OUT)/model/eval_results.txt: $(OUT)/train.tfrecord $(OUT)/held_out.tfrecord \
  $(OUT)/bert_config.json
	$(RUN) run_pretraining.py --flagfile=recipes/pretraining/little_text.flags \
	  $(MODEL) --input_file=$< --eval_file=$(OUT)/held_out.tfrecord \
	  --output_dir=$(OUT)/model --seed=1 --eval_batch_size=32 --max_eval_steps=37

$(OUT)/fill.txt: $(OUT)/model/eval_results.txt demo/fill.txt
	$(RUN) fill_mask.py $(MODEL) --init_checkpoint=$(OUT)/model \
	  --input_file=demo/fill.txt > $@
	@echo; echo "Its first answers, words for [MASK]:"; cat $@
	@echo; echo "Next it learns to name the subject of a text:"; echo

$(OUT)/inside.html: $(OUT)/model/eval_results.txt
	$(RUN) visualize.py --model=$(OUT)/model --output_file=$@ --overwrite \
	  --text="$$(sed -n 2p demo/fill.txt)" --text_pair="$$(sed -n 3p demo/fill.txt)"

$(OUT)/subjects/eval_results.txt: $(OUT)/model/eval_results.txt
	rm -rf $(OUT)/export
	$(RUN) run_classifier.py $(MODEL) --init_checkpoint=$(OUT)/model \
	  --task_name=tsv --data_dir=$(OUT)/text/task --max_seq_length=48 \
	  --do_train --learning_rate=1e-3 --adam_beta_2=0.98 \
	  --num_train_epochs=12 --do_eval --eval_steps=30 --do_export \
	  --export_dir=$(OUT)/export/1 --output_dir=$(@D) --seed=1

$(OUT)/answers.jsonl: $(OUT)/subjects/eval_results.txt demo/questions.jsonl
	$(RUN) predictor.py --model=$(OUT)/export/1 < demo/questions.jsonl > $@
