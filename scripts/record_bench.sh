#!/usr/bin/env bash
# Adds build/bench.json, as one line, to the file history.jsonl of the branch bench-history.
set -euo pipefail
cd "$(dirname "$0")/.."

commit=$(git rev-parse HEAD)
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree"' EXIT
if git fetch --quiet origin bench-history; then
    git worktree add --quiet --detach "$tree" FETCH_HEAD
else
    git worktree add --quiet --detach "$tree"
    git -C "$tree" checkout --quiet --orphan bench-history
    git -C "$tree" rm -rfq .
fi
python3 - "$commit" >> "$tree/history.jsonl" << 'PYTHON'
import json, sys, time

with open("build/bench.json") as file:
    rows = json.load(file)
date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
print(json.dumps({"commit": sys.argv[1], "date": date, "rows": rows}))
PYTHON
git -C "$tree" add history.jsonl
git -C "$tree" -c user.name=bench -c user.email=bench@localhost commit --quiet -m "Measure $commit"
git -C "$tree" push --quiet origin HEAD:bench-history
