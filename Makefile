# `make demo` and `make test` are all that most need. Each command makes the environment it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DATA := var/nycflights13
# Else each of some hundred processes compiles all modules again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test slow prepare check coverage docs bench data chaos fuzz statements damage examples feed tpch tpcds nexmark large model faults recovery
.PHONY: shredder memory soak dbt clean lock

# The trading demo draws a picture on a terminal, and prints lines elsewhere
DEMO ?= --seconds $$(test -t 2 && echo 60 || echo 20)

demo: $(STAMP) prepare data  ## the flights example, end to end, then the trading demo; DEMO="--seconds 20 --headless"
	@rm -rf var/demo
	$(BIN)/tidemill run examples/flights.sql --root var/demo --once --epoch-bytes 2m
	$(BIN)/tidemill query --root var/demo "SELECT * FROM carrier_ranking ORDER BY pct_late DESC LIMIT 5"
	$(BIN)/tidemill query --root var/demo "SELECT * FROM busy_routes ORDER BY flights DESC LIMIT 5"
	$(BIN)/tidemill demo $(DEMO)

test slow: export TIDEMILL_SEED := $(or $(TIDEMILL_SEED),20261120)
SUITE := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
test: $(STAMP) prepare  ## the test suite in three processes; TIDEMILL_SEED=n for other random tests than the usual ones
	$(SUITE) -m "not slow"

slow: $(STAMP) prepare  ## the rest of it: killed processes, little memory, several hosts, query suites, long histories
	$(SUITE) -m slow

prepare: $(STAMP)  ## what is slow the first time, once: kernels are compiled, and Java's classes archived
	@$(BIN)/python -m tidemill.runtime.spark.make_java_archive > /dev/null & \
		$(BIN)/python -m tidemill.runtime.workers.compile_kernels && wait

check: $(STAMP)  ## seconds: style, types, import direction
	$(BIN)/ruff check src tests benchmarks examples integrations
	$(BIN)/ruff format --check src tests benchmarks examples integrations
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_import_direction.py tests/test_errors.py tests/test_options.py

coverage: $(STAMP) prepare  ## the suite, with what of src it runs outside of compiled kernels; TESTS=tests/plan for a part
	$(BIN)/python -m pytest -n 3 --dist loadfile --cov=tidemill --cov-report=term:skip-covered $(TESTS)

docs: $(STAMP)  ## the documentation as a site in var/site; strict about links
	$(BIN)/python -m mkdocs build --strict

bench: $(STAMP)  ## ratios against peers; BENCH=name runs one
	$(BIN)/python -m benchmarks $(BENCH)

chaos: $(STAMP)  ## the long form of the crash tests: processes killed, every format and codec at every point of an epoch
	TIDEMILL_CHAOS=50 $(BIN)/python -m pytest tests/runtime tests/sinks/test_killed.py \
		-k "test_crash or _crashes or kill or several_partitions"

feed: $(STAMP)  ## views over the feed of an exchange are its book, over millions of messages; MESSAGES=2000000
	TIDEMILL_FEED=$(or $(MESSAGES),2000000) $(BIN)/python -m pytest tests/exchange/test_feed.py

fuzz: $(STAMP)  ## random queries against Spark and DuckDB; QUERIES=2000, TIDEMILL_SEED=n repeats a run
	TIDEMILL_QUERIES=$(or $(QUERIES),200) $(BIN)/python -m pytest -s tests/equivalence/test_random_queries.py

statements: $(STAMP)  ## random statements, each with an answer or a numbered error; COUNT=5000, TIDEMILL_SEED=n repeats a run
	TIDEMILL_STATEMENTS=$(or $(COUNT),5000) $(BIN)/python -m pytest -s tests/equivalence/test_random_statements.py

damage: $(STAMP)  ## damaged files, as Spark reads them; FILES=2000, TIDEMILL_SEED=n repeats a run
	TIDEMILL_DAMAGED_FILES=$(or $(FILES),2000) $(BIN)/python -m pytest -s tests/formats/test_damaged_files.py

