#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons that lock themselves in after start: a filter of system calls ends them at any call beyond its list.

sshd     each login passes a process behind OpenSSH's filter before it is authenticated: so many logins with a key, and,
         as root, with the password of a user that is only in files of the test's own
chronyd  level 1 and 2 of its own filter: it starts, answers chronyc, and ends when it is told to

usage: daemons.py LIBRARY sshd|chronyd [LOGINS]
SALLOC_TEST_SECONDS: logins and questions are spread over that time. Status 77: it is not installed, or this user cannot start it."""
import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = float(os.environ.get("SALLOC_TEST_SECONDS") or 0)  # how long a daemon is up at the least
PATIENCE = 60 if SECONDS <= 60 else 600
USER, PASSWORD = "salloc-login", "correct.horse"


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


def in_private_accounts(folder, command):
    """The command line that runs another with a user of ours beside those of the system: files that only this daemon sees.
    None: this user may not do that."""
    if os.getuid() != 0 or not shutil.which("unshare") or not shutil.which("openssl"):
        return None
    hashed = subprocess.run(["openssl", "passwd", "-6", "-salt", "salloc", PASSWORD], capture_output=True, text=True, check=True)
    lines = {"passwd": f"{USER}:x:64999:64999::/:/bin/sh", "shadow": f"{USER}:{hashed.stdout.strip()}:19000:0:99999:7:::"}
    for name, line in lines.items():
        shutil.copy(f"/etc/{name}", folder)
        with open(os.path.join(folder, name), "a") as f:
            f.write(line + "\n")
    mount = " && ".join(f"mount --bind {folder}/{name} /etc/{name}" for name in lines)
    unshare = ["unshare", "-m", "sh", "-c", mount + ' && exec "$@"', "sh"]
    return unshare + command if subprocess.run(unshare + ["true"], capture_output=True).returncode == 0 else None


def login(port, user, how, word, env=None):
    """Whether a login says what it is told to."""
    r = subprocess.run(["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
                        "LogLevel=ERROR", *how, "-p", str(port), f"{user}@127.0.0.1", f"echo {word}"], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=PATIENCE, env=env)
    return r.stdout == word + "\n"


def check_sshd(folder, env, logins):
    sshd = need("sshd")
    need("ssh")
    need("ssh-keygen")
    host, key, port = make_key(folder, "host"), make_key(folder, "user"), free_port()
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    shutil.copy(key + ".pub", os.path.join(folder, "authorized"))
    config, log = os.path.join(folder, "config"), os.path.join(folder, "log")
    with open(config, "w") as f:
        f.write(f"Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nPidFile {folder}/pid\n"
                f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                "PasswordAuthentication yes\nMaxStartups 100\nUseDNS no\n")
    daemon = [sshd, "-D", "-f", config, "-E", log]
    private = in_private_accounts(folder, ["env", "LD_PRELOAD=" + env["LD_PRELOAD"], *daemon])
    ask = os.path.join(folder, "ask")
    with open(ask, "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
        f.write(f"#!/bin/sh\necho {PASSWORD}\n")
    by_key = ["-o", "BatchMode=yes", "-i", key]
    by_password = ["-o", "PreferredAuthentications=password"]
    asking = dict(os.environ, SSH_ASKPASS=ask, SSH_ASKPASS_REQUIRE="force")
    # Not in the programs that set the private accounts up.
    process = subprocess.Popen(private or daemon, env=dict(env, LD_PRELOAD="") if private else env)
    done = {"key": 0, "password": 0}
    wanted, end = 0, time.monotonic() + SECONDS
    try:
        if not wait_for(lambda: answers(port)):
            sys.exit("sshd does not answer\n" + open(log).read()[-2000:])
        while wanted < logins or time.monotonic() < end:
            done["key"] += login(port, getpass.getuser(), by_key, f"key{wanted}")
            if private:
                done["password"] += login(port, USER, by_password, f"password{wanted}", asking)
            wanted += 1
            time.sleep(max(0, end - time.monotonic()) / max(logins - wanted, 1) if SECONDS else 0)
        if private and login(port, USER, by_password, "wrong", dict(asking, SSH_ASKPASS="/bin/true")):
            sys.exit("any password does")
    finally:
        process.terminate()
        process.wait(PATIENCE)
    if not private:
        del done["password"]
    print("sshd:", ", ".join(f"{n} of {wanted} logins by {name}" for name, n in done.items()))
    text = open(log).read()
    if any(n != wanted for n in done.values()) or re.search("signal 31|SIGSYS|salloc: ", text):
        sys.exit(text[-2000:])


def check_chronyd(folder, env, _):
    chronyd, chronyc = need("chronyd"), need("chronyc")
    if os.getuid() != 0:
        skip("chronyd is started by root")
    os.chmod(folder, 0o755)
    daemons = {}
    for level in (1, 2, -1, -2):
        run = tempfile.mkdtemp(dir=folder)
        subprocess.run(["chown", "_chrony:_chrony", run], check=False, stderr=subprocess.DEVNULL)
        os.chmod(run, 0o750)
        config = os.path.join(folder, f"chrony.conf{level}")
        with open(config, "w") as f: # serves its own time, and leaves the clock alone
            f.write(f"port {free_port()}\nbindaddress 127.0.0.1\nallow 127.0.0.1\ncmdport 0\nbindcmdaddress {run}/socket\n"
                    f"pidfile {run}/pid\ndriftfile {run}/drift\nlocal\n")
        out = open(os.path.join(folder, f"log{level}"), "w+")
        daemon = subprocess.Popen([chronyd, "-d", "-x", "-F", str(level), "-f", config], env=env,
                                  stdout=out, stderr=out)
        # Its answer goes to a socket of chronyc's own, in the same folder.
        daemons[level] = (daemon, [chronyc, "-h", run + "/socket", "tracking"], out)
    answered = dict.fromkeys(daemons, 0)

    def answers_all():
        for level, (daemon, ask, _) in daemons.items():
            if daemon.poll() is None and subprocess.run(ask, capture_output=True).returncode == 0:
                answered[level] += 1
        return all(answered[level] or daemon.poll() is not None for level, (daemon, _, _) in daemons.items())

    answers_first = wait_for(answers_all)
    end, rounds = time.monotonic() + max(SECONDS, 1.2), 0
    while time.monotonic() < end or rounds < 20:
        answers_all()
        rounds += 1
        time.sleep(4 if SECONDS else 0.02)
    for level, (daemon, _, out) in daemons.items():
        alive = daemon.poll() is None
        daemon.terminate()
        status = daemon.wait(PATIENCE)
        out.seek(0)
        text = out.read()
        if not alive and re.search(r"not (compiled|supported)|Could not (install|load)", text):
            skip("chronyd has no filter here")
        if not (answers_first and alive and status == 0):
            sys.exit(f"chronyd -F {level}: status {status}, {answered[level]} answers\n{text[-2000:]}")
    print("chronyd, levels and answers:", answered)


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
