#!/bin/dash
# SPDX-License-Identifier: Apache-2.0
# Runs in the emulated machine, as its first process: real programs and the stress on salloc, with
# rseq, with lengthened sequences, with sequences that clang assembled, and without rseq. Prints a
# line per step for run.py, "@PASS name: text" or "@FAIL name: text", and at the end "@DONE number".
# Files of the test are in /salloc.

/bin/busybox mkdir -p /applets
/bin/busybox --install -s /applets
export PATH=/usr/bin:/bin:/applets HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmp /tmp
echo 0 >/proc/sys/kernel/printk

LIB=/salloc/libsalloc.so
SECONDS_EACH=${salloc_seconds:-10}
steps=0

# result NAME STATUS TEXT-FILE
result() {
    steps=$((steps + 1))
    if [ "$2" = 0 ]; then
        echo "@PASS $1: $(tail -n 1 "$3")"
    else
        echo "@FAIL $1: status $2"
        tail -n 15 "$3" | sed 's/^/@    /'
    fi
}

# preloaded COMMAND...: on salloc, in the way that $mode says. env and timeout stay without it, so
# that the stats page is the command's.
preloaded() {
    conf=stats:/tmp/stats
    lib=$LIB
    tunables=
    case $mode in
    norseq) tunables=glibc.pthread.rseq=0 ;;
    option) conf=$conf,per_cpu:off ;;
    delayed | clang) lib=/salloc/libsalloc-$mode.so ;;
    esac
    rm -f /tmp/stats
    timeout 300 env SALLOC_CONF="$conf" GLIBC_TUNABLES="$tunables" LD_PRELOAD="$lib" "$@"
}

# same NAME COMMAND...: output must be that without salloc, and salloc must have been there
same() {
    name=$mode/$1
    shift
    rm -rf /tmp/work
    timeout 300 "$@" >/tmp/plain 2>&1
    plain=$?
    rm -rf /tmp/work
    preloaded "$@" >/tmp/ours 2>&1
    ours=$?
    if [ $plain = 0 ] && [ $ours = 0 ] && cmp /tmp/plain /tmp/ours && [ -s /tmp/stats ]; then
        echo "same output, $(wc -c </tmp/plain) bytes: $(tail -n 1 /tmp/plain | cut -c 1-60)" \
            >/tmp/text
        result "$name" 0 /tmp/text
    else
        { echo "status $plain, with salloc $ours"; ls -l /tmp/stats; tail -n 5 /tmp/plain
          diff /tmp/plain /tmp/ours; } >/tmp/text 2>&1
        result "$name" 1 /tmp/text
    fi
}

# expect NAME STATUS COMMAND...: on salloc
expect() {
    name=$mode/$1
    want=$2
    shift 2
    preloaded "$@" >/tmp/text 2>&1
    got=$?
    [ $got = "$want" ] && got=0 || [ $got != 0 ] || got=255
    result "$name" $got /tmp/text
}

# The stats page says how caches work here, and the kernel's page size as the kernel does.
stats() {
    preloaded ls / >/dev/null 2>/tmp/text
    pages=$(python3 -c 'import os; print(os.sysconf("SC_PAGESIZE"))')
    grep 'Kernel page size' /tmp/stats >>/tmp/text
    grep 'caches are' /tmp/stats >>/tmp/text
    grep -q "caches are $1" /tmp/stats && grep -q " $pages  *Kernel page size" /tmp/stats
    result "$mode/stats page, $pages-byte pages" $? /tmp/text
}

programs() {
    same 'ls' ls -lR --full-time /usr/bin /lib /salloc
    same 'git version' git --version
    same 'git' sh /salloc/git.sh
    same 'python3 -c' python3 -c 'print(sum(len(str(2**i)) for i in range(3000)))'
    same 'python3 threads' env PYTHONMALLOC=malloc python3 /salloc/threads.py
    same 'sqlite3' sqlite3 :memory: '
        create table t(a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i+1 from n where i < 20000)
            insert into t select i, hex(i * i) from n;
        create index tb on t(b);
        select count(*), sum(length(b)), max(b) from t where b > "34";'
    same 'sort' sh -c 'seq 100000 | sort --parallel=4 -S 2M -k 1.3 | cksum'
}

echo "@NOTE $(uname -srm), $(grep -c ^processor /proc/cpuinfo) CPUs"
mode=rseq
stats 'per CPU (rseq)'
programs
expect 'stress' 0 /salloc/stress "$SECONDS_EACH" 6 restarts
expect 'stress finds damage' 1 /salloc/stress 5 3 spoil
for mode in delayed clang; do
    [ -e /salloc/libsalloc-$mode.so ] || continue # there was no clang
    stats 'per CPU (rseq)'
    expect 'stress' 0 /salloc/stress "$SECONDS_EACH" 6 restarts
done
mode=norseq
stats 'per thread: libc did not register rseq'
programs
expect 'stress' 0 /salloc/stress "$SECONDS_EACH" 6
mode=option
stats 'per thread: switched off by option'
expect 'stress' 0 /salloc/stress "$SECONDS_EACH" 6
echo "@DONE $steps"
sync
poweroff -f
