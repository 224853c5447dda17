# SPDX-License-Identifier: Apache-2.0
"""The commands `salloc info`, `salloc heap`, `salloc stats` and `salloc report`, and the connections to gdb's events. This
is the last file: the call at its end installs both, once, even if the program has several copies of the library."""


class SallocCommand(gdb.Command):
    """Commands that show salloc's heap, in a process or a core. They read memory and call no function."""

    def __init__(self):
        super().__init__('salloc', gdb.COMMAND_DATA, prefix=True)


class HeapCommand(gdb.Command):
    """Base of the subcommands. `lines` yields what one prints. An error becomes one line."""

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
    """Show what lies at an address: salloc info EXPRESSION
Prints whether the block is live or free, its size and its class; for a sampled block, also the requested size and the
stacks."""

    def lines(self, argument):
        if not argument:
            raise gdb.GdbError('usage: salloc info EXPRESSION')
        return Heap().describe(int(gdb.parse_and_eval(argument).cast(gdb.lookup_type('unsigned long'))))


class SummaryCommand(HeapCommand):
    """Count the blocks of each size class: live, in caches, free on spans. Also large, sampled and guarded blocks."""

    def lines(self, argument):
        return Heap().summary()


class StatsCommand(HeapCommand):
    """Summarize where the heap's memory is, in a dozen lines."""

    def lines(self, argument):
        return Heap().stats()


class ReportCommand(HeapCommand):
    """Print the last report of a misuse, also one that could be written nowhere."""

    def lines(self, argument):
        text = gdb.parse_and_eval('*(char **) &salloc_abort_message')
        return text.string(errors='replace').splitlines() if text else ['There is no report.']


def install():
    """Connects the functions to gdb's events and defines the commands."""
    if getattr(gdb, 'salloc_installed', False):
        return  # by the script of another copy of the library
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
    ReportCommand('report')


install()
