#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each command of sallocctl does with each kind of output: the table of doc/sallocctl.md, "Outputs", is compared with
what happens. In a mount namespace with a /dev of its own, whose devices must stay devices.

usage: outputs.py LIBRARY SALLOCCTL WORKER STATIC-WORKER CASE
"""
import fcntl
import os
import re
import resource
import socket
import stat
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from profile import Worker, run_case  # noqa: E402  # pylint: disable=wrong-import-order

DOC = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'doc', 'sallocctl.md')
SKIP = 77
OLD = b'old'
DISK = 64 << 10  # of the disk that is full
DEVICES = {'null': (1, 3), 'full': (1, 7), 'zero': (1, 5)}
LINKS = {'fd': '/proc/self/fd', 'stdin': 'fd/0', 'stdout': 'fd/1', 'stderr': '/proc/self/fd/2'}

# The rows: command lines, of which OUT is the output, PID the process, and A, B two profiles.
COMMANDS = {
    '`stats -o`': 'stats -o OUT PID',
    '`profile -o`': 'profile -o OUT PID',
    '`leaks -o`': 'leaks -o OUT PID',
    '`trace -o`': 'trace -s 0.01 -o OUT PID',
    '`flame -o`': 'flame -o OUT A',
    '`diff --html`': 'diff --html OUT A B',
    '`convert IN OUT`': 'convert -f folded A OUT',
    '`run -o`': 'run -o OUT -- /bin/true',
    '`run -s`': 'run -s OUT -- /bin/true',
    '`run --html`': 'run --html OUT -- /bin/true',
}
PRINTING = ['report A', 'diff A B', 'ps', 'top --batch -n 1', 'get PID soft_limit', 'set PID soft_limit:0', 'leaks PID',
            'stats PID', 'profile PID', 'trace -s 0.01 PID', 'help', '--version', 'help --manual']


class Reader(threading.Thread):
    """Takes what comes out of a pipe or a socket."""

    def __init__(self, fd=-1, listener=None):
        super().__init__()
        self.fd, self.listener, self.data = fd, listener, b''
        if fd >= 0:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)
        else:
            self.start()

    def run(self):
        with self.listener.accept()[0] as peer:
            while part := peer.recv(1 << 16):
                self.data += part

    def end(self):
        if self.fd >= 0:
            self.data = os.read(self.fd, 1 << 20)
            os.close(self.fd)
        else:
            self.join(20)
        return self.data


class Outputs:
    """A kind of output for each column. make() returns the path; got(path) what became of it."""

    def __init__(self, folder):
        self.folder, self.reader = folder, None
        self.disk = os.path.join(folder, 'disk')
        os.mkdir(self.disk)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=%d' % DISK, 'none', self.disk], check=True)
        self.listener = None

    def end(self):
        subprocess.run(['umount', self.disk], check=True)

    def path(self, name, ending):
        """Unique, so that nothing is left of the row before."""
        return os.path.join(self.folder, name + ending)

    def clean(self):
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if name.startswith('out-'):
                if os.path.isdir(path) and not os.path.islink(path):
                    os.rmdir(path)
                else:
                    os.unlink(path)

    def file(self, ending):
        path = self.path('out-file', ending)
        with open(path, 'wb') as f:
            f.write(OLD)
        self.inode = os.stat(path).st_ino
        return path

    def link(self, ending):
        path = self.path('out-link', ending)
        os.symlink(os.path.basename(self.file(ending)), path)
        return path

    def pipe(self, ending):
        path = self.path('out-pipe', ending)
        os.mkfifo(path)
        self.reader = Reader(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        return path

    def socket(self, ending):
        path = self.path('out-socket', ending)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(20)
        self.reader = Reader(listener=self.listener)
        return path

    def folder_(self, ending):
        path = self.path('out-folder', ending)
        os.mkdir(path)
        return path


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def failed(done, name, code):
    """An error that names the output, and nothing else. `ps` also counts what it may not read, such as process 1 of a
    container's host."""
    lines = [line for line in done.stderr.decode().splitlines() if 'processes that may not be read' not in line]
    assert done.returncode == code and len(lines) == 1 and name in lines[0], (done.args, done)
    assert lines[0].startswith('sallocctl: ' if code else ('sallocctl: ', 'salloc: ')), lines
    return 'error' if code else 'said'


def done_well(done):
    assert done.returncode == 0, (done.args, done)


def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


