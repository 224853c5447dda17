#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""salloc on aarch64: cross-compiled, checked, and run under a full-system emulator.

  build   the library with gcc and with clang, without warnings; every restartable sequence checked
          in the linked file (sections.py)
  boot    Debian's arm64 kernels (4 KiB and 16 KiB pages) in qemu-system-aarch64, with a file system
          made of Debian's arm64 packages; guest.sh runs programs and a stress in it, with rseq,
          without, and with lengthened sequences

What an emulator on another architecture cannot show is the processor's weak memory ordering.

Needs: gcc-aarch64-linux-gnu libc6-dev-arm64-cross libhwloc-dev meson pkg-config, and for the second
part qemu-system-arm apt and network (first run only). clang if there is one. One core is used.
Prints a line PASS, FAIL or SKIP per step. Exit status 0, 1, or 77 if something needed is missing.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import debian    # noqa: E402
import sections  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CROSS = os.path.join(ROOT, "test/aarch64.cross")
CC = "aarch64-linux-gnu-gcc"
QEMU = "qemu-system-aarch64"
DELAY_TURNS = 400  # of a two-instruction loop before each commit, in the delayed library
# A processor without the atomic instructions of ARMv8.1, and one with everything.
CPUS = {4096: "cortex-a72", 16384: "max,pauth-impdef=on", 65536: "cortex-a72"}

counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}


def say(verdict, step, text=""):
    counts[verdict] += 1
    print("%s %s%s" % (verdict, step, ": " + text if text else ""), flush=True)


def run(args, limit_s, **more):
    """(status, output) of a command; it is ended after limit_s."""
    try:
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=limit_s, **more)
    except subprocess.TimeoutExpired:
        return 124, "took more than %d s" % limit_s
    return done.returncode, done.stdout


def build_library(name, cross_files, build):
    """Builds into the folder; the library's path, or None after saying FAIL."""
    step = "build with " + name
    if not os.path.exists(os.path.join(build, "build.ninja")):
        args = ["meson", "setup", build, ROOT, "-Dtests=false", "-Dperf=disabled"]
        for f in cross_files:
            args += ["--cross-file", f]
        status, output = run(args, 120)
        if status:
            say("FAIL", step, "meson setup\n" + output[-2000:])
            return None
    status, output = run(["ninja", "-C", build, "-j", "1"], 300)
    if status or "warning:" in output:
        say("FAIL", step, ("warnings" if status == 0 else "status %d" % status) + "\n" +
            output[-3000:])
        return None
    library = os.path.realpath(os.path.join(build, "libsalloc.so"))
    with open(library, "rb") as f:
        data = f.read()
    say("PASS", step, "%d bytes, no warnings" % len(data))
    number, faults = sections.check(data)
    faults = faults or sections.self_test(data)
    say("FAIL" if faults or not number else "PASS", "sequences built with " + name,
        "%d checked%s" % (number, "".join("\n    " + f for f in faults)))
    return library


def build_delayed(folder):
    """The library with lengthened sequences, so that they are interrupted more often."""
    source, obj = os.path.join(folder, "delay.c"), os.path.join(folder, "delay.o")
    target = os.path.join(folder, "build-delayed")
    text = '__attribute__((visibility("hidden"))) int sa_percpu_delay = %d;\n' % DELAY_TURNS
    if not os.path.exists(source) or open(source).read() != text:
        shutil.rmtree(target, ignore_errors=True)
    with open(source, "w") as f:
        f.write(text)
    status, output = run([CC, "-fPIC", "-c", source, "-o", obj], 60)
    if status:
        say("FAIL", "build delayed", output)
        return None
    overlay = os.path.join(folder, "delayed.cross")
    with open(CROSS) as f:
        base = [line.split("=", 1)[1].strip() for line in f if line.startswith("c_args")][0]
    with open(overlay, "w") as f:
        f.write("[built-in options]\nc_args = %s + ['-DSA_PERCPU_DELAY']\nc_link_args = ['%s']\n"
                % (base, obj))
    return build_library("gcc, delayed", [CROSS, overlay], target)


def build(folder):
    """The files for the guest's /salloc; None if something failed."""
    if not shutil.which(CC) or not shutil.which("meson"):
        raise debian.Unavailable("there is no %s or no meson" % CC)
    if not os.path.exists("/usr/include/hwloc.h"):
        raise debian.Unavailable("libhwloc-dev is not installed")
    files = {"libsalloc.so": build_library("gcc", [CROSS], os.path.join(folder, "build-gcc"))}
    if shutil.which("clang"):
        files["libsalloc-clang.so"] = build_library(
            "clang", [CROSS, os.path.join(ROOT, "test/aarch64-clang.cross")],
            os.path.join(folder, "build-clang"))
    else:
        say("SKIP", "build with clang", "there is no clang")
    files["libsalloc-delayed.so"] = build_delayed(folder)
    files["stress"] = stress = os.path.join(folder, "stress")
    status, output = run([CC, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread",
                          os.path.join(HERE, "stress.c"), "-o", stress], 120)
    if status:
        say("FAIL", "build the stress", output[-2000:])
    if status or not all(files.values()):
        return None
    extra = os.path.join(folder, "salloc")
    shutil.rmtree(extra, ignore_errors=True)
    os.makedirs(extra)
    for name in ("guest.sh", "git.sh", "threads.py"):
        files[name] = os.path.join(HERE, name)
    for name, source in files.items():
        shutil.copyfile(source, os.path.join(extra, name))
        os.chmod(os.path.join(extra, name), 0o755)
    return extra