examples: $(STAMP)  ## random tests of formats with three times as many examples; EXAMPLES=300 per cent of what is written there
	TIDEMILL_EXAMPLES=$(or $(EXAMPLES),100) $(BIN)/python -m pytest tests/formats

tpch: $(STAMP)  ## TPC-H at a larger scale, every epoch against Spark; SCALE=0.01
	TIDEMILL_TPCH=$(or $(SCALE),0.01) $(BIN)/python -m pytest tests/equivalence/test_tpch.py

tpcds: $(STAMP)  ## all queries of TPC-DS as views, every epoch against Spark; SCALE=2 times the usual facts, ONLY=q14,q39
	TIDEMILL_TPCDS=$(or $(SCALE),2) TIDEMILL_TPCDS_ONLY=$(ONLY) $(BIN)/python -m pytest -s tests/equivalence/test_tpcds.py

nexmark: $(STAMP)  ## Nexmark with more events in Spark jobs, every epoch against Spark
	TIDEMILL_NEXMARK=1 $(BIN)/python -m pytest tests/equivalence/test_nexmark.py

model: $(STAMP)  ## random operations on state against dictionaries; SEEDS=200 OPERATIONS=10000, TIDEMILL_SEED=n is the first
	TIDEMILL_MODEL_SEEDS=$(or $(SEEDS),200) TIDEMILL_MODEL_OPERATIONS=$(or $(OPERATIONS),10000) \
		$(BIN)/python -m pytest -s tests/state/test_model.py

faults: $(STAMP)  ## every step of stories of state fails in every way, every byte of a root is wrong; TIDEMILL_SEED=n
	TIDEMILL_FAULTS=1 $(BIN)/python -m pytest -s tests/state/test_fault_injection.py

recovery: $(STAMP)  ## opening large state; MEGABYTES=1000
	TIDEMILL_STATE_MB=$(or $(MEGABYTES),1000) $(BIN)/python -m pytest tests/state/test_mapped.py

shredder: $(STAMP)  ## who parses what with 16 threads; SEEDS=50 BUFFERS=100000, TIDEMILL_SEED=n is the first
	TIDEMILL_SHREDDER_SEEDS=$(or $(SEEDS),50) TIDEMILL_SHREDDER_BUFFERS=$(or $(BUFFERS),100000) \
		$(BIN)/python -m pytest -s --timeout 3600 tests/formats/test_shredder.py -k sixteen

memory: $(STAMP)  ## files of 2 GB, made on the fly, in 512 MB of memory; MEGABYTES=2048
	TIDEMILL_MEMORY_MB=$(or $(MEGABYTES),2048) $(BIN)/python -m pytest -s --timeout 900 tests/formats/test_memory_limit.py

soak: $(STAMP) prepare  ## a server for half an hour under random clients and kills, beside DuckDB; MINUTES=30, TIDEMILL_SEED=n
	TIDEMILL_SOAK_MINUTES=$(or $(MINUTES),30) $(BIN)/python -m benchmarks soak

DBT ?= var/dbt/bin/dbt

dbt: $(STAMP)  ## the adapter of dbt with dbt itself, in an environment of its own; DBT=path of one that is there
	test -x $(DBT) || { $(PYTHON) -m venv var/dbt && var/dbt/bin/pip install --quiet ./integrations/dbt; }
	TIDEMILL_DBT=$(abspath $(DBT)) $(BIN)/python -m pytest --timeout 1800 tests/integrations/test_dbt.py

large: $(STAMP)  ## a file larger than memory, with driver and worker memory limited
	PYTHONPATH=. $(BIN)/python tests/runtime/tables/large_file.py

data: $(DATA)/flights.csv

$(DATA)/flights.csv: | $(STAMP)
	$(BIN)/python examples/flights_data.py $(DATA)

$(STAMP): pyproject.toml requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $(STAMP)

lock:  ## write requirements.lock from what is installed
	$(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check > requirements.lock

clean:
	rm -rf var $(VENV) build dist src/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
