#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Debian has no arm64 kernel with 64 KiB pages, so this builds a small one from Debian's
# linux-source package, for run.py --image. On one core it takes some minutes.
#
# Usage: kernel64k.sh CACHE-FOLDER     (makes CACHE-FOLDER/Image-64k; exit 77: cannot be had)
# Needs: gcc-aarch64-linux-gnu make flex bison bc; downloads 140 MB the first time.
set -eu
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
for tool in aarch64-linux-gnu-gcc make flex bison bc apt-get dpkg-deb; do
    command -v $tool >/dev/null || { echo "there is no $tool"; exit 77; }
done
mkdir -p "$1"
cd "$1"

if [ ! -d linux-64k ]; then
    package=$(apt-cache depends linux-source |
        sed -n 's/^ *Depends: \(linux-source-[0-9.]*\)$/\1/p')
    [ -n "$package" ] || { echo "apt knows no linux-source"; exit 77; }
    rm -rf "$package"_*.deb linux-64k.new
    apt-get -q download "$package" || exit 77
    mkdir linux-64k.new
    dpkg-deb --fsys-tarfile "$package"_*.deb |
        tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
        tar -xJ --strip-components=1 -C linux-64k.new
    mv linux-64k.new linux-64k
fi

cd linux-64k
# Only what run.py's guest uses, so that it builds in minutes.
cat >salloc.config <<END
CONFIG_ARM64_64K_PAGES=y
CONFIG_ARM64_VA_BITS_48=y
CONFIG_NR_CPUS=8
CONFIG_PRINTK=y
CONFIG_TTY=y
CONFIG_SERIAL_AMBA_PL011=y
CONFIG_SERIAL_AMBA_PL011_CONSOLE=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_BINFMT_ELF=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_MULTIUSER=y
CONFIG_PROC_FS=y
CONFIG_PROC_SYSCTL=y
CONFIG_SYSFS=y
CONFIG_DEVTMPFS=y
CONFIG_SHMEM=y
CONFIG_TMPFS=y
CONFIG_FUTEX=y
CONFIG_RSEQ=y
CONFIG_MEMBARRIER=y
CONFIG_POSIX_TIMERS=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_EPOLL=y
CONFIG_EVENTFD=y
CONFIG_SIGNALFD=y
CONFIG_TIMERFD=y
CONFIG_FILE_LOCKING=y
CONFIG_ADVISE_SYSCALLS=y
CONFIG_ANON_VMA_NAME=y
CONFIG_COREDUMP=n
CONFIG_NET=y
CONFIG_UNIX=y
CONFIG_PREEMPT=y
END
make -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- tinyconfig
scripts/kconfig/merge_config.sh -m .config salloc.config >/dev/null
make -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- olddefconfig
grep -q '^CONFIG_ARM64_64K_PAGES=y' .config
make -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- Image
cp arch/arm64/boot/Image ../Image-64k.new
mv ../Image-64k.new ../Image-64k
