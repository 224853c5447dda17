# SPDX-License-Identifier: Apache-2.0
"""Calls of functions in the program, made safe."""


def thread_pointer():
    frame = gdb.newest_frame()
    for name in ('fs_base', 'tpidr'):
        try:
            return int(frame.read_register(name)) % (1 << 64)
        except (ValueError, gdb.error):
            pass
    return None


def area_word(library):
    """Where the selected thread's pointer to its descriptor is. None: nobody restarts sections (a cache for each thread)."""
    memory = Memory()
    base = thread_pointer()
    if base is None or not library.global_field(memory, 'sa_rseq', 'sa_rseq.per_cpu'):
        return None
    offset = library.global_field(memory, 'sa_hot', 'sa_hot.rseq_offset')
    return (base + offset) % (1 << 64) + library.constant['SA_RSEQ_CS']


def interrupted_section():
    """What the selected thread has to be told after a call: (address, descriptor); None: it is in no section."""
    pc = gdb.newest_frame().pc()
    for library in libraries():
        section = library.section_at(pc)
        word = section and area_word(library)
        if word:
            return word, section[0]
    return None


def arm(section):
    """The kernel looks when the thread goes on: it finds it in the section of the descriptor, and restarts it."""
    if section:
        gdb.selected_inferior().write_memory(section[0], struct.pack('<Q', section[1]))


class Calls:
    """The calls that have begun: for each thread what they interrupted, the outermost first."""

    def __init__(self):
        self.of_thread = {}

    def tell(self, on):
        for library in libraries():
            offset, size = library.field['sa_fork_gate.debugger']
            gdb.selected_inferior().write_memory(library.variable['sa_fork_gate'] + offset, on.to_bytes(size, 'little'))

    def begin(self, ptid):
        self.of_thread.setdefault(ptid, []).append(interrupted_section())
        self.tell(1)

    def end(self, ptid):
        """A call has returned, or was stopped inside, or has ended the program."""
        calls = self.of_thread.get(ptid)
        if not calls:
            return
        arm(calls[-1])
        if gdb.newest_frame().type() == gdb.DUMMY_FRAME:
            calls.pop()
            self.settle(ptid)

    def settle(self, ptid):
        if not self.of_thread.get(ptid):
            self.of_thread.pop(ptid, None)
        if not self.of_thread:
            self.tell(0)

    def stopped(self):
        """The registers that a call had saved may be back without an event of its end."""
        if not self.of_thread:
            return
        ptid = gdb.selected_thread().ptid
        arm(interrupted_section())
        calls = self.of_thread.get(ptid, [])
        while len(calls) > dummy_frames():
            calls.pop()
        self.settle(ptid)


def keep_in_place(pc):
    """gdb steps over a breakpoint by running a copy of the instruction elsewhere. A section whose thread was elsewhere is not
    restarted, so where a breakpoint is in one, gdb is told to step in place."""
    if gdb.parameter('displaced-stepping') != 'off' and any(lib.section_at(pc) for lib in libraries()):
        gdb.execute('set displaced-stepping off')
        print('salloc: %#x is in a critical section: "set displaced-stepping off"' % pc)


def dummy_frames():
    count, frame = 0, gdb.newest_frame()
    while frame:
        count += frame.type() == gdb.DUMMY_FRAME
        try:
            frame = frame.older()
        except gdb.error:
            break
    return count


def leave_sections():
    """With a cache for each thread nobody restarts a section: a thread that stops in one is sent to its beginning."""
    selected, frame = gdb.selected_thread(), gdb.selected_frame()
    moved = False
    for thread in gdb.selected_inferior().threads():
        if not thread.is_stopped():
            continue
        thread.switch()
        pc = gdb.newest_frame().pc()
        for library in libraries():
            section = library.section_at(pc)
            if section and not library.global_field(Memory(), 'sa_rseq', 'sa_rseq.per_cpu'):
                gdb.newest_frame().select()
                gdb.execute('set $pc = %d' % section[1], to_string=True)
                moved = moved or thread.ptid == selected.ptid
    selected.switch()
    if not moved and frame.is_valid():
        frame.select()


def per_thread():
    return any(lib.started(Memory()) and not lib.global_field(Memory(), 'sa_rseq', 'sa_rseq.per_cpu')
               for lib in libraries())


calls = Calls()


def on_call(event):
    try:
        if isinstance(event, gdb.InferiorCallPreEvent):
            calls.begin(event.ptid)
        else:
            calls.end(event.ptid)
    except gdb.error as error:
        print('salloc: a call could not be made safe: %s' % error)


def on_breakpoint(breakpoint):
    try:
        location = breakpoint.location or ''
        if location.startswith('*'):
            keep_in_place(int(gdb.parse_and_eval(location[1:]).cast(gdb.lookup_type('unsigned long'))))
    except (gdb.error, RuntimeError):
        pass  # it cannot be evaluated yet


def on_stop(_=None):
    try:
        if gdb.selected_thread() is None or not libraries():
            return
        keep_in_place(gdb.newest_frame().pc())
        calls.stopped()
        if per_thread():
            leave_sections()
    except gdb.error:
        pass  # a core, or a process that is gone


def on_exit(_=None):
    calls.of_thread.clear()
    forget()
