# Two targets do all the set-up: `make demo` shows the product at work, `make test` proves it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PARTS := $(VENV)/requirements

# Tests start some thousand processes, each of which would compile all its modules where a machine keeps no bytecode.
unexport PYTHONDONTWRITEBYTECODE
# What is imported is what is installed, not what somebody's shell names beside it.
unexport PYTHONPATH
# They start helm some hundred times, and dozens of API servers: such lives are too short to tidy up in.
export GOGC ?= 400

.PHONY: install demo test e2e controlplane images guide page page-packages screenshots browser lint proto derived sbom suites bench scale statuses reviews fuzz soak hostile clean

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version). Name another with make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing dependencies (hash-checked)"
# A pip waits for the index half of its time, so four of them have a quarter of the lock each.
	@mkdir -p $(PARTS) && awk -v parts=$(PARTS) \
		'/^[A-Za-z0-9]/ {if (NR == FNR) all++; else n++} NR != FNR {print > (parts "/" int((n - 1) * 4 / all))}' \
		requirements.lock requirements.lock
	@ls $(PARTS)/* | xargs -P 4 -n 1 $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-compile --no-deps --require-hashes -r
# On all cores, and without thousands of files that nothing reads.
	@$(BIN)/python -m compileall -q -j 0 -x '/kubernetes/(client|dynamic|aio/client/(api|models))/' $(VENV)/lib
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

proto: install
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iproto \
		--python_out=libs --grpc_python_out=libs --mypy_out=quiet:libs --mypy_grpc_out=quiet:libs \
		$$(cd proto && find . -name '*.proto' | sed 's|^\./||' | sort)

# What the chart and the pages repeat of tables in code.
derived: install
	@$(BIN)/python -m derived

# What the image is made of, with licences; the Debian packages are those of the image's file system, if one
# says where it is: make sbom ROOT=/somewhere OUT=kai-scheduler.cdx.json
sbom: install
	@$(BIN)/python -m sbom --output $(or $(OUT),kai-scheduler.cdx.json) $(if $(ROOT),--root $(ROOT))

lint: install
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

demo: install
	@$(BIN)/python -m e2e.demo $(ARGS)

test: install
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

# The programs of a real control plane, built once per machine; needs Go.
controlplane: install
	@$(BIN)/python -m e2e.controlplane $(PROGRAMS)

# Both images, built without a daemon, and asked what docs/docker.md says of them; root, on Debian. With OUT= they
# are also written there, as archives that containerd imports: make images OUT=/somewhere
images: install
	@$(BIN)/python -m e2e.images $(if $(OUT),--out $(OUT)) $(ARGS)

# The page that insight serves, from its sources; needs npm. Its types, style and tests are looked at first.
# With CHECK=1 nothing is written: it fails where what is committed is not what the sources give.
WEB := services/kai_insight/web
PACKAGES := $(WEB)/node_modules/.package-lock.json
page: $(PACKAGES)
	@npm --prefix $(WEB) run --silent types
	@npm --prefix $(WEB) run --silent lint
	@npm --prefix $(WEB) run --silent test
	@npm --prefix $(WEB) run --silent $(if $(CHECK),check,build)

# npm writes this file when everything is there.
$(PACKAGES): $(WEB)/package-lock.json
	@npm --prefix $(WEB) ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=5

page-packages: $(PACKAGES)

# The page, and its tests in a real Chromium; what of both is missing is installed first: root, on Debian.
browser: install
	@$(BIN)/python -m e2e.browser $(ARGS)

# The pictures of docs/page.md, taken in that Chromium.
screenshots: install
	@$(BIN)/python -m e2e.browser --screenshots

# The guide of an administrator on two real nodes, with what may go wrong; root, on Debian. Builds what it needs.
guide: install
	@$(BIN)/python -m e2e.controlplane nodes etcd kube-apiserver kube-controller-manager kwok helm
	@$(BIN)/python -m e2e.guide $(ARGS)

# The same suite on etcd, kube-apiserver and KWOK, and random edits of Config and shards on such an API server;
# `make e2e KUBECONFIG=...` takes that cluster instead, and `make e2e FIRST=e2e/test_numa.py` begins with those.
# WORKERS=3, as the gate has it, runs three clusters at a time: all are busy, and a wait may be too short now and then.
e2e: install
	@KAI_E2E_CLUSTER=real $(if $(filter command,$(origin KUBECONFIG)),KAI_E2E_KUBECONFIG=$(KUBECONFIG)) \
		KAI_E2E_FIRST="$(FIRST)" $(BIN)/python -m pytest e2e services/tests/operator/test_edits.py \
		-n $(or $(WORKERS),0) --dist loadfile --no-loadscope-reorder $(ARGS)

# The end-to-end suites of the KAI Scheduler, from a checkout of it, on a real control plane with our chart:
# make suites SOURCES=../KAI-Scheduler ARGS="--suite allocate --suite reclaim"
suites: install
	@$(BIN)/python -m e2e.suites --sources "$(SOURCES)" $(ARGS)

bench: install
	@$(BIN)/kai bench
	@$(BIN)/python -m e2e.bench.pipeline

# How a large cluster is borne, on a real control plane: make scale NODES=100 ARGS="--case fill --json report.json"
scale: install
	@$(BIN)/python -m e2e.bench.scale --nodes $(or $(NODES),500) $(ARGS)

# What the statuses of many queues and groups cost, and how quickly admission answers.
statuses: install
	@$(BIN)/python -m e2e.bench.statuses $(ARGS)

reviews: install
	@$(BIN)/python -m e2e.bench.admission $(ARGS)

# As many random worlds as one asks for, 50 times as many hostile reviews and objects, and half as many edits of
# Config and shards, from a seed to repeat: make fuzz CASES=5000 SEED=7
fuzz: install
	@KAI_FUZZ_EXAMPLES=$(or $(CASES),$(EXAMPLES),2000) KAI_FUZZ_SEED=$(or $(SEED),1) \
		KAI_FUZZ_REVIEWS=$$(( 50 * $(or $(CASES),$(EXAMPLES),2000) )) \
		KAI_FUZZ_EDITS=$$(( $(or $(CASES),$(EXAMPLES),2000) / 2 )) \
		$(BIN)/python -m pytest -q --timeout=0 libs/tests/engine/test_properties.py libs/tests/engine/properties libs/tests/replay \
		libs/tests/engine/test_extremes.py libs/tests/snapshot/test_bounds.py services/tests/fuzz \
		services/tests/operator/test_edits.py

# Random life and trouble on a cluster, judged from outside: make soak MINUTES=30 SEED=7
soak: install
	@$(BIN)/python -m e2e.soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) --out $(or $(OUT),soak-report$(AGAIN:%=/%)) $(ARGS)

# A tenant who does his worst beside another team: make hostile MINUTES=20 SEED=1 OBJECTS=5000; needs helm
hostile: install
	@$(BIN)/python -m e2e.hostile --minutes $(or $(MINUTES),20) --seed $(or $(SEED),1) \
		--objects $(or $(OBJECTS),5000) --out $(or $(OUT),hostile-report$(AGAIN:%=/%)) $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
