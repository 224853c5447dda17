/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions through frames that own memory, for storm.c. */
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static __attribute__((noinline)) size_t descend(int depth, size_t bytes)
{
    std::unique_ptr<char[]> owned(new char[bytes + 1]);
    std::vector<std::string> words(3, std::string(bytes % 100, 'x'));

    owned[0] = static_cast<char>(depth);
    if (depth == 0)
        throw std::runtime_error(words[1] + words[2]);
    return descend(depth - 1, bytes) + words.size() + static_cast<size_t>(owned[0]);
}

/* Whether the exception came through as it was thrown. */
extern "C" __attribute__((visibility("default"))) int thrower_run(int depth, size_t bytes)
{
    try {
        return descend(depth, bytes) == 0;
    } catch (const std::runtime_error &e) {
        return std::string(e.what()).size() == 2 * (bytes % 100);
    }
}
