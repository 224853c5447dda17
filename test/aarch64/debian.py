# SPDX-License-Identifier: Apache-2.0
"""Debian arm64 packages, made into a kernel and an initial file system; used by run.py.

apt works in a folder of its own here, as any user: the machine's package lists, its architectures
and what is installed stay as they are. Everything downloaded is kept in the cache folder, so that
a second run needs no network.
"""
import glob
import os
import shutil
import stat
import struct
import subprocess
import tarfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"
PROGRAMS = ["busybox-static", "coreutils", "dash", "git", "libhwloc15", "python3", "sqlite3"]
KERNELS = {"4k": "linux-image-arm64", "16k": "linux-image-arm64-16k"}

# What no program here reads; it would only be unpacked into the guest's memory.
LEFT_OUT = ("boot/", "lib/modules/", "usr/share/doc/", "usr/share/man/", "usr/share/locale/",
            "usr/share/perl", "usr/lib/aarch64-linux-gnu/perl", "usr/share/info/", "var/",
            "usr/share/git-core/contrib/", "usr/share/lintian/", "usr/share/bash-completion/")


class Unavailable(Exception):
    """Packages cannot be had: a reason to skip, not a failure."""


def suite():
    """The release of this machine if it is Debian: the guest's libc must not be older than the
    cross compiler's."""
    try:
        with open("/etc/os-release") as f:
            fields = dict(line.rstrip().split("=", 1) for line in f if "=" in line)
    except OSError:
        fields = {}
    if fields.get("ID") != "debian" or "VERSION_CODENAME" not in fields:
        raise Unavailable("this machine is not a Debian release")
    return fields["VERSION_CODENAME"].strip('"')


class Apt:
    """apt for arm64 in a folder of its own, with nothing installed."""

    def __init__(self, folder, limit_s):
        self.folder = os.path.abspath(folder)
        self.limit_s = limit_s
        for tool in ("apt-get", "apt-cache", "dpkg-deb"):
            if not shutil.which(tool):
                raise Unavailable("there is no " + tool)
        if not os.path.exists(KEYRING):
            raise Unavailable("there is no " + KEYRING)
        for sub in ("state/lists/partial", "cache/archives/partial", "etc/empty"):
            os.makedirs(os.path.join(self.folder, sub), exist_ok=True)
        release = suite()
        self.write("state/status", "")
        self.write("etc/sources.list", "".join(
            "deb [signed-by=%s] %s %s main\n" % (KEYRING, MIRROR, s)
            for s in (release, release + "-backports")))
        empty = os.path.join(self.folder, "etc/empty")
        self.write("apt.conf", """\
Dir "%s"; Dir::State "state"; Dir::State::status "%s/state/status"; Dir::Cache "cache";
Dir::Etc "etc"; Dir::Etc::parts "%s"; Dir::Etc::sourceparts "%s"; Dir::Etc::preferencesparts "%s";
Dir::Etc::trustedparts "%s"; APT::Architecture "arm64"; APT::Architectures { "arm64"; };
APT::Sandbox::User ""; APT::Install-Recommends "false"; Acquire::Languages "none";
Acquire::Retries "2"; Acquire::http::Timeout "30";
""" % ((self.folder,) * 2 + (empty,) * 4))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def run(self, *args):
        env = dict(os.environ, APT_CONFIG=os.path.join(self.folder, "apt.conf"), LC_ALL="C")
        try:
            done = subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            raise Unavailable("%s took more than %d s" % (args[0], self.limit_s)) from None
        if done.returncode:
            raise Unavailable("%s failed: %s" % (" ".join(args[:2]), done.stderr.strip()[-300:]))
        return done.stdout

    def update(self):
        self.run("apt-get", "-q", "update")

    def download(self, *packages):
        """The packages with all they depend on; their files."""
        archives = os.path.join(self.folder, "cache/archives")
        args = ["apt-get", "-q", "-y", "install", "--no-install-recommends"]
        self.run(*args, "--download-only", *packages)
        have = {os.path.basename(p) for p in glob.glob(archives + "/*.deb")}
        plan = self.run(*args, "-s", *packages)
        wanted = [line.split()[1:3] for line in plan.splitlines() if line.startswith("Inst ")]
        files = []
        for name, version in wanted:
            prefix = "%s_%s_" % (name, version.strip("(").replace(":", "%3a"))
            found = [f for f in have if f.startswith(prefix)]
            if not found:
                raise Unavailable("apt did not fetch " + name)
            files.append(os.path.join(archives, found[0]))
        return files

    def kernel(self, flavour):
        """The package file of the kernel that a flavour's meta-package stands for."""
        for line in self.run("apt-cache", "depends", KERNELS[flavour]).splitlines():
            word = line.split()
            if len(word) == 2 and word[0] == "Depends:" and word[1].startswith("linux-image-"):
                folder = os.path.join(self.folder, "cache/kernels")
                os.makedirs(folder, exist_ok=True)
                found = glob.glob(os.path.join(folder, glob.escape(word[1]) + "_*.deb"))
                if not found:
                    self.run("env", "-C", folder, "apt-get", "-q", "download", word[1])
                    found = glob.glob(os.path.join(folder, glob.escape(word[1]) + "_*.deb"))
                return found[0]
        raise Unavailable("this release has no " + KERNELS[flavour])


