.PHONY: install style types test test-core versions goldens reference bench check

# tests of parts, see sqlwin/parts.py
PARTS = sqlwin/advise sqlwin/compiling sqlwin/dbapi sqlwin/lsp sqlwin/observers sqlwin/origins sqlwin/server sqlwin/testing sqlwin/ui runtime/simulator

install:
	pip install -e '.[java,test,bench]'
style:
	ruff check . && ruff format --check .
types:
	mypy
test:
	python -m pytest -q -n 2
test-core:
	python -m pytest -q -n 2 -m "not spark and not cluster" $(PARTS:%=--ignore=tests/%)
versions:
	.ci/versions
goldens:
	python -m pytest -q tests/explain tests/errors tests/queries tests/docs tests/slt --slow --update-goldens
reference:
	python -m tests.docs.reference docs
bench:
	python -m tests.bench
check: style types test
