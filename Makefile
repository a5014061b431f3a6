# `make` says what there is; each target makes the virtual environment when it is missing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONFIG ?=
OUT ?=
RUNNER ?=
WORKERS ?=
OPTIONS ?=
UD ?=
SAMPLES := zh-pretrain en-pretrain zh-ner

.PHONY: help preprocess demo test lint bench parsers stanza clean

help:
	@echo 'make preprocess                     the embedded samples, from nothing to verified shards, in out/'
	@echo 'make preprocess CONFIG=my.yaml      your corpus; also OUT=dir WORKERS=4'
	@echo '    RUNNER=FlinkRunner OPTIONS="--flink_master=host:8081"   on a cluster'
	@echo 'make demo                           the whole road on the samples: shards, BERT, K-BERT, its scores'
	@echo 'make test                           the tests (heavy ones: .venv/bin/pytest -m heavy)'
	@echo 'make lint                           ruff and mypy'
	@echo 'make bench                          speed beside the bare libraries, as ratios'
	@echo 'make parsers UD=dir                 train the embedded parsers again'
	@echo 'make stanza UD=dir                  train small Stanza models, in OUT (stanza_models)'
	@echo '    OPTIONS="--size tiny"           in seconds: to see that it works; --lang en: one language'
	@echo 'make clean                          remove the virtual environment, caches and out/'

# Three marks: what the pipelines need, without torch; and on top of it what training needs, and the tools of a developer.
# PYTHONWARNINGS: setuptools warns of editable installs whose packages have common names.
$(VENV)/.pipelines: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing what the pipelines need into $(VENV)'
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[pipelines]'
	@touch $@

$(VENV)/.train: $(VENV)/.pipelines
	@echo 'installing what training needs into $(VENV)'
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[train]'
	@touch $@

$(VENV)/.dev: $(VENV)/.pipelines
	@echo 'installing the tools of a developer into $(VENV)'
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

preprocess: $(VENV)/.pipelines
	@$(BIN)/treegraft preprocess $(CONFIG) $(if $(OUT),--out $(OUT)) $(if $(RUNNER),--runner $(RUNNER)) $(if $(WORKERS),--workers $(WORKERS)) $(OPTIONS)

# Raw text to shards, BERT from scratch, K-BERT from that; the table of its scores comes last. Two minutes on two cores.
demo: $(VENV)/.train
	$(BIN)/treegraft preprocess $(SAMPLES:%=corpora/samples/%.yaml)
	$(BIN)/treegraft pretrain recipes/bert-pretrain.yaml
	$(BIN)/treegraft finetune recipes/kbert-ner.yaml
	$(BIN)/treegraft evaluate recipes/kbert-ner.yaml

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m pytest tests/bench -m bench -s

parsers: $(VENV)/.dev
	test -n "$(UD)" || { echo "make parsers UD=DIR: DIR holds en_ewt/*.conllu and zh/*.conllu"; exit 2; }
	$(BIN)/python -m pipelines.training.parsers --ud $(UD)

stanza: $(VENV)/.dev
	test -n "$(UD)" || { echo "make stanza UD=DIR: DIR holds en_ewt/*.conllu and zh/*.conllu"; exit 2; }
	$(BIN)/python -m pipelines.training.stanza --ud $(UD) $(if $(OUT),--out $(OUT)) $(OPTIONS)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis out
