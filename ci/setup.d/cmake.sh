# A CMake that builds Aeron. Sourced by ci/setup and ci/compare.

readonly cmake_wanted=3.30
# Where the copy from the Python package index goes when the distribution's is too old.
cmake_own=${XDG_CACHE_HOME:-$HOME/.cache}/spinwire/cmake

# Prints the program; fails when there is none that is new enough. CMAKE in the environment names one.
find_cmake() {
  local program version
  for program in ${CMAKE:+"$CMAKE"} cmake "$cmake_own/cmake/data/bin/cmake"; do
    version=$("$program" --version 2>/dev/null | sed -n 's/^cmake version //p') || continue
    [[ -n $version && $(printf '%s\n' "$cmake_wanted" "$version" | sort -V | head -n1) == "$cmake_wanted" ]] || continue
    command -v "$program"
    return
  done
  return 1
}

get_cmake() {
  local offered
  offered=$(apt-cache policy cmake 2>/dev/null | sed -n 's/^ *Candidate: //p')
  if [[ -n $offered && $(printf '%s\n' "$cmake_wanted" "$offered" | sort -V | head -n1) == "$cmake_wanted" ]]; then
    require_root cmake
    say "installing with apt-get: cmake"
    install_packages cmake
  else
    say "this distribution has no CMake $cmake_wanted; installing one (about 80 MB) with pip into $cmake_own"
    python3 -m pip --version >/dev/null 2>&1 || { require_root python3-pip && install_packages python3-pip; }
    python3 -m pip install -q --upgrade --target "$cmake_own" 'cmake>=3.30,<4' || say "pip could not get CMake"
  fi
  find_cmake >/dev/null || die "no CMake that builds Aeron: it needs version $cmake_wanted or newer." \
    "If you have one elsewhere, set CMAKE to it and run this again. All other peers do without it."
}
