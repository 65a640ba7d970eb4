# Runs in the lab: echo.sh SPINWIRE COUNT SIZE REPORT. A server on core 0, a client on core 1, and the client's table.
set -euo pipefail
spinwire=$1 count=$2 size=$3 report=$4
port=7471
# Seconds until the server must listen, and until it must have ended after SIGTERM.
start_seconds_max=30 stop_seconds_max=15

say() { printf 'demo: %s\n' "$*"; }
log=$(mktemp)
server=
stop_server() {
  [[ -n $server ]] || return 0
  kill -TERM "$server" 2>/dev/null || true
  for ((i = 0; i < stop_seconds_max * 10; i++)); do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$server" 2>/dev/null || true
  wait "$server" && say "the server ended cleanly" || say "the server ended with status $?"
  server=
}
trap 'stop_server; rm -f "$log"' EXIT

command=("$spinwire" echo serve --listen "rdma://$LAB_ADDR1:$port" --core 0)
say "${command[*]}"
"${command[@]}" >"$log" 2>&1 &
server=$!
for ((i = 0; ; i++)); do
  ! grep -q '^listening on' "$log" || break
  kill -0 "$server" 2>/dev/null || { cat "$log" && say "the server ended before it listened" && exit 1; }
  ((i < start_seconds_max * 10)) || { cat "$log" && say "the server does not listen after $start_seconds_max s" && exit 1; }
  sleep 0.1
done
sed 's/^/  server | /' "$log"

command=("$spinwire" echo ping "rdma://$LAB_ADDR1:$port" --bind "$LAB_ADDR0" --core 1 --count "$count" --size "$size" --verify --json "$report")
say "${command[*]}"
status=0
"${command[@]}" || status=$?
((status == 0)) || { sed 's/^/  server | /' "$log"; say "the client ended with status $status"; }
stop_server
exit "$status"
