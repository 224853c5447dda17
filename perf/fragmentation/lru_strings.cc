// SPDX-License-Identifier: Apache-2.0
// Two threads, each with an LRU cache of strings whose lengths change from phase to phase: a
// server's cache of pages or rows. Prints a line for each phase: "over_live RSS LIVE", in bytes;
// LIVE is what the strings and their nodes take.
//
//   LD_PRELOAD=build/libsalloc.so build/perf/fragmentation/salloc-lru-strings [MIB PHASES]
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

namespace
{

constexpr std::size_t node_bytes = 112; // of the list and of the index, about

class Lru
{
  public:
    explicit Lru(std::size_t capacity) : capacity_(capacity)
    {
    }

    void set(std::uint64_t key, std::string value)
    {
        auto found = index_.find(key);
        if (found != index_.end())
            drop(found->second);
        live_ += value.capacity() + node_bytes;
        entries_.emplace_front(key, std::move(value));
        index_[key] = entries_.begin();
        while (live_ > capacity_)
            drop(std::prev(entries_.end()));
    }

    // Most recently used again.
    void touch(std::uint64_t key)
    {
        auto found = index_.find(key);
        if (found != index_.end())
            entries_.splice(entries_.begin(), entries_, found->second);
    }

    std::size_t live() const
    {
        return live_;
    }

  private:
    using Entries = std::list<std::pair<std::uint64_t, std::string>>;

    void drop(Entries::iterator entry)
    {
        live_ -= entry->second.capacity() + node_bytes;
        index_.erase(entry->first);
        entries_.erase(entry);
    }

    std::size_t capacity_, live_ = 0;
    Entries entries_;
    std::unordered_map<std::uint64_t, Entries::iterator> index_;
};

void fill(Lru &cache, unsigned seed, int phase)
{
    std::mt19937_64 random(seed * 1000u + static_cast<unsigned>(phase));
    std::mt19937_64 of_phase(static_cast<unsigned>(phase));
    const std::size_t least = 32 + of_phase() % 2000, range = least / 2 + of_phase() % 2000;
    std::size_t written = 0;

    // Three quarters of what the cache holds, so that each phase leaves survivors.
    while (written < cache.live() * 3 / 4 + (8u << 20)) {
        const std::size_t length = least + random() % range;
        cache.set(random() % 400000, std::string(length, 'x'));
        for (int i = 0; i < 2; i++)
            cache.touch(random() % 400000);
        written += length;
    }
}

std::size_t resident_bytes()
{
    unsigned long pages = 0;
    FILE *f = std::fopen("/proc/self/statm", "re");
    if (!f || std::fscanf(f, "%*s %lu", &pages) != 1)
        std::abort();
    std::fclose(f);
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

int main(int argc, char **argv)
{
    const long mib = argc > 1 ? std::atol(argv[1]) : 96;
    const int phases = argc > 2 ? std::atoi(argv[2]) : 24;
    if (mib < 1 || mib > 100000 || phases < 1) {
        std::fprintf(stderr, "usage: %s [MIB PHASES]\n", argv[0]);
        return 2;
    }
    const std::size_t half = static_cast<std::size_t>(mib) << 19;
    Lru first(half), second(half);
    for (int phase = 0; phase < phases; phase++) {
        std::thread other(fill, std::ref(second), 2, phase);
        fill(first, 1, phase);
        other.join();
        std::printf("over_live %zu %zu\n", resident_bytes(), first.live() + second.live());
    }
    return 0;
}
