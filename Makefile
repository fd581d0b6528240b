# Every target sets up what it needs: a virtual environment in the checkout, with the
# package (editable) and one extra. A stamp named after the contents of the two files
# that say what is installed makes the next run start at once.

PYTHON ?= python3
VENV := .venv
PINS := -c constraints.txt
# With the tests goes all that the package has extras for; the suite skips what needs a
# package that is not there: EXTRA=tools tests a bare installation.
EXTRA := test
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
.PHONY: help demo test golden lint types paths docs bench clean
.PHONY: test-oldest test-newest test-anywhere test-kernels package release

help:
	@echo "make demo    run the main example, print its tables, save its picture"
	@echo "make test    run the tests and the examples in docstrings and guide"
	@echo "             (COVERAGE=1 measures branch coverage and checks it,"
	@echo "             ALL=1 runs the slow repetitions too)"
	@echo "make test-oldest, make test-newest"
	@echo "             run them with the lowest versions that pyproject.toml allows,"
	@echo "             and with the newest that there are"
	@echo "make test-anywhere"
	@echo "             run them as other processors would, one switch after the other"
	@echo "             (make test-kernels: a part of them, and every method once)"
	@echo "make package build and check what is released, and try it where nothing else is"
	@echo "make release do that, and say what is left to do by hand"
	@echo "make golden  compare results with those of another commit (BASE=<commit>);"
	@echo "             what differs is an error, but for INTENDED=\"pattern, pattern\""
	@echo "make lint    check style, format, spelling and the length of sentences"
	@echo "make paths   count the functions and files that nine kinds of fits and replies"
	@echo "             pass, which may not become more (half a minute)"
	@echo "make types   check the types of the examples in README and guide, as users would"
	@echo "make docs    build the documentation in docs/_build/html"
	@echo "make bench   run a quick form of each benchmark, and print the claims of README"
	@echo "             and guide beside what they found (ten minutes of one core)"
	@echo "make clean   remove what the above made, but for .venv"

$(VENV)/.ready-%-$(KEY):
	@echo "Setting up $(VENV) for \"$*\" (once; a minute or more)"
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --no-compile $(PINS) -e ".[$*]"
	rm -f $(VENV)/.ready-$*-*
	touch $@

demo: $(call ready,plot)
	mkdir -p demo_output
	MPLBACKEND=Agg OMP_NUM_THREADS=1 $(RUN) examples/plot_two_hospitals.py demo_output/two_hospitals.png

# COVERAGE=1 measures branch coverage too, and fails below what setup.cfg asks for. Tests
# that run over every aggregator again are not traced, which would take minutes more.
COVERAGE ?=
UNTRACED := $(wildcard tests/test_common*.py) tests/test_contract.py tests/test_demo.py
# Tests marked as slow show what others show, on more cases.
ALL ?=
# A worker takes tests in their order, which share what is fitted, and others from one
# that has more left.
TEST := $(TEST_ENV) $(RUN) -m pytest -n $(WORKERS) --dist worksteal $(if $(ALL),-m "slow or not slow")
test: $(call ready,$(EXTRA))
ifdef COVERAGE
	$(TEST) --cov $(addprefix --ignore=,$(UNTRACED)) $(ARGS)
	$(TEST) $(UNTRACED) $(ARGS)
else
	$(TEST) $(ARGS)
endif

# Each in an environment of its own. torch is in neither by default: any version but the
# pinned one comes with gigabytes of CUDA on Linux. TORCH="torch==2.6" tests its floor,
# TORCH=torch the newest.
TORCH := $(shell grep ^torch== constraints.txt)
# The oldest go without Flower, which needs newer versions of others than we do.
test-oldest: EXTRA := all,tools
test-oldest: $(call ready,package)
	mkdir -p build
	$(RUN) .ci/floors.py $(TORCH) > build/floors.txt
	$(MAKE) test VENV=.venv-oldest PINS="-c build/floors.txt" EXTRA="$(EXTRA)"
test-newest:
	rm -f .venv-newest/.ready-*
	$(MAKE) test VENV=.venv-newest PINS="--upgrade --upgrade-strategy eager $(TORCH)"

# What other processors compute: kernels of OpenBLAS, instructions of numpy, threads.
# The fourth is a processor with AVX2 and without AVX-512.
SWITCHES := OPENBLAS_CORETYPE=Prescott OPENBLAS_CORETYPE=Nehalem \
	OPENBLAS_CORETYPE=Sandybridge \
	"OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES=X86_V4" \
	NPY_DISABLE_CPU_FEATURES=X86_V3 OMP_NUM_THREADS=2
ANYWHERE := $(TEST_ENV) $(RUN) .ci/anywhere.py
test-anywhere: $(call ready,test)
	$(ANYWHERE) $(SWITCHES) -- -m pytest -q -n $(WORKERS) $(ARGS)

