#!/usr/bin/env bash
# A story from the model that ships, written with native MTP speculation, and proof that speculation changed nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
prompt='[gMASK]<sop><|user|>Tell me a story about a wolf.<|assistant|><think></think>'

echo "--- build/foretoken generate --speculate mtp --draft-tokens 3 (greedy, models/glm-mini)"
build/foretoken generate --prompt "$prompt" --temperature 0 -n 200 --speculate mtp --draft-tokens 3
echo
echo "--- the same request proved: speculation on and off, one thread and several, every prefill chunk size"
build/foretoken prove --prompt "$prompt" --temperature 0 -n 64 --speculate mtp
