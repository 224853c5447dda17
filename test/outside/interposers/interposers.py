#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs run under libraries that replace functions of libc's, in both orders of LD_PRELOAD.

Interposers allocate inside clock_gettime, syscall, open and others. An allocator that calls one of these from a slow
path recurses without end or waits for itself. Each program is run with the interposer alone, with the interposer
before the library and behind it: status and standard output must be the same.

usage: interposers.py LIBRARY [PROGRAM ...]
Interposers that are not installed are left out, and named. Status 77: none is installed."""
import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys
import tempfile

SECONDS = 60  # of one program, which takes a tenth of a second

PYTHON = """
import hashlib, json, os, subprocess, threading
def work(seed, sums):
    rows = [bytes([(seed + i) % 256]) * (1 + i * i % 5000) for i in range(3000)]
    sums.append(hashlib.md5(b''.join(rows[::2])).hexdigest())
sums = []
threads = [threading.Thread(target=work, args=(i, sums)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
pid = os.fork()
if pid == 0:
    work(9, sums)
    os._exit(0)
print(sorted(sums), os.waitpid(pid, 0)[1], subprocess.check_output(['/bin/echo', 'child']),
      len(json.dumps({str(i): list(range(i % 50)) for i in range(2000)})))
"""

GIT = """
git init -q repository && cd repository && for i in 1 2 3 4 5 6 7 8; do seq 1 ${i}000 > file$i; done &&
git add . && git commit -q -m first && seq 1 500 >> file3 && git commit -q -a -m second && git gc -q && git log --format=%H --stat
"""

PROGRAMS = {
    "date": ["date", "-u", "+%Y"],
    "ls": ["ls", "-ln", "/etc"],
    "git": ["sh", "-c", GIT],
    "python3": ["python3", "-c", PYTHON],
}

# Name: library (a pattern below the folders of libraries), environment, programs in front. {} is a folder of the run.
INTERPOSERS = {
    "faketime": ("faketime/libfaketime.so.1", {"FAKETIME": "2020-02-02 02:02:02"}, []),
    "faketimeMT": ("faketime/libfaketimeMT.so.1", {"FAKETIME": "2020-02-02 02:02:02"}, []),
    "datefudge": ("datefudge/datefudge.so", {"DATEFUDGE": "-100000000"}, []),
    "torsocks": ("torsocks/libtorsocks.so", {}, []),
    "proxychains": ("libproxychains.so.4", {"PROXYCHAINS_QUIET_MODE": "1"}, []),
    "fakeroot": ("libfakeroot/libfakeroot-sysv.so", {}, ["fakeroot", "--"]),
    "fakechroot": ("fakechroot/libfakechroot.so", {"FAKECHROOT": "true"}, []),
    "eatmydata": ("libeatmydata.so.1", {}, []),
    "libprofiler": ("libprofiler.so.0", {"CPUPROFILE": "{}/profile"}, []),
    "nss_wrapper": ("libnss_wrapper.so", {"NSS_WRAPPER_PASSWD": "/etc/passwd", "NSS_WRAPPER_GROUP": "/etc/group"}, []),
    "uid_wrapper": ("libuid_wrapper.so", {"UID_WRAPPER": "1", "UID_WRAPPER_ROOT": "1"}, []),
    "socket_wrapper": ("libsocket_wrapper.so", {"SOCKET_WRAPPER_DIR": "{}"}, []),
    "pam_wrapper": ("libpam_wrapper.so", {"PAM_WRAPPER": "1", "PAM_WRAPPER_SERVICE_DIR": "{}"}, []),
    "resolv_wrapper": ("libresolv_wrapper.so", {"RESOLV_WRAPPER_HOSTS": "/dev/null"}, []),
}

LIBRARY_FOLDERS = ["/usr/lib/*-linux-gnu/", "/usr/lib64/", "/usr/lib/", "/lib/*-linux-gnu/"]


def find(pattern):
    for folder in LIBRARY_FOLDERS:
        found = sorted(glob.glob(folder + pattern))
        if found:
            return found[0]
    return None


def run(preload, environment, front, argv):
    """(status, standard output, a line of standard error)."""
    folder = tempfile.mkdtemp(prefix="salloc")
    env = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "SALLOC_CONF")}
    env.update({name: value.replace("{}", folder) for name, value in environment.items()})
    env.update({"HOME": folder, "TZ": "UTC", "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1"})
    for who in ("AUTHOR", "COMMITTER"):
        env.update({f"GIT_{who}_NAME": "A", f"GIT_{who}_EMAIL": "a@b", f"GIT_{who}_DATE": "1600000000 +0000"})
    try:
        r = subprocess.run(front + ["env", "LD_PRELOAD=" + ":".join(preload)] + argv, env=env, cwd=folder,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
        return r.returncode, r.stdout, r.stderr.decode(errors="replace").strip()[-200:]
    except subprocess.TimeoutExpired:
        return "hangs", b"", ""
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check(library, name, program):
    pattern, environment, front = INTERPOSERS[name]
    interposer, argv = find(pattern), PROGRAMS[program]
    alone = run([interposer], environment, front, argv)
    wrong = []
    if alone[0] != 0:
        return [], f"{name} {program}: fails without the library, too: {alone[0]} {alone[2]}"
    for order in ([interposer, library], [library, interposer]):
        r = run(order, environment, front, argv)
        if r[:2] != alone[:2]:
            where = "before" if order[0] == interposer else "behind"
            wrong.append(f"{name} {where} the library: {program}: status {r[0]}, {len(r[1])} bytes of output and not "
                         f"{len(alone[1])} {r[2]}")
    return wrong, None


def main():
    library = os.path.abspath(sys.argv[1])
    missing = [n for n, (pattern, _, front) in INTERPOSERS.items()
               if not find(pattern) or (front and not shutil.which(front[0]))]
    programs = [p for p in sys.argv[2:] or PROGRAMS if shutil.which(PROGRAMS[p][0]) and shutil.which(p)]
    jobs = [(n, p) for n in INTERPOSERS if n not in missing for p in programs]
    wrong, left_out = [], []
    if not jobs:
        print("skipped: no interposer is installed")
        sys.exit(77)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for bad, skipped in pool.map(lambda job: check(library, *job), jobs):
            wrong += bad
            left_out += [skipped] if skipped else []
    for line in wrong + left_out:
        print(line)
    print(f"{len(jobs) - len(left_out)} pairs of interposer and program, twice each; not installed: "
          f"{', '.join(missing) or 'none'}")
    sys.exit(1 if wrong else 0)


main()
