#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the programs of test/outside/guarded for aarch64 under qemu-user, with a cache per thread, as there is no rseq: reports,
# stacks, the handler. What it emulates has no record of the fault's cause, so an access is not said to be a read or a write.
# Needs Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
#
# usage: guarded.sh BUILD-FOLDER    which is made if it is not there
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
[ -d "$build" ] || meson setup "$build" "$root" --cross-file "$root/test/aarch64.cross" -Dtests=false -Dperf=disabled
ninja -C "$build"
build=$(cd "$build" && pwd)
mkdir -p "$build/guarded"
cat >"$build/guarded/emulate" <<EOF
#!/bin/sh
unset LD_PRELOAD
exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD=$build/libsalloc.so -E LD_LIBRARY_PATH=$build "\$@"
EOF
chmod +x "$build/guarded/emulate"
for source in "$root"/test/outside/guarded/*.c; do
    program=$build/guarded/$(basename "$source" .c)
    aarch64-linux-gnu-gcc -O2 -fno-builtin -Wno-use-after-free -I"$root" "$source" -o "$program" -lpthread -L"$build" -lsalloc
    printf '%s: ' "$(basename "$source")"
    # The library is named to the emulator, not to what runs on this machine.
    "$root/test/outside/guarded/run.py" "" "$source" "$program" LD_PRELOAD= RUNNER="$build/guarded/emulate"
done
