# Names and messages shared by the lab's scripts. Sourced, never run.

readonly EXIT_USAGE=2 EXIT_TIMEOUT=124 EXIT_NO_LAB=125 EXIT_GUEST_DIED=126

# Kept between runs: the kernel as downloaded and unpacked, the initramfs, what was found out about /dev/kvm. The number
# changes with the layout, as several checkouts may share the folder.
lab_cache=${XDG_CACHE_HOME:-$HOME/.cache}/spinwire/lab-1

say() { printf 'ci/vm: %s\n' "$*" >&2; }

# die STATUS MESSAGE
die() {
  local status=$1
  shift
  say "$*"
  exit "$status"
}

need_tools() {
  local tool missing=()
  for tool in "$@"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]} == 0)) || die "$EXIT_NO_LAB" "not found: ${missing[*]}; 'ci/setup' installs what the lab needs"
}
