# A server and a client as two processes on two cores: pair.sh SPINWIRE SERVER_CORE CLIENT_CORE ADDRESS [PING_OPTION...]
# Prints the client's table and ends with its status. Runs on any machine, also in the lab, where LAB_ADDR0 is the client's.
# SERVER_OPTIONS: more for the server, in words.
set -euo pipefail
spinwire=$1 server_core=$2 client_core=$3 address=$4
shift 4
# Seconds until the server must listen, and until it must have ended after SIGTERM.
start_seconds_max=30 stop_seconds_max=15
# The lab's devices are told by their addresses, which are known inside of it only.
address=${address//LAB_ADDR1/${LAB_ADDR1:-}}
[[ $address != rdma://* || -z ${LAB_ADDR0:-} ]] || set -- --bind "$LAB_ADDR0" "$@"

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
trap 'exit 130' INT
trap 'exit 143' TERM

command=("$spinwire" echo serve --listen "$address" --core "$server_core")
read -r -a more <<<"${SERVER_OPTIONS:-}"
command+=("${more[@]}")
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

command=("$spinwire" echo ping "$address" --core "$client_core" "$@")
say "${command[*]}"
status=0
"${command[@]}" || status=$?
((status == 0)) || { sed 's/^/  server | /' "$log"; say "the client ended with status $status"; }
stop_server
exit "$status"
