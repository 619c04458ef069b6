#!/bin/sh
# Raise every stock to at least the given number: scripts/restock.sh 40
set -eu
least=${1:?how many of each at least}
cd "$(dirname "$0")/.."
python3 - "$least" <<'PY'
import json, sys
path, least = "data/products.json", int(sys.argv[1])
rows = json.load(open(path, encoding="utf-8"))
for row in rows:
    row["stock"] = max(row["stock"], least)
with open(path, "w", encoding="utf-8") as file:
    file.write("[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n")
PY
