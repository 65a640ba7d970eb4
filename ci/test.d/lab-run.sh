# Runs in the lab: lab-run.sh LIST RESULTS. One process a test, so that none leans on what another left behind, and a time
# limit for each. A test that cannot run says so with a line `skipped: REASON` and returns; where RXE_REQUIRED=1 it must
# not do so for want of RDMA.
set -uo pipefail
list=$1 results=$2
readonly test_seconds=${LAB_TEST_SECONDS:-120}
output=$(mktemp)
failures=0

while IFS=$'\t' read -r folder program target name; do
  start=${EPOCHREALTIME/[.,]/} status=0 reason=
  (cd "$folder" && exec timeout -k 5 "$test_seconds" "$program" --ignored --exact --test-threads 1 --show-output "$name") >"$output" 2>&1 </dev/null || status=$?
  took=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
  if ((status == 124)); then
    result=FAILED reason="not done within $test_seconds s"
  elif ((status != 0)); then
    result=FAILED reason="status $status"
  elif ! grep -q '^test result: ok\. 1 passed' "$output"; then
    result=FAILED reason="it did not run"
  elif reason=$(grep -m1 -o 'skipped: .*' "$output"); then
    result=skipped reason=${reason#skipped: }
  else
    result=ok
  fi
  printf '%-8s %6d ms  %s::%s%s\n' "$result" "$took" "$target" "$name" "${reason:+  ($reason)}"
  printf '%s\t%s\t%s\t%s\t%s\n' "$target" "$name" "$result" "$reason" "$took" >>"$results"
  if [[ $result == FAILED ]]; then
    failures=$((failures + 1))
    sed 's/^/  | /' "$output"
  fi
done <"$list"
((failures == 0))
