#!/bin/sh
# The whole suite. What failed is run once more, by itself, on a machine with nothing else to do: docs/decisions/0014.
set -u
export MUSTER_TEST_STRICT=1
PYTHON="${PYTHON:-.venv/bin/python}"
PYTEST="$PYTHON -m pytest"
# Hundreds of programs are started: where PYTHONDONTWRITEBYTECODE is set, each of them would compile all of ours.
$PYTHON -m compileall -q -j 2 envelope muster orchestrator repo sandbox transport workers

suite() {
    marker=$1 && shift
    $PYTEST --durations=40 -m "$marker" "$@" && return
    [ $? = 1 ] || return 1 # 1: tests failed; anything else: they were not all run
    echo "== run again, by itself: what failed"
    MUSTER_TEST_AGAIN=1 $PYTEST --last-failed --last-failed-no-failures=none --exitfirst -rA --no-header --tb=short -m "$marker"
}

# Half of the time a test waits: three files at a time on two cores, the long ones first (tests/conftest.py sorts them).
# The rest needs the machine for itself.
suite "not alone" -n 3 --dist loadfile --no-loadscope-reorder || exit 1
suite alone
