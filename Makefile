# Every target sets up what it needs: a virtual environment in the checkout, with the
# package (editable) and one extra. A stamp named after the contents of the two files
# that say what is installed makes the next run start at once.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
KEY := $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
ready = $(VENV)/.ready-$(1)-$(KEY)

# Some machines keep no compiled modules, and the suite's many processes would compile
# them anew each time.
export PYTHONDONTWRITEBYTECODE :=

# The suite runs in two processes of one thread each; BLAS threads would fight for cores.
TEST_ENV := SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1
WORKERS ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint docs bench clean

help:
	@echo "make demo    run the main example, print its table, save its picture"
	@echo "make test    run the tests and the examples in docstrings and guide"
	@echo "             (COVERAGE=1 measures branch coverage and checks it,"
	@echo "             ALL=1 runs the slow repetitions too)"
	@echo "make lint    check style and format"
	@echo "make docs    build the documentation in docs/_build/html"
	@echo "make bench   run all benchmarks (long)"
	@echo "make clean   remove what the above made, but for .venv"

$(VENV)/.ready-%-$(KEY):
	@echo "Setting up $(VENV) for \"$*\" (once; a minute or more)"
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --no-compile -c constraints.txt -e ".[$*]"
	rm -f $(VENV)/.ready-$*-*
	touch $@

demo: $(call ready,plot)
	mkdir -p demo_output
	MPLBACKEND=Agg $(RUN) examples/plot_two_hospitals.py demo_output/two_hospitals.png

# COVERAGE=1 measures branch coverage too, and fails below what setup.cfg asks for. Tests
# that run over every aggregator again are not traced, which would take minutes more.
COVERAGE ?=
UNTRACED := tests/test_common.py tests/test_contract.py tests/golden tests/test_demo.py
# Tests marked as slow show what others show, on more cases.
ALL ?=
# A worker takes tests in their order, which share what is fitted, and others from one
# that has more left.
TEST := $(TEST_ENV) $(RUN) -m pytest -n $(WORKERS) --dist worksteal $(if $(ALL),-m "slow or not slow")
test: $(call ready,test)
ifdef COVERAGE
	$(TEST) --cov $(addprefix --ignore=,$(UNTRACED)) $(ARGS)
	$(TEST) $(UNTRACED) $(ARGS)
else
	$(TEST) $(ARGS)
endif

lint: $(call ready,lint)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

docs: $(call ready,docs)
	$(RUN) -m sphinx -E -W --keep-going -q -b html docs docs/_build/html

bench: $(call ready,test)
	set -e; for script in benchmarks/bench_*.py; do $(RUN) $$script; done

clean:
	rm -rf docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf demo_output build dist .pytest_cache .ruff_cache .hypothesis .coverage*
