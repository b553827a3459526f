export UV_PYTHON_DOWNLOADS = never
export DO_NOT_TRACK = 1
BIN = .venv/bin
SANDBOX ?= demo

.PHONY: demo test chaos check unit diagnosis-report screenshots install setup lock clean

demo: setup  ## boot a real host, break it the way it broke, and watch it heal
	@$(BIN)/python -m deployments.demo $(SANDBOX)

test: setup check  ## everything: formatting, lint, types, and all tests on real hosts
	@$(BIN)/pytest --numprocesses 3 --dist loadfile

check:  ## formatting, lint and strict types
	@test -x $(BIN)/python || .ci/setup python
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy --no-error-summary

diagnosis-report:  ## how well failures are found, by kind; what is wrong is listed
	@$(BIN)/python -m tests.diagnosis_report

unit:  ## only what needs no host
	@$(BIN)/pytest tests/unit

screenshots: setup  ## docs/screenshots: the story in Prefect's UI, as the browser test sees it
	@SCREENSHOTS=docs/screenshots $(BIN)/pytest tests/integration/test_ui.py

chaos: setup  ## every trouble at every moment, on real hosts: up to 45 minutes
	@$(BIN)/python -m tests.chaos

install:  ## what a controller needs: .venv alone
	@.ci/setup python

setup:
	@.ci/setup

lock:  ## resolve the dependencies anew, with hashes
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --universal \
		--python-version 3.11 pyproject.toml -o requirements/run.txt
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-header --universal \
		--python-version 3.11 --group dev -c requirements/run.txt pyproject.toml -o requirements/dev.txt

clean:  ## take the sandbox hosts that this checkout made off this machine again
	@$(BIN)/redeploy sandbox down --all
