# make demo   text in, a pre-trained and evaluated BERT out, in a few minutes
# make test   the tests of every change; make test-all   all tests
# make test-processors   tests that train, as other processors would compute
# make lint   style, as ruff knows it

PYTHON ?= python3.11
VENV := .venv
RUN := $(VENV)/bin/python
OUT := demo-output

.PHONY: demo test test-all test-processors lint clean
.DELETE_ON_ERROR:
.SECONDARY:

$(VENV)/installed: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

# Two processes; -rs says at the end what was skipped and why: Beam, JAX, real data.
TEST := $(RUN) -m pytest -rs --numprocesses=2 --dist=worksteal

test: $(VENV)/installed
	$(TEST) -m "not slow"

test-all: $(VENV)/installed
	$(TEST)

test-processors: $(VENV)/installed
	PYTHON=$(RUN) .ci/processors

lint: $(VENV)/installed requirements-dev.txt
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .

clean:
	rm -rf $(OUT)

# The demonstration: each step is a command as you would type it yourself.

demo: $(OUT)/fill.txt
	@echo && cat $(OUT)/model/eval_results.txt && echo && cat $<

$(OUT)/text: | $(VENV)/installed
	$(RUN) demo/reference_text.py $@

$(OUT)/%.txt: | $(OUT)/text
	$(RUN) split_sentences.py --input_file='$(OUT)/text/$*/*.txt' \
	  --output_file=$@

$(OUT)/vocab.txt: $(OUT)/train.txt
	$(RUN) build_vocab.py --input_file=$< --output_file=$@ --vocab_size=2000

$(OUT)/%.tfrecord: $(OUT)/%.txt $(OUT)/vocab.txt
	$(RUN) create_pretraining_data.py --input_file=$< --output_file=$@ \
	  --vocab_file=$(OUT)/vocab.txt --max_seq_length=64 \
	  --max_predictions_per_seq=10 --dupe_factor=10

$(OUT)/model/eval_results.txt: $(OUT)/train.tfrecord $(OUT)/held_out.tfrecord
	$(RUN) run_pretraining.py --bert_config_file=demo/bert_config.json \
	  --input_file=$< --eval_file=$(OUT)/held_out.tfrecord \
	  --output_dir=$(OUT)/model --do_train --do_eval --seed=1 \
	  --max_seq_length=64 --max_predictions_per_seq=10 \
	  --num_train_steps=4000 --num_warmup_steps=400 --learning_rate=1e-3

$(OUT)/fill.txt: $(OUT)/model/eval_results.txt demo/fill.txt
	$(RUN) fill_mask.py --bert_config_file=demo/bert_config.json \
	  --vocab_file=$(OUT)/vocab.txt --init_checkpoint=$(OUT)/model \
	  --input_file=demo/fill.txt > $@
