# SPDX-License-Identifier: Apache-2.0
"""A headless chromium with one page, driven by its DevTools protocol over two pipes: no port, no package."""
import base64
import glob
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

SECONDS_MAX = 60  # for an answer


class Browser:
    def __init__(self, width=1400, height=900, theme='light'):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read_by_it, self.to_it = os.pipe()
        self.from_it, written_by_it = os.pipe()
        fds = [os.dup2(read_by_it, 100), os.dup2(written_by_it, 101)]

        def place():  # where the browser looks for them
            os.dup2(100, 3)
            os.dup2(101, 4)
        self.process = subprocess.Popen(
            [name(), '--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--no-first-run',
             '--disable-extensions', '--disable-background-networking', '--disable-dev-shm-usage', '--hide-scrollbars',
             '--user-data-dir=' + self.folder.name, '--window-size=%d,%d' % (width, height), 'about:blank'],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in [read_by_it, written_by_it, *fds]:
            os.close(fd)
        self.left, self.number, self.events, self.attached = b'', 0, [], None
        pages = [t for t in self.call('Target.getTargets')['targetInfos'] if t['type'] == 'page']
        self.attached = self.call('Target.attachToTarget', targetId=pages[0]['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log', 'Accessibility'):
            self.call(domain + '.enable')
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': theme}])

    def message(self):
        until = time.monotonic() + SECONDS_MAX
        while b'\0' not in self.left:
            ready, _, _ = select.select([self.from_it], [], [], max(0, until - time.monotonic()))
            data = os.read(self.from_it, 1 << 20) if ready else b''
            assert data, 'the browser does not answer'
            self.left += data
        text, self.left = self.left.split(b'\0', 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {'id': self.number, 'method': method, 'params': parameters}
        if self.attached and not method.startswith('Target.'):
            request['sessionId'] = self.attached
        data = json.dumps(request).encode() + b'\0'
        while data:
            data = data[os.write(self.to_it, data):]
        while True:
            answer = self.message()
            if answer.get('id') == self.number:
                assert 'error' not in answer, (method, answer)
                return answer['result']
            self.events.append(answer)

    def open(self, path):
        """Opens a file and waits until it is loaded."""
        self.events = []
        self.call('Page.navigate', url='file://' + os.path.abspath(path))
        while not [e for e in self.events if e['method'] == 'Page.loadEventFired']:
            self.events.append(self.message())

    def js(self, expression):
        """The value of an expression, or of what it promises."""
        result = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        assert 'exceptionDetails' not in result, (expression, result['exceptionDetails'])
        return result['result'].get('value')

    def key(self, key):
        text = key if len(key) == 1 else '\r' if key == 'Enter' else ''
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key, text=text if kind == 'keyDown' else '')

    def click(self, x, y):
        for kind in ('mouseMoved', 'mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='none' if kind == 'mouseMoved' else 'left',
                      clickCount=1)

    def cpu_ms(self):
        """Milliseconds that all threads of the browser have run: what others do beside counts little."""
        children, todo, total = {}, [self.process.pid], 0
        for stat in glob.glob('/proc/[0-9]*/stat'):
            children.setdefault(int((text_of(stat).rsplit(')', 1)[-1].split() + [0, 0])[1]), []).append(int(stat.split('/')[2]))
        while todo:
            pid = todo.pop()
            todo += children.get(pid, [])
            total += sum(int((text_of(task).split() + [0])[0]) for task in glob.glob('/proc/%d/task/*/schedstat' % pid))
        return total / 1e6

    def accessible(self):
        """[(role, name)] of all that assistive technology is told of."""
        nodes = self.call('Accessibility.getFullAXTree')['nodes']
        return [(n['role']['value'], n.get('name', {}).get('value', '').strip()) for n in nodes if not n['ignored'] and 'role' in n]

    def complaints(self):
        """What the console has, and exceptions."""
        return [e for e in self.events
                if e['method'] in ('Log.entryAdded', 'Runtime.consoleAPICalled', 'Runtime.exceptionThrown')]

    def requests(self):
        return [e['params']['request']['url'] for e in self.events if e['method'] == 'Network.requestWillBeSent']

    def picture(self):
        """The bytes of a PNG. The page is drawn for it, also where nothing else makes the browser draw."""
        return base64.b64decode(self.call('Page.captureScreenshot', format='png')['data'])

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to_it)
        os.close(self.from_it)
        self.folder.cleanup()


def text_of(path):
    """What a file has, or nothing if there is none any more."""
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return f.read()
    except OSError:
        return ''


def name():
    """The browser's program, or None."""
    return shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
