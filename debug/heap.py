# SPDX-License-Identifier: Apache-2.0
"""Reads the heap of a process or a core: what lies at an address, and sums over all blocks. Changes nothing."""


def bytes_text(count):
    return '%.1f MiB' % (count / 1048576) if count >= 1 << 20 else '%d' % count


class Heap:
    """The heap of the copy of the library that serves the program. Counts are exact if no thread is inside the
    allocator. One object serves one command."""

    def __init__(self):
        memory = Memory()
        found = libraries()
        if not found:
            raise gdb.GdbError('salloc is not in this program, or its file is not the one that the process or core has: '
                               'section salloc_layout is missing.')
        # Of several copies, one serves the program.
        self.library = next((lib for lib in found if lib.started(memory)), None)
        if self.library is None:
            raise gdb.GdbError('%s has served no allocation yet.' % found[0].name)
        if self.library.constant['SA_LAYOUT_VERSION'] != 1:
            raise gdb.GdbError('%s is of a later version than this script.' % self.library.name)
        self.memory = memory
        self.constant = self.library.constant
        self.variable = self.library.variable
        self.page_bytes = 1 << self.constant['SA_PAGE_SHIFT']
        self.cached = None

    def get(self, record, field):
        return self.library.get(self.memory, record, field)

    def size_of_class(self, cls):
        table = self.variable['sa_size_classes'] + self.library.field['sa_size_classes.of'][0]
        return self.get(table + cls * self.constant['sa_class'], 'sa_class.size')

    def class_count(self):
        return self.library.global_field(self.memory, 'sa_size_classes', 'sa_size_classes.count')

    # The radix map (pagemap/pagemap.h).

    def entry(self, address):
        """Returns the map's entry of a page: the address of a span's record, or 0. None: the map has no entries there,
        so the heap never had the page."""
        c = self.constant
        if address >> c['SA_ADDRESS_BITS']:
            return None
        root = self.variable['sa_pagemap'] + self.library.field['sa_pagemap.root'][0]
        node = self.get(root + (address >> c['SA_HOME_SHIFT']) * c['sa_map_root'], 'sa_map_root.node')
        page = address >> c['SA_PAGE_SHIFT']
        leaf = node and self.memory.number(
            node + (page >> c['SA_MAP_LEAF_BITS'] & (1 << c['SA_MAP_NODE_BITS']) - 1) * WORD)
        if not leaf:
            return None
        return self.memory.number(leaf + (page & (1 << c['SA_MAP_LEAF_BITS']) - 1) * WORD)

    def covers(self, span, address):
        start = self.get(span, 'sa_span.start')
        return start <= address < start + self.span_bytes(span)

    def span_bytes(self, span):
        return self.get(span, 'sa_span.pages') * self.page_bytes

    def used(self, span):
        """Whether the span is in use, not free."""
        return self.get(span, 'sa_span.state') >= self.constant['SA_SPAN_OBJECTS']

    def find(self, address):
        """Returns the record of the span in use at an address, or 0. None: the heap never had the page."""
        span = self.entry(address)
        if span is None:
            return None
        # The map has only the first and the last page of a large block: go down to the first.
        at = address & -self.page_bytes
        while span is not None:
            if span and self.used(span):
                if self.covers(span, address):
                    return span
                if self.covers(span, at):
                    return 0
            at -= self.page_bytes
            span = self.entry(at)
        return 0

    def spans(self):
        """Yields the records of all spans in use, in the order of their addresses."""
        c = self.constant
        roots = self.variable['sa_pagemap'] + self.library.field['sa_pagemap.root'][0]
        leaves = 1 << c['SA_MAP_LEAF_BITS']
        for root in range(1 << (c['SA_ADDRESS_BITS'] - c['SA_HOME_SHIFT'])):
            node = self.get(roots + root * c['sa_map_root'], 'sa_map_root.node')
            if not node:
                continue
            for number, leaf in enumerate(self.memory.words(node, 1 << c['SA_MAP_NODE_BITS'])):
                if not leaf:
                    continue
                first = (root << c['SA_HOME_SHIFT']) + number * leaves * self.page_bytes
                for page, span in enumerate(self.memory.words(leaf, leaves)):
                    if span and self.get(span, 'sa_span.start') == first + page * self.page_bytes and self.used(span):
                        yield span

    # Free objects in caches.

    def caches(self):
        """Returns [(name of the cache, class, objects)] of the caches of CPUs or threads and the transfer cache."""
        if self.cached is None:
            self.cached = list(self.cpu_caches()) + list(self.transfer_caches())
        return self.cached

    def cpu_caches(self):
        per_cpu = self.library.global_field(self.memory, 'sa_rseq', 'sa_rseq.per_cpu')
        caches = self.memory.words(self.variable['sa_cpu_caches'], self.constant['SA_SLABS'])
        for cpu, cache in enumerate(caches):
            slab = cache and self.get(cache, 'cpu_cache.slab')
            if not slab:
                continue
            for cls in range(1, self.class_count()):
                header = slab + cls * self.constant['sa_header']
                filled = (self.get(header, 'sa_header.state') & self.constant['SA_FILLED_MASK']) // WORD
                if filled:
                    yield ('the cache of %s %d' % ('CPU' if per_cpu else 'thread number', cpu), cls,
                           self.memory.words(self.get(header, 'sa_header.slots'), filled))

    def transfer_caches(self):
        others = self.variable['sa_transfer_others'] + self.library.field['sa_transfer_others.at'][0]
        shards = list(self.memory.words(others, self.constant['SA_SHARDS_MAX']))
        shards[0] = self.variable['sa_transfer_first']
        order = self.memory.read(self.variable['sa_first_use'], self.class_count())
        for shard in filter(None, shards):
            for place, cls in enumerate(order):
                stack = shard + place * self.constant['sa_transfer']
                used = self.get(stack, 'sa_transfer.used') if cls else 0
                if used:
                    yield 'the transfer cache', cls, self.memory.words(self.get(stack, 'sa_transfer.slots'), used)

    def where_cached(self, address):
        """Returns the name of the cache that holds the object, or None."""
        for name, _, objects in self.caches():
            if address in objects:
                return name
        return None

    def is_free_in_span(self, span, index):
        """Whether the span's bitmap says that the object is free."""
        if self.get(span, 'sa_span.objects') <= 64:
            return self.get(span, 'sa_span.bits') >> index & 1
        word = self.memory.number(self.get(span, 'sa_span.more_bits') + index // 64 * WORD)
        return word >> index % 64 & 1

    # Descriptions of a block.

    def stack_lines(self, title, stack):
        """Yields the lines of a call stack."""
        if not stack:
            return
        depth = self.get(stack, 'sa_stack.depth')
        yield '  %s:%s' % (title, '' if depth else ' not known')
        if depth:
            for pc in self.memory.words(stack + self.library.field['sa_stack.pc'][0], depth):
                yield '    %#x %s' % (pc, place_of(pc - 1))

    def event_lines(self, title, event):
        """Yields who allocated or freed a guarded or quarantined block, if that is known."""
        stack = self.get(event, 'sa_event.stack')
        if stack:
            yield from self.stack_lines('%s by thread %d' % (title, self.get(event, 'sa_event.thread')), stack)

    def history_lines(self, slot):
        """Yields by whom a block was allocated and freed."""
        history = slot + self.library.field['sa_block_history_slot.history'][0]
        for name, title in ('allocated', 'allocated'), ('freed', 'freed'):
            yield from self.event_lines(title, history + self.library.field['sa_block_history.' + name][0])

    def history_block(self, slot):
        """Returns the address and the requested bytes of a block."""
        history = slot + self.library.field['sa_block_history_slot.history'][0]
        return self.get(history, 'sa_block_history.start'), self.get(history, 'sa_block_history.requested')

    def describe(self, address):
        """Yields the lines of `salloc info` about an address."""
        span = self.find(address)
        c = self.constant
        if not span:
            yield from self.describe_outside(address, span is not None)
            return
        state = self.get(span, 'sa_span.state')
        if state == c['SA_SPAN_OBJECTS']:
            yield from self.describe_object(address, span)
        elif state == c['SA_SPAN_MIXED']:
            yield from self.describe_mixed(address, span)
        elif state == c['SA_SPAN_LARGE']:
            yield from self.describe_whole(address, span)
        elif state == c['SA_SPAN_GUARDED']:
            yield from self.describe_guarded(address, span)
        elif state == c['SA_SPAN_QUARANTINED']:
            yield from self.describe_quarantined(address, span)
        yield '  span: [%#x, %#x), record at %#x' % (
            self.get(span, 'sa_span.start'), self.get(span, 'sa_span.start') + self.span_bytes(span), span)

    def describe_outside(self, address, in_heap):
        """An address in no span in use. in_heap: the map has an entry for its page."""
        emergency = self.memory.number(self.variable['emergency.first'])
        while emergency:
            if emergency <= address < emergency + self.get(emergency, 'emergency.bytes'):
                yield '%#x: in emergency memory, which is used while a fork or a debugger is in the way' % address
                return
            emergency = self.get(emergency, 'emergency.next')
        if in_heap:
            yield '%#x: free: in pages of the heap that no span uses' % address
        else:
            yield '%#x: foreign: no memory of salloc\'s heap' % address

    def describe_object(self, address, span):
        """An address in a span of objects of a class."""
        size = self.size_of_class(self.get(span, 'sa_span.cls'))
        start = self.get(span, 'sa_span.start')
        index = (address - start) // size
        if index >= self.get(span, 'sa_span.objects'):
            yield '%#x: behind the last object of its span' % address
            return
        block = start + index * size
        where = 'its span' if self.is_free_in_span(span, index) else self.where_cached(block)
        yield '%#x: %s %s block of size class %d (%d bytes)%s' % (
            address, position(address - block, 'a'), 'free' if where else 'live', self.get(span, 'sa_span.cls'), size,
            ', in %s' % where if where else '')
        yield from block_line(address, block)
        if not where and self.library.global_field(self.memory, 'sa_hardening', 'sa_hardening.on'):
            yield '  hardened: it may also have been freed, and be in the quarantine'

    def mixed_blocks(self, span):
        """(address, bytes) of each block of a mixed span that is in use or in a cache, in order."""
        start, pages = self.get(span, 'sa_span.start'), self.get(self.get(span, 'sa_span.mixed'), 'sa_mixed.pages')
        size, words = self.constant['sa_mixed_page'], self.page_bytes // UNIT // 64
        first = last = 0
        for page in range(self.get(span, 'sa_span.pages')):
            for w in range(words):
                at, shift = pages + page * size + w * WORD, (page * words + w) * 64
                first |= self.memory.number(at + self.library.field['sa_mixed_page.first'][0]) << shift
                last |= self.memory.number(at + self.library.field['sa_mixed_page.last'][0]) << shift
        while first and last:
            begin, end = lowest_bit(first), lowest_bit(last)
            yield start + begin * UNIT, (end + 1 - begin) * UNIT
            first &= first - 1
            last &= last - 1

    def class_of_size(self, size):
        cls = 1
        while self.size_of_class(cls) < size:
            cls += 1
        return cls

    def describe_mixed(self, address, span):
        for block, size in self.mixed_blocks(span):
            if block <= address < block + size:
                cls, where = self.class_of_size(size), self.where_cached(block)
                yield '%#x: %s %s block of size class %d (%d bytes)%s' % (
                    address, position(address - block, 'a'), 'free' if where else 'live', cls, size,
                    ', in %s' % where if where else '')
                yield from block_line(address, block)
                return
        yield '%#x: free memory of a mixed span' % address

    def describe_whole(self, address, span):
        """An address in a span of one block: a large one, or a sampled one of a size class."""
        start = self.get(span, 'sa_span.start')
        sample = self.get(span, 'sa_span.sample')
        cls = self.get(sample, 'sa_sample.cls') if sample else 0
        usable = self.size_of_class(cls) if cls else self.span_bytes(span)
        requested = self.get(span, 'sa_span.requested')
        kind = 'block of size class %d (%d bytes)' % (cls, usable) if cls else 'large block (%d bytes)' % usable
        if address - start >= usable:
            yield '%#x: behind the live %s at %#x, in its pages' % (address, kind, start)
        else:
            yield '%#x: %s live %s' % (address, position(address - start, 'a'), kind)
        yield from block_line(address, start)
        yield '  requested: %d bytes' % requested
        if sample:
            yield '  sampled, allocated by thread %d' % self.get(sample, 'sa_sample.tid')
            yield from self.stack_lines('allocated', self.get(sample, 'sa_sample.stack'))

    def describe_guarded(self, address, span):
        """An address in a slot for guarded blocks."""
        slot = span + self.library.field['slot.history'][0]
        free = self.get(span, 'slot.state') == self.constant['STATE_FREE']
        block, requested = self.history_block(slot)
        text = '%s guarded block (%d bytes requested)' % ('freed' if free else 'live', requested)
        if not block:
            yield '%#x: in a slot for guarded blocks that had none yet' % address
        elif block <= address < block + max(requested, 1):
            yield '%#x: %s %s' % (address, position(address - block, 'a'), text)
        else:
            yield '%#x: beside the %s at %#x' % (address, text, block)
        yield from block_line(address, block)
        yield from self.history_lines(slot)

    def describe_quarantined(self, address, span):
        """An address in the sample quarantine."""
        for i in range(self.constant['SA_SAMPLE_QUARANTINE_MAX']):
            entry = self.variable['kept.entries'] + i * self.constant['entry']
            if self.get(entry, 'entry.span') == span:
                slot = entry + self.library.field['entry.history'][0]
                block, requested = self.history_block(slot)
                if block <= address < block + max(requested, 1):
                    yield '%#x: %s freed block (%d bytes requested), sampled and kept inaccessible' % (
                        address, position(address - block, 'a'), requested)
                else:
                    yield '%#x: beside the freed block at %#x (%d bytes requested)' % (address, block, requested)
                yield from block_line(address, block)
                yield from self.history_lines(slot)
                return
        yield '%#x: in a freed sampled block' % address

    # Sums over the heap.

    def count(self):
        """Returns two dictionaries: {class: [spans, bytes of spans, objects, objects not free on their span]}, and for
        spans of one block {kind: [spans, bytes of spans, requested bytes]}."""
        classes, whole = {}, {}
        c = self.constant
        for span in self.spans():
            state, size = self.get(span, 'sa_span.state'), self.span_bytes(span)
            if state == c['SA_SPAN_OBJECTS']:
                row = classes.setdefault(self.get(span, 'sa_span.cls'), [0, 0, 0, 0])
                more = 1, size, self.get(span, 'sa_span.objects'), self.get(span, 'sa_span.live')
            elif state == c['SA_SPAN_MIXED']:
                row, more = whole.setdefault('on mixed spans', [0, 0, 0]), (0, size, 0)
                for _, block in self.mixed_blocks(span):
                    of_class = classes.setdefault(self.class_of_size(block), [0, 0, 0, 0])
                    of_class[2] += 1
                    of_class[3] += 1
                    row[0] += 1
                    row[2] += block
            elif state == c['SA_SPAN_LARGE']:
                sample = self.get(span, 'sa_span.sample')
                small = sample and self.get(sample, 'sa_sample.cls')
                row = whole.setdefault('sampled' if small else 'large', [0, 0, 0])
                more = 1, size, self.get(span, 'sa_span.requested')
            elif state == c['SA_SPAN_GUARDED']:
                free = self.get(span, 'slot.state') == c['STATE_FREE']
                slot = span + self.library.field['slot.history'][0]
                row = whole.setdefault('guarded, freed' if free else 'guarded', [0, 0, 0])
                more = 1, size, 0 if free else self.history_block(slot)[1]
            else:
                row = whole.setdefault('freed, kept inaccessible', [0, 0, 0])
                more = 1, size, 0
            for i, value in enumerate(more):
                row[i] += value
        return classes, whole

    def cached_by_class(self):
        """Returns {class: [objects in caches of CPUs or threads, objects in the transfer cache]}."""
        result = {}
        for name, cls, objects in self.caches():
            result.setdefault(cls, [0, 0])[name == 'the transfer cache'] += len(objects)
        return result

    def summary(self):
        """Yields the lines of `salloc heap`."""
        classes, whole = self.count()
        cached = self.cached_by_class()
        yield '%5s %8s %10s %10s %10s %10s %8s %14s' % (
            'class', 'bytes', 'live', 'in caches', 'transfer', 'on spans', 'spans', 'live bytes')
        total = 0
        for cls in sorted(classes):
            spans, _, objects, taken = classes[cls]
            own, transfer = cached.get(cls, (0, 0))
            size = self.size_of_class(cls)
            used = taken - own - transfer
            total += used * size
            yield '%5d %8d %10d %10d %10d %10d %8d %14d' % (
                cls, size, used, own, transfer, objects - taken, spans, used * size)
        yield 'live in size classes: %d bytes' % total
        for kind in sorted(whole):
            spans, size, requested = whole[kind]
            yield '%s: %d blocks, %d bytes requested, %d bytes of pages' % (kind, spans, requested, size)

    def stats(self):
        """Yields the lines of `salloc stats`."""
        lib, memory = self.library, self.memory
        classes, whole = self.count()
        cached = [sum(count[i] * self.size_of_class(cls) for cls, count in self.cached_by_class().items())
                  for i in (0, 1)]
        taken = sum(row[3] * self.size_of_class(cls) for cls, row in classes.items())
        mixed = whole.get('on mixed spans', (0, 0, 0))[1]
        pages = sum(row[1] for row in classes.values())
        per_cpu = lib.global_field(memory, 'sa_rseq', 'sa_rseq.per_cpu')
        reason = lib.global_field(memory, 'sa_rseq', 'sa_rseq.reason')
        caches = 'CPU' if per_cpu else 'thread (%s)' % c_string(memory, reason)
        populated = sum(1 for cache in memory.words(self.variable['sa_cpu_caches'], self.constant['SA_SLABS']) if cache)
        hardened = lib.global_field(memory, 'sa_hardening', 'sa_hardening.on')
        yield 'library:                  %s%s' % (lib.name, ', hardened' if hardened else '')
        yield 'caches:                   %d, one for each %s' % (populated, caches)
        yield 'sections restarted:       %d' % lib.global_field(memory, 'sa_hot', 'sa_hot.aborts')
        for title, value in (
                ('live in size classes', taken - sum(cached)), ('cached by CPUs or threads', cached[0]),
                ('in the transfer cache', cached[1]), ('free on spans', pages + mixed - taken)):
            yield '%-25s %s' % (title + ':', bytes_text(value))
        for kind in sorted(whole):
            yield '%-25s %d blocks, %s of pages' % (kind + ':', whole[kind][0], bytes_text(whole[kind][1]))
        yield '%-25s %s' % ('pages of spans in use:', bytes_text(pages + sum(row[1] for row in whole.values())))


def lowest_bit(number):
    return (number & -number).bit_length() - 1


def c_string(memory, address):
    """Reads a string of up to 256 bytes that ends with a zero."""
    text = b''
    while address and not text.endswith(b'\0') and len(text) < 256:
        text += memory.read(address + len(text), 1)
    return text.rstrip(b'\0').decode(errors='replace') or 'not known why'


def position(offset, article):
    return '%d bytes into %s' % (offset, article) if offset else 'start of ' + article


def block_line(address, block):
    if address != block and block:
        yield '  block: %#x' % block


def place_of(pc):
    """Returns the function and the line of an instruction, as far as gdb knows them."""
    line = gdb.find_pc_line(pc)
    symbol = gdb.execute('info symbol %#x' % pc, to_string=True).strip()
    text = '' if symbol.startswith('No symbol') else re.sub(r' in section .*?( of |$)', r'\1', symbol)
    if line.symtab:
        text += ' at %s:%d' % (line.symtab.filename, line.line)
    return text.strip()
