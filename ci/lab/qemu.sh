# Boots the guest and follows it to its end. Sourced by ci/vm.
# The guest speaks over three ports, apart from its console: out, err, and ctl with the lines `ready`, `failed WHY`, `status N`.

# Seconds from power-on to `ready` before the boot counts as failed. It takes 10-20; on a machine
# that is busy with other work, several times that.
readonly boot_seconds_max=180
# Seconds from `status` to the end of QEMU.
readonly poweroff_seconds_max=20
readonly kvm_probe_seconds=8

# The kernel's check of its timer counts ticks against loops and gives up when a busy host hardly runs the guest. Without
# the last two it would read time from an emulated device, 2 us and a system call each.
readonly kernel_arguments="console=ttyS0 panic=-1 oops=panic quiet mitigations=off no_timer_check tsc=reliable clocksource=tsc"

# Sets `accelerator`. /dev/kvm can exist and still not run a kernel, so it is tried once per start of this machine.
choose_accelerator() {
  accelerator=${LAB_ACCEL:-}
  [[ -z $accelerator ]] || return 0
  accelerator=tcg
  [[ -r /dev/kvm && -w /dev/kvm ]] || return 0
  local found
  found=$lab_cache/kvm-$(</proc/sys/kernel/random/boot_id)
  if [[ ! -e $found ]]; then
    say "trying /dev/kvm (once, at most $kvm_probe_seconds s)"
    if kvm_boots; then
      echo kvm >"$found"
    else
      say "/dev/kvm does not boot a kernel here; using software emulation"
      echo tcg >"$found"
    fi
  fi
  accelerator=$(<"$found")
}

# A shell of its own swallows the word "Aborted" that some of these end with.
kvm_boots() {
  (
    timeout -k 2 "$kvm_probe_seconds" qemu-system-x86_64 -M q35 -accel kvm -cpu max -m 512 -nodefaults -display none \
      -no-reboot -kernel "$kernel/image" -initrd "$initramfs" -append "$kernel_arguments lab.probe"
    exit
  ) </dev/null >/dev/null 2>&1
}

# boot_and_run COMMAND...: ends this script with the command's status.
boot_and_run() {
  run=$(mktemp -d "${TMPDIR:-/tmp}/spinwire-vm.XXXXXX")
  qemu='' readers=()
  trap cleanup EXIT
  trap 'say "interrupted"; exit 130' INT
  trap 'say "ended by a signal"; exit 143' TERM HUP

  prepare_run "$@"
  mkfifo "$run/out" "$run/err" "$run/ctl"
  cat "$run/out" & readers+=($!)
  cat "$run/err" >&2 & readers+=($!)
  started=$EPOCHREALTIME
  start_qemu
  exec {ctl}<"$run/ctl"
  follow_guest
}

