# Which two CPUs to pin to. Containers are often given some of the machine's only.

# Prints the numbers of a list like 0-3,8.
expand_cpus() {
  local part
  for part in ${1//,/ }; do seq "${part%-*}" "${part#*-}"; done
}

# Prints two CPUs this process may use, on two cores where there are two, or one if there is one only.
pick_cpus() {
  local allowed first siblings cpu
  mapfile -t allowed < <(expand_cpus "$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)")
  first=${allowed[0]}
  siblings=" $(expand_cpus "$(cat "/sys/devices/system/cpu/cpu$first/topology/thread_siblings_list" 2>/dev/null || echo "$first")" | tr '\n' ' ')"
  for cpu in "${allowed[@]:1}"; do
    [[ $siblings == *" $cpu "* ]] || { echo "$first $cpu" && return; }
  done
  echo "$first ${allowed[1]:-}"
}
