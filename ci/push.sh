#!/bin/sh
# For the job that may write: pushes the branches `muster/…` of the bundles in a folder, and nothing else.
# Branches move forward only; what somebody pushed there meanwhile stays.
set -eu
folder=${1:-muster-reports/change}
remote=${2:-origin}
# What the checkout brings along has nobody verified.
if [ -n "$(git ls-files -- "$folder" 2>/dev/null)" ]; then
    echo "error: $folder is part of the repository" >&2
    echo "hint: remove it there, or hand over another folder: MUSTER_CI_REPORTS" >&2
    exit 7
fi
for bundle in "$folder"/*.bundle; do
    [ -e "$bundle" ] || { echo "error: there is no bundle in $folder" >&2; exit 2; }
    heads=$(git bundle list-heads "$bundle")
    echo "$heads" | while read -r commit ref; do
        case $ref in
        refs/heads/muster/*) git check-ref-format "$ref" || exit 7 ;; # else git splits what it is given at a colon
        refs/muster/*) continue ;; # by which Muster knows its own bundle
        *) echo "error: $ref is no branch of Muster's" >&2; echo "hint: call it muster/… in [publish]" >&2; exit 7 ;;
        esac
        git fetch --quiet --no-tags "$bundle" "$ref"
        git push "$remote" "$commit:$ref"
    done
done
