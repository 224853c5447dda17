# SPDX-License-Identifier: Apache-2.0
"""Finds the allocators on this machine, and says what machine it is."""

import glob
import os
import platform
import re
import shutil
import subprocess

# Name, and the files that may hold it, the most wanted first.
PEERS = [
    ("jemalloc", ["libjemalloc.so.2"]),
    ("mimalloc", ["libmimalloc.so.2", "libmimalloc.so.2.*"]),
    ("tcmalloc", ["libtcmalloc_minimal.so.4"]),
]

DIRECTORIES = ["/usr/lib/*-linux-gnu", "/lib/*-linux-gnu", "/usr/local/lib", "/usr/lib64", "/usr/lib"]


class Allocator:
    """An allocator: its name, the file to preload (None: libc's own malloc), and its version."""

    def __init__(self, name, path, version):
        self.name = name
        self.path = path
        self.version = version
        self.file = path

    def copy_to(self, directory):
        """From now on a copy of the file is preloaded, so that it lies in other physical pages."""
        if self.file:
            self.path = os.path.join(directory, self.name, os.path.basename(self.file))
            os.mkdir(os.path.dirname(self.path))
            shutil.copyfile(self.file, self.path)

    def expected_file(self):
        """What the file that malloc comes from must be called, at the beginning."""
        return os.path.basename(self.path) if self.path else "libc.so"


def output_of(*command):
    """What a command prints; empty if it fails or does not exist."""
    env = dict(os.environ, LC_ALL="C")
    try:
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def ldconfig_libraries():
    """Paths of the libraries in the loader's cache for this architecture."""
    machine = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(platform.machine(), "")
    listing = output_of("ldconfig", "-p") or output_of("/sbin/ldconfig", "-p")
    return [line.split("=>")[1].strip() for line in listing.splitlines()
            if "=>" in line and machine in line]


def find_library(patterns):
    """The first file that one of the patterns names, or None."""
    cached = ldconfig_libraries()
    for pattern in patterns:
        expression = re.compile(re.escape(pattern).replace(r"\*", "[^/]*") + "$")
        for path in cached:
            if expression.match(os.path.basename(path)):
                return path
        for directory in DIRECTORIES:
            found = sorted(glob.glob(os.path.join(directory, pattern)))
            if found:
                return found[0]
    return None


def package_version(path):
    """The version of the Debian package that a file belongs to, else the file's real name."""
    # Where /lib is a link to /usr/lib the package database knows only one of the two names.
    real = os.path.realpath(path)
    for name in (path, real, "/usr" + path, re.sub("^/usr/", "/", real)):
        owner = output_of("dpkg-query", "-S", name).split("\n")[0].rsplit(": ", 1)[0]
        version = owner and output_of("dpkg-query", "-W", "-f", "${Package} ${Version}", owner)
        if version:
            return version
    return os.path.basename(real)


def find_allocators(salloc_path):
    """(allocators, skipped): salloc first, glibc second; what was skipped as (name, reason)."""
    found = [Allocator("salloc", salloc_path, ""), Allocator("glibc", None, libc_version())]
    skipped = []
    for name, patterns in PEERS:
        path = find_library(patterns)
        if path:
            found.append(Allocator(name, path, package_version(path)))
        else:
            skipped.append((name, "not installed: no %s in the loader's cache or the usual "
                                  "directories" % " or ".join(patterns)))
    return found, skipped


def libc_version():
    return " ".join(part for part in platform.libc_ver() if part) or "libc"


def cpu_model():
    """Model name, on few machines unknown."""
    for line in output_of("lscpu").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Model name":
            return value.strip()
    return platform.machine()


def read_line(path):
    try:
        with open(path, encoding="ascii") as f:
            return f.readline().strip()
    except OSError:
        return "unknown"


def machine_facts(compiler):
    """(what, value) pairs that a reader needs to judge the figures."""
    return [
        ("CPU", "%s, %d CPUs allowed of %d" % (cpu_model(), len(os.sched_getaffinity(0)),
                                               os.cpu_count() or 0)),
        ("kernel", "%s %s" % (platform.system(), platform.release())),
        ("transparent huge pages", read_line("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("libc", libc_version()),
        ("compiler", compiler),
    ]
