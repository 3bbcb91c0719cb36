# make demo: set up and show the main job. make test: set up and run everything that a change must pass.
PYTHON ?= python3
UV     := .uv/bin/uv
CFILES := $(wildcard client/c/*.c client/sealcar/native/*.c tests/native/*.c)
INPUTS := pyproject.toml hatch_build.py $(shell find proto -type f) $(wildcard client/sealcar/native/*.[ch])
# what clients were generated from: the contract may only grow since
RELEASED = $(shell git describe --tags --abbrev=0 2>/dev/null || echo HEAD)
# the interpreter is the one named, never a download; the runtime keeps no event database
export UV_PYTHON_DOWNLOADS := never
export ORT_DISABLE_TELEMETRY := 1
# here a missing compiler is an error, not a lesser build
export SEALCAR_NATIVE ?= require

.PHONY: demo venv test lint unit conformance integration attack e2e soak languages servers optimum fuzz bench bench-scale release-check lock docs reference man dist clean
demo: .venv/.made
	.venv/bin/sealcar demo

venv: .venv/.made .venv-ort130/.made

$(UV):
	$(PYTHON) -m venv .uv && .uv/bin/pip install --quiet --disable-pip-version-check 'uv==0.13.*'

# Both share the source tree, so they are made one after the other. The editable install runs the build hook.
# requirements/*.txt hold names, versions and hashes, and no address of a registry; uv.lock would hold addresses.
define environment
	$(UV) venv --quiet --clear --python $(PYTHON) $(1)
	VIRTUAL_ENV=$(1) $(UV) pip sync --quiet --require-hashes requirements/$(2).txt
	VIRTUAL_ENV=$(1) $(UV) pip install --quiet --no-deps --reinstall-package sealcar --editable .
	touch $(1)/.made
endef
.venv/.made: $(INPUTS) requirements/ort132.txt | $(UV)
	$(call environment,.venv,ort132)
.venv-ort130/.made: $(INPUTS) requirements/ort130.txt .venv/.made | $(UV)
	$(call environment,.venv-ort130,ort130)

lint: .venv/.made
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/buf lint
	test ! -e .git || .venv/bin/buf breaking --against ".git#ref=$(RELEASED)"
	$(or $(CC),cc) -std=c11 -Wall -Wextra -Werror -fsyntax-only -Iclient/c -Iclient/sealcar/native $(CFILES)

# A suite runs whole on the newest runtime; on 1.30 only what depends on the runtime's version.
test: lint unit conformance integration attack e2e
unit conformance integration attack: .venv/.made
	.venv/bin/python -m pytest tests/$@
conformance: .tools/.made .tools/.registry
# What deploy/ is tested with and no Python package carries; where it can't be built, those tests are skipped. A proxy
# that doesn't answer costs two minutes, once, and an older Go fetches no newer one: it says what it lacks.
OPERATOR := github.com/prometheus-operator/prometheus-operator
.tools/.made: export GOTOOLCHAIN := local
.tools/.made: tests/tools/go.mod tests/tools/go.sum
	mkdir -p .tools
	@cd tests/tools && { timeout -v -k 5 120 go mod download $(OPERATOR) \
	  && timeout -v -k 5 600 go build -o ../../.tools/helm.new helm.sh/helm/v3/cmd/helm \
	  && mv ../../.tools/helm.new ../../.tools/helm \
	  && install -m 0644 "$$(go list -m -f '{{.Dir}}' $(OPERATOR))"/example/prometheus-operator-crd/*_podmonitors.yaml \
	     ../../.tools/podmonitors.yaml; } >../../.tools/log 2>&1 \
	  || echo "without Helm: .tools/log says why; rm -r .tools, and it is tried again"
	touch $@
# the registry that packages are pushed to there
.tools/.registry: export GOTOOLCHAIN := local
.tools/.registry: tests/tools/registry/go.mod tests/tools/registry/go.sum tests/tools/registry/main.go
	mkdir -p .tools
	@cd tests/tools/registry && { timeout -v -k 5 600 go build -o ../../../.tools/registry.new . \
	  && mv ../../../.tools/registry.new ../../../.tools/registry; } >../../../.tools/registry.log 2>&1 \
	  || echo "without a registry: .tools/registry.log says why; rm -r .tools, and it is tried again"
	touch $@
e2e: venv
	.venv/bin/python -m pytest tests/e2e
	.venv-ort130/bin/python -m pytest tests/e2e

# long comparisons with other implementations; not part of `make test`
soak: .venv/.made
	.venv/bin/python -m pytest tests/soak

# clients in other languages, where their toolchains are; their package managers fetch what the lock files name
languages: .venv/.made
	.venv/bin/python -m pytest tests/languages

# the examples of deploy/servers in real servers, which come beside the environment; Triton has one of its own
servers: .servers/.made .servers/triton/.made
	.venv/bin/python -m pytest tests/servers
.servers/.made: requirements/servers.txt .venv/.made
	rm -rf .servers/lib
	$(UV) pip install --quiet --require-hashes --python .venv/bin/python --target .servers/lib -r requirements/servers.txt
	touch $@
.servers/triton/.made: requirements/triton.txt .venv/.made
	$(UV) venv --quiet --clear --python $(PYTHON) .servers/triton
	VIRTUAL_ENV=.servers/triton $(UV) pip sync --quiet --require-hashes requirements/triton.txt
	echo $(CURDIR)/client >"$$(.servers/triton/bin/python -c 'import site; print(*site.getsitepackages())')"/sealcar.pth
	touch $@

# Optimum brings PyTorch, 5 GB in all: only for who asks
optimum: .servers/optimum/.made
	.venv/bin/python -m pytest tests/servers/test_optimum.py
.servers/optimum/.made: requirements/optimum.txt .venv/.made
	rm -rf .servers/optimum
	$(UV) pip install --quiet --require-hashes --python .venv/bin/python --target .servers/optimum -r requirements/optimum.txt
	touch $@

# coverage-guided, each target for so many seconds; not part of `make test`
FUZZ_SECONDS ?= 60
FUZZED := package-manifest import-manifest seal-record stream packets policy onnx
fuzz: .fuzz/.made $(FUZZED:%=fuzz-%) fuzz-c-packets
# the C client's, where clang and its fuzzer are (Debian packages clang, libclang-rt-14-dev)
fuzz-c-packets: .venv/.made
	@command -v clang >/dev/null || { echo "fuzz-c-packets: clang isn't installed"; exit 0; }; set -e; \
	mkdir -p .fuzz/corpus .fuzz/crashes/c-packets; .venv/bin/python -m tests.fuzz.c_packets .fuzz/corpus/c-packets; \
	clang -std=c11 -g -O1 -DLIBFUZZER -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	  -Iclient/c -Iclient/sealcar/native -o .fuzz/c-packets tests/native/c_packets.c; \
	.fuzz/c-packets -artifact_prefix=.fuzz/crashes/c-packets/ -max_len=30000 -timeout=10 -verbosity=0 \
	  -max_total_time=$(FUZZ_SECONDS) .fuzz/corpus/c-packets
fuzz-%: .fuzz/.made
	PYTHONPATH=.fuzz/lib .venv/bin/python -m tests.fuzz $* -max_total_time=$(FUZZ_SECONDS)
.fuzz/.made: requirements/fuzz.txt .venv/.made
	$(UV) pip install --quiet --require-hashes --python .venv/bin/python --target .fuzz/lib -r requirements/fuzz.txt
	touch $@

# Says how long it takes. A part alone, and what moved since a run that was kept (by ratio, two cores of Zen 5):
# make bench BENCH='--part blob --compare tests/bench/baseline.json'
bench: .venv/.made .venv-bench/.made .tools/.scale
	.venv/bin/python -m tests.bench $(BENCH)
.venv-bench/.made: requirements/bench.txt | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .venv-bench
	VIRTUAL_ENV=.venv-bench $(UV) pip sync --quiet --require-hashes requirements/bench.txt
	touch $@

# Daemons and a fleet over one bucket: 8 minutes, 15 GB of disk for a while; root and iproute2, for a bucket's link of
# a stated width. make bench-scale SCALE='--part fleet --rate 6e8'
bench-scale: .venv/.made .tools/.scale
	.venv/bin/python -m tests.scale $(SCALE)
.tools/.scale: export GOTOOLCHAIN := local
.tools/.scale: tests/tools/s3/go.mod tests/tools/s3/go.sum
	mkdir -p .tools
	@cd tests/tools/s3 && { timeout -v -k 5 900 go build -o ../../../.tools/versitygw.new \
	  github.com/versity/versitygw/cmd/versitygw \
	  && mv ../../../.tools/versitygw.new ../../../.tools/versitygw; } >../../../.tools/scale.log 2>&1 \
	  || echo "without an S3 server in Go: .tools/scale.log says why; moto stands in, which is slow"
	touch $@

LOCK := $(UV) pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links
# both lists are committed; `make lock` takes newer versions. Key services and traces are tested on the newest runtime only.
requirements/ort132.txt: EXTRAS := --extra pkcs11 --extra aws --extra vault --extra otel --extra s3 --extra oci
requirements/%.txt: | $(UV)
	mkdir -p requirements
	$(LOCK) pyproject.toml --extra server --extra ort --extra cli --extra dev $(EXTRAS) --group $* -o $@
# the fuzzer comes beside the newest runtime's environment
requirements/fuzz.txt: | $(UV)
	mkdir -p requirements
	$(LOCK) --group fuzz -o $@
requirements/bench.txt requirements/servers.txt requirements/optimum.txt: requirements/%.txt: | $(UV)
	$(LOCK) --group $* -o $@
# what the images hold, what they are built with, and releases
requirements/image.txt: | $(UV)
	$(LOCK) pyproject.toml --extra server --extra cli --extra pkcs11 --extra aws --extra vault --extra otel --extra s3 -o $@
requirements/client.txt: | $(UV)
	$(LOCK) pyproject.toml --extra ort --extra cli --group example -o $@
requirements/triton.txt: | $(UV)
	$(LOCK) pyproject.toml --extra ort --group triton -o $@
requirements/build.txt requirements/release.txt: requirements/%.txt: | $(UV)
	$(LOCK) --group $* -o $@
lock:
	rm -f requirements/*.txt
	$(MAKE) $(patsubst %,requirements/%.txt,ort132 ort130 bench fuzz servers triton optimum image client build release)

# docs/ as a site, in build/site; a link that leads nowhere ends it
docs: .venv/.made
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build

# what docs/ says of settings and metrics, from the code; a test compares
reference: .venv/.made
	.venv/bin/python tests/refresh_reference.py

# pages for man, from the commands' own help; a distribution that is built after it carries them
man: .venv/.made
	rm -rf build/share && .venv/bin/python -m sealcar.cli.manual build/share/man/man1

# What a release publishes: the committed sources, and from them a wheel for each machine that runs on any Linux
# whose glibc is 2.28 or newer. No tool comes from the system, so every machine builds the same bytes.
DIST   := dist
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
TOOLS  := $(CURDIR)/.release/bin
dist: man .release/.made
	rm -rf $(DIST) && mkdir -p $(DIST)/committed
	git archive $(COMMIT) | tar -x -C $(DIST)/committed && cp -r build $(DIST)/committed/
	cd $(DIST)/committed && $(TOOLS)/python -m hatchling build --target sdist --directory ..
	rm -rf $(DIST)/committed
	$(MAKE) dist-x86_64 dist-aarch64
	.release/bin/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml --mc-type application \
	  --output-file $(DIST)/sealcar.cdx.json requirements/image.txt
dist-%: .release/.made
	rm -rf $(DIST)/$* && mkdir $(DIST)/$* && tar -xzf $(DIST)/*.tar.gz -C $(DIST)/$* --strip-components=1
	cd $(DIST)/$* && CC="$(TOOLS)/python -m ziglang cc -g0 -s -target $*-linux-gnu.2.28" _PYTHON_HOST_PLATFORM=linux-$* \
	  $(TOOLS)/python -m hatchling build --target wheel --directory plain
	PATH="$(TOOLS):$$PATH" SOURCE_DATE_EPOCH=1580601600 auditwheel repair --only-plat --wheel-dir $(DIST) $(DIST)/$*/plain/*.whl
	rm -rf $(DIST)/$*
.release/.made: requirements/release.txt | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .release
	VIRTUAL_ENV=.release $(UV) pip sync --quiet --require-hashes requirements/release.txt
	touch $@

# What a release must pass besides `make test`; as root and with debootstrap it builds the images too.
release-check: dist .venv/.made
	DIST=$(DIST) COMMIT=$(COMMIT) .venv/bin/python -m pytest tests/release

clean:
	rm -rf .uv .venv .venv-ort130 .venv-bench .fuzz .languages .servers .release .tools .mypy_cache .ruff_cache .pytest_cache dist
	git clean -fdxq client/sealcar
