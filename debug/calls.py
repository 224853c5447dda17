# SPDX-License-Identifier: Apache-2.0
"""Makes gdb's calls of functions in the program safe.

A call interrupts the selected thread at any instruction, perhaps inside a critical section or inside the allocator.
gdb reports the beginning and the end of each call, and every stop (commands.py connects the functions below).

State: `calls`, which only gdb's own thread uses, and sa_fork_gate.debugger in the program, which only this file
writes.
"""


def thread_pointer():
    """Returns the selected thread's thread pointer, or None if gdb does not know it."""
    frame = gdb.newest_frame()
    for name in ('fs_base', 'tpidr'):
        try:
            return int(frame.read_register(name)) % (1 << 64)
        except (ValueError, gdb.error):
            pass
    return None


def area_word(library):
    """Returns the address of rseq_cs of the selected thread, which holds the address of a section's descriptor.
    None: the library has a cache for each thread, and the kernel restarts no section."""
    memory = Memory()
    base = thread_pointer()
    if base is None or not library.global_field(memory, 'sa_rseq', 'sa_rseq.per_cpu'):
        return None
    offset = library.global_field(memory, 'sa_hot', 'sa_hot.rseq_offset')
    return (base + offset) % (1 << 64) + library.constant['SA_RSEQ_CS']


def interrupted_section():
    """Returns (address of rseq_cs, address of the descriptor) if the selected thread is in a critical section, else
    None."""
    pc = gdb.newest_frame().pc()
    for library in libraries():
        section = library.section_at(pc)
        word = section and area_word(library)
        if word:
            return word, section[0]
    return None


def arm(section):
    """Stores a section's descriptor again. When the thread continues, the kernel finds it in that section and restarts
    it."""
    if section:
        gdb.selected_inferior().write_memory(section[0], struct.pack('<Q', section[1]))


class Call:
    """A call that has begun: the section that its end must restart, or None, and whether it has returned."""

    def __init__(self, section):
        self.section, self.returned = section, False


class Calls:
    """The calls whose registers gdb may not have restored yet. of_thread has them by thread, the outermost first."""

    def __init__(self):
        self.of_thread = {}

    def tell(self, on):
        """Tells every copy of the library whether calls run: nested slow paths then get emergency memory."""
        for library in libraries():
            offset, size = library.field['sa_fork_gate.debugger']
            gdb.selected_inferior().write_memory(library.variable['sa_fork_gate'] + offset, on.to_bytes(size, 'little'))

    def begin(self, ptid):
        """A call of a thread begins. gdb makes further calls when one has returned, before it restores the registers:
        such a call restarts the section of the first."""
        calls = self.of_thread.setdefault(ptid, [])
        if gdb.newest_frame().type() != gdb.DUMMY_FRAME:
            while calls and calls[-1].returned:
                calls.pop()
        calls.append(Call(interrupted_section() or (calls[-1].section if calls else None)))
        self.tell(1)

    def end(self, ptid):
        """gdb says that a call of a thread has ended. It has returned, was stopped inside, or has ended the program."""
        calls = self.of_thread.get(ptid)
        if not calls:
            return
        arm(calls[-1].section)
        if gdb.newest_frame().type() == gdb.DUMMY_FRAME:
            calls[-1].returned = True
            self.settle()

    def settle(self):
        """Tells the library when no call runs."""
        if all(call.returned for calls in self.of_thread.values() for call in calls):
            self.tell(0)

    def stopped(self):
        """The program has stopped. gdb may have restored the registers of a call without an event at its end."""
        if not self.of_thread:
            return
        ptid = gdb.selected_thread().ptid
        arm(interrupted_section())
        calls = self.of_thread.get(ptid, [])
        del calls[dummy_frames() if calls else 0:]
        if not calls:
            self.of_thread.pop(ptid, None)
        self.settle()


def keep_in_place(pc):
    """Makes gdb step in place if the address is in a critical section. By default gdb steps over a breakpoint with a
    copy of the instruction at another address; the kernel does not restart a section whose thread is elsewhere."""
    if gdb.parameter('displaced-stepping') != 'off' and any(lib.section_at(pc) for lib in libraries()):
        gdb.execute('set displaced-stepping off')
        print('salloc: %#x is in a critical section: "set displaced-stepping off"' % pc)


def dummy_frames():
    """Returns the number of gdb's calls on the selected thread's stack."""
    count, frame = 0, gdb.newest_frame()
    while frame:
        count += frame.type() == gdb.DUMMY_FRAME
        try:
            frame = frame.older()
        except gdb.error:
            break
    return count


def leave_sections():
    """Sends each stopped thread that is in a critical section to the section's abort handler, which restarts it. For a
    library with a cache for each thread, where the kernel restarts no section."""
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
    """Whether a copy of the library has a cache for each thread."""
    return any(lib.started(Memory()) and not lib.global_field(Memory(), 'sa_rseq', 'sa_rseq.per_cpu')
               for lib in libraries())


calls = Calls()


def on_call(event):
    """A call begins or ends (gdb's event inferior_call)."""
    try:
        if isinstance(event, gdb.InferiorCallPreEvent):
            calls.begin(event.ptid)
        else:
            calls.end(event.ptid)
    except gdb.error as error:
        print('salloc: a call could not be made safe: %s' % error)


def on_breakpoint(breakpoint):
    """A breakpoint was set or changed."""
    try:
        location = breakpoint.location or ''
        if location.startswith('*'):
            keep_in_place(int(gdb.parse_and_eval(location[1:]).cast(gdb.lookup_type('unsigned long'))))
    except (gdb.error, RuntimeError):
        pass  # the location cannot be evaluated yet


def on_stop(_=None):
    """The program has stopped, or gdb is about to print its prompt."""
    try:
        if gdb.selected_thread() is None or not libraries():
            return
        keep_in_place(gdb.newest_frame().pc())
        calls.stopped()
        if per_thread():
            leave_sections()
    except gdb.error:
        pass  # a core, or a process that has ended


def on_exit(_=None):
    """The program has ended."""
    calls.of_thread.clear()
    forget()
