// SPDX-License-Identifier: Apache-2.0
// A program whose calls of malloc lie in functions that are inlined into each other, in templates
// and constructors, over two files. It allocates, and ends. Its own functions have mangled names:
// addr2line mistakes others for those around.
#include "test/outside/tool/inlined.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shop
{

std::vector<std::unique_ptr<char[]>> keep;

struct item {
    std::string name;
    std::unique_ptr<char[]> text;

    explicit item(size_t bytes) : name(bytes % 300 + 20, 'x'), text(new char[bytes])
    {
        text[0] = 'a';
    }
};

inline char *take(size_t bytes)
{
    return new char[bytes];
}

inline void store(size_t bytes)
{
    keep.emplace_back(take(bytes));
}

template <typename T, int N> struct shelf {
    std::map<int, T> items;

    void fill(int count)
    {
        for (int i = 0; i < count; i++)
            items.emplace(i, T(static_cast<size_t>(i % 1000 + N)));
    }
};

shelf<item, 64> small;
shelf<item, 5000> large;

struct filler {
    std::vector<char *> blocks;

    void operator()(size_t bytes)
    {
        blocks.push_back(other_file(bytes));
    }
};

template <typename F> void apply(F &f)
{
    for (size_t i = 1; i < 2000; i++)
        f(i);
}

} // namespace shop

int main()
{
    std::vector<std::string> names;
    static shop::filler filler;

    shop::small.fill(3000);
    shop::large.fill(1000);
    for (int i = 0; i < 2000; i++)
        shop::store(static_cast<size_t>(i));
    shop::apply(filler);
    for (int i = 0; i < 3000; i++)
        names.push_back(std::string(static_cast<size_t>(i % 700 + 50), 'n'));
    std::sort(names.begin(), names.end());
    shop::keep.emplace_back(shop::take(1 << 20));
    filler.blocks.insert(filler.blocks.end(), {new char[300000], new char[300001]}); // one line
    return names[0].size() + filler.blocks.size() == 0;
}