# What depended on rounding once, and every method once.
FRAGILE := tests/gems/test_empty.py tests/guard/test_inspecting.py tests/moments tests/spaces tests/asking/test_tuned_*.py \
	docs/user_guide/gems.rst docs/user_guide/gems_mlp.rst
KERNELS := OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES=X86_V3
test-kernels: $(call ready,test)
	$(ANYWHERE) $(KERNELS) -- .ci/smoke.py
	$(ANYWHERE) $(KERNELS) -- -m pytest -q -n $(WORKERS) $(FRAGILE)

# The wheel where nothing else is, and the unpacked sdist, which holds all that git does
# and runs its own tests; both are made anew.
BARE := build/bare/bin/python
package: $(call ready,package) $(call ready,test)
	rm -rf dist build/bare build/sdist build/lib build/bdist.*
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(RUN) -m build --outdir dist .
	$(RUN) -m twine check --strict dist/*
	$(PYTHON) -m venv build/bare
	$(BARE) -m pip install --quiet --no-compile -c constraints.txt dist/*.whl
	cd build && bare/bin/python ../.ci/smoke.py
	mkdir build/sdist
	tar xf dist/*.tar.gz -C build/sdist --strip-components=1
	git ls-files | (cd build/sdist && xargs ls > /dev/null)
	cd build/sdist && PYTHONPATH=. ../bare/bin/python .ci/smoke.py
	cd build/sdist && $(TEST_ENV) $(CURDIR)/$(RUN) -m pytest -q $(SHORT)
SHORT := tests/test_import.py tests/test_house.py tests/channels/test_exchange.py

# What is released, and what only a person can do.
VERSION = $(shell sed -n 's/^__version__ = "\([^"]*\)".*/\1/p' skgems/__init__.py)
release: package
	@echo
	@ls -l dist
	@echo "skgems $(VERSION) is built and checked. Left to do by hand:"
	@test -z "$$(git status --porcelain)" || \
		echo "  - commit what git status shows, and make release again"
	@echo $(VERSION) | grep -vq dev || \
		echo "  - leave out .dev0 in skgems/__init__.py and CITATION.cff; commit"
	@grep -q '^## \[$(VERSION:.dev0=)\]' CHANGELOG.md || \
		echo "  - name [Unreleased] of CHANGELOG.md [$(VERSION:.dev0=)], with its date; commit"
	@echo "  - .ci/run on this commit; make test-oldest; make test-newest"
	@echo "  - make golden BASE=v<the last version>, and read what differs on purpose"
	@echo "  - git tag -s v$(VERSION:.dev0=) && git push origin v$(VERSION:.dev0=)"
	@echo "  - $(RUN) -m twine upload dist/*"
	@echo "  - a release of the tag, with its section of CHANGELOG.md"
	@echo "  - the next version, with .dev0, in skgems/__init__.py and CITATION.cff;"
	@echo "    [Unreleased] on top"

# What each of two commits makes of its own cases, and whether this one reads what the
# other has kept. Cases that differ are errors, unless tests/golden/intended.toml names
# them, or the call: INTENDED="pooled/*, linear/clusters*".
BASE ?=
INTENDED ?=
golden: $(call ready,test)
	PYTHONPATH=tests $(RUN) -m golden.compare --intended "$(INTENDED)" $(BASE)

# The spelling is American, as in scikit-learn, and no sentence is too long.
TEXTS := README.md CONTRIBUTING.md CHANGELOG.md $(wildcard docs/*.rst) \
	docs/user_guide examples skgems benchmarks
lint: $(call ready,lint)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) .ci/docstrings.py
	$(RUN) -m codespell_lib $(TEXTS)
	$(RUN) .ci/sentences.py

# What mypy says to users of what the pages show them to write: of skgems it reads the
# signatures only.
types: $(call ready,types)
	rm -rf build/snippets
	$(RUN) .ci/snippets.py build/snippets
	MYPYPATH=$(CURDIR) $(RUN) -m mypy --cache-dir build/mypy --ignore-missing-imports \
		--follow-imports silent --check-untyped-defs build/snippets

# The ceilings are in .ci/ceilings.toml; tests/test_sizes.py holds the others there.
paths: $(call ready,test)
	$(TEST_ENV) $(RUN) .ci/path_of_a_fit.py --check

docs: $(call ready,docs)
	$(RUN) -m sphinx -E -W --keep-going -q -b html docs docs/_build/html

# ARGS="--only trees" runs some of the scripts.
bench: $(call ready,test)
	$(RUN) benchmarks/run_quick.py $(ARGS)

clean:
	rm -rf docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf demo_output build dist .pytest_cache .ruff_cache .hypothesis .coverage*
