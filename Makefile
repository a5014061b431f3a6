# `make` targets; each makes the virtual environment when it is missing.
#   make preprocess                        the embedded samples, from nothing to verified shards
#   make preprocess CONFIG=my.yaml         your corpus
#   make preprocess CONFIG=my.yaml RUNNER=FlinkRunner OPTIONS="--flink_master=host:8081"
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONFIG ?=
OUT ?=
RUNNER ?=
WORKERS ?=
OPTIONS ?=
UD ?=

.PHONY: preprocess test lint bench parsers clean

# Two marks: what the pipelines need, and the tools of a developer on top. Neither has torch.
$(VENV)/.pipelines: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[pipelines]'
	touch $@

$(VENV)/.dev: $(VENV)/.pipelines
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

preprocess: $(VENV)/.pipelines
	$(BIN)/treegraft preprocess $(CONFIG) $(if $(OUT),--out $(OUT)) $(if $(RUNNER),--runner $(RUNNER)) \
		$(if $(WORKERS),--workers $(WORKERS)) $(OPTIONS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m pytest tests/bench -m bench -s

parsers: $(VENV)/.dev
	test -n "$(UD)" || { echo "make parsers UD=DIR: DIR holds en_ewt/*.conllu and zh/*.conllu"; exit 2; }
	$(BIN)/python -m pipelines.train_parsers --ud $(UD)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis out
