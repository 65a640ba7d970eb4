# Run inside the lab by ci/steps/vm: what ci/vm promises about the guest. Needs nothing built.
set -euo pipefail

check() { # NAME COMMAND...
  local name=$1
  shift
  "$@" || { echo "not as promised: $name" && exit 1; }
}

# waits SECONDS COMMAND...
waits() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < until)) || return 1
    sleep 0.1
  done
}

packets() { cat "/sys/class/net/$LAB_NETDEV0/statistics/tx_packets"; }
listening() { rdma resource show cm_id | grep -q "LISTEN.*:$1"; }

# crosses_the_wire PORT CLIENT-COMMAND...: a server on LAB_ADDR1 or its IPv6 address must see the client over the wire.
crosses_the_wire() {
  local server=$1 port=$2 before after
  shift 2
  rping -s -a "$server" -p "$port" -C 20 &
  local pid=$!
  waits 10 listening "$port"
  before=$(packets)
  timeout 30 rping -c -a "$server" -p "$port" -C 20 "$@"
  wait "$pid"
  after=$(packets)
  echo "$server $*: $((after - before)) packets on $LAB_NETDEV0"
  # 20 rounds of at least a message and an acknowledgement each.
  ((after - before >= 40))
}

check "root" test "$EUID" -eq 0
check "the checkout is where it is on the host" test -x ci/vm
check "the rest of the file system is not written through" touch /written-by-the-guest
check "no limit on locked memory" test "$(ulimit -l)" = unlimited
check "hugepages" test "$(awk '/HugePages_Free/ { print $2 }' /proc/meminfo)" -eq 128
check "both ports are active" test "$(rdma link | grep -c 'rxe[01]/1 state ACTIVE')" -eq 2
check "MTU" grep -q 'active_mtu:.*4096' <(ibv_devinfo -d "$LAB_DEV0")
for folder in /dev/shm /dev/hugepages /sys/fs/cgroup /tmp; do
  check "$folder can be written" mkdir "$folder/selftest"
done
check "groups with cpuset and hugetlb limits" test -e /sys/fs/cgroup/selftest/cpuset.cpus -a -e /sys/fs/cgroup/selftest/hugetlb.2MB.max
check "a normal user reaches the checkout and the devices" \
  setpriv --reuid "$LAB_USER" --clear-groups bash -c 'test -x ci/vm && test -w /dev/infiniband/rdma_cm && ! test -w /root'
check "an interface without RDMA device" ip addr show dev "$LAB_NORDMA_NETDEV" to "$LAB_NORDMA_ADDR"
check "an address without a route" bash -c '! ip route get "$LAB_NOROUTE_ADDR" 2>/dev/null'
check "IPv4 over the wire, source chosen by the kernel" crosses_the_wire "$LAB_ADDR1" 7000
check "IPv4 over the wire, source bound" crosses_the_wire "$LAB_ADDR1" 7001 -I "$LAB_ADDR0"
check "IPv6 over the wire" crosses_the_wire "$LAB_ADDR1_V6" 7002

echo "written in the guest" >"$LAB_OUT/proof"
echo "everything in the guest is as promised"