class Row:
    """What a command does with each output."""

    def __init__(self, test, outputs, line):
        self.test, self.outputs, self.line = test, outputs, line
        self.code = 0 if line.startswith('run') else 1  # of an error: the program's
        self.ending = '.html' if 'html' in line or 'flame' in line else '.folded' if 'convert' in line else \
            '.page' if 'stats' in line or ' -s OUT' in line else '.txt'

    def run(self, out, **more):
        arguments = [self.test.names.get(word, word).replace('OUT', out) for word in self.line.split()]
        if 'run' in arguments and out == '-':
            arguments[arguments.index('-')] = 'stdout'
        return subprocess.run([self.test.tool, *arguments], stderr=subprocess.PIPE, check=False, timeout=60,
                              **{'stdout': subprocess.DEVNULL, **more})

    def file(self):
        path = self.outputs.file(self.ending)
        done_well(self.run(path))
        assert read(path) != OLD and os.stat(path).st_ino != self.outputs.inode
        return 'replaced'

    def link(self):
        path = self.outputs.link(self.ending)
        done_well(self.run(path))
        assert os.path.islink(path) and read(path) != OLD and read(self.outputs.path('out-file', self.ending)) == read(path)
        return 'target replaced'

    def written(self, path, kind):
        done_well(self.run(path))
        assert self.outputs.reader.end() and kind(os.lstat(path).st_mode), self.line
        return 'written to'

    def pipe(self):
        return self.written(self.outputs.pipe(''), stat.S_ISFIFO)

    def socket(self):
        return self.written(self.outputs.socket(''), stat.S_ISSOCK)

    def device(self):
        for path in ('/dev/null', '/dev/stdout', '/dev/fd/1'):
            done_well(self.run(path))
        os.symlink('/dev/null', self.outputs.path('out-device', ''))
        done_well(self.run(self.outputs.path('out-device', '')))
        got = self.run('-' if self.code else 'stdout', stdout=subprocess.PIPE)
        done_well(got)
        assert got.stdout
        failed(self.run('/dev/full'), '/dev/full', self.code)
        return 'written to'

    def folder(self):
        path = self.outputs.folder_(self.ending)
        done = self.run(path)
        if self.line.startswith('run') and 'html' not in self.line:  # told at the start; the same at the end is not told
            return failed(done, path, 0)
        return failed(done, path, self.code)

    def full_disk(self):
        with open(os.path.join(self.outputs.disk, 'fill'), 'wb', buffering=0) as f:
            try:
                while f.write(b'x' * 512):
                    pass
            except OSError:
                pass
        path = os.path.join(self.outputs.disk, 'out' + self.ending)
        word = failed(self.run(path), path, self.code)
        assert os.listdir(self.outputs.disk) == ['fill']
        return word

    def limited(self):
        before = os.listdir(self.outputs.folder)
        path = self.outputs.path('out-limited', self.ending)
        done = self.run(path, preexec_fn=limit)
        if self.line.startswith('run --html'):  # the profile meets the limit first, and is told by the program itself
            done.stderr = done.stderr.replace(b'/bin/true left no profile', path.encode()).split(b'\n', 1)[1]
        word = failed(done, path, self.code)
        assert os.listdir(self.outputs.folder) == before
        return word

    def closed(self):
        done = self.run('-', preexec_fn=lambda: os.close(1))
        return failed(done, 'stdout', self.code)


COLUMNS = {'file': Row.file, 'link to a file': Row.link, 'FIFO': Row.pipe, 'device, stdout': Row.device,
           'socket': Row.socket, 'folder': Row.folder, 'full disk': Row.full_disk, '`ulimit -f`': Row.limited,
           'closed stdout': Row.closed}


def documented():
    """The table of the document: {row: {column: word}}."""
    with open(DOC, encoding='utf-8') as f:
        section = f.read().split('\n## Outputs\n')[1].split('\n## ')[0]
    lines = [[cell.strip() for cell in line.strip('|').split('|')] for line in section.splitlines() if line.startswith('|')]
    return {name: dict(zip(lines[0][1:], line[1:])) for line in lines[2:] for name in line[0].split(', ')}


def devices_are_devices():
    for name, number in DEVICES.items():
        s = os.lstat('/dev/' + name)
        assert stat.S_ISCHR(s.st_mode) and (os.major(s.st_rdev), os.minor(s.st_rdev)) == number, name
        assert stat.S_IMODE(s.st_mode) == 0o666
    assert all(os.readlink('/dev/' + name) == target for name, target in LINKS.items())
    assert sorted(os.listdir('/dev')) == sorted([*DEVICES, *LINKS])


def prepare(test):
    worker = Worker(test, [test.worker, 'still'], conf=',control:on')
    test.names = {'PID': str(worker.pid), 'A': os.path.join(test.folder, 'a.pb.gz'), 'B': os.path.join(test.folder, 'b.pb.gz')}
    for name in 'AB':
        test.run('profile', '-o', test.names[name], test.names['PID'])
    outputs = Outputs(test.folder)
    test.workers.append(outputs)
    return outputs


