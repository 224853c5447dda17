// SPDX-License-Identifier: Apache-2.0
// Functions whose debug information has no mangled name where they are inlined: those of anonymous
// namespaces, lambdas, and members of local classes.
#include <cstdlib>
#include <vector>

namespace shop
{

namespace
{

struct pack {
    std::vector<void *> blocks;

    void put(size_t bytes)
    {
        blocks.push_back(std::malloc(bytes));
    }
};

inline void *plain(size_t bytes)
{
    return std::malloc(bytes);
}

template <typename T> void *typed(size_t count)
{
    return std::malloc(count * sizeof(T));
}

} // namespace

void *volatile out;

__attribute__((noinline)) void keep(int count)
{
    auto one = [](size_t bytes) { out = std::malloc(bytes); };

    for (int i = 1; i < count; i++)
        one(static_cast<size_t>(i));
}

} // namespace shop

int main()
{
    static shop::pack pack;
    auto put = [&](size_t bytes) { pack.put(bytes); };
    struct local {
        static void *get(size_t bytes)
        {
            return std::malloc(bytes);
        }
    };

    shop::keep(2000);
    for (size_t i = 1; i < 2000; i++) {
        put(i);
        shop::out = shop::plain(i);
        shop::out = shop::typed<long>(i);
        shop::out = local::get(i);
    }
    return 0;
}
