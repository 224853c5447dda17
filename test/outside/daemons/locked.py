#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons and programs behind filters that end a process at any call beyond their list, under load for a while.

nginx, redis, postgres, python   behind the rules of systemd's @system-service, by lock_in.c
vsftpd, tor                      behind filters of their own; those of the release that is installed: vsftpd's
                                 ends it at transfers with this libc, whatever the malloc, so vsftpd_open does these
                                 without
bwrap, firejail                  python behind filters that these set up

usage: locked.py LIBRARY LOCK_IN PROGRAM
SALLOC_TEST_SECONDS: how long each is under load. Status 77: it is not installed, or this user cannot start it."""
import ftplib
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = float(os.environ.get("SALLOC_TEST_SECONDS") or 2)
PAUSE = 4 if SECONDS > 60 else 0  # between the steps of a long run, which others run beside
PATIENCE = 60 if SECONDS <= 60 else 600
ANSWER = 20 if SECONDS <= 60 else 600  # an hour may be that of a machine that is busy
KILLED = re.compile(r"signal 31|SIGSYS|Bad system call|salloc: ", re.I)

# Grows, shrinks, forks, makes threads, and starts programs, until it is late.
WORK = """
import os, subprocess, sys, threading, time, zlib
end, rounds = time.monotonic() + float(sys.argv[1]), 0
assert "libsalloc" in open("/proc/self/maps").read()
def work(n):
    kept = [{i: str(i) * (i % 50)} for i in range(n)]
    return len(zlib.compress(b"".join(bytes(i) for i in range(0, 3000, 7)))) + len(kept)
