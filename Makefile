# SpecGate. `make serve` starts it and `make test` tests it; every target first sets up what it needs.
#
#   PYTHON=python3.12   which Python makes the environment (3.11 to 3.13; the first one found)
#   VENV=/disk/venv     where the environment lies
#   TORCH_INDEX=https://…  where PyTorch comes from (a CUDA or CPU build of your choice)
#   PYTEST='-k chat'    what is added to pytest's command line

VENV ?= .venv
BIN = $(VENV)/bin
PYTEST ?=
# Two test workers share the cores: a thread pool for each core in each of them would only wait. Tests that share a
# running server stay on one worker.
TESTS = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

export VENV PYTHON TORCH_INDEX
.PHONY: help setup serve demo demo-traffic env test test-long bench bench-reports check fix clean
.DEFAULT_GOAL := help

help:
	@echo "make serve      set up and start SpecGate on 127.0.0.1:8000 (PORT=, HOST=, SPECGATE_HOME=)"
	@echo "make demo       an edit with and without its prediction, side by side (in a second terminal)"
	@echo "make demo-traffic  four minutes of requests by a tenant \`demo\`, then its report (DEMO='--requests 40')"
	@echo "make env        .env for docker-compose.yml, with secrets of its own"
	@echo "make test       the test suite; make test-long: kill loops, soaks and simulations"
	@echo "make bench      what the gateway adds to a request (on a quiet machine; BENCH='--quick')"
	@echo "make bench-reports  how long reports take over ten million requests (BENCH='--rows 1000000 --quick')"
	@echo "make check      format, lint, types and import rules; make fix: repair what can be"
	@echo "make setup      only the environment; make clean: remove it"

setup:
	@sh .ci/setup

serve: setup
	@exec $(BIN)/specgate serve

demo: setup
	@exec $(BIN)/specgate demo

demo-traffic: setup
	@exec $(BIN)/specgate demo-traffic $(DEMO)

env: .env

# HEX and KEY are drawn anew; a file that is there is left alone.
.env:
	@umask 077; while IFS= read -r line; do case $$line in \
	  *=HEX) echo "$${line%HEX}$$(openssl rand -hex 32)" ;; \
	  *=KEY) echo "$${line%KEY}sk-sg-$$(openssl rand -hex 6)-$$(openssl rand -hex 32)" ;; \
	  *) printf '%s\n' "$$line" ;; esac; done <.env.example >.env.new && mv .env.new .env
	@echo "Made .env: docker compose --profile cpu up --build"

test: setup
	$(TESTS) -p tests.one_server -n 2 -m "not long" $(PYTEST)

# pytest's exit 5 says that no test is marked long: that is told, and is no failure.
test-long: setup
	$(TESTS) -m long $(PYTEST) || { status=$$?; test $$status -eq 5 && echo "no long test exists"; }

# What the gateway adds to a request, as a ratio to a bare relay; BENCH='--quick' is a look, --json for programs.
bench: setup
	$(BIN)/python -m tests.benchmarks.gateway_overhead $(BENCH)

# Reports over ten million settled rows on both databases: an hour, 30 GB of disk; BENCH='--rows 1000000 --quick'.
bench-reports: setup
	$(BIN)/python -m tests.benchmarks.reports $(BENCH)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
