# COMMAND on this machine itself, over its own RDMA devices or Soft-RoCE ones made for the run. Sourced by ci/vm.
source "$lab/wire.sh"

# run_on_host COMMAND...: with the same variables as in the guest, as far as this machine can keep their promise.
run_on_host() {
  PATH=$PATH:/usr/sbin:/sbin
  need_tools ip rdma modprobe
  local devices
  devices=$(usable_devices)
  if [[ -n $devices ]]; then
    name_devices $devices
  else
    make_devices
  fi
  export LAB=1 LAB_KIND=host LAB_USER=nobody LAB_OUT=${LAB_OUT:-$PWD/lab-out}
  mkdir -p "$LAB_OUT"
  ulimit -l unlimited 2>/dev/null || say "locked memory stays limited to $(ulimit -l) KiB; run this as root to lift it"
  say "using $LAB_DEV0 ($LAB_ADDR0) and $LAB_DEV1 ($LAB_ADDR1) of this machine"
  local status=0
  timeout --foreground -k 5 "$timeout" "$@" || status=$?
  ((status != EXIT_TIMEOUT)) || say "COMMAND did not end within $timeout s, or itself ended with status $EXIT_TIMEOUT"
  return "$status"
}

# Lines `DEVICE ADDRESS` of active ports whose interface has an IPv4 address.
usable_devices() {
  local device netdev address
  { rdma link 2>/dev/null || true; } | awk '/state ACTIVE/ { for (i = 1; i < NF; i++) if ($i == "netdev") { sub("/.*", "", $2); print $2, $(i + 1) } }' |
    while read -r device netdev; do
      address=$(ip -4 -o addr show dev "$netdev" scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
      [[ -z $address ]] || echo "$device $address"
    done
}

# name_devices DEVICE0 ADDRESS0 [DEVICE1 ADDRESS1 ...]: with one device both ends are on it. Other people's networks
# decide what has no route or no neighbour, so those names stay unset.
name_devices() {
  export LAB_DEV0=$1 LAB_ADDR0=$2 LAB_DEV1=${3:-$1} LAB_ADDR1=${4:-$2}
}

make_devices() {
  modprobe -n -q rdma_rxe ||
    die "$EXIT_NO_LAB" "this machine has no active RDMA device, and its kernel ($(uname -r)) no module rdma_rxe to make one; leave out --host for a virtual machine that has"
  ((EUID == 0)) ||
    die "$EXIT_NO_LAB" "this machine has no active RDMA device; making Soft-RoCE ones needs root: sudo ci/vm --host ..."
  local name
  for name in v0 v1 dummy0; do
    [[ ! -e /sys/class/net/$name ]] ||
      die "$EXIT_NO_LAB" "an interface named $name exists already; the lab would use that name"
  done
  [[ -z $(ls /sys/class/infiniband 2>/dev/null) ]] || say "RDMA devices without an active port and address are left alone: $(ls -m /sys/class/infiniband)"
  say "making two Soft-RoCE devices on a veth pair; they go when COMMAND ends"
  WIRE_OLD_RP_FILTER=$(<$all_rp_filter)
  trap wire_down EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  local log
  log=$(bash "$lab/wire.sh" up 2>&1) || die "$EXIT_NO_LAB" "cannot make the devices: $(tail -n 2 <<<"$log" | tr '\n' ' ')"
  wire_names
}
