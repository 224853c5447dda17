#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons that lock themselves in after start: a filter of system calls ends them at any call beyond its list.

sshd     each login passes a process behind OpenSSH's filter before it is authenticated: so many logins with a key
chronyd  level 1 and 2 of its own filter: it starts, answers chronyc, and ends when it is told to

usage: daemons.py LIBRARY sshd|chronyd [LOGINS]
Status 77: it is not installed, or this user cannot start it."""
import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 60


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
        if what():
            return True
        time.sleep(0.05)
    return False


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            return s.recv(4) == b"SSH-"
    except OSError:
        return False


def make_key(folder, name):
    path = os.path.join(folder, name)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def check_sshd(folder, env, logins):
    sshd, ssh = need("sshd"), need("ssh")
    need("ssh-keygen")
    host, user, port = make_key(folder, "host"), make_key(folder, "user"), free_port()
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    shutil.copy(user + ".pub", os.path.join(folder, "authorized"))
    config = os.path.join(folder, "config")
    with open(config, "w") as f:
        f.write(f"Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nPidFile {folder}/pid\n"
                f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                "PasswordAuthentication no\nMaxStartups 100\nUseDNS no\n")
    log = os.path.join(folder, "log")
    daemon = subprocess.Popen([sshd, "-D", "-f", config, "-E", log], env=env)
    failed = 0
    try:
        if not wait_for(lambda: answers(port)):
            sys.exit("sshd does not answer\n" + open(log).read()[-2000:])
        for i in range(logins):
            r = subprocess.run([ssh, "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o",
                                "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-i", user, "-p", str(port),
                                f"{getpass.getuser()}@127.0.0.1", f"echo login {i}"], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=SECONDS)
            failed += r.stdout != f"login {i}\n"
    finally:
        daemon.terminate()
        daemon.wait(SECONDS)
    print(f"sshd: {logins - failed} of {logins} logins")
    if failed:
        sys.exit(open(log).read()[-2000:])


def check_chronyd(folder, env, _):
    chronyd, chronyc = need("chronyd"), need("chronyc")
    if os.getuid() != 0:
        skip("chronyd is started by root")
    os.chmod(folder, 0o755)
    for level in (1, 2, -1, -2):
        run = tempfile.mkdtemp(dir=folder)
        subprocess.run(["chown", "_chrony:_chrony", run], check=False, stderr=subprocess.DEVNULL)
        os.chmod(run, 0o750)
        config = os.path.join(folder, "chrony.conf")
        with open(config, "w") as f: # serves its own time, and leaves the clock alone
            f.write(f"port {free_port()}\nbindaddress 127.0.0.1\nallow 127.0.0.1\ncmdport 0\nbindcmdaddress {run}/socket\npidfile {run}/pid\ndriftfile {run}/drift\nlocal\n")
        out = open(os.path.join(folder, "log"), "w+")
        daemon = subprocess.Popen([chronyd, "-d", "-x", "-F", str(level), "-f", config], env=env,
                                  stdout=out, stderr=out)
        # Its answer goes to a socket of chronyc's own, in the same folder.
        ask = [chronyc, "-h", run + "/socket", "tracking"]
        up = wait_for(lambda: daemon.poll() is not None or subprocess.run(ask, capture_output=True).returncode == 0)
        for _ in range(20):
            if daemon.poll() is None:
                subprocess.run(ask, capture_output=True)
        time.sleep(1.2)
        alive = daemon.poll() is None
        daemon.terminate()
        status = daemon.wait(SECONDS)
        out.seek(0)
        text = out.read()
        if not alive and re.search(r"not (compiled|supported)|Could not (install|load)", text):
            skip("chronyd has no filter here")
        if not (up and alive and status == 0):
            sys.exit(f"chronyd -F {level}: status {status}, answers {up}\n{text[-2000:]}")
    print("chronyd: four levels")


def main():
    library, what = os.path.abspath(sys.argv[1]), sys.argv[2]
    folder = tempfile.mkdtemp(prefix="salloc")
    # The user and the library are looked up by name in the environment that daemons have.
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LD_PRELOAD": library}
    env.update({name: os.environ[name] for name in ("SALLOC_CONF", "GLIBC_TUNABLES") if name in os.environ})
    try:
        {"sshd": check_sshd, "chronyd": check_chronyd}[what](folder, env, int((sys.argv + ["10"])[3]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
