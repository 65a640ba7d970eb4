# What the steps of ci/test share. Sourced first by each.
set -euo pipefail
ci=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
root=$(dirname "$ci")
cd "$root"
PATH=$PATH:$HOME/.cargo/bin
# Warnings are errors in the lint and doc steps only, so that all others share one set of build results.
export CARGO_TERM_COLOR=never

# counts PASSED FAILED SKIPPED: for ci/test's table; without it, the step as a whole is one check.
counts() { [[ -z ${STEP_COUNTS:-} ]] || echo "$1 $2 $3" >"$STEP_COUNTS"; }

# skip REASON: for ci/test's list.
skip() { if [[ -n ${STEP_SKIPS:-} ]]; then echo "$1" >>"$STEP_SKIPS"; else echo "skipped: $1"; fi; }

# run_tests COMMAND...: a test run of cargo; counts what libtest reports. Tests marked `ignore` are for the lab step.
run_tests() {
  local output status=0
  output=$(mktemp)
  "$@" 2>&1 | tee "$output" || status=$?
  # shellcheck disable=SC2046
  counts $(awk '/^test result:/ { passed += $4; failed += $6 } END { print passed + 0, failed + 0, 0 }' "$output")
  rm -f "$output"
  return "$status"
}