while time.monotonic() < end or not rounds:
    threads = [threading.Thread(target=work, args=(20000,)) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    blocks = [bytearray(1 << 20) for _ in range(60)]
    del blocks
    pid = os.fork()
    if pid == 0:
        work(5000)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert subprocess.run([sys.executable, "-c", "print(len(hex(7 ** 20000)))"], capture_output=True).stdout == b"14039\\n"
    rounds += 1
    time.sleep(float(sys.argv[2]))
print("rounds", rounds)
"""


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def need(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    return path or skip(f"no {name}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if what():
                return True
        except (OSError, EOFError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    return False


class Daemon:
    """One daemon in a folder of its own; its first and last words are in a log."""

    def __init__(self, folder, library, lock_in):
        self.folder, self.library, self.lock_in = folder, library, lock_in
        self.log = folder / "log"
        self.process, self.others = None, []

    def give(self, user):
        """The folder, with copies of what runs: another user may not reach the build, as below a home of mode 0700."""
        self.lock_in = shutil.copy(self.lock_in, self.folder)
        shutil.chown(self.folder, user, user)

    def environment(self, **more):
        env = {name: os.environ[name] for name in ("PATH", "SALLOC_CONF", "GLIBC_TUNABLES", "LC_ALL") if name in os.environ}
        return dict(env, **more)

    def start(self, command, locked=True, **how):
        env = self.environment(**{"LOCKED_PRELOAD" if locked else "LD_PRELOAD": str(self.library)})
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(([self.lock_in] if locked else []) + [str(c) for c in command], env=env,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **how)

    def up(self, what):
        if not wait_for(lambda: self.process.poll() is not None or what()):
            self.fail("does not answer")
        if self.process.poll() == 77:
            skip("no filters here")
        self.alive()

    def text(self):
        return "".join(p.read_text(errors="replace") for p in [self.log, *self.others] if p.exists())

    def fail(self, why):
        sys.exit(f"{why}\n{self.text()[-3000:]}")

    def alive(self):
        if self.process.poll() is not None:
            self.fail(f"ended with {self.process.returncode}")

    def end(self, number=signal.SIGTERM, status=(0,)):
        self.alive()
        self.process.send_signal(number)
        try:
            if self.process.wait(PATIENCE) not in status:
                self.fail(f"ended with {self.process.returncode}")
        except subprocess.TimeoutExpired:
            self.fail("does not end")
        if KILLED.search(self.text()):
            self.fail("a process was killed")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def load(step):
    """Calls step until the time is over; how often."""
    end, n = time.monotonic() + SECONDS, 0
    while time.monotonic() < end or not n:
        step(n)
        n += 1
        time.sleep(PAUSE)
    return n


def check_lock(daemon):
    """What the filter does not allow ends the process."""
    done = subprocess.run([daemon.lock_in, sys.executable, "-c", "import ctypes; ctypes.CDLL(None).mincore(0, 0, 0)"],
                          stderr=subprocess.PIPE, check=False)
    if done.returncode == 77:
        skip("no filters here")
    if done.returncode != -signal.SIGSYS:
        sys.exit(f"the filter lets mincore pass: {done.returncode}")


def check_nginx(daemon):
    nginx, folder, port = need("nginx"), daemon.folder, free_port()
    check_lock(daemon)
    (folder / "www").mkdir()
    page = "".join(f"line {i}\n" for i in range(20000))
    (folder / "www/page.html").write_text(page)
    daemon.others.append(folder / "error.log")
    paths = "".join(f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "conf").write_text(
        f"daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/error.log notice;\n"
        + ("user root root;\n" if os.getuid() == 0 else "")
        + "events { worker_connections 64; }\n"
        f"http {{ {paths} access_log off; gzip on; gzip_types text/html; types {{ text/html html; }}\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}/www; large_client_header_buffers 4 64k; }} }}\n")
    daemon.start([nginx, "-p", folder, "-c", folder / "conf", "-e", folder / "error.log"])

    def get(n, bare=True):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER)
        for i in range(5):
            c.request("GET", f"/page.html?{'x' * (n * 97 % 30000)}", headers={} if bare else {"Accept-Encoding": "gzip"})
            answer = c.getresponse()
            body = answer.read()
            assert answer.status == 200 and (not bare or body.decode() == page), (answer.status, i)
        c.close()
        return True

    daemon.up(lambda: get(0))

    def step(n):
        try:
            get(n, n % 2 == 0)
        except ConnectionError: # closed by a worker that a reload ends; the log tells of one that was killed
            get(n, n % 2 == 0)
        if n % 20 == 19:
            daemon.process.send_signal(signal.SIGHUP)
        time.sleep(0.01)

    print("nginx:", load(step), "connections")
    daemon.end()


def redis(port, *words):
    """The answer to one command, the first 64 KiB of it."""
    with socket.create_connection(("127.0.0.1", port), ANSWER) as s:
        s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in
                                                     (str(w).encode() for w in words)))
        return s.recv(1 << 16)


def check_redis(daemon):
    server, port = need("redis-server"), free_port()
    check_lock(daemon)
    daemon.start([server, "--port", port, "--bind", "127.0.0.1", "--dir", daemon.folder, "--save", "", "--appendonly", "yes",
                  "--io-threads", "2", "--activedefrag", "no"])
    daemon.up(lambda: redis(port, "PING") == b"+PONG\r\n")

    def step(n):
        assert redis(port, "DEBUG" if n == 0 else "SET", f"k{n}", "v" * (n * 7919 % 200000))[:1] in b"+-"
        assert redis(port, "EVAL", "for i=1,3000 do redis.call('lpush', KEYS[1], ARGV[1]..i) end return 1", 1,
                     f"list{n % 7}", "e" * (n % 300)) == b":1\r\n"
        if n % 30 == 10:
            redis(port, "BGSAVE")
        if n % 30 == 20:
            redis(port, "BGREWRITEAOF")
        if n % 40 == 39:
            redis(port, "FLUSHALL", "ASYNC")

    print("redis:", load(step), "rounds")
    daemon.end()


def check_postgres(daemon):
    folder, port = daemon.folder, free_port()
    check_lock(daemon)
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    if not found or not (found[-1] / "pgbench").exists() or not (found[-1] / "initdb").exists():
        skip("no postgres")
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    if user:
        daemon.give("postgres")
    tools = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=daemon.environment(),
                 cwd=folder, timeout=PATIENCE + SECONDS, check=False, **user)
    subprocess.run([found[-1] / "initdb", "-D", folder / "data", "-U", "postgres", "-N", "-A", "trust"], **tools).check_returncode()
    daemon.start([found[-1] / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-c", "fsync=off",
                  "-c", "shared_buffers=8MB", "-c", "max_parallel_workers_per_gather=2", "-c", "log_line_prefix="], **user)
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
    bench = [found[-1] / "pgbench", *address, "postgres"]
    daemon.up(lambda: subprocess.run([found[-1] / "pg_isready", *address], **tools).returncode == 0)
    each = ["-c", "4", "-T", str(int(SECONDS / 2) or 1)] + (["-R", "2"] if PAUSE else [])
    for more in (["-i", "-q", "-s", "1"], ["-C", *each], ["-S", *each]):
        done = subprocess.run(bench + more, **tools)
        if done.returncode:
            daemon.fail(done.stdout)
    print("postgres:", re.search(r"transactions actually processed: \d+", done.stdout)[0])
    daemon.end(signal.SIGINT)


def check_python(daemon):
    check_lock(daemon)
    daemon.start([sys.executable, "-c", WORK, SECONDS, PAUSE])
    finish(daemon)


def finish(daemon):
    try:
        status = daemon.process.wait(PATIENCE + SECONDS)
    except subprocess.TimeoutExpired:
        daemon.fail("does not end")
    if status == 77:
        skip("no filters here")
    if status or KILLED.search(daemon.text()) or not re.search(r"rounds \d+", daemon.text()):
        daemon.fail(f"ended with {status}")
    print(re.search(r"rounds \d+", daemon.text())[0])


def check_vsftpd(daemon, sandbox=True):
    vsftpd, folder, port = need("vsftpd"), daemon.folder, free_port()
    if os.getuid() != 0:
        skip("vsftpd is started by root")
    (folder / "ftp").mkdir()
    (folder / "empty").mkdir()
    (folder / "ftp/file").write_bytes(b"x" * 3000000)
    conf = folder / "conf"
    conf.write_text(f"listen=YES\nlisten_port={port}\nlisten_address=127.0.0.1\nanonymous_enable=YES\nlocal_enable=NO\n"
                    f"anon_root={folder}/ftp\nsecure_chroot_dir={folder}/empty\nxferlog_enable=NO\nbackground=NO\n"
                    f"seccomp_sandbox={'YES' if sandbox else 'NO'}\n")
    daemon.start([vsftpd, conf], locked=False)

    def login(_):
        ftp = ftplib.FTP(timeout=ANSWER)
        ftp.connect("127.0.0.1", port)
        ftp.login()
        for command in ("NOOP", "SYST", "PWD", "CWD /", "TYPE I", "HELP", "FEAT", "EPSV", "STAT"):
            ftp.sendcmd(command)
        if not sandbox:
            got = []
            ftp.retrbinary("RETR file", got.append)
            assert sum(map(len, got)) == 3000000 and ftp.nlst() == ["file"]
        ftp.quit()
        return True

    daemon.up(lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True)
    try:
        print(f"vsftpd, sandbox {sandbox}:", load(login), "logins")
    except (EOFError, OSError, ftplib.Error) as e:
        daemon.fail(f"sandbox {sandbox}: {e!r}")
    daemon.end(status=(0, -signal.SIGTERM))


def check_vsftpd_open(daemon):
    check_vsftpd(daemon, sandbox=False)


def check_tor(daemon):
    tor, folder, socks, control = need("tor"), daemon.folder, free_port(), free_port()
    (folder / "data").mkdir(mode=0o700)
    conf = folder / "torrc"
    conf.write_text(f"Sandbox 1\nDataDirectory {folder}/data\nSocksPort {socks}\nControlPort {control}\nCookieAuthentication 0\n"
                    "Log notice stdout\nUseMicrodescriptors 1\n")
    daemon.start([tor, "--defaults-torrc", folder / "none", "-f", conf, "--ignore-missing-torrc"], locked=False)

    def ask(lines, wanted):
        with socket.create_connection(("127.0.0.1", control), ANSWER) as s:
            s.sendall("".join(line + "\r\n" for line in ["AUTHENTICATE", *lines, "QUIT"]).encode())
            text = b""
            while chunk := s.recv(65536):
                text += chunk
        return wanted in text.decode()

    daemon.up(lambda: ask(["GETINFO version"], "250-version="))
    if "Sandbox is not" in daemon.text() or "not built with" in daemon.text():
        skip("tor has no sandbox here")

    def step(n):
        assert ask(["GETINFO config/names info/names", "GETINFO circuit-status ns/all"], "250 OK")
        with socket.create_connection(("127.0.0.1", socks), ANSWER) as s: # a connection through a network that is not there
            s.sendall(b"\5\1\0")
            assert s.recv(2) == b"\5\0"
            s.sendall(b"\5\1\0\3\x0bexample.com\0\x50")
        if n % 10 == 9:
            assert ask(["SIGNAL CLEARDNSCACHE", "SIGNAL DUMP"], "250 OK")
        time.sleep(0.02)

    print("tor:", load(step), "rounds")
    daemon.alive()
    daemon.end(signal.SIGINT) # at once, as a client


def check_bwrap(daemon):
    bwrap = need("bwrap")
    everywhere = [bwrap, "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"]
    if subprocess.run(everywhere + ["true"], stderr=subprocess.DEVNULL, check=False).returncode:
        skip("no namespaces here")
    code = daemon.folder / "filter"
    code.write_bytes(subprocess.run([daemon.lock_in, "--write"], stdout=subprocess.PIPE, check=True).stdout)
    with open(code, "rb") as file:
        daemon.start(everywhere + ["--seccomp", file.fileno(), sys.executable, "-c", WORK, SECONDS, PAUSE], locked=False,
                     pass_fds=[file.fileno()])
        finish(daemon)


def check_firejail(daemon):
    firejail = need("firejail")
    jail = [firejail, "--quiet", "--noprofile", "--seccomp", "--seccomp-error-action=kill", f"--env=LD_PRELOAD={daemon.library}"]
    probe = subprocess.run(jail[:-1] + ["true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=daemon.environment(), check=False)
    if probe.returncode:
        skip("firejail does not start here")
    daemon.start(jail + [sys.executable, "-c", WORK, SECONDS, PAUSE], locked=False)
    finish(daemon)


def main():
    library, lock_in, what = sys.argv[1:]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="salloc"))
    folder.chmod(0o755)
    # Other users read it too.
    daemon = Daemon(folder, pathlib.Path(shutil.copy(library, folder / "libsalloc.so")), os.path.abspath(lock_in))
    daemon.library.chmod(0o755)
    try:
        globals()["check_" + what](daemon)
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


main()
