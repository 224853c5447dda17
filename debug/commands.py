# SPDX-License-Identifier: Apache-2.0
"""The commands, and what is connected to gdb's events."""


class SallocCommand(gdb.Command):
    """Commands about salloc's heap, in a process or a core. They read memory and call nothing."""

    def __init__(self):
        super().__init__('salloc', gdb.COMMAND_DATA, prefix=True)


class HeapCommand(gdb.Command):
    """A subcommand: prints lines, or one line of error."""

    def __init__(self, name):
        super().__init__('salloc ' + name, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        try:
            if gdb.selected_inferior().pid == 0:
                raise gdb.GdbError('There is no process, and no core.')
            for line in self.lines(argument):
                print(line)
        except gdb.MemoryError as error:
            raise gdb.GdbError('%s: the heap cannot be read, or is damaged (a core may lack it).' % error)
        except gdb.error as error:
            raise gdb.GdbError(str(error))


class InfoCommand(HeapCommand):
    """What an address is: salloc info EXPRESSION
Live or free, the block's size and class, and of a sampled block what was requested, and its stacks."""

    def lines(self, argument):
        if not argument:
            raise gdb.GdbError('usage: salloc info EXPRESSION')
        return Heap().describe(int(gdb.parse_and_eval(argument).cast(gdb.lookup_type('unsigned long'))))


class SummaryCommand(HeapCommand):
    """Blocks by size class: live, in caches, free on spans; and large, sampled and guarded ones."""

    def lines(self, argument):
        return Heap().summary()


class StatsCommand(HeapCommand):
    """Where the heap's memory is, in a dozen lines."""

    def lines(self, argument):
        return Heap().stats()


def install():
    if getattr(gdb, 'salloc_installed', False):
        return  # of another copy of the library
    gdb.salloc_installed = True
    gdb.events.inferior_call.connect(on_call)
    gdb.events.stop.connect(on_stop)
    gdb.events.before_prompt.connect(on_stop)
    gdb.events.breakpoint_created.connect(on_breakpoint)
    gdb.events.breakpoint_modified.connect(on_breakpoint)
    gdb.events.new_objfile.connect(forget)
    gdb.events.clear_objfiles.connect(forget)
    gdb.events.exited.connect(on_exit)
    SallocCommand()
    InfoCommand('info')
    SummaryCommand('heap')
    StatsCommand('stats')


install()
