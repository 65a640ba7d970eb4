# Two Soft-RoCE devices in one network namespace whose traffic crosses a veth pair. Run with `up` or `down` as root, or
# sourced for the names.
#
# Both addresses are local, so the kernel would short-cut over lo, which is faster and hides loss and link faults. Rules in
# front of the local table send what is for the other device out over the wire, whether or not the sender bound its
# source; only an address talking to itself stays inside (from A to A). Permanent neighbours: on a veth the first
# resolve of an unknown one would take its whole time limit.

readonly wire_v4=(192.0.2.1 192.0.2.2)
readonly wire_v6=(2001:db8:1::1 2001:db8:1::2)
readonly wire_mac=(02:00:00:00:00:01 02:00:00:00:00:02)
readonly all_rp_filter=/proc/sys/net/ipv4/conf/all/rp_filter

wire_up() {
  modprobe -a rdma_rxe rdma_ucm ib_uverbs veth
  # By default the module brings an interface dummy0 of its own.
  modprobe dummy numdummies=0
  echo 0 >$all_rp_filter
  wire_links | ip -batch -
  for i in 0 1; do
    for setting in rp_filter=0 accept_local=1 arp_ignore=1 arp_announce=2; do
      echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/v$i/${setting%=*}"
    done
    echo 0 >"/proc/sys/net/ipv6/conf/v$i/accept_dad"
  done
  { wire_addresses_v4 && wire_rules add "${wire_v4[@]}" && wire_routes "${wire_v4[@]}"; } | ip -4 -batch -
  { wire_addresses_v6 && wire_rules add "${wire_v6[@]}" && wire_routes "${wire_v6[@]}"; } | ip -6 -batch -
  printf 'link add rxe%d type rxe netdev v%d\n' 0 0 1 1 | rdma -b -
  wire_wait_active
}

# The kernel tells of an interface that came up with up to a second's delay; only then do the ports become active.
wire_wait_active() {
  local try i active
  for try in {1..100}; do
    active=0
    for i in 0 1; do
      [[ $(<"/sys/class/infiniband/rxe$i/ports/1/state") != *ACTIVE ]] || active=$((active + 1))
    done
    ((active < 2)) || return 0
    sleep 0.1
  done
  echo "the ports of rxe0 and rxe1 did not become active within 10 s" >&2
  return 1
}

# Undoes wire_up, also one that failed half-way; WIRE_OLD_RP_FILTER is the setting to go back to. The RDMA devices go with
# their interfaces.
wire_down() {
  set +e
  wire_rules del "${wire_v4[@]}" | ip -4 -force -batch - 2>/dev/null
  wire_rules del "${wire_v6[@]}" | ip -6 -force -batch - 2>/dev/null
  printf 'link del %s\n' v0 dummy0 | ip -force -batch - 2>/dev/null
  echo "${WIRE_OLD_RP_FILTER:-0}" >$all_rp_filter
}

wire_links() {
  # 4200 leaves room for rxe's headers, so its MTU becomes 4096; 1500 would give 1024.
  cat <<TXT
link set lo up
link add v0 mtu 4200 address ${wire_mac[0]} type veth peer name v1 mtu 4200 address ${wire_mac[1]}
link add dummy0 type dummy
link set dummy0 up
link set v0 up
link set v1 up
TXT
}

# dummy0 is the interface without an RDMA device.
wire_addresses_v4() {
  printf 'addr add %s/24 dev %s\n' "${wire_v4[0]}" v0 "${wire_v4[1]}" v1 198.51.100.1 dummy0
}

wire_addresses_v6() {
  printf 'addr add %s/64 dev %s nodad\n' "${wire_v6[0]}" v0 "${wire_v6[1]}" v1
}

# wire_rules add|del ADDR0 ADDR1: what came in over the wire is for us; what is for the other end goes out.
wire_rules() {
  local verb=$1 own=("$2" "$3") i
  for i in 0 1; do
    cat <<TXT
rule $verb pref 1$i iif v$i lookup local
rule $verb pref 2$i from ${own[i]} to ${own[i]} lookup local
rule $verb pref 3$i to ${own[1 - i]} lookup 10$i
TXT
  done
  # The local table moves behind the rules above: its new place is taken before the old one is given up.
  if [[ $verb == add ]]; then
    printf '%s\n' 'rule add pref 100 lookup local' 'rule del pref 0 lookup local'
  else
    printf '%s\n' 'rule add pref 0 lookup local' 'rule del pref 100 lookup local'
  fi
}

# wire_routes ADDR0 ADDR1
wire_routes() {
  local own=("$1" "$2") i peer
  for i in 0 1; do
    peer=$((1 - i))
    cat <<TXT
route add ${own[peer]} dev v$i src ${own[i]} table 10$i
neigh replace ${own[peer]} lladdr ${wire_mac[peer]} dev v$i nud permanent
TXT
  done
}

# Exports what COMMAND may rely on.
wire_names() {
  export LAB_ADDR0=${wire_v4[0]} LAB_ADDR1=${wire_v4[1]} LAB_ADDR0_V6=${wire_v6[0]} LAB_ADDR1_V6=${wire_v6[1]}
  export LAB_DEV0=rxe0 LAB_DEV1=rxe1 LAB_NETDEV0=v0 LAB_NETDEV1=v1
  export LAB_NORDMA_ADDR=198.51.100.1 LAB_NORDMA_NETDEV=dummy0
  # No route at all; on the wire's own network but nobody answers for it.
  export LAB_NOROUTE_ADDR=203.0.113.1 LAB_NONEIGH_ADDR=192.0.2.99
}

# Not called as a function by others: in `wire_up || ...` bash would go on after a step that failed.
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  "wire_$1"
fi