def kernel_image(deb, target):
    """Copies the kernel out of its package: a plain arm64 Image."""
    tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)  # it complains that we stop reading early
    with tarfile.open(fileobj=tar.stdout, mode="r|") as members:
        for member in members:
            if member.name.startswith("./boot/vmlinuz-"):
                with open(target + ".new", "wb") as f:
                    shutil.copyfileobj(members.extractfile(member), f)
                break
    tar.stdout.close()
    tar.wait()
    if not os.path.exists(target + ".new"):
        raise Unavailable("%s holds no kernel" % deb)
    os.rename(target + ".new", target)


def page_bytes(image):
    """Page size that a kernel was built for: bits 1 and 2 of the flags in the Image header."""
    with open(image, "rb") as f:
        head = f.read(64)
    if head[56:60] != b"ARM\x64":
        raise Unavailable("%s is not a plain arm64 Image" % image)
    return {1: 4096, 2: 16384, 3: 65536}.get(struct.unpack_from("<Q", head, 24)[0] >> 1 & 3, 0)


def unpack(debs, root):
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for deb in debs:
        subprocess.run(["dpkg-deb", "-x", deb, root], check=True)


def cpio_entry(out, ino, name, mode, data=b"", device=(0, 0)):
    """One entry of the "newc" format."""
    raw = name.encode() + b"\0"
    fields = (ino, mode, 0, 0, 1, 0, len(data), 0, 0, device[0], device[1], len(raw), 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + raw
    out.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))


def write_tree(out, root, prefix="", ino=1):
    """Everything below a folder, in an order that does not depend on the disk."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            rel = prefix + os.path.relpath(path, root)
            if rel.startswith(LEFT_OUT):
                continue
            mode = os.lstat(path).st_mode
            data = b""
            if stat.S_ISLNK(mode):
                data = os.readlink(path).encode()
            elif stat.S_ISREG(mode):
                with open(path, "rb") as f:
                    data = f.read()
            ino += 1
            cpio_entry(out, ino, rel, mode, data)
    return ino


def initramfs(target, root, extra):
    """root, and the files of `extra` (a folder) under /salloc; /init is the guest script there."""
    with open(target + ".new", "wb") as out:  # not compressed: the guest is slow
        ino = write_tree(out, root)
        for name in ("dev", "proc", "sys", "tmp", "salloc", "root"):
            ino += 1
            cpio_entry(out, ino, name, stat.S_IFDIR | 0o755)
        cpio_entry(out, ino + 1, "dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
        cpio_entry(out, ino + 2, "init", stat.S_IFLNK | 0o777, b"/salloc/guest.sh")
        write_tree(out, extra, "salloc/", ino + 3)
        cpio_entry(out, 0, "TRAILER!!!", 0)
    os.rename(target + ".new", target)
