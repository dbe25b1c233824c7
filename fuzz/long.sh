#!/usr/bin/env bash
# Every fuzz target for a long time: fuzz/long.sh [MINUTES per target, default 30]. A new seed each day, which is printed.
set -euo pipefail
cd "$(dirname "$0")"
minutes=${1:-30}
seed=${SEED:-$(date +%Y%m%d)}
echo "seed $seed"
cargo run --release --quiet -- --seconds $((minutes * 60)) --seed "$seed"