def fetch(folder, flavours):
    """Downloads what is not there yet; the kernels by flavour, without those that do not exist."""
    root = os.path.join(folder, "root-" + debian.suite())
    images = {f: os.path.join(folder, "Image-" + f) for f in flavours}
    apt = None
    if not os.path.exists(root + ".complete") or not all(map(os.path.exists, images.values())):
        apt = debian.Apt(os.path.join(folder, "apt"), 300)
        apt.update()
    if not os.path.exists(root + ".complete"):
        debian.unpack(apt.download(*debian.PROGRAMS), root)
        open(root + ".complete", "w").close()
    for flavour, image in list(images.items()):
        try:
            if not os.path.exists(image):
                debian.kernel_image(apt.kernel(flavour), image)
        except debian.Unavailable as why:
            say("SKIP", "boot " + flavour, str(why))
            del images[flavour]
    return root, images


def read_guest(qemu, step):
    """Repeats the guest's results as ours; the number of steps it says it took, or None."""
    done = None
    for raw in qemu.stdout:
        line = raw.decode("utf-8", "replace").strip()
        if line.startswith(("@PASS ", "@FAIL ")):
            say(line[1:5], "%s: %s" % (step, line[6:]))
        elif line.startswith("@DONE "):
            done = int(line.split()[1])
        elif line.startswith("@"):
            print("     " + line[1:], flush=True)
        elif "Kernel panic" in line or "Internal error" in line:
            print("     " + line, flush=True)
    return done


def boot(step, image, initrd, seconds, limit_s):
    pages = debian.page_bytes(image)
    before = counts["PASS"] + counts["FAIL"]
    begin = time.monotonic()
    args = ["timeout", "-k", "5", str(limit_s), QEMU, "-M", "virt", "-cpu", CPUS[pages],
            "-accel", "tcg,thread=single", "-smp", "2", "-m", "2048", "-nic", "none",
            "-nographic", "-no-reboot", "-kernel", image, "-initrd", initrd,
            "-append", "console=ttyAMA0 quiet panic=-1 salloc_seconds=%d" % seconds]
    with subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as qemu:
        done = read_guest(qemu, step)
        qemu.terminate()
    took = counts["PASS"] + counts["FAIL"] - before
    text = "%d-byte pages, -cpu %s, %d steps in %d s" % (pages, CPUS[pages], took,
                                                        time.monotonic() - begin)
    say("PASS" if done and done == took else "FAIL", step, text if done == took else
        text + ", but the guest did not come to its end (%s)" % done)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build-only", action="store_true", help="no downloads, no emulator")
    p.add_argument("--cache", default=os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "salloc-arm64"),
        help="folder for builds and downloads (%(default)s)")
    p.add_argument("--kernel", choices=sorted(debian.KERNELS), action="append",
                   help="boot only this one")
    p.add_argument("--image", action="append", default=[],
                   help="boot this kernel too (a plain arm64 Image)")
    p.add_argument("--seconds", type=int, default=15, help="length of each stress (%(default)s)")
    p.add_argument("--limit", type=int, default=900, help="seconds for each boot (%(default)s)")
    args = p.parse_args()
    folder = os.path.abspath(args.cache)
    os.makedirs(folder, exist_ok=True)
    complete = False
    try:
        extra = build(folder)
        if not args.build_only and extra:
            if not shutil.which(QEMU):
                raise debian.Unavailable("there is no %s (package qemu-system-arm)" % QEMU)
            root, images = fetch(folder, args.kernel or sorted(debian.KERNELS, reverse=True))
            initrd = os.path.join(folder, "initrd")
            debian.initramfs(initrd, root, extra)
            for name, image in list(images.items()) + [(os.path.basename(i), i)
                                                       for i in args.image]:
                boot("boot " + name, image, initrd, args.seconds, args.limit)
                complete = True
        complete |= args.build_only
    except debian.Unavailable as why:
        say("SKIP", "aarch64", str(why))
    print("%(PASS)d passed, %(FAIL)d failed, %(SKIP)d skipped" % counts)
    return 1 if counts["FAIL"] else 0 if complete else 77


if __name__ == "__main__":
    sys.exit(main())
