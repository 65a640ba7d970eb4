# The guest's kernel: the distribution's own package, unpacked but not installed, and an initramfs. Sourced by ci/vm.

# Modules the initramfs loads to reach this machine's file system; the guest takes all others from there.
readonly boot_modules=(virtio_pci 9pnet_virtio 9p overlay virtio_console)

# Sets `kernel` (a folder with image and lib/modules) and `kernel_version`; downloads once.
get_kernel() {
  [[ $(uname -m) == x86_64 ]] || die "$EXIT_NO_LAB" "the lab boots an x86-64 kernel; this machine is $(uname -m)"
  # Once complete it is never changed: other guests may be running on it.
  kernel=$lab_cache/kernel
  [[ -z ${LAB_KERNEL_DEB:-} ]] || kernel+=-$(cat -- $LAB_KERNEL_DEB | sha256sum | cut -c1-16)
  if [[ ! -e $kernel/complete ]]; then
    mkdir -p "$lab_cache"
    exec {lock}>"$lab_cache/lock"
    flock "$lock"
    [[ -e $kernel/complete ]] || unpack_kernel
    exec {lock}>&-
  fi
  kernel_version=$(<"$kernel/complete")
}

unpack_kernel() {
  local new modules
  new=$(mktemp -d "$lab_cache/new.XXXXXX")
  if [[ -n ${LAB_KERNEL_DEB:-} ]]; then
    # Several packages may be named, as Ubuntu splits its kernel.
    # shellcheck disable=SC2086
    cp -- $LAB_KERNEL_DEB "$new/"
  else
    download_kernel "$new"
  fi
  say "unpacking the kernel (once) into $kernel"
  local deb
  for deb in "$new"/*.deb; do
    dpkg-deb -x "$deb" "$new" && rm "$deb"
  done
  # Distributions with a merged /usr may ship the modules below usr/lib.
  [[ -d $new/lib/modules ]] || ln -s usr/lib "$new/lib"
  modules=("$new"/lib/modules/*)
  kernel_version=${modules[0]##*/}
  make_image "$new/boot/vmlinuz-$kernel_version" "$new/image"
  PATH=$PATH:/usr/sbin:/sbin depmod -b "$new" "$kernel_version"
  local name
  for name in rdma_rxe rdma_ucm veth; do
    show_depends "$new" "$name" >/dev/null 2>&1 || die "$EXIT_NO_LAB" "kernel $kernel_version has no module $name"
  done
  echo "$kernel_version" >"$new/complete"
  rm -rf "$kernel"
  mv "$new" "$kernel"
}

# make_image VMLINUZ IMAGE: unpacked on the host, as the emulated processor takes 4 s for it. QEMU boots either kind.
make_image() {
  local magic unpack offset
  for magic in '\xFD7zXZ\x00=xz -dc' '\x28\xB5\x2F\xFD=zstd -dcq'; do
    unpack=${magic#*=}
    command -v "${unpack%% *}" >/dev/null || continue
    offset=$(LC_ALL=C grep -abo -m1 -P "${magic%%=*}" "$1" | head -n1 | cut -d: -f1) || continue
    # What follows the packed kernel in the file makes the unpacker complain at its end; the ELF header tells.
    tail -c "+$((offset + 1))" "$1" | $unpack >"$2" 2>/dev/null || true
    [[ $(head -c4 "$2") != $'\x7fELF' ]] || return 0
  done
  cp "$1" "$2"
}

# download_kernel FOLDER
download_kernel() {
  local packages=() meta image
  # The flavour for clouds (linux-image-cloud-amd64, linux-image-kvm) has no rdma_rxe.
  for meta in linux-image-amd64 linux-image-generic; do
    image=$(package_depends "$meta" | grep -E -m1 '^linux-image-[0-9]' || true)
    [[ -z $image ]] || break
  done
  [[ -n $image ]] || die "$EXIT_NO_LAB" "apt knows no kernel package (linux-image-amd64 or linux-image-generic); 'ci/setup' refreshes its lists"
  packages=("$image")
  if [[ $image == *-generic ]]; then
    packages+=("linux-modules-${image#linux-image-}" "linux-modules-extra-${image#linux-image-}")
  fi
  say "downloading ${packages[*]} (once, about 70-200 MB)"
  (cd "$1" && apt-get -q -o APT::Sandbox::User=root download "${packages[@]}" >&2) ||
    die "$EXIT_NO_LAB" "apt-get could not download ${packages[*]}; 'ci/setup' refreshes its lists"
}

package_depends() {
  apt-cache depends --no-recommends --no-suggests "$1" 2>/dev/null | sed -n 's/^ *|\?Depends: //p'
}

# show_depends FOLDER MODULE: the insmod lines modprobe would act on.
show_depends() {
  PATH=$PATH:/usr/sbin:/sbin modprobe -C /dev/null -d "$1" -S "${kernel_version:?}" --show-depends "$2"
}

# Sets `initramfs`; builds it again when its init or the kernel changed.
build_initramfs() {
  local init=$lab/init stamp new
  stamp=$( (echo "$kernel_version ${boot_modules[*]}" && cat "$init" "$lab/kernel.sh") | sha256sum | cut -c1-16)
  initramfs=$lab_cache/initramfs-$stamp
  [[ ! -e $initramfs ]] || return 0
  # A dynamic one would find no libraries in there.
  ! head -c 2000 "$(command -v busybox)" | grep -q ld-linux || die "$EXIT_NO_LAB" "busybox is not a static one; 'ci/setup' brings the package busybox-static"
  new=$(mktemp -d "$lab_cache/new.XXXXXX")
  mkdir -p "$new/root"/{bin,modules,dev,proc,lower,rw,new}
  cp "$(command -v busybox)" "$new/root/bin/busybox"
  install -m 755 "$init" "$new/root/init"
  copy_boot_modules "$new/root"
  (cd "$new/root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$new/initramfs"
  mv "$new/initramfs" "$initramfs"
  rm -rf "$new"
}

# copy_boot_modules FOLDER: module files and their order of loading; `builtin` lines need neither.
copy_boot_modules() {
  local name word file base
  for name in "${boot_modules[@]}"; do
    show_depends "$kernel" "$name" || die "$EXIT_NO_LAB" "kernel $kernel_version has no module $name"
  done | awk '$1 == "insmod" && !seen[$2]++' >"$1/list"
  while read -r word file; do
    base=$(basename "$file")
    case $base in
      *.ko.zst) zstd -q -d "$file" -o "$1/modules/${base%.zst}" ;;
      *.ko.xz) xz -d <"$file" >"$1/modules/${base%.xz}" ;;
      *.ko) cp "$file" "$1/modules/" ;;
    esac
    base=${base%.zst}
    echo "${base%.xz}" >>"$1/modules/order"
  done <"$1/list"
  rm "$1/list"
}
