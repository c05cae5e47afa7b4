# `make demo` and `make test` need python3 with venv, and nothing else: everything is installed into .venv.

PYTHON ?= python3
BIN := .venv/bin
# Wheels alone, but for one file of Python that `langgraph dev` needs and that has none.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --only-binary :all: --no-binary forbiddenfruit --constraint constraints.txt

.PHONY: help demo chat web notebook notebooks test lint bench acceptance docs site build clean

help:
	@echo "make demo        a chatbot that remembers, on a written-out conversation; run it twice"
	@echo "make chat        the same at the keyboard"
	@echo "make notebook    the notebooks in JupyterLab"
	@echo "make notebooks   run all notebooks from a clean state, and keep what they show"
	@echo "make web         a web chat, http://127.0.0.1:8000"
	@echo "make test        all tests, on a real MongoDB that they start themselves"
	@echo "make lint        ruff and mypy"
	@echo "make bench       measurements"
	@echo "make acceptance  what a newcomer does, in a fresh clone: demo, README, docs, notebooks, examples, commands"
	@echo "make docs        run the code in README.md and docs/, and build the site"
	@echo "make site        build the site alone, into build/docs"
	@echo "make build       wheel and sdist into dist/, each installed into a fresh environment"
	@echo "make clean       remove the virtual environment and all caches"

demo: .venv/demo
	$(BIN)/python examples/chatbot.py examples/conversation.txt

chat: .venv/demo
	@$(BIN)/python examples/chatbot.py

notebook: .venv/notebooks
	$(BIN)/jupyter trust notebooks/*.ipynb # else the outputs that are stored are shown without styles
	$(BIN)/jupyter lab --ServerApp.root_dir=$(CURDIR) --LabApp.default_url=/lab/tree/notebooks/01-threads.ipynb

notebooks: .venv/notebooks
	$(BIN)/python notebooks/execute.py

web: .venv/web
	@$(BIN)/python examples/web_chat.py

test: .venv/dev
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/bench
	@status=0; for benchmark in saver short_chats store_search store_stream; do $(BIN)/python benchmarks/$$benchmark.py || status=1; done; exit $$status

acceptance:
	.ci/acceptance

docs: .venv/dev site
	$(BIN)/python -m pytest tests/acceptance/test_docs.py

site: .venv/docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --doctree-dir build/doctrees docs build/docs
	@echo "build/docs/index.html"

build: $(BIN)/pip
	rm -rf dist build/fresh
	$(INSTALL) build
	$(BIN)/python -m build
	@for made in dist/*.whl dist/*.tar.gz; do $(PYTHON) -m venv --clear build/fresh \
		&& build/fresh/bin/pip install --quiet --disable-pip-version-check "$$made" \
		&& (cd build && fresh/bin/python -c "import mongomem, mongomem.display, mongomem.testing; print('$$made', mongomem.__file__)") \
		|| exit 1; done

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/pip:
	$(PYTHON) -m venv .venv

.venv/demo: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing into .venv: about 450 MB, half a minute after the downloads"
	$(INSTALL) --editable ".[server,local]"
	touch $@

.venv/notebooks: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing into .venv: Jupyter, about 150 MB more"
	$(INSTALL) --editable ".[notebooks]"
	touch $@

.venv/web: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) --editable ".[server,local,web]"
	touch $@ .venv/demo

.venv/docs: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) --editable ".[docs]"
	touch $@

.venv/dev: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) --editable ".[dev]"
	touch $@ .venv/demo .venv/web

.venv/bench: pyproject.toml constraints.txt benchmarks/requirements.txt | $(BIN)/pip
	$(INSTALL) --editable ".[server,local]" --requirement benchmarks/requirements.txt
	touch $@