# What the guest reads at /run/lab.
prepare_run() {
  lab_out=${LAB_OUT:-$PWD/lab-out}
  mkdir -p "$lab_out" || die "$EXIT_NO_LAB" "cannot make the folder for results, $lab_out"
  lab_out=$(readlink -f "$lab_out")
  ln -s "$(readlink -f "$lab/../..")" "$run/checkout"
  ln -s "$kernel" "$run/kernel"
  printf '%s' "$PWD" >"$run/cwd"
  printf '%s' "$lab_out" >"$run/lab_out"
  printf '%s' "$mode" >"$run/mode"
  stty size >"$run/size" 2>/dev/null || echo 24 80 >"$run/size"
  printf '%s' "$hugepages" >"$run/hugepages"
  (($# == 0)) || printf '%s\0' "$@" >"$run/command"
  # Only what a build or a test of this project may need: a guest is no place for the caller's secrets.
  env -0 | grep -z -E '^(PATH|HOME|USER|LANG|LC_[A-Z]+|TERM|CI|RUST[A-Z_]*|CARGO_(TARGET_DIR|TERM_[A-Z_]+|HOME)|LD_LIBRARY_PATH|LIBCLANG_PATH|PROPTEST_[A-Z_]+|LAB_[A-Z0-9_]+|SPINWIRE_[A-Z0-9_]+|RXE_REQUIRED)=' >"$run/environment" || true
}

start_qemu() {
  local arguments=(
    -name "spinwire-lab" -M q35 -cpu max -smp "$cpus" -m "$mem" -nodefaults -display none -no-reboot
    -kernel "$kernel/image" -initrd "$initramfs" -append "$kernel_arguments"
    -pidfile "$run/pid" -serial "file:$run/console"
    -device virtio-serial-pci
  )
  if [[ $accelerator == tcg ]]; then arguments+=(-accel tcg,thread=multi); else arguments+=(-accel "$accelerator"); fi
  local port
  for port in ctl out err; do
    arguments+=(-chardev "file,id=$port,path=$run/$port" -device "virtserialport,chardev=$port,name=lab.$port")
  done
  if [[ $mode == shell ]]; then
    arguments+=(-chardev "stdio,id=tty,signal=off" -device virtconsole,chardev=tty)
  fi
  share root / readonly=on
  share lab "$run" readonly=on
  share out "$lab_out"
  # It holds ctl open from its first moment, so its end, early or late, is an end of file for us; and it dies with us.
  (
    exec 9>"$run/ctl"
    [[ $mode == shell ]] || exec >"$run/qemu.log" </dev/null
    exec setpriv --pdeathsig KILL qemu-system-x86_64 "${arguments[@]}" 2>"$run/qemu.log"
  ) <&0 &
  qemu=$!
}

# share TAG FOLDER [OPTION]: without remap, /proc and /sys of the host would get the same file id.
share() {
  arguments+=(
    -fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap${3:+,$3}"
    -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"
  )
}

# Reads the guest's lines until QEMU is gone or a time limit passes; ends the script.
follow_guest() {
  local word rest state=booting status='' why='' deadline=$((SECONDS + boot_seconds_max)) left
  while :; do
    left=$((deadline - SECONDS))
    if ((left <= 0)); then break; fi
    if read -r -t "$left" -u "$ctl" word rest; then
      case $word in
        ready)
          state=running deadline=$((SECONDS + timeout))
          [[ $mode != shell ]] || deadline=$((SECONDS + 10 ** 8))
          say "ready in $(seconds_since_start) s ($accelerator, kernel $kernel_version)"
          ;;
        failed) why=$rest ;;
        status) state=done status=$rest deadline=$((SECONDS + poweroff_seconds_max)) ;;
      esac
    elif (($? <= 128)); then
      [[ $state != booting && $state != running ]] || state=$state-died
      break
    fi
  done
  end_qemu
  case $state in
    done) finish "$status" ;;
    running) give_up "$EXIT_TIMEOUT" "COMMAND did not end within $timeout s; the guest was stopped" ;;
    booting) give_up "$EXIT_NO_LAB" "the guest was not ready after $boot_seconds_max s" ;;
    booting-died) give_up "$EXIT_NO_LAB" "the guest ended before it was ready: ${why:-$(cause_of_death)}" ;;
    running-died) give_up "$EXIT_GUEST_DIED" "the guest died while COMMAND ran: $(cause_of_death)" ;;
  esac
}

finish() {
  case $1 in
    "$EXIT_TIMEOUT" | "$EXIT_NO_LAB" | "$EXIT_GUEST_DIED") say "COMMAND itself ended with status $1" ;;
  esac
  exit "$1"
}

cause_of_death() {
  grep -a -o -m1 'Kernel panic.*' "$run/console" || echo "no panic on its console; it was reset or powered off from inside"
}

# give_up STATUS MESSAGE: with what QEMU and the guest's console had to say.
give_up() {
  if [[ -s $run/qemu.log ]]; then sed 's|^|ci/vm: qemu: |' "$run/qemu.log" >&2; fi
  if [[ -s $run/console ]]; then
    cp "$run/console" "$lab_out/console.log"
    say "last lines of the guest's console (all of it: $lab_out/console.log):"
    tail -n 15 "$run/console" | tr -d '\r' | sed 's/^/  | /' >&2
  fi
  die "$@"
}

seconds_since_start() {
  local us=$((${EPOCHREALTIME/[.,]/} - ${started/[.,]/}))
  printf '%d.%d' $((us / 1000000)) $((us / 100000 % 10))
}

# Ends our own QEMU, by the process id we started it under, and lets the last output through.
end_qemu() {
  [[ -n $qemu ]] || return 0
  kill -KILL "$qemu" 2>/dev/null || true
  wait "$qemu" 2>/dev/null || true
  qemu=''
  # Readers whose pipe QEMU never opened would wait for ever: open and close it for them.
  : 1<>"$run/out" 2<>"$run/err"
  wait "${readers[@]}" 2>/dev/null || true
}

cleanup() {
  trap '' INT TERM HUP
  end_qemu
  rm -rf "$run"
}
