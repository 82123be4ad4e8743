#!/bin/sh
# What every CI system runs: one `muster` command, whose exit code is this script's, with its reports in a folder.
#
# All that it is told comes in variables, and is never part of a script:
#   MUSTER_CI_BATCH    a batch file; or MUSTER_CI_ATTACH: the task of one that an earlier job has left running;
#   MUSTER_CI_GOAL     or the words of a goal, with MUSTER_CI_GATE (a command that proves its change)
#   MUSTER_CI_DETACH   true: do not wait; the id is the output `task`
#   MUSTER_CI_PUBLISH  true: a batch may publish at its end, as its file says; left out, it is handed over as a bundle
#   MUSTER_CI_REPORTS  the folder [muster-reports]
#   MUSTER_CI_TRUST    branches or everyone: who may write starts this job, where the CI system does not tell it (docs/ci.md)
#   MUSTER_READ_ONLY   1: only look. A trigger that a stranger can pull sets it, and nothing here takes it back.
set -uf
export PYTHONSAFEPATH=1
here=$(cd "$(dirname "$0")" && pwd)
out=${MUSTER_CI_REPORTS:-muster-reports}
out=${out%/} # with a slash behind it a link is followed before it is looked at
PATH=${MUSTER_VENV:-$here/.venv}/bin:$PATH
# -I: the folder that this runs in is a stranger's, and so may be its `json.py`.
if ! python3 -I "$here/trigger.py"; then
    echo "note: a stranger may have started this job, so that it only looks (docs/ci.md, Untrusted triggers)" >&2
    export MUSTER_READ_ONLY=1
fi
case ${MUSTER_READ_ONLY:-} in "" | 0 | false | no) unset MUSTER_READ_ONLY ;; esac

# A link may have been committed in the place of the folder, or of one on the way to it: to anywhere.
leads_away() {
    way=$1 real=$(pwd -P)
    case $way in "$PWD"/* | "$real"/*) ;; /*) return 1 ;; esac # the last is none of the repository's
    while [ -n "$way" ] && [ "$way" != "$PWD" ] && [ "$way" != "$real" ]; do
        if [ -L "$way" ]; then return 0; fi
        case $way in */*) way=${way%/*} ;; *) way= ;; esac
    done
    return 1
}
if leads_away "$out" || ! mkdir -p "$out" 2>/dev/null || [ ! -w "$out" ]; then
    echo "warning: nothing can be written to $out: there will be no reports" >&2
    out=$(mktemp -d)
fi
rm -rf "$out/change" "$out/stdout.txt" # of a link, the link alone
set --
for each in markdown=summary.md junit=junit.xml sarif=muster.sarif codequality=codequality.json github=annotations.txt \
    jsonl=results.jsonl outputs=outputs.env; do
    rm -rf "$out/${each#*=}" # of an earlier run, or committed
    set -- "$@" --report "${each%%=*}=$out/${each#*=}"
done
on() { if [ "$1" = true ]; then echo 1; fi; } # GitLab and Jenkins hand over what people write: `false`, too
detached=$(on "${MUSTER_CI_DETACH:-}")
publishes=$(on "${MUSTER_CI_PUBLISH:-}")
if [ -n "$detached" ] && [ -z "${MUSTER_CI_ATTACH:-}" ]; then set -- --detach "$@"; fi
may_publish=--no-publish
if [ -n "$publishes" ]; then may_publish=; fi

if [ -n "${MUSTER_CI_ATTACH:-}" ]; then
    set -- batch attach $may_publish "$@" -- "$MUSTER_CI_ATTACH"
elif [ -n "${MUSTER_CI_BATCH:-}" ]; then
    set -- batch run --no-input $may_publish "$@" -- "$MUSTER_CI_BATCH"
elif [ -n "${MUSTER_CI_GOAL:-}" ]; then
    if [ -n "${MUSTER_CI_GATE:-}" ]; then set -- --gate "$MUSTER_CI_GATE" "$@"; fi
    set -- run --no-input "$@" -- "$MUSTER_CI_GOAL"
else
    echo "error: nothing is to be done" >&2
    echo "hint: set MUSTER_CI_BATCH, MUSTER_CI_GOAL or MUSTER_CI_ATTACH" >&2
    exit 2
fi

# Models and repositories choose words of what is printed: none of them may be a command to GitHub's runner.
if [ "${GITHUB_ACTIONS:-}" = true ]; then
    silence=$(python3 -I -c 'import secrets; print(secrets.token_hex(16))')
    echo "::stop-commands::$silence"
fi
muster "$@" >"$out/stdout.txt"
code=$?
cat "$out/stdout.txt"
if [ -n "$detached" ] && [ -z "${MUSTER_CI_ATTACH:-}" ] && [ "$code" = 0 ]; then
    printf 'task=%s\n' "$(tail -n 1 "$out/stdout.txt")" >"$out/outputs.env"
fi

# What is verified goes to the job that may write: as a bundle, which is all that it sees of this one.
task=$(sed -n 's/^task=//p' "$out/outputs.env" 2>/dev/null)
if grep -qx 'verified=true' "$out/outputs.env" 2>/dev/null && [ -z "${MUSTER_READ_ONLY:-}$publishes" ]; then
    muster publish "$task" --to bundle --folder "$out/change" || echo "warning: nothing is handed over" >&2
fi
if [ "${GITHUB_ACTIONS:-}" = true ]; then
    printf '\n::%s::\n' "$silence"
    cat "$out/annotations.txt" 2>/dev/null
    cat "$out/summary.md" >>"$GITHUB_STEP_SUMMARY" 2>/dev/null
    cat "$out/outputs.env" >>"$GITHUB_OUTPUT" 2>/dev/null
fi
exit "$code"
