# The guest's first process after its initramfs: RDMA devices, then COMMAND. Never run this on a host.
set -uo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
lab=/run/lab

power_off() {
  sync
  busybox poweroff -f
}

# After this no later step runs, and ci/vm says why.
failed() {
  echo "failed $*" >&9
  power_off
}

step() { "$@" >/run/step 2>&1 || failed "$*: $(tr '\n' ' ' </run/step)"; }

declare -A port
for name in /sys/class/virtio-ports/*/name; do
  node=${name%/name}
  port[$(<"$name")]=/dev/${node##*/}
done
exec 9>"${port[lab.ctl]}" </dev/null
ln -sf /proc/self/fd /dev/fd
ln -sf /proc/self/fd/0 /dev/stdin
ln -sf /proc/self/fd/1 /dev/stdout
ln -sf /proc/self/fd/2 /dev/stderr

version=$(uname -r)
mkdir -p "/lib/modules/$version"
step mount --bind "$(readlink -f $lab/kernel)/lib/modules/$version" "/lib/modules/$version"

hostname lab
grep -q -w lab /etc/hosts 2>/dev/null || echo '127.0.0.1 localhost lab' >>/etc/hosts
echo "$(<$lab/hugepages)" >/proc/sys/vm/nr_hugepages
echo 1 >/proc/sys/kernel/sysrq
# A test may want any controller for groups of its own.
for controller in $(</sys/fs/cgroup/cgroup.controllers); do
  echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done
mkdir /sys/fs/cgroup/command

# shellcheck source=ci/lab/wire.sh
source $lab/checkout/ci/lab/wire.sh
step bash $lab/checkout/ci/lab/wire.sh up
[[ $(</proc/sys/vm/nr_hugepages) == $(<$lab/hugepages) ]] || failed "only $(</proc/sys/vm/nr_hugepages) of $(<$lab/hugepages) hugepages; raise --mem"

cwd=$(<$lab/cwd)
# A normal user must be able to reach the checkout below a private home; this changes the guest's layer only.
parent=$cwd
while [[ $parent != / ]]; do
  chmod o+x "$parent"
  parent=$(dirname "$parent")
done

mapfile -d '' -t caller <$lab/environment
export_all() {
  local pair
  for pair in "${caller[@]}"; do export "${pair?}"; done
  export LAB=1 LAB_KIND=vm LAB_OUT LAB_USER=nobody PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
  LAB_OUT=$(<$lab/lab_out)
  wire_names
}

run_command() {
  echo $BASHPID >/sys/fs/cgroup/command/cgroup.procs
  cd "$cwd" || exit 125
  ulimit -l unlimited
  ulimit -c 0
  ulimit -H -n 1048576
  export_all
  exec 9>&-
  if [[ $(<$lab/mode) == shell ]]; then
    read -r rows columns <$lab/size
    stty rows "$rows" cols "$columns" </dev/hvc0
    exec setsid -c bash -i </dev/hvc0 >/dev/hvc0 2>&1
  fi
  mapfile -d '' -t command <$lab/command
  exec "${command[@]}"
}

echo ready >&9
# Through pipes, because a port can be opened once only.
exec 7> >(exec cat >"${port[lab.out]}" 9>&-)
out=$!
exec 8> >(exec cat >"${port[lab.err]}" 7>&- 9>&-)
err=$!
(run_command) >&7 2>&8 7>&- 8>&-
status=$?
exec 7>&- 8>&-
# What COMMAND left running would hold the pipes open.
echo 1 >/sys/fs/cgroup/command/cgroup.kill
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  kill -0 $out 2>/dev/null || kill -0 $err 2>/dev/null || break
  sleep 0.1
done
sync
echo "status $status" >&9
power_off