def case_table(test):
    """The commands that have an option or an operand for it."""
    outputs, table = prepare(test), {}
    for name, line in COMMANDS.items():
        table[name] = {}
        for column, check in COLUMNS.items():
            table[name][column] = check(Row(test, outputs, line))
            outputs.clean()
            devices_are_devices()
    expected = documented()
    expected.pop('what is printed')
    assert table == expected, '\n'.join('| %s | %s |' % (name, ' | '.join(row.values())) for name, row in table.items())


def case_printed(test):
    """What commands print: stdout is what the shell has opened."""
    outputs = prepare(test)
    row = documented()['what is printed']
    for line in PRINTING:
        arguments = [test.tool, *[test.names.get(word, word) for word in line.split()]]
        path = outputs.file('')
        with open(path, 'ab') as to:
            done_well(subprocess.run(arguments, stdout=to, stderr=subprocess.PIPE, check=False))
        silent = line.startswith('set ')
        assert read(path).startswith(OLD) and (silent or len(read(path)) > len(OLD)), line
        outputs.clean()
        ends = socket.socketpair()
        with ends[0] as ours, ends[1] as theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            done_well(subprocess.run(arguments, stdout=theirs, stderr=subprocess.PIPE, check=False))
            assert silent or ours.recv(1 << 20), line
        if silent:
            continue
        with open('/dev/full', 'wb') as to:
            failed(subprocess.run(arguments, stdout=to, stderr=subprocess.PIPE, check=False), 'stdout: No space', 1)
        with open(path, 'wb') as to:
            to.write(b'x' * 100)
            to.flush()
            failed(subprocess.run(arguments, stdout=to, stderr=subprocess.PIPE, check=False, preexec_fn=limit), 'stdout', 1)
        assert len(read(path)) == 100
        for closed in (lambda: os.close(1), lambda: os.closerange(0, 2)):
            failed(subprocess.run(arguments, stderr=subprocess.PIPE, check=False, preexec_fn=closed), 'stdout', 1)
        outputs.clean()
    devices_are_devices()
    assert list(row.values()) == ['written to', 'written to', 'written to', 'written to', 'written to', '', 'error', 'error', 'error']


def case_run(test):
    """The program of `run` finds descriptors and signals as they were: closed ones closed, SIGXFSZ with its default."""
    for closed in (0, 1, 2):
        done = subprocess.run([test.tool, 'run', '--', 'sh', '-c', 'readlink /proc/self/fd/%d >&%d; echo $? >&%d' %
                               (closed, 1 if closed != 1 else 2, 1 if closed != 1 else 2)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True,
                              preexec_fn=lambda: os.close(closed))  # pylint: disable=cell-var-from-loop
        assert done.returncode == 0, done
        if closed != 1:
            assert re.fullmatch(r'(?:\S*\n)?\d+\n', done.stdout) and done.stdout.endswith('\n'), done
            assert '/\n' not in done.stdout, done
    done = subprocess.run([test.tool, 'run', '--', 'sh', '-c', 'grep SigIgn /proc/self/status; ulimit -f 1; '
                           'exec dd if=/dev/zero of=%s bs=4096 count=1000' % os.path.join(test.folder, 'x')],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
    assert done.returncode == -25, done


def own_dev():
    """Continues in a mount namespace with a /dev of its own."""
    os.environ['OUTPUTS_INSIDE'] = '1'
    os.execvp('unshare', ['unshare', '-m', '--propagation', 'private', sys.executable, *sys.argv])


def make_dev():
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'dev,mode=755', 'none', '/dev'], check=True)
    for name, (major, minor) in DEVICES.items():
        os.mknod('/dev/' + name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        os.chmod('/dev/' + name, 0o666)
        with open('/dev/' + name, 'wb'):
            pass
    for name, target in LINKS.items():
        os.symlink(target, '/dev/' + name)


def main():
    if os.geteuid() != 0:
        print('needs root, for a /dev of its own')
        return SKIP
    if 'OUTPUTS_INSIDE' not in os.environ:
        if subprocess.run(['unshare', '-m', 'true'], check=False).returncode:
            print('needs a mount namespace, for a /dev of its own')
            return SKIP
        own_dev()
    try:
        make_dev()
    except (OSError, subprocess.CalledProcessError) as error:
        print('needs a /dev of its own:', error)
        return SKIP
    run_case(globals(), sys.argv[-1], *sys.argv[1:-1])
    return 0


if __name__ == '__main__':
    sys.exit(main())
